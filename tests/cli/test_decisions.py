"""The inbox from the command line: one decision each, bound to what was shown, then carried on."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pexpect
import pytest

from agent.repl.questions import KEY_MARK
from agent.store import Store
from agent.store.records import ApprovalRecord
from tests.cli.program import SCRIPT, TIMEOUT, Invoke, cancel, finish, read, start, status_of
from tests.cli.test_chat_real import chat
from tests.support.openai_server import Call, ModelServer, Reply
from tests.support.terminal import Terminal
from tools.worlds.order_desk import OrderDesk

Model = Callable[..., ModelServer]

HOLDER = """
import asyncio, sys
from agent.application import Application, Options
from agent.config import load_settings

async def hold():
    async with Application.open(load_settings(), Options()) as app:
        async with app.open_session(sys.argv[1]):
            print("held", flush=True)
            await asyncio.Event().wait()

asyncio.run(hold())
"""


@pytest.fixture
def waiting(sayso: Invoke, model: Model, store: Store) -> Callable[..., list[ApprovalRecord]]:
    """Run a task whose writes wait; the approvals in the order in which they were asked."""

    def run(*orders: str, then: str = "Done.", also: str = "A2") -> list[ApprovalRecord]:
        run.server = model(read(*orders, also), cancel(*orders), Reply(then))  # type: ignore[attr-defined]
        assert sayso("run", "Cancel " + " and ".join(orders)).code == 3
        found = {a.args["order_id"]: a for a in store.approvals.list()}
        return [found[order] for order in orders]

    return run


@contextmanager
def held(session: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the session open."""
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, session],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_approve_runs_the_call_once_and_goes_on(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], store: Store, sayso_home: Path
) -> None:
    (approval,) = waiting("A1", then="A1 is cancelled.")
    result = sayso("approve", approval.id, "--comment", "agreed by phone")
    assert (result.code, result.out) == (0, "A1 is cancelled.\n")
    assert status_of(sayso_home, "A1") == "cancelled"
    (effect,) = store.ledger.list()
    assert (effect.state, effect.attempts, effect.approval) == ("committed", 1, approval.id)
    assert "Done: cancel_order" in result.err
    decided = store.approvals.get(approval.id)
    assert (decided.status, decided.decided_via) == ("approved", "cli")
    assert decided.comment == "agreed by phone"


def test_reject_tells_the_model_why(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], sayso_home: Path
) -> None:
    (approval,) = waiting("A1", then="Then I leave it.")
    result = sayso("reject", approval.id, "--reason", "the customer changed her mind")
    assert (result.code, result.out) == (5, "Then I leave it.\n")
    assert status_of(sayso_home, "A1") == "pending"
    told = waiting.server.requests[-1].messages[-1]  # type: ignore[attr-defined]
    assert "the customer changed her mind" in told["content"]
    assert "Not done: cancel_order" in result.err


def test_a_reason_is_required(sayso: Invoke) -> None:
    assert sayso("reject", "a-222222").code == 2


def test_respond_answers_in_the_tools_place(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], sayso_home: Path
) -> None:
    (approval,) = waiting("A1")
    result = sayso("respond", approval.id, "--message", "I did it by hand")
    assert result.code == 0
    told = waiting.server.requests[-1].messages[-1]  # type: ignore[attr-defined]
    assert "I did it by hand" in told["content"]
    assert status_of(sayso_home, "A1") == "pending"


def test_an_edit_runs_instead_and_an_integer_stays_one(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], store: Store, sayso_home: Path
) -> None:
    (approval,) = waiting("A1", also="B1")
    args = {"order_id": "B1", "expected_revision": 1}
    assert sayso("approve", approval.id, "--args", json.dumps(args)).code == 0
    assert [status_of(sayso_home, order) for order in ("A1", "B1")] == ["pending", "cancelled"]
    decided = store.approvals.get(approval.id)
    assert (decided.status, decided.args["order_id"]) == ("edited", "A1")
    assert decided.decided_args == args
    assert type(decided.decided_args["expected_revision"]) is int
    assert store.ledger.list()[0].digest == decided.decided_digest


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("{", "--args is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"order_id": "A1", "expected_revision": "soon"}', "expected_revision"),
        ('{"order_id": "A1", "expected_revision": 1, "tool": "refund_order"}', "no such argument"),
        ("{}", "missing"),
    ],
)
def test_an_edit_that_does_not_fit_decides_nothing(
    sayso: Invoke,
    waiting: Callable[..., list[ApprovalRecord]],
    store: Store,
    args: str,
    says: str,
) -> None:
    (approval,) = waiting("A1")
    result = sayso("approve", approval.id, "--args", args)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert store.approvals.get(approval.id).status == "pending"
    assert store.ledger.list() == []


