"""The answer gate: what a turn's final answer says, held against what the session knows.

A domain plugs a check in with ``Contract.answers``. What has no support goes back to the model
with the reason, twice a turn at most; then the answer is kept, with the gap marked at its end. How
often that was is counted from the history, so it survives a restart. A check that fails itself
stops nobody's answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

import prompts
from agent.checks.limits import steps_taken, turn_starts
from agent.evidence import ask, evidence_in, in_short
from agent.provenance import ORDERED, REFUSED, users_words
from agent.safe_text import one_line, shorten
from tools.contract import AnswerCheck, contract_of

MARKED = "sayso_marked"
"""Key, in an answer that was kept with a mark, of what it says: ``unsupported``, ``problem``."""

MOST_REFUSALS = 2
"""How often a turn's answer goes back to the model."""

MOST_NAMED, LONGEST_NAMED = 10, 80
"""How many gaps are named, and the characters of each."""


@dataclass(frozen=True)
class Judged:
    """An answer with a gap: the reply as it will stand in the history.

    Args:
        note: Said to the model; ``None``: the reply is kept, and ends the turn.
        event: The entry in the trail.
    """

    reply: AIMessage
    note: str | None
    event: tuple[str, dict[str, Any]]


def checks_due(
    messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool]
) -> list[tuple[AnswerCheck, str]]:
    """The checks of an answer that would come next, each with a tool that asks for it.

    They are those of the tools that were called in this turn. An answer in a turn without calls
    rests on what was read before, so then they are those of the last turn that has some. The
    words that end an ordered turn are the harness's.
    """
    checks: dict[int, tuple[AnswerCheck, str]] = {}
    for turn in _turns(messages):
        called = [message.name or "" for message in turn if isinstance(message, ToolMessage)]
        for name in dict.fromkeys(called):
            tool = tools.get(name)
            if tool is not None and (check := contract_of(tool).answers) is not None:
                checks.setdefault(id(check), (check, name))
        is_ordered = bool(turn) and turn[0].additional_kwargs.get(ORDERED)
        if called or is_ordered:
            return [] if is_ordered else list(checks.values())
    return []


def _turns(messages: Sequence[BaseMessage]) -> Iterator[Sequence[BaseMessage]]:
    """The turns, the last one first."""
    end = len(messages)
    for start in reversed(turn_starts(messages)):
        yield messages[start:end]
        end = start


async def judge_answer(
    reply: AIMessage,
    history: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
    max_steps: int,
) -> Judged | None:
    """Hold an answer against the checks that are due; ``None``: there is nothing to say."""
    due = checks_due(history, tools)
    if not due:
        return None
    reply = _without_marks(reply)
    unsupported, problem = await _gaps(str(reply.text), history, tools, due)
    if not unsupported and problem is None:
        return None
    found = {"unsupported": unsupported, **({"problem": problem} if problem else {})}
    event = {"message": reply.id, **found}
    if unsupported and _may_go_back(history, max_steps):
        note = prompts.message("answer_refused", unsupported=in_quotes(unsupported))
        return Judged(_with(reply, REFUSED, unsupported), note, ("answer.refused", event))
    marked = _with(reply, MARKED, found, _mark(unsupported, problem))
    return Judged(marked, None, ("answer.marked", event))


def in_quotes(unsupported: Sequence[str]) -> str:
    """What has no support, as a person or a model is told."""
    return ", ".join(f"“{one}”" for one in unsupported)


async def _gaps(
    answer: str,
    history: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
    due: Sequence[tuple[AnswerCheck, str]],
) -> tuple[list[str], str | None]:
    """What has no support, by any of the checks, and why one could not say."""
    said = users_words(history)
    evidence = evidence_in(history, tools)
    unsupported: list[str] = []
    problem = None
    for check, tool in due:
        try:
            found = await ask(check, answer, said, evidence)
            if isinstance(found, str) or not isinstance(found, Sequence):
                raise TypeError(f"it gave a {type(found).__name__}, which says nothing")
            unsupported += [shorten(one_line(str(one)), LONGEST_NAMED) for one in found]
        except Exception as error:
            problem = f"the check of {tool} failed: {one_line(in_short(error))}"
    return list(dict.fromkeys(unsupported))[:MOST_NAMED], problem


def _may_go_back(history: Sequence[BaseMessage], max_steps: int) -> bool:
    """Whether the turn has a refusal left, and a step in which it could be answered."""
    turn = next(_turns(history), ())
    refusals = sum(REFUSED in message.additional_kwargs for message in turn)
    return refusals < MOST_REFUSALS and steps_taken(history) + 1 < max_steps


def _mark(unsupported: Sequence[str], problem: str | None) -> str:
    """What is put below the answer, in the words of the harness."""
    marks = []
    if unsupported:
        marks.append(prompts.message("answer_marked", unsupported=in_quotes(unsupported)))
    if problem:
        marks.append(prompts.message("answer_unchecked", problem=problem))
    return "\n\n".join(marks)


def _with(reply: AIMessage, key: str, value: Any, below: str = "") -> AIMessage:
    content = reply.content
    if below and isinstance(content, str):
        content = f"{content}\n\n{below}"
    elif below:
        content = [*content, {"type": "text", "text": f"\n\n{below}"}]
    kept = {**reply.additional_kwargs, key: value}
    return reply.model_copy(update={"content": content, "additional_kwargs": kept})


_FORGED = re.compile(r"\[(?=\s*added by sayso)", re.IGNORECASE)


def _without_marks(reply: AIMessage) -> AIMessage:
    """A model's text cannot pass for a mark of ours."""
    if not isinstance(reply.content, str) or not _FORGED.search(reply.content):
        return reply
    return reply.model_copy(update={"content": _FORGED.sub("(", reply.content)})
