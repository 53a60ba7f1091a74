"""From a call to a verdict, under the files of an organisation and a project and a session's rules.

The most restrictive rule that matches wins, so their order never matters::

    authority, grants         outside of them: deny, whoever would approve
    each file's rules         the most restrictive one that matches; none: the file's default
    both files together       the more restrictive of what they say
    where no file says a thing   reads are allowed, writes are asked
    recipients, broken rules  can only restrict what came out
    the session's "always"    turns ask into allow, where every rule that asks lets it

A file that says nothing of a call, by a rule or by a written default, leaves it to the next one: so
a project may allow a write that the organisation did not mention, and never one of which the
organisation's file says ask or deny.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from agent.policy.facts import Spent, facts_of
from agent.policy.grants import outside
from agent.policy.language import Reference
from agent.policy.lookup import Facts, NotChecked
from agent.policy.model import LAYERS, STRICTNESS, Layer, PolicyFile, Rule
from agent.policy.recipients import discloses, strangers
from agent.policy.scopes import covers, is_about
from agent.safe_text import shorten
from agent.store.records import EffectRecord, RuleRecord
from agent.types import Authority, Behavior
from tools.contract import Effects, is_read

_LONGEST = 200
"""Characters of a recipient that are shown."""


@dataclass(frozen=True)
class Proposed:
    """A call as the policy sees it; its arguments are normalised.

    Args:
        effects: What this call may do, asked of its contract once.
        authority: What the session was granted.
        version: Of the tool, for the session's rules.
        rules: The session's "always" rules that are in force.
        earlier: The same call, committed in a session this one was forked from.
        labels: What the session has read: ``untrusted``, ``private``.
        user: Whose session it is: a claim.
        spent: What the session has done so far; ``None``: not known, so that rules which name it
            count as not checkable.
        provenance: Origin by path of argument value (``agent.provenance.trace``); ``None``: not
            known, likewise.
    """

    tool: str
    args: Mapping[str, Any]
    effects: Effects
    authority: Authority = field(default_factory=Authority)
    version: str = "0"
    rules: Sequence[RuleRecord] = ()
    earlier: EffectRecord | None = None
    labels: Collection[str] = ()
    user: str = ""
    spent: Spent | None = None
    provenance: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Finding:
    """What one rule says of one call.

    Args:
        name: Of the rule, with its layer: ``project/big-refunds``; plain where it is built in.
        state: ``matches``; ``differs``, its condition is false; ``failed``, it could not be
            checked, so it counts as the more restrictive of its verdict and ``ask``;
            ``default``, what holds where none matches.
        verdict: What it says where it counts.
        why: Of one that failed: why.
    """

    name: str
    layer: Layer | None
    state: Literal["matches", "differs", "failed", "default", "restricts"]
    verdict: Behavior
    reason: str = ""
    message: str = ""
    remember: bool = True
    expires: timedelta | None = None
    rule: Rule | None = field(default=None, repr=False)
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """A verdict, and how it came about.

    Args:
        rule: The rule that decided, or the first by name of several.
        reason: For the person, and for the trail.
        message: For the model, where the call is denied.
        remember: Whether "always" may be offered as an answer.
        expires: How long an approval may be answered, where a rule says so.
        findings: Every rule that is about the call, whether or not it matches.
    """

    behavior: Behavior
    rule: str
    reason: str
    message: str = ""
    remember: bool = True
    expires: timedelta | None = None
    findings: tuple[Finding, ...] = ()
    facts: Facts | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Policy:
    """The files that hold; none of them need be there."""

    organisation: PolicyFile | None = None
    project: PolicyFile | None = None

    @property
    def layers(self) -> tuple[tuple[Layer, PolicyFile], ...]:
        """The files that are there, the organisation's first."""
        found = {"organisation": self.organisation, "project": self.project}
        return tuple((layer, file) for layer in LAYERS if (file := found[layer]) is not None)

    @property
    def digest(self) -> str:
        """Names what is in force, for the record of a session; empty without a file."""
        return " ".join(f"{layer}:{file.digest}" for layer, file in self.layers)

    @cached_property
    def mentioned(self) -> tuple[Reference, ...]:
        """Every field that a condition names."""
        return tuple(dict.fromkeys(r for _, file in self.layers for r in file.mentioned))

    def looks_at(self, tool: str) -> frozenset[str]:
        """The fields that rules about a tool name, so that only these need be found out.

        ``total`` needs ``spent``, as ``session`` does.
        """
        rules = (rule for _, file in self.layers for rule in file.index.about(tool) if rule.when)
        return frozenset(r.root for rule in rules if rule.when for r in rule.when.references)