def test_a_decision_takes_the_whole_id(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], store: Store
) -> None:
    (approval,) = waiting("A1")
    result = sayso("approve", approval.id[:-1])
    assert result.code == 2
    assert approval.id in result.err
    assert store.approvals.get(approval.id).status == "pending"
    assert sayso("approvals", approval.id[:-1], "--json").code == 0


def test_unknown_and_already_decided(
    sayso: Invoke,
    waiting: Callable[..., list[ApprovalRecord]],
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
) -> None:
    (approval,) = waiting("A1")
    unknown = sayso("approve", "a-222222")
    assert (unknown.code, unknown.out) == (2, "")
    assert "No approval 'a-222222'" in unknown.err
    monkeypatch.setenv("SAYSO_REVIEWER", "Ann")
    assert sayso("reject", approval.id, "--reason", "no", "--no-resume").code == 0
    monkeypatch.setenv("SAYSO_REVIEWER", "Bob")
    second = sayso("approve", approval.id)
    assert (second.code, second.out) == (1, "")
    assert f"{approval.id} is already rejected by Ann" in second.err
    assert store.approvals.get(approval.id).decided_by == "Ann"


def test_no_resume_records_only(
    sayso: Invoke,
    waiting: Callable[..., list[ApprovalRecord]],
    store: Store,
    sayso_home: Path,
) -> None:
    (approval,) = waiting("A1", then="Late.")
    result = sayso("approve", approval.id, "--no-resume")
    assert (result.code, result.out) == (0, "")
    assert f"sayso resume {approval.session}" in result.err
    assert store.ledger.list() == []
    again = sayso("resume", approval.session)
    assert (again.code, again.out) == (0, "Late.\n")
    assert status_of(sayso_home, "A1") == "cancelled"


def test_what_still_waits_exits_3(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], sayso_home: Path
) -> None:
    first, second = waiting("A1", "B1", then="Both.")
    result = sayso("approve", second.id)
    assert (result.code, result.out) == (3, f"{first.session}\n")
    assert [status_of(sayso_home, order) for order in ("A1", "B1")] == ["pending", "cancelled"]
    assert sayso("approve", first.id).out == "Both.\n"


def test_another_persons_session_is_not_run_with_the_reviewers_credentials(
    sayso: Invoke,
    waiting: Callable[..., list[ApprovalRecord]],
    store: Store,
    sayso_home: Path,
) -> None:
    (approval,) = waiting("A1")
    with closing(sqlite3.connect(sayso_home / "sayso.db")) as db, db:
        db.execute("UPDATE sessions SET uid = uid + 1, user = 'ann', host = 'elsewhere'")
    result = sayso("approve", approval.id)
    assert (result.code, result.out) == (0, "")
    assert "belongs to ann on elsewhere" in result.err
    assert f"sayso resume {approval.session}" in result.err
    assert store.approvals.get(approval.id).status == "approved"
    assert store.ledger.list() == []


def test_an_open_session_is_left_to_the_process_that_has_it(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], store: Store
) -> None:
    (approval,) = waiting("A1")
    with held(approval.session):
        result = sayso("approve", approval.id)
        assert (result.code, result.out) == (0, "")
        assert "open in another process" in result.err
        assert store.approvals.get(approval.id).status == "approved"
        busy = sayso("resume", approval.session)
        assert busy.code == 1
        assert "is open already" in busy.err
    assert store.ledger.list() == []


def test_killed_while_it_held_the_session_another_decides_and_a_third_resumes(
    script: Invoke,
    waiting: Callable[..., list[ApprovalRecord]],
    store: Store,
    sayso_home: Path,
) -> None:
    (approval,) = waiting("A1", then="Picked up.")
    with held(approval.session) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert script("approve", approval.id, "--no-resume").code == 0
    result = script("resume", approval.session)
    assert (result.code, result.out) == (0, "Picked up.\n")
    assert status_of(sayso_home, "A1") == "cancelled"
    assert [effect.attempts for effect in store.ledger.list()] == [1]


