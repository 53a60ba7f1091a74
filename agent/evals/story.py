"""A trajectory told as a story, with the place where it went another way marked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from agent.receipt import describe_call
from agent.safe_text import one_line, shorten

if TYPE_CHECKING:
    from agent.evals.recorded import Call, Recorded

WIDTH = 160
"""Characters of a call, an answer or a reason that are told."""

_MARK = "→ "


def story(
    recorded: Recorded, marked: Collection[tuple[str, str]] = (), missing: str | None = None
) -> str:
    """What happened, turn by turn, one line a call.

    Args:
        marked: The calls that deviate, by (id of the AI message, call id).
        missing: What was expected and did not come, told at the end with the mark.
    """
    lines = [line for turn in recorded.turns for line in _turn(recorded, turn.number, marked)]
    if missing is not None:
        lines.append(f"{_MARK}    missing: {missing}")
    return "\n".join([*lines, *_end(recorded)])


def _turn(recorded: Recorded, number: int, marked: Collection[tuple[str, str]]) -> Iterator[str]:
    turn = next(t for t in recorded.turns if t.number == number)
    yield f"  user: {_short(turn.said)}"
    for step in turn.steps:
        for call in step.calls:
            mark = _MARK if (call.message, call.id) in marked else "  "
            yield f"{mark}{step.number:>3}  {describe_call(call.tool, call.args, WIDTH)}"
            yield f"       {became(call)}"
        if step.text and not step.calls:
            yield f"  agent: {_short(step.text)}"


def became(call: Call) -> str:
    """What became of a call, with who decided and by which rule."""
    parts: list[str] = [call.became]
    for approval in call.approvals:
        if approval.decided_by:
            parts.append(f"{approval.status} by {one_line(approval.decided_by)}")
    if call.decided_args != call.args:
        parts.append(f"as {describe_call(call.tool, call.decided_args, WIDTH)}")
    if call.effect is not None:
        parts.append(call.effect.id)
    if call.rule:
        parts.append(f"rule {one_line(call.rule)}")
    if call.became in ("denied", "refused") and call.reason:
        parts.append(_short(call.reason))
    elif call.became in ("failed", "in doubt") and call.result:
        parts.append(_short(call.result))
    return ", ".join(parts)


def _end(recorded: Recorded) -> Iterator[str]:
    figures = recorded.figures
    counts = (
        f"{figures.steps} steps",
        f"{figures.calls} calls",
        f"{figures.writes} writes",
        f"{figures.asked} asked",
    )
    yield f"  {recorded.session} is {recorded.state}: {', '.join(counts)}"
    if recorded.error:
        yield f"  error: {_short(recorded.error)}"
    for problem in recorded.broken:
        yield f"  the trail does not hold: {_short(problem)}"


def _short(text: str) -> str:
    return one_line(shorten(" ".join(text.split()), WIDTH))
