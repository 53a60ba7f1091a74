"""``effects`` and ``trail``: the ledger and the record, and what happens when it was changed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.canonical import canonical_json
from agent.store import Store
from tests.cli.program import Invoke, cancel, read
from tests.support.openai_server import ModelServer, Reply

Model = Callable[..., ModelServer]


@pytest.fixture
def session(sayso: Invoke, model: Model, store: Store) -> str:
    """A session with one approved write; its id."""
    model(read("A1"), cancel("A1"), Reply("Done."))
    assert sayso("run", "Cancel A1").code == 3
    assert sayso("approve", store.approvals.list()[0].id).code == 0
    return store.sessions.list()[0].id


def test_effects_lists_the_ledger(sayso: Invoke, session: str) -> None:
    (listed,) = json.loads(sayso("effects", "--json").out)
    stated = {
        *("id", "session", "tool", "tool_version", "args", "digest", "state", "attempts"),
        *("idempotency_key", "transport", "transaction", "result", "evidence"),
        *("started_at", "ended_at"),
    }
    assert stated <= listed.keys()
    assert (listed["state"], listed["attempts"], listed["session"]) == ("committed", 1, session)
    line = sayso("effects").out.splitlines()[1]
    assert line.startswith(f"{listed['id']}  committed")
    assert "cancel_order(" in line
    one = sayso("effects", listed["id"][:-1])
    assert f"digest           {listed['digest']}" in one.out
    assert json.loads(sayso("effects", listed["id"], "--json").out) == listed
    assert sayso("effects", "--session", session, "--state", "failed", "--json").out == "[]\n"
    assert sayso("effects", "--state", "lost").code == 2
    assert sayso("effects", "e-222222").code == 2


@pytest.mark.parametrize("id_", ["e-222222", "a-222222", "to undo"])
def test_a_write_that_is_not_there_cannot_be_undone(
    sayso: Invoke, session: str, store: Store, id_: str
) -> None:
    before = store.trail.entries()
    result = sayso("undo", id_)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"There is no write {id_!r} that could be undone. Nothing was changed. "
        "Those that happened: sayso effects --state committed\n"
    )
    assert store.trail.entries() == before
    (effect,) = store.ledger.list()
    assert effect.id in sayso("effects", "--state", "committed").out


def test_the_trail_is_shown_and_intact(sayso: Invoke, session: str, store: Store) -> None:
    entries = store.trail.entries(session)
    shown = json.loads(sayso("trail", "show", session, "--json").out)
    assert [entry["seq"] for entry in shown] == [entry.seq for entry in entries]
    assert {"seq", "at", "session", "kind", "data", "prev", "hash"} <= shown[0].keys()
    lines = sayso("trail", "show", "--limit", "2").out.splitlines()
    assert len(lines) == 3
    result = sayso("trail", "verify")
    assert (result.code, result.out) == (0, f"{len(entries)} entries in 1 session, all intact\n")


def test_an_export_can_be_verified_without_the_program(sayso: Invoke, session: str) -> None:
    prev = ""
    for line in sayso("trail", "export").out.splitlines():
        entry = json.loads(line)
        data_hash = _sha256([entry["salt"], entry["data"]])
        body = [prev, entry["seq"], entry["at"], session, entry["kind"], data_hash]
        assert entry["hash"] == _sha256(body)
        prev = entry["hash"]
    assert prev


def _sha256(value: object) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE trail SET data = '{}' WHERE seq = 2", "entry 2: its data was changed"),
        ("DELETE FROM trail WHERE seq = 3", "entry 3: is missing"),
        ("DELETE FROM trail WHERE seq > 4", "entry 5: "),
    ],
)
def test_a_changed_trail_is_detected(
    sayso: Invoke, session: str, sayso_home: Path, change: str, says: str
) -> None:
    tamper(sayso_home, change)
    result = sayso("trail", "verify")
    assert result.code == 1
    assert f"{session}, {says}" in result.out
    found = json.loads(sayso("trail", "verify", "--json").out)
    assert found["problems"][0]["session"] == session


def tamper(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / "sayso.db")) as db, db:
        for statement in statements:
            db.execute(statement)


def test_a_damaged_row_of_the_trail_is_named_and_verify_says_what_is_wrong(
    sayso: Invoke, session: str, sayso_home: Path
) -> None:
    entries = "INSERT INTO trail (session, seq, at, kind, data_hash, prev, hash)"
    tamper(sayso_home, f"{entries} VALUES ('{session}', 'zz', '', '', '', '', '')")
    for command in ("show", "export"):
        for of in ([], [session]):
            result = sayso("trail", command, *of)
            assert result.code == 1
            assert f"session '{session}', seq 'zz'): its seq is 'zz'" in result.err
            assert "is named by: sayso trail verify" in result.err
            assert "pydantic" not in result.err
    named = sayso("trail", "verify")
    assert named.code == 1
    assert "what stands there is no entry" in named.out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("sessions SET trail_seq = 'zz'", "the session does not say which entry is its last"),
        ("sessions SET trail_hash = x'00'", "the session does not say which entry is its last"),
        ("sessions SET trail_seq = -1", "is not the entry that the session names as its last"),
        ("trail SET data = CAST(x'7bff' AS TEXT) WHERE seq = 2", "its data was changed"),
        ("trail SET kind = CAST(x'7bff' AS TEXT) WHERE seq = 2", "was changed, or moved"),
        ("sessions SET trail_seal = CAST(x'7bff' AS TEXT)", "was sealed with another key"),
    ],
)
def test_whatever_a_damaged_row_holds_verify_finds_it(
    sayso: Invoke,
    session: str,
    sayso_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    says: str,
) -> None:
    if "seal" in change:
        monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY)
    tamper(sayso_home, f"UPDATE {change}")
    for of in ([], [session]):
        result = sayso("trail", "verify", *of)
        assert result.code == 1
        assert says in result.out
        assert "the record cannot be relied on as it is" in result.err
        found = json.loads(sayso("trail", "verify", *of, "--json").out)
        assert says in str(found["problems"])
        assert found["entries"] > 5


@pytest.mark.parametrize(
    ("id_", "shown"),
    [
        (r"'s-1' || char(27) || '[2J' || char(10) || 'all intact'", "s-1␛[2J␊all intact, entry"),
        (r"'s-1' || char(8238) || 'x'", "s-1⟨U+202E⟩x, entry"),
        ("CAST(x'7aff0a' AS TEXT)", "z⟨U+DCFF⟩␊, entry"),
        ("x'1b5b'", "b'\\x1b[', entry"),
    ],
    ids=["controls", "reversed", "no text", "bytes"],
)
def test_an_id_that_was_tampered_with_is_printed_on_one_line_and_escaped(
    sayso: Invoke, session: str, sayso_home: Path, id_: str, shown: str
) -> None:
    tamper(sayso_home, f"UPDATE sessions SET id = {id_}", f"UPDATE trail SET session = {id_}")
    result = sayso("trail", "verify")
    assert result.code == 1
    assert shown in result.out
    assert all(", entry " in line for line in result.out.splitlines())
    assert sayso("trail", "verify", "--json").code == 1
    assert sayso("trail", "head").code == 1


@pytest.mark.parametrize(
    ("table", "command"),
    [("sessions", ["sessions"]), ("approvals", ["approvals", "--all"]), ("effects", ["effects"])],
)
def test_a_damaged_row_of_a_listing_is_named_and_the_trail_still_tells(
    sayso: Invoke, session: str, sayso_home: Path, table: str, command: list[str]
) -> None:
    tamper(sayso_home, f"UPDATE {table} SET turn = 'zz'")
    result = sayso(*command)
    assert (result.code, result.out) == (1, "")
    assert f"A row of the table {table} is damaged" in result.err
    assert f"sayso trail show {session}" in result.err
    assert sayso("trail", "show", session).code == 0
    assert sayso("trail", "verify", session).code == 0


CUT = (
    "DELETE FROM trail WHERE seq > 4",
    "UPDATE sessions SET trail_seq = 4, trail_hash = (SELECT hash FROM trail WHERE seq = 4)",
)
KEY = "a key that only this test has"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_cut_trail_is_detected_against_a_head_kept_elsewhere(
    sayso: Invoke, session: str, sayso_home: Path, folder: Path, store: Store, form: list[str]
) -> None:
    printed = sayso("trail", "head", *form)
    kept = folder / "head"
    kept.write_text(printed.out)
    assert printed.code == 0
    assert session in printed.out
    store.trail.append(session, [("note", {})])
    assert sayso("trail", "verify", "--head", "head").code == 0
    seq = store.trail.heads()[0][1] - 1

    tamper(sayso_home, *CUT)
    assert sayso("trail", "verify").code == 0
    result = sayso("trail", "verify", "--head", "head")
    assert result.code == 1
    assert result.out == f"{session}, entry {seq}: is named by the head, and it is not there\n"
    found = json.loads(sayso("trail", "verify", session, "--head", "head", "--json").out)
    assert (found["head"], found["problems"][0]["seq"]) == (True, seq)
    tamper(sayso_home, "DELETE FROM trail")
    for table in ("approvals", "effects", "sessions"):
        tamper(sayso_home, f"DELETE FROM {table}")
    result = sayso("trail", "verify", session, "--head", "head")
    assert (result.code, "its session is not there" in result.out) == (1, True)


def test_a_head_may_come_from_stdin(script: Invoke, sayso: Invoke, session: str) -> None:
    head = sayso("trail", "head").out
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.write(head)
        stdin.seek(0)
        result = script("trail", "verify", "--head", "-", stdin=stdin)
    assert result.code == 0
    result = script("trail", "verify", "--head", "-")
    assert result.code == 2
    assert result.err.startswith("standard input: This is not a head of the trail")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "head cannot be read: No such file or directory."),
        (b"\xff\xfe\x00", "head is not a head of the trail: it is not text."),
        (b"12 entries in 1 session, all intact\n", "head: This is not a head of the trail"),
        (b"sayso-trail-head 1 " + b"0" * 64, "head: The head's digest does not fit its lines"),
    ],
)
def test_a_head_that_is_none_is_wrong_usage(
    sayso: Invoke, folder: Path, content: bytes | None, says: str
) -> None:
    if content is not None:
        (folder / "head").write_bytes(content)
    result = sayso("trail", "verify", "--head", "head")
    assert (result.code, result.out) == (2, "")
    assert says in result.err


def test_a_cut_trail_is_detected_with_the_key(
    sayso: Invoke, session: str, sayso_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sayso("trail", "seal").code == 2
    monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY)
    assert sayso("trail", "verify").code == 1
    sealed = sayso("trail", "seal")
    assert (sealed.code, sealed.out) == (0, "1 session sealed\n")
    assert sayso("trail", "seal").out == "0 sessions sealed, 1 had a seal\n"
    verified = sayso("trail", "verify", "--json")
    assert (verified.code, json.loads(verified.out)["seals"]) == (0, True)

    monkeypatch.delenv("SAYSO_TRAIL_KEY")
    verified = sayso("trail", "verify")
    assert verified.code == 0
    assert verified.err == "1 seal not checked: SAYSO_TRAIL_KEY is not set.\n"
    tamper(sayso_home, *CUT)
    assert sayso("trail", "verify").code == 0
    monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY)
    verified = sayso("trail", "verify")
    assert verified.code == 1
    assert f"{session}, entry 4: was sealed with another key, or changed" in verified.out
    sealed = sayso("trail", "seal")
    assert (sealed.code, sealed.err) == (1, "1 session not sealed.\n")


def test_the_key_is_changed_by_sealing_anew(
    sayso: Invoke, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY)
    assert sayso("trail", "seal").code == 0
    monkeypatch.setenv("SAYSO_TRAIL_KEY", "the next key, as long")
    assert sayso("trail", "seal").code == 1
    monkeypatch.setenv("SAYSO_TRAIL_KEY_BEFORE", KEY)
    refused = sayso("sessions", "delete", "--yes", session)
    assert refused.code == 1
    assert "Seal it anew first: sayso trail seal" in refused.err
    sealed = sayso("trail", "seal")
    assert (sealed.code, sealed.out) == (0, "1 session sealed\n")
    monkeypatch.delenv("SAYSO_TRAIL_KEY_BEFORE")
    assert sayso("trail", "verify").code == 0
    assert KEY not in sealed.err + refused.err + sayso("doctor").out


@pytest.mark.parametrize("key", [None, "another key, longer than this"])
def test_a_sealed_session_goes_on_with_its_key_alone(
    sayso: Invoke, model: Model, store: Store, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY)
    model(read("A1"), cancel("A1"), Reply("Done."))
    assert sayso("run", "Cancel A1").code == 3
    (approval,), (record,) = store.approvals.list(), store.sessions.list()
    before = store.trail.entries()
    if key:
        monkeypatch.setenv("SAYSO_TRAIL_KEY", key)
    else:
        monkeypatch.delenv("SAYSO_TRAIL_KEY")
    for command in ("approve", "cancel", "resume", "sessions delete --yes"):
        of = approval if command == "approve" else record
        result = sayso(*command.split(), of.id)
        assert result.code == 1
        assert "Nothing was changed" in result.err
        assert "SAYSO_TRAIL_KEY" in result.err
        assert "Traceback" not in result.err
    assert store.trail.entries() == before
    assert store.approvals.get(approval.id).status == "pending"
    monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY)
    assert sayso("approve", approval.id).code == 0
    assert sayso("trail", "verify").code == 0


def test_the_key_is_printed_and_kept_nowhere(
    sayso: Invoke, sayso_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY)
    assert sayso("run", f"Who knows {KEY}?").code == 0
    shown = {
        command: sayso(*command.split())
        for command in (
            "doctor",
            "doctor --json",
            "trail show --json",
            "trail export",
            "trail seal",
        )
    }
    monkeypatch.setenv("SAYSO_TRAIL_KEY", KEY[:15])
    shown["refused"] = sayso("trail", "verify")
    for result in shown.values():
        assert KEY[:15] not in result.out + result.err
    assert "SAYSO_TRAIL_KEY is set (1 of 1 sessions have seals)" in shown["doctor"].out
    assert "masked: configured secret" in shown["trail export"].out
    assert shown["refused"].code == 2
    logs = [path.read_text() for path in (sayso_home / "logs").glob("*") if path.is_file()]
    assert not any(KEY in log for log in logs)


def test_an_empty_record(sayso: Invoke) -> None:
    assert sayso("trail", "verify").out == "0 entries in 0 sessions, all intact\n"
    assert sayso("trail", "export").out == ""
    assert sayso("trail", "show", "--json").out == "[]\n"
    assert sayso("trail", "head").out == f"sayso-trail-head 1 {hashlib.sha256().hexdigest()}\n"
    assert sayso("effects", "--json").out == "[]\n"
    assert sayso("trail").code == 2