def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told(
    waiting: Callable[..., list[ApprovalRecord]], store: Store, sayso_home: Path
) -> None:
    (approval,) = waiting("A1")
    asked = ("approve", approval.id), ("reject", approval.id, "--reason", "no")
    both = [
        start(*arguments, env={**os.environ, "SAYSO_REVIEWER": name})
        for name, arguments in zip(("Ann", "Bob"), asked, strict=True)
    ]
    results = dict(zip(("Ann", "Bob"), map(finish, both), strict=True))
    decided = store.approvals.get(approval.id)
    assert decided.decided_by in results
    loser = next(results[name] for name in results if name != decided.decided_by)
    assert loser.code == 1
    assert f"already {decided.status} by {decided.decided_by}" in loser.err
    cancelled = status_of(sayso_home, "A1") == "cancelled"
    assert cancelled == (decided.status == "approved")
    assert results[str(decided.decided_by)].code == (0 if cancelled else 5)


# --- on a terminal -------------------------------------------------------------------------


@contextmanager
def terminal(*arguments: str) -> Iterator[pexpect.spawn[str]]:
    child = pexpect.spawn(
        str(SCRIPT),
        list(arguments),
        encoding="utf-8",
        timeout=TIMEOUT,
        dimensions=(60, 120),
        env={**os.environ, "LINES": "60"},  # readline may have left another number there
    )
    try:
        yield child
    finally:
        child.close(force=True)


def test_a_terminal_shows_the_whole_call_and_asks(
    waiting: Callable[..., list[ApprovalRecord]], store: Store
) -> None:
    (approval,) = waiting("A1")
    with terminal("approve", approval.id) as child:
        child.expect_exact('"expected_revision": 1')
        child.expect_exact("pending → cancelled")
        child.expect_exact("Approve it? [y/N]")
        child.sendline("")
        child.expect_exact("still waits")
        child.expect(pexpect.EOF)
    assert child.exitstatus == 1
    assert store.approvals.get(approval.id).status == "pending"


def test_on_a_terminal_yes_is_typed_after_the_question(
    waiting: Callable[..., list[ApprovalRecord]], sayso_home: Path
) -> None:
    (approval,) = waiting("A1", then="It is gone.")
    with terminal("approve", approval.id) as child:
        child.sendline("n")  # typed ahead: answers nothing
        child.expect_exact("Approve it? [y/N]")
        child.sendline("y")
        child.expect_exact("It is gone.")
        child.expect(pexpect.EOF)
    assert child.exitstatus == 0
    assert status_of(sayso_home, "A1") == "cancelled"


def test_on_a_terminal_an_edit_is_shown_as_it_would_run(
    waiting: Callable[..., list[ApprovalRecord]], store: Store
) -> None:
    (approval,) = waiting("A1")
    edit = '{"order_id": "b1", "expected_revision": 1}'
    with terminal("approve", approval.id, "--args", edit) as child:
        child.expect_exact("order_id")
        child.expect_exact('"B1"')
        child.expect_exact("in your edit")
        child.expect_exact("Approve it with the edited arguments? [y/N]")
        child.sendintr()
        child.expect(pexpect.EOF)
    assert child.exitstatus == 130
    assert store.approvals.get(approval.id).status == "pending"


LONG = '''
from pydantic import BaseModel
from tools.contract import Contract, Preview, make_tool

class Note(BaseModel, extra="forbid"):
    text: str

def add_note(text: str) -> str:
    """Add a note."""
    return "Added."

def preview(args):
    return Preview("notes: one more", after="\\n".join(f"line {n}." for n in range(1, 101)))

contract = Contract(effects=frozenset({"write:notes"}), open_world=False, preview=preview)
tools = [make_tool(add_note, args=Note, contract=contract)]
'''
IN_SHORT = """That was all of it:
add_note  text="milk"
would change: notes: one more
"""


