"""Assertions on trajectories that read like sentences.

::

    turn.called("get_order", "cancel_order")                 # in this order, others between
    turn.called(a_call("cancel_order", order_id="A1"))       # with these arguments
    turn.never_called("refund_order")
    turn.asked("cancel_order").decided("cancel_order", "approved", by="ana")
    turn.ran("cancel_order", times=1).ended("done").said("cancelled")

Each returns what it was asked of, so that they can be chained; one that does not hold raises
``Deviation``, whose message is the trajectory as a story with the first deviation marked. How much
it took is no assertion: see ``Recorded.figures``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

from agent.canonical import canonical_json
from agent.checks.arguments import ArgumentsError, normalise
from agent.evals.recorded import Became, Call, Recorded
from agent.evals.story import story
from agent.receipt import describe_call
from agent.safe_text import one_line
from agent.types import ApprovalStatus, EffectState, SessionState

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


__tracebackhide__ = True  # pytest then shows the test's own line, and the story


class Deviation(AssertionError):
    """A trajectory went another way than a test says."""


@dataclass(frozen=True)
class Wanted:
    """A call that is looked for: any of this tool, whose arguments are these among others.

    A value may be a function of the argument, such as ``lambda amount: Decimal(amount) < 10``.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = {
            name: f"<{getattr(value, '__name__', 'a condition')}>" if callable(value) else value
            for name, value in self.args.items()
        }
        return describe_call(self.tool, shown) if self.args else one_line(self.tool)


def a_call(tool: str, /, **args: Any) -> Wanted:
    """A call of this tool with these arguments, compared as the tool understands them."""
    return Wanted(tool, args)


Which = str | Wanted


