"""``sayso run``: whole runs without a person, the answer on stdout and nothing else there."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store import Store
from tests.cli.program import Invoke, cancel, finish, read, start, status_of
from tests.support.openai_server import Call, Hang, HttpError, ModelServer, Reply

Model = Callable[..., ModelServer]

ODD = "N\x1b[31mo\x7f.\u2028"


def test_a_run_that_only_reads_answers_on_stdout(sayso: Invoke, model: Model) -> None:
    model(read("A1"), Reply("A1 is pending."))
    result = sayso("run", "What about A1?")
    assert (result.code, result.out) == (0, "A1 is pending.\n")
    assert 'get_order  order_id="A1"' in result.err
    assert "It only reads." in result.err


def test_a_write_waits_and_the_session_is_on_stdout(
    sayso: Invoke, model: Model, store: Store, sayso_home: Path
) -> None:
    model(read("A1"), cancel("A1"))
    result = sayso("run", "Cancel A1")
    (session,), (approval,) = store.sessions.list(), store.approvals.list()
    assert (result.code, result.out) == (3, f"{session.id}\n")
    assert f"sayso approve {approval.id}" in result.err
    assert "Waiting: cancel_order" in result.err
    assert status_of(sayso_home, "A1") == "pending"


def test_a_draft_that_was_sent_back_is_no_answer(sayso: Invoke, model: Model, store: Store) -> None:
    blog = {"url": "https://pedalpower-blog.example/larkford-miracle"}
    fetch, draft = Reply(tool_calls=(Call("fetch", blog),)), Reply("It fell by 50%.")
    model(fetch, draft, Reply("No source supports the 50%."))
    result = sayso("run", "--tools", "research", "How much did car trips fall?")
    assert (result.code, result.out) == (0, "No source supports the 50%.\n")
    assert "A draft was sent back to the model: no support for 50%." in result.err
    assert draft.text not in result.err

    (session,) = store.sessions.list()
    shown = sayso("show", session.id).out
    assert "agent (a draft, sent back: no support for 50%): It fell by 50%." in shown
    assert "sayso: [Your last answer was not shown" in shown
    assert "agent: No source supports the 50%." in shown
    messages = json.loads(sayso("show", session.id, "--json").out)["messages"]
    assert [m.get("unsupported") for m in messages] == [None, None, None, ["50%"], None, None]


def test_a_gap_that_stays_is_marked_in_every_form(sayso: Invoke, model: Model) -> None:
    blog = {"url": "https://pedalpower-blog.example/larkford-miracle"}
    fetch, draft = Reply(tool_calls=(Call("fetch", blog),)), Reply("It fell by 50%.")
    mark = "[Added by sayso, not by the model: no support was found for “50%”."
    model(fetch, draft, draft, draft)
    result = sayso("run", "--tools", "research", "How much did car trips fall?")
    assert result.code == 0
    assert result.out.startswith(f"It fell by 50%.\n\n{mark}")
    assert "No support was found for 50%." in result.err

    result = sayso("run", "--json", "--tools", "research", "How much did car trips fall?")
    events = [json.loads(line) for line in result.out.splitlines()]
    refused = {"type": "refused", "text": "It fell by 50%.", "unsupported": ["50%"]}
    assert [event for event in events if event["type"] == "refused"] == [refused] * 2
    marked = {"type": "marked", "unsupported": ["50%"], "problem": None}
    assert marked in events
    assert mark in events[-1]["answer"]


def test_on_ask_deny_tells_the_model_no_and_goes_on(
    sayso: Invoke, model: Model, store: Store, sayso_home: Path
) -> None:
    server = model(read("A1", "B1"), cancel("A1", "B1"), Reply("I could not cancel them."))
    result = sayso("run", "Cancel A1 and B1", "--on-ask", "deny")
    assert (result.code, result.out) == (5, "I could not cancel them.\n")
    told = [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"]
    assert ["Nobody was there to decide" in text for text in told] == [False, False, True, True]
    decided = store.approvals.list(status="rejected")
    assert {(a.decided_by, a.decided_via) for a in decided} == {("sayso run", "run")}
    assert [status_of(sayso_home, order) for order in ("A1", "B1")] == ["pending", "pending"]
    assert result.err.count("Not done:") == 2


def test_on_ask_fail_cancels_the_turn(
    sayso: Invoke, model: Model, store: Store, sayso_home: Path
) -> None:
    server = model(read("A1"), cancel("A1"), Reply("never asked for"))
    result = sayso("run", "Cancel A1", "--on-ask", "fail")
    assert (result.code, result.out) == (5, "")
    assert store.sessions.list()[0].state == "cancelled"
    assert [a.status for a in store.approvals.list(status=None)] == ["superseded"]
    assert status_of(sayso_home, "A1") == "pending"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("on_ask", "code", "state", "answer"),
    [("wait", 3, "waiting", ""), ("deny", 5, "done", ODD), ("fail", 5, "cancelled", "")],
)
def test_json_is_one_object_a_line_and_nothing_else(
    script: Invoke, model: Model, on_ask: str, code: int, state: str, answer: str
) -> None:
    model(read("A1"), cancel("A1"), Reply(ODD))
    result = script("run", "Cancel A1", "--json", "--on-ask", on_ask)
    events = [json.loads(line) for line in result.out.splitlines()]
    assert all(next(iter(event)) == "type" for event in events)
    kinds = [event["type"] for event in events]
    assert kinds[:6] == ["call", "verdict", "result", "call", "verdict", "approval"]
    assert "delta" not in kinds
    assert kinds.count("done") == 1
    done = events[-1]
    assert done["type"] == "done"
    assert (done["state"], done["exit"], done["answer"]) == (state, code, answer)
    assert result.code == code
    assert done["session"].startswith("s-")
    approval = next(event for event in events if event["type"] == "approval")["approval"]
    assert approval["args"] == {"order_id": "A1", "expected_revision": 1}
    assert result.out.isascii()
    assert result.out.replace("\n", "").isprintable()


NOISY = """
import os
print("loading")
os.system("echo a child while loading")