@pytest.fixture
def long_one(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ApprovalRecord:
    """A write that changes a hundred lines."""
    tool = tmp_path / "notes.py"
    tool.write_text(LONG)
    monkeypatch.setenv("SAYSO_TOOLS", str(tool))
    model(Reply(tool_calls=(Call("add_note", {"text": "milk"}),)), Reply("It is noted."))
    assert sayso("run", "Note: milk").code == 3
    return store.approvals.list()[0]


def small(tmp_path: Path, *arguments: str) -> Terminal:
    """A command on a terminal of 24 lines."""
    settings = {n: v for n, v in os.environ.items() if n.startswith(("SAYSO_", "OPENAI_"))}
    folder = tmp_path / "terminal"
    folder.mkdir()
    return Terminal(folder, [str(SCRIPT), *arguments], size=(24, 80), environment=settings)


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (["approve"], "Approve it? [y/N]"),
        (["reject", "--reason", "no"], "Reject it? [y/N]"),
        (["respond", "--message", "done"], "Answer it, without running it? [y/N]"),
    ],
)
def test_what_is_longer_than_the_screen_is_paged_and_the_call_stands_above_the_question(
    long_one: ApprovalRecord, tmp_path: Path, command: list[str], question: str
) -> None:
    with small(tmp_path, *command, long_one.id, "--no-resume") as terminal:
        shown = ""
        while "Space shows" in (page := terminal.expect_one_of("it waiting", question)):
            assert "line 100." not in page
            assert len(re.findall(r"line \d+\.", page)) < 24
            shown += page
            terminal.expect_on_screen(KEY_MARK)
            terminal.send("y")  # answers nothing: it has not been seen whole
            terminal.expect("Show the rest first (Space)")
            terminal.expect("it waiting")
            terminal.send(" ")
        shown += page
        assert [f"line {n}." for n in range(1, 101)] == re.findall(r"line \d+\.", shown)
        above = terminal.display.rpartition(question)[0]
        assert above.endswith(IN_SHORT)
        assert "Run this call?" not in above  # it has scrolled away
        terminal.send("y\r")
        terminal.expect(f'add_note(text="milk") [{long_one.id}]')
        assert terminal.close() == 0
        assert terminal.is_restored()


@pytest.mark.parametrize("key", ["q", "\x03"], ids=["q", "Ctrl-C"])
def test_who_leaves_before_the_end_has_decided_nothing(
    long_one: ApprovalRecord, store: Store, tmp_path: Path, key: str
) -> None:
    with small(tmp_path, "approve", long_one.id) as terminal:
        terminal.expect("q leaves it waiting")
        terminal.send(key)
        terminal.expect(f"Nothing was decided; {long_one.id} still waits.")
        assert terminal.close() == 1
        assert terminal.is_restored()
    assert store.approvals.get(long_one.id).status == "pending"


def test_who_has_said_yes_on_the_command_line_is_not_made_to_turn_pages(
    long_one: ApprovalRecord, tmp_path: Path
) -> None:
    with small(tmp_path, "approve", long_one.id, "--yes") as terminal:
        terminal.expect("line 100.")
        terminal.expect("It is noted.")
        assert terminal.close() == 0


# --- in doubt ------------------------------------------------------------------------------

DOUBTFUL = '''
from pydantic import BaseModel, ConfigDict
from tools.contract import Contract, OutcomeUnknown, make_tool

class Send(BaseModel):
    model_config = ConfigDict(extra="forbid")
    to: str

def send_letter(to: str) -> str:
    """Send a letter."""
    raise OutcomeUnknown("the post office closed")

tools = [make_tool(send_letter, args=Send, contract=Contract(effects=frozenset({"write:post"})))]
'''