def decide(policy: Policy, call: Proposed) -> Outcome:
    """The verdict on a call, with the rules behind it."""
    if beyond := _beyond(policy, call):
        return beyond
    facts = facts_of(
        tool=call.tool,
        args=call.args,
        effects=call.effects,
        labels=call.labels,
        user=call.user,
        spent=call.spent,
        provenance=call.provenance,
        mentioned=policy.mentioned,
    )
    findings = tuple(_findings(policy, call, facts))
    outcome = replace(combine(findings, call), facts=facts)
    if outcome.behavior == "ask" and outcome.remember:
        for rule in call.rules:
            if is_about(rule, call.tool, call.version) and covers(rule.scope_args, call.args):
                reason = f"{rule.created_by} allowed for this session: {rule.scope}."
                return replace(outcome, behavior="allow", rule=rule.id, reason=reason, message="")
    return outcome


def combine(findings: Sequence[Finding], call: Proposed) -> Outcome:
    """One verdict of what the rules say; the order of the findings does not matter."""
    said = [says for layer in LAYERS if (says := _of_layer(findings, layer)) is not None]
    base: Behavior = max(said, key=STRICTNESS.__getitem__) if said else _built_in(call.effects)
    limits = [f.verdict for f in findings if f.state in ("failed", "restricts")]
    verdict: Behavior = max([base, *limits], key=STRICTNESS.__getitem__)
    deciding = [f for f in _counting(findings) if f.verdict == verdict]
    if not deciding:
        deciding = [_by_default(call.effects)]
    first = deciding[0]
    expiries = [f.expires for f in deciding if f.expires is not None]
    return Outcome(
        behavior=verdict,
        rule=first.name,
        reason=" ".join(dict.fromkeys(f.reason for f in deciding if f.reason)),
        message=" ".join(dict.fromkeys(f.message for f in deciding if f.message)),
        remember=all(f.remember for f in deciding),
        expires=min(expiries, default=None),
        findings=tuple(findings),
    )


def _of_layer(findings: Sequence[Finding], layer: Layer) -> Behavior | None:
    """What one file says: its rules that match, else its default, else nothing."""
    mine = [f for f in findings if f.layer == layer]
    for state in ("matches", "default"):
        if verdicts := [f.verdict for f in mine if f.state == state]:
            return max(verdicts, key=STRICTNESS.__getitem__)
    return None


