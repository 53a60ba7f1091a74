"""What a policy file says, as values: rules, defaults, recipients, cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from agent.policy.conditions import Condition
from agent.policy.document import Place
from agent.policy.globs import any_matches
from agent.policy.index import RuleIndex
from agent.policy.language import Reference
from agent.types import Behavior
from tools.contract import Effects

Layer = Literal["organisation", "project"]
LAYERS: tuple[Layer, ...] = ("organisation", "project")
"""From the top: a lower one tightens what a higher one says, and never loosens it."""

STRICTNESS: Mapping[Behavior, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True)
class Rule:
    """One rule of a file.

    Args:
        tools: Patterns of tool names; it is about a tool that one of them stands for.
        effects: Patterns of effects; none: it is about calls of any effects.
        when: What must be true of the call too.
        message: For the model, of a call that is denied.
        reason: For the person.
        expires: How long an approval that it asks for may be answered.
        remember: Whether "always" may answer it for the rest of a session.
    """

    name: str
    verdict: Behavior
    place: Place
    tools: tuple[str, ...] = ("*",)
    effects: tuple[str, ...] = ()
    when: Condition | None = None
    message: str = ""
    reason: str = ""
    expires: timedelta | None = None
    remember: bool = True

    def is_about(self, effects: Effects) -> bool:
        """Whether it is about a call with these effects.

        One that allows has to name every one of them, but for reads beside a write: a call that
        also spends is not allowed by a rule about writing. One that asks or denies needs one.
        """
        if not self.effects:
            return True
        if self.verdict != "allow":
            return any(any_matches(effect, self.effects) for effect in effects)
        changing = {e for e in effects if not e.startswith(("read:", "network:"))}
        wanted = changing or effects
        return bool(wanted) and all(any_matches(effect, self.effects) for effect in wanted)


@dataclass(frozen=True)
class Recipients:
    """To whom a call with a ``disclose:*`` effect may send without being stopped.

    Args:
        allow: Addresses, ``*@example.com``, or other names such as ``#general``.
        arguments: Names of the arguments that hold recipients.
        otherwise: What happens to a call with another recipient, or with none that is found.
    """

    allow: tuple[str, ...]
    place: Place
    arguments: tuple[str, ...] = ("to", "cc", "bcc", "recipient", "recipients")
    otherwise: Behavior = "ask"
    remember: bool = False


@dataclass(frozen=True)
class Case:
    """A test of the file, written in it."""

    tool: str
    args: Mapping[str, Any]
    expect: Behavior
    place: Place
    name: str = ""
    rule: str | None = None
    effects: Effects | None = None
    labels: tuple[str, ...] = ()
    user: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, str] = field(default_factory=dict)
    always: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)
    grants: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PolicyFile:
    """One file, checked.

    Args:
        file: Its name, as it is shown.
        digest: SHA-256 (hex) of its text.
        reads, writes: What holds where no rule of this file matches; ``None``: it says nothing.
        grants: The effects that a call may have at all; ``None``: it says nothing.
        denied: Those that no call may have.
        elsewhere: Patterns of tools that are not loaded here, so that a rule may name them.
        warnings: What is odd about it, one sentence with its place each.
    """

    file: str
    digest: str
    rules: tuple[Rule, ...] = ()
    reads: Behavior | None = None
    writes: Behavior | None = None
    grants: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    recipients: Recipients | None = None
    cases: tuple[Case, ...] = ()
    elsewhere: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def mentioned(self) -> tuple[Reference, ...]:
        """Every field that its conditions name."""
        found = (r for rule in self.rules if rule.when for r in rule.when.references)
        return tuple(dict.fromkeys(found))

    @cached_property
    def index(self) -> RuleIndex[Rule]:
        """Its rules by the tools they name."""
        return RuleIndex((rule.tools, rule) for rule in self.rules)