@pytest.fixture
def in_doubt(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ApprovalRecord:
    """A write whose outcome nobody knows."""
    tool = tmp_path / "post.py"
    tool.write_text(DOUBTFUL)
    monkeypatch.setenv("SAYSO_TOOLS", str(tool))
    letter = Reply(tool_calls=(Call("send_letter", {"to": "Ann"}),))
    model(letter, Reply("I do not know whether it was sent."))
    assert sayso("run", "Write to Ann").code == 3
    (write,) = store.approvals.list()
    result = sayso("approve", write.id)
    assert result.code == 3
    (doubt,) = store.approvals.list()
    assert doubt.kind == "in_doubt"
    assert f"sayso reconcile {doubt.id}" in result.err
    return doubt


@pytest.mark.parametrize(
    ("flag", "state"), [("--happened", "committed"), ("--not-happened", "failed")]
)
@pytest.mark.parametrize("by", ["approval", "effect"])
def test_a_person_settles_a_doubt(
    sayso: Invoke, in_doubt: ApprovalRecord, store: Store, flag: str, state: str, by: str
) -> None:
    (effect,) = store.ledger.list()
    named = in_doubt.id if by == "approval" else effect.id
    result = sayso("reconcile", named, flag, "--comment", "I called them", "--no-resume")
    assert result.code == 0
    settled = store.ledger.get(effect.id)
    assert settled.state == state
    assert (settled.evidence or {})["comment"] == "I called them"
    assert store.approvals.list() == []
    again = sayso("reconcile", named, flag)
    assert again.code == 1
    assert "already" in again.err


def test_settling_a_doubt_of_a_turn_that_has_ended_gives_its_receipt_alone(
    sayso: Invoke, in_doubt: ApprovalRecord
) -> None:
    result = sayso("reconcile", in_doubt.id, "--happened")
    assert (result.code, result.out) == (0, "")
    assert "happened [" in result.err
    assert "Done: send_letter(to=" in result.err
    assert "I do not know whether it was sent." not in result.err
    resumed = sayso("resume", in_doubt.session)  # who asks for the answer gets it again
    assert resumed.out == "I do not know whether it was sent.\n"


def test_settling_a_doubt_in_the_chat_gives_the_new_receipt_alone(
    in_doubt: ApprovalRecord, tmp_path: Path
) -> None:
    with chat(tmp_path, "-r", in_doubt.session) as shown:
        shown.expect("I do not know whether it was sent.")  # the history
        shown.expect("h it happened")
        shown.expect(KEY_MARK)
        shown.send("h")
        shown.expect("happened: send_letter")
        after = shown.expect("Done: send_letter(to=")
        after += shown.expect("› ")
        assert "I do not know" not in after
        shown.send("\x04")
        assert shown.close() == 0


def test_a_doubt_is_neither_approved_nor_rejected(
    sayso: Invoke, in_doubt: ApprovalRecord, store: Store
) -> None:
    for command in (("approve", in_doubt.id), ("reject", in_doubt.id, "--reason", "x")):
        result = sayso(*command)
        assert result.code == 2
        assert f"sayso reconcile {in_doubt.id}" in result.err
    assert store.approvals.get(in_doubt.id).status == "pending"


def test_what_to_an_order_that_was_not_read_is_edited_does_not_run(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], store: Store, sayso_home: Path
) -> None:
    (approval,) = waiting("A1")
    args = {"order_id": "B1", "expected_revision": 1}
    result = sayso("approve", approval.id, "--args", json.dumps(args))
    assert "B1 was never read" in result.err
    assert [status_of(sayso_home, order) for order in ("A1", "B1")] == ["pending", "pending"]
    assert store.ledger.list() == []


def test_reconcile_needs_a_word_and_a_whole_id(
    sayso: Invoke, in_doubt: ApprovalRecord, store: Store
) -> None:
    asked = sayso("reconcile", in_doubt.id)
    assert asked.code == 2
    assert "has no record that can be asked" in asked.err
    assert "--happened (or --not-happened)" in asked.err
    (effect,) = store.ledger.list()
    result = sayso("reconcile", effect.id[:-1], "--happened")
    assert result.code == 2
    assert "whole id" in result.err
    assert store.ledger.get(effect.id).state == "in_doubt"


# --- the listing ---------------------------------------------------------------------------


def test_the_inbox_lists_what_waits_and_all(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]]
) -> None:
    first, second = waiting("A1", "B1")
    listed = json.loads(sayso("approvals", "--json").out)
    assert [row["id"] for row in listed] == [first.id, second.id]
    stated = {
        *("id", "kind", "session", "status", "tool", "args", "digest", "reason", "rule"),
        *("preview", "provenance", "undo", "asked_at", "decided_by", "decided_at", "comment"),
    }
    assert stated <= listed[0].keys()
    assert listed[0]["decided_by"] is None
    assert sayso("reject", first.id, "--reason", "no", "--no-resume").code == 0
    assert first.id not in sayso("approvals").out
    everything = sayso("approvals", "--all").out
    assert first.id in everything
    assert "rejected" in everything
    other = sayso("approvals", "--session", first.session[:-1], "--json")
    assert [row["id"] for row in json.loads(other.out)] == [second.id]