def _counting(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that count, by layer and name: rules hide the default of their file."""
    matching = {f.layer for f in findings if f.state == "matches"}
    counting = [
        f
        for f in findings
        if f.state != "differs" and not (f.state == "default" and f.layer in matching)
    ]
    return sorted(counting, key=lambda f: (f.layer is None, f.layer or "", f.name))


def _built_in(effects: Effects) -> Behavior:
    return "allow" if is_read(effects) else "ask"


def _by_default(effects: Effects) -> Finding:
    if is_read(effects):
        return Finding("reads", None, "default", "allow", "It only reads.")
    reason = f"It would change something ({', '.join(sorted(effects))})."
    return Finding("writes", None, "default", "ask", reason)


# --- before the rules ------------------------------------------------------------------------


def _beyond(policy: Policy, call: Proposed) -> Outcome | None:
    """What no rule and no reviewer can allow."""
    if beyond := sorted(outside(call.effects, call.authority)):
        reason = f"{call.tool} would need {', '.join(beyond)}, which this session was not granted."
        return Outcome("deny", "authority", reason, remember=False)
    for layer, file in policy.layers:
        granted = file.grants if file.grants is not None else ("*",)
        if beyond := sorted(outside(call.effects, Authority(granted, file.denied))):
            reason = (
                f"{call.tool} would need {', '.join(beyond)}, which the policy of the {layer} "
                f"({file.file}) does not grant to anybody."
            )
            return Outcome("deny", f"{layer}/grants", reason, remember=False)
    return None


# --- what each rule says ---------------------------------------------------------------------


def _findings(policy: Policy, call: Proposed, facts: Facts) -> Iterator[Finding]:
    if call.earlier is not None and not is_read(call.effects):
        reason = (
            f"The same call was already committed in {call.earlier.session} as {call.earlier.id} "
            f"({call.earlier.ended_at})."
        )
        yield Finding("repeats", None, "restricts", "ask", reason, remember=False)
    known: dict[str, bool | str] = {}
    for layer, file in policy.layers:
        for rule in file.index.about(call.tool):
            if rule.is_about(call.effects):
                yield finding_of(layer, file, rule, _holds(rule, facts, known))
        yield from default_of(layer, file, call.effects)
        yield from _recipients(layer, file, call)


def _holds(rule: Rule, facts: Facts, known: dict[str, bool | str]) -> bool | str:
    """Whether a rule's condition holds, or why that cannot be said; asked once of each text."""
    if rule.when is None:
        return True
    source = rule.when.source
    if source not in known:
        try:
            known[source] = rule.when.holds(facts)
        except NotChecked as error:
            known[source] = str(error)
    return known[source]


def finding_of(layer: Layer, file: PolicyFile, rule: Rule, holds: bool | str) -> Finding:
    name = f"{layer}/{rule.name}"
    stated = rule.reason or _stated(rule, file)
    found = Finding(
        name=name,
        layer=layer,
        state="matches" if holds is True else "differs",
        verdict=rule.verdict,
        reason=stated,
        message=rule.message,
        remember=rule.remember,
        expires=rule.expires,
        rule=rule,
    )
    if isinstance(holds, bool):
        return found
    verdict: Behavior = "deny" if rule.verdict == "deny" else "ask"
    reason = f"Rule {rule.name!r} ({_where(rule, file)}) could not be checked: {holds}."
    return replace(found, state="failed", verdict=verdict, reason=reason, remember=False, why=holds)


def _stated(rule: Rule, file: PolicyFile) -> str:
    says = {"allow": "allows this", "ask": "asks about this", "deny": "denies this"}[rule.verdict]
    condition = f": {' '.join(rule.when.source.split())}" if rule.when else ""
    return f"Rule {rule.name!r} ({_where(rule, file)}) {says}{condition}."


def _where(rule: Rule, file: PolicyFile) -> str:
    return f"{file.file}:{rule.place.line}"


def default_of(layer: Layer, file: PolicyFile, effects: Effects) -> Iterator[Finding]:
    what, verdict = ("reads", file.reads) if is_read(effects) else ("writes", file.writes)
    if verdict is not None:
        says = {"allow": "allows", "ask": "asks about", "deny": "denies"}[verdict]
        reason = f"{file.file} {says} {what} that no rule of it is about"
        reason += f" ({', '.join(sorted(effects))})."
        yield Finding(f"{layer}/default", layer, "default", verdict, reason)


def _recipients(layer: Layer, file: PolicyFile, call: Proposed) -> Iterator[Finding]:
    if file.recipients is None or not discloses(call.effects):
        return
    if unknown := strangers(file.recipients, call.args):
        shown = ", ".join(shorten(one, _LONGEST) for one in unknown[:5])
        reason = f"Not among the recipients of {file.file}: {shown}."
        yield Finding(
            f"{layer}/recipients", layer, "restricts", file.recipients.otherwise, reason,
            remember=file.recipients.remember,
        )  # fmt: skip
