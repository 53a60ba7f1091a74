"""What a call of a tool would get, as far as that can be said before its arguments are known.

Where the arguments matter, both is followed: that a rule matches and that it does not. What comes
out is every verdict that a call can get, and what it hinges on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.policy.decide import Finding, Outcome, Policy, Proposed, combine, default_of, finding_of
from agent.policy.facts import facts_of
from agent.policy.globs import is_literal, is_part_of, overlap
from agent.policy.lookup import Facts, NotChecked
from agent.policy.model import STRICTNESS, Layer, PolicyFile, Rule
from agent.policy.recipients import discloses
from agent.policy.scopes import is_about
from agent.types import Authority, Behavior
from tools.contract import Effects

_READING: Effects = frozenset({"read:*"})
_CHANGING: Effects = frozenset({"write:*"})
_KNOWN = frozenset({"tool", "user", "labels"})
"""Fields of conditions that do not depend on a call's arguments."""

Answer = bool | None
"""``None``: some calls so, others not."""


@dataclass(frozen=True)
class Prospect:
    """The verdicts that calls of a tool can get.

    Args:
        verdicts: The least restrictive first; one alone: every call gets it.
        rule, reason: What decides, where there is one verdict; else empty.
        hinges_on: What decides between several, by name.
    """

    verdicts: tuple[Behavior, ...]
    rule: str = ""
    reason: str = ""
    hinges_on: tuple[str, ...] = ()

    @property
    def verdict(self) -> Behavior | None:
        """The one verdict; ``None``: it depends on the arguments."""
        return self.verdicts[0] if len(self.verdicts) == 1 else None


@dataclass(frozen=True)
class _Open:
    """Findings that a call may have or not, alike in what they lead to; and their names."""

    finding: Finding
    names: frozenset[str]


def prospect(policy: Policy, call: Proposed, reach: Effects | None) -> Prospect:
    """The prospect of a tool.

    Args:
        call: Any call of it; its arguments and effects are not looked at.
        reach: The effects of every call, or families of them (``Contract.reach``); ``None``:
            nothing is known of them.
    """
    known = reach if reach is not None else frozenset({"*"})
    bounds = [*_bounds(policy, call)]
    for name, authority, reason in bounds:
        if beyond := sorted(e for e in known if _granted(e, authority) is False):
            return Prospect(("deny",), name, reason.format(", ".join(beyond)))
    kinds = (known,) if reach is not None else (_READING, _CHANGING)
    found = [_by_rules(policy, replace(call, args={}, effects=kind), reach) for kind in kinds]
    open_ = sorted(name for name, bound, _ in bounds if None in {_granted(e, bound) for e in known})
    if open_:
        found.append(Prospect(("deny",), hinges_on=tuple(open_)))
    return _together(found)


def _together(found: Sequence[Prospect]) -> Prospect:
    verdicts = _ordered(v for one in found for v in one.verdicts)
    if len(verdicts) == 1:
        return found[0]
    hinges = {name for one in found for name in one.hinges_on}
    if len({one.verdicts for one in found if not one.hinges_on}) > 1:
        hinges.add("effects")
    return Prospect(verdicts, hinges_on=tuple(sorted(hinges)))


def _ordered(verdicts: Iterable[Behavior]) -> tuple[Behavior, ...]:
    return tuple(sorted(set(verdicts), key=STRICTNESS.__getitem__))


# --- authority -------------------------------------------------------------------------------


def _bounds(policy: Policy, call: Proposed) -> Iterator[tuple[str, Authority, str]]:
    """What no rule can widen: by name, and why in words with a place for the effects."""
    said = call.tool + " would need {}, which this session was not granted."
    yield "authority", call.authority, said
    for layer, file in policy.layers:
        granted = file.grants if file.grants is not None else ("*",)
        said = f"{call.tool} would need {{}}, which the policy of the {layer} does not grant."
        yield f"{layer}/grants", Authority(granted, file.denied), said


def _granted(effect: str, authority: Authority) -> Answer:
    granted = _any(_stands_for(pattern, effect) for pattern in authority.granted)
    denied = _any(_stands_for(pattern, effect) for pattern in authority.denied)
    return _all((granted, None if denied is None else not denied))


def _stands_for(pattern: str, family: str) -> Answer:
    """Whether a pattern stands for the effects of a family: all, some or none of them."""
    if is_part_of(family, pattern):
        return True
    return None if overlap(family, pattern) else False


def _any(answers: Iterable[Answer]) -> Answer:
    found = set(answers)
    return True if True in found else None if None in found else False


def _all(answers: Iterable[Answer]) -> Answer:
    found = set(answers)
    return False if False in found else None if None in found else True


# --- rules -----------------------------------------------------------------------------------