def test_an_empty_inbox_says_so_on_stderr(sayso: Invoke) -> None:
    assert sayso("approvals", "--json").out == "[]\n"
    result = sayso("approvals")
    assert (result.code, result.out) == (0, "")
    assert "Nothing waits" in result.err


def test_a_decision_needs_the_whole_id(
    sayso: Invoke, waiting: Callable[..., list[ApprovalRecord]], store: Store
) -> None:
    (approval,) = waiting("A1")
    for command in (["approve"], ["reject", "--reason", "no"], ["respond", "--message", "no"]):
        result = sayso(*command, approval.id[:-2])
        assert result.code == 2
        assert f"{approval.id[:-2]} is the beginning of {approval.id}" in result.err
        assert "needs the whole id" in result.err
    assert store.approvals.get(approval.id).status == "pending"


def test_a_decision_stays_when_the_tool_is_not_loaded_here(
    sayso: Invoke, model: Model, folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody decides in another folder: recorded, exit 0, and how it goes on."""
    database = str(folder.parent / "mcp-orders.db")
    server = {
        "command": sys.executable,
        "args": ["-P", "-m", "mcp_servers.orders"],
        "env": {"ORDER_DESK_DB": database},
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"desk": server}}))
    ask = Call("desk__cancel_order", {"order_id": "A1", "expected_revision": 1})
    model(Reply(tool_calls=(ask,)), Reply("Done."))
    assert sayso("run", "Cancel A1", "--trust", "--tools", "research").code == 3
    (approval,) = store.approvals.list()
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    result = sayso("approve", approval.id)
    assert (result.code, result.out) == (0, "")
    assert "The MCP server desk is not in use here" in result.err
    assert "The decision is recorded. The session has an open call of desk__cancel_order" in (
        result.err
    )
    assert store.approvals.get(approval.id).status == "approved"
    resumed = sayso("resume", approval.session)
    assert (resumed.code, resumed.out) == (2, "")
    assert "The MCP server desk is not in use here" in resumed.err
    assert "this tool is not loaded here" in resumed.err
    assert store.approvals.get(approval.id).status == "approved"
    monkeypatch.chdir(folder)
    assert sayso("resume", approval.session, "--trust").out == "Done.\n"


def test_what_is_different_is_said_before_it_goes_on(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path
) -> None:
    model(read("A1"), cancel("A1"), Reply("Done."))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    assert sayso("run", "Cancel A1", "--workspace", str(workspace)).code == 3
    workspace.rmdir()
    (approval,) = store.approvals.list()
    result = sayso("approve", approval.id)
    assert (result.code, result.out) == (0, "Done.\n")
    assert f"Its workspace {workspace} is gone; file tools will fail." in result.err


def test_what_became_of_a_void_approval_is_said_wherever_it_is_looked_at(
    sayso: Invoke, model: Model, store: Store, sayso_home: Path
) -> None:
    refund = Call("refund_order", {"order_id": "C1", "amount": "5.00", "currency": "EUR"})
    model(read("C1"), Reply(tool_calls=(refund,)), Reply("Done."))
    assert sayso("run", "Refund 5 EUR of C1").code == 3
    (old,) = store.approvals.list()
    assert sayso("approve", old.id, "--no-resume").code == 0
    OrderDesk(sayso_home / "worlds" / "orders.db").refund("C1", 100, "EUR", "theirs")

    waits = sayso("resume", old.session)
    assert waits.code == 3
    (new,) = store.approvals.list()
    assert "The record has changed since this was approved, so that approval is void." in waits.err
    assert f"sayso approve {new.id}" in waits.err

    again = sayso("approve", old.id)
    assert again.code == 1
    assert f"{old.id} is void: " in again.err
    assert f"sayso approvals --session {old.session}" in again.err
    assert " is void, and nothing ran" in sayso("approvals", old.id).out
    assert " is void, and nothing ran" in sayso("show", old.session).out
    (row,) = [line for line in sayso("approvals", "--all").out.splitlines() if old.id in line]
    assert " void " in row
    assert "superseded" not in row
