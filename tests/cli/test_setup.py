"""``tools`` and ``doctor``: what is there, and what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agent.cli.doctor import counted
from agent.store import Store
from agent.types import Actor
from tests.cli.program import Invoke

KEY = "sk-0123456789abcdefghij-tail"


def checks(result_out: str) -> dict[str, dict[str, str]]:
    """The checks by name; of several with one name the worst."""
    found: dict[str, dict[str, str]] = {}
    for check in json.loads(result_out):
        known = found.get(check["name"])
        if known is None or known["status"] == "ok":
            found[check["name"]] = check
    return found


def test_tools_says_what_waits(sayso: Invoke) -> None:
    rows = {row["name"]: row for row in json.loads(sayso("tools", "--json").out)}
    assert rows["get_order"]["access"] == "read"
    assert rows["get_order"]["effects"] == ["read:orders"]
    assert rows["cancel_order"] | {"description": ""} == {
        "name": "cancel_order",
        "access": "write",
        "domain": "orders",
        "version": "1",
        "effects": ["write:orders"],
        "verdict": "ask",
        "verdicts": ["ask"],
        "rule": "writes",
        "reason": "It would change something (write:orders).",
        "hinges_on": [],
        "description": "",
        "undo": None,
    }
    listed = sayso("tools")
    lines = listed.out.splitlines()
    assert lines[0].split() == [
        *("NAME", "ACCESS", "VERDICT", "BY", "DOMAIN", "VERSION", "EFFECTS", "DESCRIPTION")
    ]
    assert len(lines) == len(rows) + 1
    assert "Once a person agreed: spend:refund-???, write:files, write:orders" in listed.err


def test_tools_says_what_the_authority_leaves_of_them(sayso: Invoke) -> None:
    def verdicts(*options: str) -> dict[str, tuple[str, str | None]]:
        rows = json.loads(sayso("tools", "--tools", "bank,mail,web", "--json", *options).out)
        return {row["name"]: (row["verdict"], row["rule"]) for row in rows}

    usual = verdicts()
    assert usual["transfer_funds"] == ("deny", "authority")
    assert usual["send_email"] == ("ask", "writes")
    assert verdicts("--profile", "read-only")["web_fetch"] == ("deny", "authority")
    granted = verdicts("--grant", "*", "--deny", "disclose:email.*@evil.example")
    assert granted["transfer_funds"] == ("ask", "writes")
    assert granted["send_email"] == ("depends", None)
    assert sayso("tools", "--grant", "reads").code == 2


def test_tools_says_what_the_rules_make_of_them(
    sayso: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = folder / "org.yaml"
    page.write_text(
        "version: 1\nrules:\n"
        "  - {name: small, tools: refund_order, when: amount <= 50, verdict: allow}\n"
        "  - {name: never, tools: cancel_order, verdict: deny}\n"
    )
    monkeypatch.setenv("SAYSO_POLICY", str(page))
    rows = {row["name"]: row for row in json.loads(sayso("tools", "--json").out)}

    assert (rows["refund_order"]["verdict"], rows["refund_order"]["verdicts"]) == (
        *("depends", ["allow", "ask"]),
    )
    assert rows["refund_order"]["hinges_on"] == ["organisation/small"]
    assert (rows["cancel_order"]["verdict"], rows["cancel_order"]["rule"]) == (
        *("deny", "organisation/never"),
    )
    reach = json.loads(sayso("tools", "--reach", "--json").out)
    assert reach["deny"] == []  # another tool may still touch what cancel_order may not
    assert {"spend:refund-???", "write:orders"} <= set(reach["allow"])
    page.write_text("version: 1\nrules:\n  - {name: a, tools: refund_ordr, verdict: deny}\n")
    refused = sayso("tools")
    assert (refused.code, refused.out) == (2, "")
    assert "org.yaml:3:5" in refused.err


def test_a_persons_own_tools_are_listed(sayso: Invoke, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from langchain_core.tools import tool\n\n"
        "@tool\ndef wave(to: str) -> str:\n    '''Wave\x1b[31m.'''\n    return to\n"
    )
    result = sayso("tools", "--tools", str(own))
    (line,) = result.out.splitlines()[1:]
    assert line.split()[:2] == ["wave", "write"]
    assert "\x1b" not in result.out
    missing = sayso("tools", "--tools", "gone.py")
    assert missing.code == 2
    assert "there is no such file" in missing.err


def test_doctor_of_a_new_machine(sayso: Invoke, sayso_home: Path) -> None:
    result = sayso("doctor", "--json")
    found = checks(result.out)
    assert result.code == 0
    assert {name for name, check in found.items() if check["status"] == "fail"} == set()
    assert found["model"]["status"] == "warn"
    assert "OPENAI_API_KEY" in found["model"]["mend"]
    assert str(sayso_home) in found["home"]["found"]
    assert "schema" in found["database"]["found"]
    lines = sayso("doctor").out.splitlines()
    assert any(line.startswith("ok    home") for line in lines)


def test_doctor_masks_the_key(sayso: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    result = sayso("doctor")
    assert "…tail" in result.out
    assert KEY not in result.out


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("SAYSO_MODEL", "openai:gpt-4.1-mini", "model"),
        ("SAYSO_MODEL", "nosuchprovider:x", "model"),
        ("SAYSO_TOOLS", "gone.py", "tools"),
        ("SAYSO_MAX_STEPS", "many", "settings"),
    ],
)
def test_doctor_names_what_fails_and_how_to_mend_it(
    sayso: Invoke, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, name: str
) -> None:
    monkeypatch.setenv(variable, value)
    result = sayso("doctor", "--json")
    found = checks(result.out)
    assert result.code == 1
    assert found[name]["status"] == "fail"
    assert found[name]["mend"]


def test_doctor_of_a_broken_database_looks_at_the_rest_too(sayso: Invoke, sayso_home: Path) -> None:
    sayso_home.mkdir(mode=0o700)
    (sayso_home / "sayso.db").write_bytes(b"this is no database" * 500)
    result = sayso("doctor", "--json")
    found = checks(result.out)
    assert result.code == 1
    assert found["database"]["status"] == "fail"
    assert found["tools"]["status"] == "ok"


def test_doctor_says_whether_the_trail_is_sealed(
    sayso: Invoke, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trail() -> tuple[str, str]:
        check = checks(sayso("doctor", "--json").out)["trail"]
        return check["status"], check["mend"]

    assert trail() == ("ok", "")
    new = {"model": "offline", "tools": [], "workspace": None, "granted": [], "denied": []}
    store.sessions.create(**new, actor=Actor("ann", 1, "here"))
    monkeypatch.setenv("SAYSO_TRAIL_KEY", "sixteen bytes, or more")
    assert trail() == ("warn", "Look at them, then: sayso trail seal")
    assert sayso("trail", "seal").code == 0
    assert trail() == ("ok", "")
    monkeypatch.delenv("SAYSO_TRAIL_KEY")
    assert trail() == ("warn", "Set SAYSO_TRAIL_KEY to the key they were sealed with.")


def test_doctor_says_whether_mail_is_sent(sayso: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mail" not in checks(sayso("doctor", "--json").out)
    monkeypatch.setenv("SAYSO_TOOLS", "mail")
    unset = checks(sayso("doctor", "--json").out)["mail"]
    assert (unset["status"], "SAYSO_MAIL_FROM" in unset["mend"]) == ("warn", True)
    monkeypatch.setenv("SAYSO_SMTP_URL", "smtps://ann:s3cret-of-the-server@mail.example")
    monkeypatch.setenv("SAYSO_MAIL_FROM", "ann@office.example")
    result = sayso("doctor", "--json")
    found = checks(result.out)["mail"]
    assert found["status"] == "ok"
    assert found["found"].endswith("@mail.example, from ann@office.example")
    assert "s3cret" not in result.out


def test_doctor_finds_what_was_interrupted(
    sayso: Invoke, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.sessions.create(
        model="offline",
        tools=["orders"],
        workspace=None,
        granted=["read:*"],
        denied=[],
        actor=Actor("ann", 1, "here"),
    )
    store.sessions.update(session.id, state="running")
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("SAYSO_MODLE", "x")
    found = checks(sayso("doctor", "--json").out)
    assert f"sayso resume {session.id}" in found["sessions"]["mend"]
    assert found["tracing"]["status"] == "warn"
    assert "SAYSO_MODEL" in found["settings"]["found"]


# --- MCP servers ------------------------------------------------------------------------------

ROUGH = Path(__file__).parents[1] / "mcp" / "rough_server.py"


def servers(sayso: Invoke) -> list[dict[str, str]]:
    """What doctor says of MCP servers, the summary first."""
    found = json.loads(sayso("doctor", "--json").out)
    return [check for check in found if check["name"] == "mcp"]


def test_doctor_without_servers(sayso: Invoke) -> None:
    assert [check["found"] for check in servers(sayso)] == ["no servers"]


def test_doctor_counts_servers_by_what_became_of_them(sayso: Invoke, sayso_home: Path) -> None:
    rough, dies = [sys.executable, str(ROUGH)], [sys.executable, "-c", "raise SystemExit('boom')"]
    assert sayso("mcp", "add", "one", "--yes", "--", *rough).code == 0
    (summary,) = servers(sayso)
    path, pins = sayso_home / "mcp.json", sayso_home / "mcp-pins.json"
    kept = json.loads(pins.read_text())
    pinned = kept["servers"][str(path)]["one"]["tools"]
    assert summary["found"] == f"1 server: 1 ready with {len(pinned)} tools"

    assert sayso("mcp", "add", "two", "--yes", "--", *dies).code == 0
    content = json.loads(path.read_text())
    content["mcpServers"] |= {
        "by hand": {"command": "x"},
        "faulty": {"command": 3},
        "off": {"command": "x", "disabled": True},
    }
    path.write_text(json.dumps(content))
    pinned["echo"]["description"] = "Another one."
    kept["servers"][str(path)]["two"] = json.loads(pins.read_text())["servers"][str(path)]["two"]
    pins.write_text(json.dumps(kept))

    summary, off, faulty, by_hand, one, two = servers(sayso)
    assert summary["found"] == (
        f"5 servers: 1 ready with {len(pinned) - 1} tools (1 held), 1 cannot be used, "
        "1 not confirmed, 1 disabled, 1 left out"
    )
    assert (summary["status"], off["status"]) == ("ok", "ok")
    assert "'off' is disabled" in off["found"]
    assert "'faulty' is left out" in faulty["found"]
    assert "'by hand' of" in by_hand["found"]
    assert "server one: its tools are not what was pinned: 'echo' (changed)" in one["found"]
    assert {check["status"] for check in (faulty, by_hand, one)} == {"warn"}
    assert two["status"] == "fail"
    assert two["mend"] == f"What it wrote: {sayso_home / 'logs' / 'mcp-two.log'}"


def test_one_of_a_thing_is_not_several() -> None:
    assert [counted(number, "tool") for number in (0, 1, 2)] == ["0 tools", "1 tool", "2 tools"]