def _by_rules(policy: Policy, call: Proposed, reach: Effects | None) -> Prospect:
    """The verdicts under every choice of the findings that a call may have or not."""
    sure, maybe = _findings(policy, call, reach)
    always = _always(call)
    outcomes = [combine([*sure, *_chosen(maybe, n)], call) for n in range(1 << len(maybe))]
    verdicts = [_answered(outcome, always) for outcome in outcomes]
    reached = _ordered(verdict for found in verdicts for verdict in found)
    plain = outcomes[0]
    if len(reached) == 1:
        if always is not None and reached != (plain.behavior,):
            return Prospect(reached, always.id, always.reason)
        return Prospect(reached, plain.rule, plain.reason)
    hinges = {
        name
        for bit, one in enumerate(maybe)
        if any(verdicts[n] != verdicts[n | 1 << bit] for n in range(len(verdicts)))
        for name in one.names
    }
    if always is not None and any(len(found) > 1 for found in verdicts):
        hinges.add(always.id)
    return Prospect(reached, hinges_on=tuple(sorted(hinges)))


def _chosen(maybe: Sequence[_Open], number: int) -> Iterator[Finding]:
    return (one.finding for bit, one in enumerate(maybe) if number >> bit & 1)


class _Always(NamedTuple):
    """The session's rule about the tool that covers most; ``whole``: every call."""

    id: str
    reason: str
    whole: bool


def _always(call: Proposed) -> _Always | None:
    rules = [rule for rule in call.rules if is_about(rule, call.tool, call.version)]
    if not rules:
        return None
    widest = min(rules, key=lambda rule: len(rule.scope_args))
    reason = f"{widest.created_by} allowed for this session: {widest.scope}."
    return _Always(widest.id, reason, whole=not widest.scope_args)


def _answered(outcome: Outcome, always: _Always | None) -> frozenset[Behavior]:
    if always is None or outcome.behavior != "ask" or not outcome.remember:
        return frozenset({outcome.behavior})
    return frozenset({"allow"}) if always.whole else frozenset({"ask", "allow"})


def _findings(
    policy: Policy, call: Proposed, reach: Effects | None
) -> tuple[list[Finding], list[_Open]]:
    """Those that every call has, and those that a call may have."""
    sure: list[Finding] = []
    maybe: dict[object, _Open] = {}
    facts = facts_of(
        tool=call.tool,
        args={},
        effects=call.effects,
        labels=call.labels,
        user=call.user,
        spent=call.spent,
        mentioned=policy.mentioned,
    )
    known = _known(call, reach)
    for layer, file in policy.layers:
        for rule in file.index.about(call.tool):
            about = _is_about(rule, reach)
            holds = _holds(rule, facts, known) if about is not False else False
            if about is False or holds is False:
                continue
            if about is True and holds is not None:
                sure.append(finding_of(layer, file, rule, holds))
                continue
            _add(maybe, layer, finding_of(layer, file, rule, True))
            if holds is None and rule.verdict != "deny":  # it may also be that it fails
                _add(maybe, None, finding_of(layer, file, rule, "it depends"))
        sure += default_of(layer, file, call.effects)
        _recipients(maybe, layer, file, call, reach)
    return sure, list(maybe.values())


def _known(call: Proposed, reach: Effects | None) -> frozenset[str]:
    """The fields of conditions that are the same for every call."""
    known = _KNOWN if call.spent is None else _KNOWN | {"session"}
    if reach is None:
        return known
    if not any(effect.startswith("spend:") for effect in reach):
        known |= {"amount", "currency", "total"}  # of such a call they are null
    return known | {"effects"} if all(map(is_literal, reach)) else known


def _add(maybe: dict[object, _Open], layer: Layer | None, finding: Finding) -> None:
    key = (layer, finding.state, finding.verdict, finding.remember)
    names = maybe[key].names if key in maybe else frozenset()
    maybe[key] = _Open(finding, names | {finding.name})


def _is_about(rule: Rule, reach: Effects | None) -> Answer:
    """As ``Rule.is_about``, of families of effects."""
    if not rule.effects:
        return True
    if reach is None:
        return None
    if rule.verdict != "allow":
        return _any(_stands_for(pattern, e) for e in reach for pattern in rule.effects)
    wanted = {e for e in reach if not e.startswith(("read:", "network:"))} or reach
    return bool(wanted) and _all(
        _any(_stands_for(pattern, effect) for pattern in rule.effects) for effect in wanted
    )


def _holds(rule: Rule, facts: Facts, known: Collection[str]) -> bool | str | None:
    """Whether a condition holds, or why it cannot be checked, of every call alike."""
    if rule.when is None:
        return True
    if not {found.root for found in rule.when.references} <= set(known):
        return None
    try:
        return rule.when.holds(facts)
    except NotChecked as error:
        return str(error)


def _recipients(
    maybe: dict[object, _Open],
    layer: Layer,
    file: PolicyFile,
    call: Proposed,
    reach: Effects | None,
) -> None:
    if file.recipients is None or (reach is not None and not discloses(reach)):
        return
    name = f"{layer}/recipients"
    verdict, remember = file.recipients.otherwise, file.recipients.remember
    _add(maybe, layer, Finding(name, layer, "restricts", verdict, remember=remember))