@dataclass(frozen=True)
class Expected:
    """A trajectory that can be asked.

    Args:
        tools: By name: arguments are compared by their schemas.
    """

    recorded: Recorded = field(repr=False)
    tools: Mapping[str, BaseTool] = field(default_factory=dict, repr=False)

    # --- which calls were made ---------------------------------------------------------------

    def called(self, *which: Which) -> Self:
        """These calls, in this order; others may have come before, between and after."""
        rest, after = self.recorded.calls, ""
        for one in map(_wanted, which):
            found = next((n for n, call in enumerate(rest) if self._is(call, one)), None)
            if found is None:
                near = [call for call in rest if call.tool == one.tool]
                self._fail(f"{one} was to be called{after}", near, missing=one)
            rest, after = rest[found + 1 :], f" after {one}"
        return self

    def called_exactly(self, *which: Which) -> Self:
        """These calls and no others, in this order."""
        wanted, calls = [_wanted(w) for w in which], self.recorded.calls
        for number, one in enumerate(wanted):
            if number >= len(calls):
                self._fail(f"{_list(wanted)} was to be called", missing=one)
            if not self._is(calls[number], one):
                self._fail(f"call {number + 1} was to be {one}", [calls[number]])
        if len(calls) > len(wanted):
            self._fail(f"only {_list(wanted)} was to be called", [calls[len(wanted)]])
        return self

    def called_in_any_order(self, *which: Which) -> Self:
        """These calls and no others, in whichever order."""
        wanted, calls = [_wanted(w) for w in which], list(self.recorded.calls)
        pairs = _assigned(
            [[n for n, call in enumerate(calls) if self._is(call, one)] for one in wanted]
        )
        for number, one in enumerate(wanted):
            if number not in pairs:
                near = [call for call in calls if call.tool == one.tool]
                self._fail(f"{_list(wanted)} was to be called", near, missing=one)
        more = [call for n, call in enumerate(calls) if n not in pairs.values()]
        if more:
            self._fail(f"only {_list(wanted)} was to be called", more[:1])
        return self

    def called_only(self, *which: Which) -> Self:
        """No calls but these, each as often as it likes, or not at all."""
        wanted = [_wanted(w) for w in which]
        others = [c for c in self.recorded.calls if not any(self._is(c, one) for one in wanted)]
        return self._none(others, f"nothing but {_list(wanted)} was to be called")

    def never_called(self, *which: Which) -> Self:
        """None of these calls; with no argument: no call at all."""
        wanted = [_wanted(w) for w in which]
        found = [
            call
            for call in self.recorded.calls
            if not which or any(self._is(call, one) for one in wanted)
        ]
        what = f"{_list(wanted)} was never to be called" if which else "nothing was to be called"
        return self._none(found, what)

    # --- what became of them -----------------------------------------------------------------

    def ran(self, which: Which, times: int | None = None) -> Self:
        """A call that ran: a read that answered, or a write that happened; so often, if given."""
        return self.became(which, "ran", times)

    def never_ran(self, *which: Which) -> Self:
        """None of these calls ran, whatever was proposed."""
        wanted = [_wanted(w) for w in which]
        found = [
            call
            for call in self.recorded.calls
            if call.became in ("ran", "in doubt") and any(self._is(call, one) for one in wanted)
        ]
        return self._none(found, f"{_list(wanted)} was never to run")

    def became(self, which: Which, what: Became, times: int | None = None) -> Self:
        """A call became this, such as ``denied``; see ``agent.evals.recorded``."""
        wanted = _wanted(which)
        proposed = [call for call in self.recorded.calls if self._is(call, wanted)]
        found = [call for call in proposed if call.became == what]
        if not found if times is None else len(found) != times:
            often = "" if times is None else f" {times} times, and was {len(found)} times"
            near = found if times is not None else proposed
            self._about(wanted, f"{wanted} was to be: {what}{often}", near)
        return self

    # --- what was asked and decided ----------------------------------------------------------

    def asked(self, *which: Which) -> Self:
        """A person was asked about each of these calls; with no argument: about anything."""
        wanted = [_wanted(w) for w in which]
        put = [call for call in self.recorded.calls if call.approvals]
        if not which and not put:
            self._fail("somebody was to be asked")
        for one in wanted:
            if not any(self._is(call, one) for call in put):
                near = [call for call in self.recorded.calls if self._is(call, one)]
                self._about(one, f"somebody was to be asked about {one}", near)
        return self

    def asked_nothing(self) -> Self:
        """Nobody was asked about anything."""
        put = [call for call in self.recorded.calls if call.approvals]
        return self._none(put, "nobody was to be asked")

    def decided(
        self,
        which: Which,
        status: ApprovalStatus,
        *,
        by: str | None = None,
        rule: str | None = None,
        comment: str | None = None,
    ) -> Self:
        """A call was decided about like this: by whom, under which rule it was asked, why."""
        wanted = _wanted(which)
        named = {"decided_by": by, "rule": rule, "comment": comment}
        looked_for = {name: value for name, value in named.items() if value is not None}
        near = [call for call in self.recorded.calls if self._is(call, wanted)]
        for call in near:
            for approval in call.approvals:
                same = all(getattr(approval, n) == value for n, value in looked_for.items())
                if approval.status == status and same:
                    return self
        how = "".join(f", {name.replace('_', ' ')} {one_line(v)}" for name, v in looked_for.items())
        self._about(wanted, f"{wanted} was to be {status}{how}", near)
        return self

    # --- how it ended --------------------------------------------------------------------------

    def ended(self, state: SessionState) -> Self:
        """The session's state, such as ``done`` or ``waiting``."""
        if self.recorded.state != state:
            self._fail(f"the session was to be {state}, and is {self.recorded.state}")
        return self

    def said(self, *parts: str) -> Self:
        """The last answer has each of these, whatever the case of its letters."""
        answer = self.recorded.answer.casefold()
        for part in parts:
            if part.casefold() not in answer:
                self._fail(f"the answer was to have “{one_line(part)}”")
        return self

    def never_said(self, *parts: str) -> Self:
        """No reply of the model has any of these."""
        for part in parts:
            for step in self.recorded.steps:
                if part.casefold() in step.text.casefold():
                    self._fail(f"“{one_line(part)}” was never to be said", step.calls)
        return self

    def ledger(self, **states: int) -> Self:
        """So many writes are in each state, such as ``committed=1``; none in those not named."""
        found = Counter(call.effect.state for call in self.recorded.calls if call.effect)
        wanted = {_state(name): number for name, number in states.items() if number}
        if found != Counter(wanted):
            near = [c for c in self.recorded.calls if c.effect and c.effect.state not in wanted]
            told = ", ".join(f"{n} {state}" for state, n in found.items()) or "no writes"
            want = ", ".join(f"{n} {state}" for state, n in wanted.items()) or "no writes"
            self._fail(f"the ledger was to have {want}, and has {told}", near)
        return self

    def trail_holds(self) -> Self:
        """Nothing in the session's trail was changed, and nothing is missing."""
        if self.recorded.broken:
            self._fail("the trail was to hold")
        return self

    # --- comparing -------------------------------------------------------------------------

    def _is(self, call: Call, wanted: Wanted) -> bool:
        return call.tool == wanted.tool and self._has(call, wanted.args)

    def _has(self, call: Call, args: Mapping[str, Any]) -> bool:
        """Whether the arguments, proposed or as they ran, have these values."""
        return any(self._are(given, call.tool, args) for given in (call.args, call.decided_args))

    def _are(self, given: Mapping[str, Any], tool: str, args: Mapping[str, Any]) -> bool:
        values = {name: value for name, value in args.items() if not callable(value)}
        conditions = {name: value for name, value in args.items() if callable(value)}
        if not all(name in given and holds(given[name]) for name, holds in conditions.items()):
            return False
        if not values:
            return True
        return canonical_json(self._understood(tool, {**given, **values})) == canonical_json(
            self._understood(tool, given)
        )

    def _understood(self, tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments as their tool would get them; as they are where it would not."""
        if tool not in self.tools:
            return args
        try:
            return normalise(self.tools[tool], dict(args)).args
        except ArgumentsError:
            return args

    # --- saying so -------------------------------------------------------------------------

    def _none(self, found: Sequence[Call], what: str) -> Self:
        if found:
            self._fail(what, found[:1])
        return self

    def _about(self, wanted: Wanted, what: str, near: Collection[Call]) -> None:
        """Fail with the calls it is about marked; without any, it is missing."""
        self._fail(what, near, None if near else wanted)

    def _fail(
        self, what: str, near: Collection[Call] = (), missing: Wanted | None = None
    ) -> NoReturn:
        marked = {(call.message, call.id) for call in near}
        told = story(self.recorded, marked, str(missing) if missing else None)
        raise Deviation(f"It went another way: {what}.\n\n{told}")


def _wanted(which: Which) -> Wanted:
    return Wanted(which) if isinstance(which, str) else which


def _list(wanted: Sequence[Wanted]) -> str:
    return ", ".join(map(str, wanted))


def _state(name: str) -> EffectState:
    states: dict[str, EffectState] = {
        "intended": "intended",
        "committed": "committed",
        "failed": "failed",
        "in_doubt": "in_doubt",
    }
    if name not in states:
        raise TypeError(f"{name} is no state of the ledger; there are {', '.join(states)}")
    return states[name]


def _assigned(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """One of its choices for as many as possible, none twice: augmenting paths (Kuhn)."""
    taken: dict[int, int] = {}

    def takes(number: int, seen: set[int]) -> bool:
        for choice in choices[number]:
            if choice in seen:
                continue
            seen.add(choice)
            if choice not in taken or takes(taken[choice], seen):
                taken[choice] = number
                return True
        return False

    for number in range(len(choices)):
        takes(number, set())
    return {number: choice for choice, number in taken.items()}
