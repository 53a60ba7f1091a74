"""What one reply is worth: right, or the first kind of failure that it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from agent.evals.calls.cases import Case
from agent.evals.calls.matching import Problem, assigned, problems
from agent.evals.calls.parsing import Called, FormatError, calls_in

Failure = Literal[
    "format error",
    "should abstain",
    "should ask",
    "missed call",
    "hallucinated function",
    "wrong count",
    "wrong function",
    "wrong arguments",
]
"""In the order in which they are looked for; the first that applies counts.

``format error``: it was to be calls and cannot be read. ``should abstain``: something is called
though nothing offered fits. ``should ask``: a value is missing, and the reply calls something, or
asks nothing. ``missed call``: nothing is called. ``hallucinated function``: one is called that was
not offered. ``wrong count``: too many calls, or too few. ``wrong function``: one that was offered,
and not the right one. ``wrong arguments``: the right functions, and not with what was asked.
"""
FAILURES: tuple[Failure, ...] = get_args(Failure)


@dataclass(frozen=True)
class Reply:
    """What a model said: calls through an interface of its own, or text that may hold them.

    Args:
        broken: Why the calls of the interface cannot be read; ``None``: they can.
    """

    text: str = ""
    calls: tuple[Called, ...] | None = None
    broken: str | None = None


@dataclass(frozen=True)
class Score:
    """The verdict on one reply; ``failure`` is ``None`` when it is right.

    Args:
        problems: What is wrong, in words, with the path of each argument.
    """

    case: str
    category: str
    failure: Failure | None = None
    problems: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the reply is right."""
        return self.failure is None


def score(case: Case, reply: Reply, *, strict: bool = False) -> Score:
    """Hold a reply against a case.

    Args:
        strict: Compare texts letter by letter.
    """
    failure, what = _judge(case, reply, strict)
    return Score(case.id, case.category, failure, tuple(map(str, what)))


Found = tuple[Failure | None, Sequence[Problem | str]]
_RIGHT: Found = (None, ())


def _judge(case: Case, reply: Reply, strict: bool) -> Found:
    try:
        calls = _calls(case, reply)
    except FormatError as error:
        return "format error", (str(error),)
    if not case.calls:
        return _without_calls(case, reply, calls)
    if not calls:
        return "missed call", (f"nothing was called; {case.gold_text} was right",)
    invented = [call.name for call in calls if call.name not in case.offered]
    if invented:
        return "hallucinated function", (f"{', '.join(invented)} was not offered",)
    wrong = [[_problems(case, call, j, strict) for j in range(len(case.calls))] for call in calls]
    got = assigned([[fit is not None and not fit for fit in row] for row in wrong])
    if len(calls) == len(case.calls) and None not in got:
        return _RIGHT
    if len(calls) != len(case.calls):
        return "wrong count", (f"{len(calls)} calls, not {len(case.calls)}",)
    wanted, named = Counter(c.name for c in case.calls), Counter(c.name for c in calls)
    if wanted != named:
        extra, missing = ", ".join(named - wanted), ", ".join(wanted - named)
        return "wrong function", (f"{extra} was called, not {missing}",)
    return "wrong arguments", _nearest(wrong, got)


def _calls(case: Case, reply: Reply) -> Sequence[Called]:
    if reply.broken is not None:
        raise FormatError(reply.broken)
    return calls_in(reply.text, case.offered) if reply.calls is None else reply.calls


def _without_calls(case: Case, reply: Reply, calls: Sequence[Called]) -> Found:
    names = ", ".join(call.name for call in calls)
    if case.asks is None:
        return ("should abstain", (f"{names} was called, and nothing fits",)) if calls else _RIGHT
    if calls:
        return "should ask", (f"{names} was called, and {case.asks} was never said",)
    if "?" not in reply.text:
        return "should ask", (f"nothing was asked; {case.asks} is missing",)
    return _RIGHT


def _problems(case: Case, call: Called, wanted: int, strict: bool) -> list[Problem] | None:
    """What is wrong with the arguments; ``None``: another function was wanted there."""
    one = case.calls[wanted]
    if call.name != one.name:
        return None
    return problems(call, one, case.offered[call.name], strict=strict)


def _nearest(
    wrong: Sequence[Sequence[list[Problem] | None]], got: Sequence[int | None]
) -> list[Problem]:
    """What is wrong with each call that is not right, held against the nearest wanted one."""
    left = set(range(len(got))) - set(got)
    found: list[Problem] = []
    for call, its in enumerate(got):
        if its is None:
            fits = [what for j in sorted(left) if (what := wrong[call][j]) is not None]
            found += sorted(fits, key=len)[0] if fits else []
    return found
