"""A turn's events as a transcript; edited arguments; commands; what importing the chat costs."""

import io
import subprocess
import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.console import Console

from agent.errors import UsageError
from agent.events import (
    AnswerMarked,
    CallFinished,
    CallJudged,
    CallProposed,
    Done,
    DraftRefused,
    KnownSince,
    Message,
    MessageDelta,
    ReceiptReady,
)
from agent.provenance import NOTE, REFUSED
from agent.repl.app import chat
from agent.repl.commands import ChatCompleter
from agent.repl.editing import ArgumentsError, parse_arguments
from agent.repl.render import TurnView, show_history, show_receipt
from agent.repl.screen import Screen
from agent.types import Receipt, Verdict


def verdict(behavior, reason):
    return Verdict(behavior=behavior, rule="r", reason=reason, effects=[], digest="", notes=[])


def transcript(*events, width=60):
    file = io.StringIO()
    view = TurnView(Screen(Console(file=file, width=width, highlight=False)))
    for event in events:
        view.show(event)
    return file.getvalue()


def test_one_blank_line_stands_between_blocks_also_around_a_table():
    said = "Two found:\n\n| id | n |\n| --- | --- |\n| A | 1 |\n\nThat is all."
    pieces = [MessageDelta(line) for line in said.splitlines(keepends=True)]
    shown = transcript(*pieces, Message(said))
    assert shown.splitlines() == [
        "", "Two found:",
        "", " id  n", " ─────", " A   1",
        "", "That is all.",
    ]  # fmt: skip


def test_a_draft_that_was_sent_back_is_not_shown_and_a_gap_is_said_by_the_program():
    shown = transcript(
        DraftRefused("It fell by 50%.", ("50%\x1b[2J", "half")),
        Message("It fell by 6%."),
        AnswerMarked(("6%",), "the check of fetch failed: gone"),
        width=120,
    )
    assert shown.splitlines() == [
        "A draft was sent back to the model: no support for 50%␛[2J, half.",
        "", "It fell by 6%.",
        "No support was found for 6%. "
        "This answer could not be checked: the check of fetch failed: gone.",
    ]  # fmt: skip


def test_a_stored_conversation_is_what_was_said_to_somebody():
    file = io.StringIO()
    draft = AIMessage("It fell by 50%.", additional_kwargs={REFUSED: ["50%"]})
    note = HumanMessage("[Your last answer was not shown]", additional_kwargs={NOTE: True})
    said = [HumanMessage("How much?"), draft, note, AIMessage("It fell by 6%.")]
    show_history(Screen(Console(file=file, width=60)), said)
    assert " ".join(file.getvalue().split()) == "› How much? It fell by 6%."


def test_a_turn():
    receipt = Receipt(done=("cancel A1",), not_done=("cancel A2: rejected",), unknown=("refund",))
    assert transcript(
        MessageDelta("Let me "),
        MessageDelta("look."),
        Message("Let me look."),
        CallProposed("a", "get_order", {"order_id": "A1"}),
        CallProposed("b", "cancel_order", {"order_id": "A2", "note": "x" * 80}),
        CallJudged("a", "get_order", verdict("allow", "reads are allowed")),
        CallJudged("b", "cancel_order", verdict("deny", "not granted\x1b[2J")),
        CallFinished("b", "cancel_order", "error", "denied"),
        CallFinished("a", "get_order", "success", "one\ntwo\n[red]three\nfour\nfive\n"),
        ReceiptReady(receipt),
        Message("Not streamed."),
        Done("s", "stopped", "", 4, "Stopped at the limit of 3 steps."),
    ) == (
        """\

Let me look.
● 1 get_order  order_id="A1"
● 2 cancel_order  order_id="A2" note="xxxxxxxxxxxxxxxxxxxx…
  1 allowed: reads are allowed
  2 denied: not granted␛[2J
  1 get_order one
      two
      [red]three
      … 2 more lines
  2 cancel_order denied

Not streamed.
Stopped at the limit of 3 steps.
Say "continue" to go on.

Receipt
  Done: cancel A1
  Not done: cancel A2: rejected
  Unknown: refund
"""
    )