from pydantic import BaseModel
from tools.contract import Contract, make_tool

class Word(BaseModel):
    word: str

def look_up(word: str) -> str:
    "Look up a word."
    print("a print")
    os.system("echo a child")
    return f"{word} means nothing"

reads = Contract(effects=frozenset({"read:words"}), open_world=False)
tools = [make_tool(look_up, args=Word, contract=reads)]
"""


def test_what_tools_print_goes_to_stderr(
    script: Invoke, model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "noisy.py").write_text(NOISY)
    model(Reply(tool_calls=(Call("look_up", {"word": "water"}),)), Reply("Nothing."))
    ours = ("--tools", "./noisy.py")

    told = script("run", "Look up water", "--json", *ours)
    kinds = [json.loads(line)["type"] for line in told.out.splitlines()]
    assert kinds == ["call", "verdict", "result", "message", "done"]
    plain = script("run", "Look up water", *ours)
    assert plain.out == "Nothing.\n"
    for result in (told, plain):
        for noise in ("loading", "a child while loading", "a print", "a child"):
            assert result.err.splitlines().count(noise) == 1
    listed = script("tools", "--json", *ours)
    assert [row["name"] for row in json.loads(listed.out)] == ["look_up"]


def test_the_step_limit_exits_4(
    sayso: Invoke, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYSO_MAX_STEPS", "2")
    model(read("A1"), read("A2"), read("B1"))
    result = sayso("run", "Look at everything")
    assert result.code == 4
    assert "limit of 2" in result.err
    assert "sayso chat -r s-" in result.err


def test_an_outage_exits_1_and_the_session_can_be_carried_on(
    sayso: Invoke, model: Model, store: Store
) -> None:
    model([HttpError(500), Reply("Here I am.")])
    result = sayso("run", "Hello")
    assert (result.code, result.out) == (1, "")
    (session,) = store.sessions.list()
    again = sayso("resume", session.id)
    assert (again.code, again.out) == (0, "Here I am.\n")


def test_a_task_from_standard_input(script: Invoke, model: Model, tmp_path: Path) -> None:
    server = model(Reply("Read."))
    (tmp_path / "task").write_text("A task\nof two lines\n")
    with (tmp_path / "task").open() as file:
        result = script("run", "-", stdin=file)
    assert (result.code, result.out) == (0, "Read.\n")
    assert server.requests[0].messages[-1]["content"] == "A task\nof two lines"


def test_an_empty_task_is_wrong_usage(sayso: Invoke) -> None:
    result = sayso("run", "  ")
    assert (result.code, result.out) == (2, "")
    assert "There is no task." in result.err


@pytest.mark.parametrize("stdin", ["closed", "pipe that never ends"])
def test_nothing_is_read_from_standard_input(folder: Path, model: Model, stdin: str) -> None:
    """A headless run that asks would hang here, or take what is typed for an answer."""
    model(read("A1"), cancel("A1"))
    reader, writer = os.pipe()
    os.write(writer, b"y\ny\ny\n")
    try:
        if stdin == "closed":
            process = start("run", "Cancel A1", stdin=None, preexec_fn=lambda: os.close(0))
        else:
            process = start("run", "Cancel A1", stdin=reader)
        result = finish(process)
        assert result.code == 3
        os.set_blocking(reader, False)
        assert os.read(reader, 100) == b"y\ny\ny\n"
    finally:
        os.close(reader)
        os.close(writer)


def test_ctrl_c_ends_in_order_and_the_resume_command_works(
    folder: Path, sayso: Invoke, model: Model, store: Store
) -> None:
    server = model([Hang(), Reply("Back again.")])
    process = start("run", "Hello")
    server.wait_for_requests(1)
    process.send_signal(signal.SIGINT)
    result = finish(process)
    (session,) = store.sessions.list()
    assert (result.code, result.out) == (130, "")
    assert f"sayso resume {session.id}" in result.err
    assert "Traceback" not in result.err
    assert session.state == "interrupted"
    again = sayso("resume", session.id)
    assert (again.code, again.out) == (0, "Back again.\n")


def test_sigterm_ends_in_order_too(folder: Path, model: Model, store: Store) -> None:
    server = model(Hang())
    process = start("run", "Hello")
    server.wait_for_requests(1)
    process.send_signal(signal.SIGTERM)
    result = finish(process)
    (session,) = store.sessions.list()
    assert result.code == 128 + signal.SIGTERM
    assert f"sayso resume {session.id}" in result.err
    assert "Traceback" not in result.err
    assert store.leases.holder(session.id) is None


def test_a_reader_that_stops_reading_leaves_the_session_in_order(
    folder: Path, model: Model, store: Store
) -> None:
    model(read("A1"), read("A2"), Reply("x"))
    process = start("run", "Look", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.wait(timeout=60)
    process.stderr.close()
    assert process.returncode == 1
    assert "Traceback" not in said
    (session,) = store.sessions.list()
    assert session.state == "interrupted"
    assert store.leases.holder(session.id) is None


def test_control_characters_of_a_model_never_reach_stdout(sayso: Invoke, model: Model) -> None:
    model(Reply("a\x1b]0;title\x07b \u202egnp.exe"))
    result = sayso("run", "Say it")
    assert result.out == "a␛]0;title␇b ⟨U+202E⟩gnp.exe\n"


def test_wrong_settings_exit_2(sayso: Invoke) -> None:
    result = sayso("run", "Hello", "--model", "gpt")
    assert (result.code, result.out) == (2, "")
    assert "expected provider:name" in result.err


def test_options_may_stand_before_the_command(sayso: Invoke, model: Model, store: Store) -> None:
    model(Reply("one"))
    assert sayso("--tools", "research", "--deny", "network:*", "run", "Hello").code == 0
    (session,) = store.sessions.list()
    assert (session.tools, session.denied) == (["research"], ["network:*"])


def test_what_exceeds_the_authority_is_denied_without_asking(
    sayso: Invoke, model: Model, store: Store
) -> None:
    model(read("A1"), cancel("A1"), Reply("I may not."))
    result = sayso("run", "Cancel A1", "--grant", "read:*")
    assert (result.code, result.out) == (5, "I may not.\n")
    assert "denied" in result.err
    assert store.approvals.list(status=None) == []
    assert store.ledger.list() == []
