"""``sayso eval calls``: figures, a threshold, a real model over the wire, and wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import Invoke
from tests.support.openai_server import Call, ModelServer, Reply

CASES = """\
functions:
  add:
    description: The sum of two numbers.
    properties: {a: {type: number}, b: {type: number}}
    required: [a, b]
cases:
  - {id: one, category: simple, says: Add 2 and 3., offers: [add], calls: [{call: add, args: {a: [2], b: [3]}}]}
  - {id: two, category: irrelevance, says: Who are you?, offers: [add]}
  - {id: three, category: missing-parameter, says: Add 2., offers: [add], asks: the other number}
"""  # noqa: E501


@pytest.fixture
def cases(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(CASES)
    return str(path)


def test_without_options_the_bundled_models_and_the_offline_one_are_scored(sayso: Invoke) -> None:
    shown = sayso("eval", "calls")
    assert shown.code == 0
    heading, *rows = shown.out.splitlines()
    assert heading.split()[:2] == ["MODEL", "RIGHT"]
    assert [row.split()[0] for row in rows[:4]] == [
        "mock:makes-up-names",
        "mock:drops-optional",
        "mock:ignores-irrelevance",
        "offline",
    ]
    assert "mock:makes-up-names: hallucinated function (12)" in shown.out


def test_a_model_over_the_wire_is_asked_once_a_case(
    sayso: Invoke, cases: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer() as server:
        server.script(
            Reply(tool_calls=(Call("add", {"a": 2, "b": 3}),)),
            Reply("I am a model."),
            Reply(tool_calls=(Call("add", {"a": 2, "b": 0}),)),
        )
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        told = sayso(
            "eval", "calls", "--model", "openai:any", "--cases", cases, "--json", "--failed"
        )
        requests = [request.body for request in server.requests]
    [figures] = json.loads(told.out)["models"]
    assert (told.code, figures["accuracy"]) == (0, 0.6667)
    assert figures["scores"][2] == {
        "case": "three",
        "failure": "should ask",
        "problems": ["add was called, and the other number was never said"],
    }
    assert [request["messages"][-1]["content"] for request in requests] == [
        *("Add 2 and 3.", "Who are you?", "Add 2."),
    ]
    assert requests[0]["tools"][0]["function"]["parameters"]["required"] == ["a", "b"]


def test_arguments_that_are_no_json_are_a_format_error(
    sayso: Invoke, cases: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer() as server:
        broken = Reply(tool_calls=(Call("add", '{"a": 2, "b'),))
        server.script(broken, Reply("No."), Reply("Which?"))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        shown = sayso("eval", "calls", "--model", "openai:any", "--cases", cases, "--failed")
    assert "one: format error: add: " in shown.out


def test_too_few_right_is_exit_code_1(sayso: Invoke, cases: str) -> None:
    options = ("eval", "calls", "--model", "mock:ignores-irrelevance", "--cases", cases)
    assert sayso(*options, "--at-least", "0.3").code == 0
    lost = sayso(*options, "--at-least", "0.99")
    assert lost.code == 1
    assert "mock:ignores-irrelevance has 0." in lost.err


def test_wrong_usage_is_named(sayso: Invoke, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(CASES.replace("category: simple", "category: hard"))
    for options, said in (
        (["--cases", str(tmp_path / "bad.yaml")], "bad.yaml:7: category"),
        (["--cases", "nowhere.yaml"], "nowhere.yaml"),
        (["--model", "mock:x"], "mock:makes-up-names"),
        (["--model", "x"], "x"),
        (["--suite", "x"], "own and bfcl"),
        (["--at-least", "2"], "at-least"),
        (["--suite", "bfcl"], "make evals"),
    ):
        found = sayso("eval", "calls", *options)
        assert found.code == 2, options
        assert said in found.err, options