def test_what_has_become_known_of_earlier_writes_comes_first():
    text = transcript(
        KnownSince(Receipt(done=("cancel A1, although ana\x1b had said that it did not",))),
        Message("Hello."),
        Done("s", "done", "Hello.", 0),
    )
    assert text.split("\n\n") == [
        "\nKnown since then\n  Done: cancel A1, although ana␛ had said that it did not",
        "Hello.\n",
    ]


def test_a_call_keeps_its_number_over_a_pause():
    text = transcript(
        CallProposed("a", "one", {}),
        CallProposed("b", "two", {}),
        ReceiptReady(Receipt(waiting=("two",))),
        Done("s", "waiting", "", 3),
        CallFinished("b", "two", "success", "ok"),
        Done("s", "done", "", 0),
    )
    assert text.splitlines() == ["● 1 one", "● 2 two", "  2 two ok"]


def finished(*calls):
    return [CallFinished(call, f"tool_{call}", "success", "ok") for call in calls]


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
def test_results_are_shown_in_the_order_of_the_calls(order):
    proposed = [CallProposed(call, f"tool_{call}", {}) for call in "abc"]
    text = transcript(*proposed, *finished(*order), Done("s", "done", "", 0))
    assert text.splitlines()[3:] == ["  1 tool_a ok", "  2 tool_b ok", "  3 tool_c ok"]


def test_a_call_that_waits_hides_no_result():
    proposed = [CallProposed(call, f"tool_{call}", {}) for call in "abc"]
    events = [*proposed, *finished("c", "b"), Done("s", "waiting", "", 3)]
    assert transcript(*events).splitlines()[3:] == ["  2 tool_b ok", "  3 tool_c ok"]
    after = transcript(*events, *finished("a"))
    assert after.splitlines()[5:] == ["  1 tool_a ok"]


def test_a_receipt_holds_one_line_an_effect():
    file = io.StringIO()
    show_receipt(Screen(Console(file=file, width=60)), Receipt(done=("a\nNot done: b\x1b[1m",)))
    assert file.getvalue() == "\nReceipt\n  Done: a␊Not done: b␛[1m\n"


def test_edited_arguments_keep_their_types():
    args = parse_arguments('{"n": 7, "x": 7.0, "s": "7", "b": true, "z": null}')
    assert [type(value).__name__ for value in args.values()] == [
        "int",
        "float",
        "str",
        "bool",
        "NoneType",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1, column 2"),
        ("[1]", "one JSON object"),
        ('{"a": 1, "a": 2}', '"a" stands there twice'),
        ('{"a": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "too deeply"),
        ("", "line 1, column 1"),
    ],
)
def test_edited_arguments_that_are_none(text, why):
    with pytest.raises(ArgumentsError, match=why):
        parse_arguments(text)


def test_completion():
    completer = ChatCompleter(lambda: [("s-abc", "one"), ("s-abd", "t\x1bwo"), ("s-x", "")])

    def offered(text):
        return [c.text for c in completer.get_completions(Document(text), CompleteEvent())]

    assert offered("/re") == ["receipt", "resume"]
    assert offered("/resume s-ab") == ["s-abc", "s-abd"]
    assert offered("re") == offered("/trail x") == offered("/re\n") == []


async def test_without_a_terminal_it_says_so_and_does_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hi\n"))

    async def open_app():
        raise AssertionError("must not be opened")

    with pytest.raises(UsageError, match="needs a terminal"):
        await chat(open_app)


def test_importing_the_chat_imports_no_langchain():
    code = (
        "import sys, agent.repl.app\n"
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('langchain', 'langchain_core', 'langgraph', 'openai', 'mcp')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
