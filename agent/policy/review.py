"""What is wrong with a whole file: rules that can never match, or that say two things."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from agent.policy import globs
from agent.policy.catalogue import Catalogue, KnownTool
from agent.policy.conditions import Condition
from agent.policy.document import Fault, Place
from agent.policy.language import Reference
from agent.policy.lookup import Facts, Missing, NotChecked
from agent.policy.model import STRICTNESS, PolicyFile, Rule

_MOST_WIDE = 100
"""Patterns of tools that every rule is held against, to find out what is hidden by them."""

_KINDS = ("read", "network", "write", "spend", "disclose")
_SAMPLES: Mapping[str, Any] = {
    "string": "", "number": 1.5, "integer": 1, "boolean": True, "array": [], "object": {},
}  # fmt: skip


def review(file: PolicyFile, catalogue: Catalogue | None) -> tuple[list[Fault], list[Fault]]:
    """Faults, and warnings.

    Args:
        catalogue: The tools there are; without it a tool may be called anything.
    """
    reviewer = _Reviewer(file, catalogue)
    faults = [*reviewer.of_patterns()]
    for rule in file.rules:
        faults += reviewer.of_rule(rule)
    return faults, [*_contradictions(file.rules), *_hidden(file)]


def _contradictions(rules: Sequence[Rule]) -> Iterator[Fault]:
    """Rules about the same calls with different verdicts; the more restrictive one wins."""
    seen: dict[object, Rule] = {}
    for rule in rules:
        source = "".join(rule.when.source.split()) if rule.when else ""
        key = (frozenset(rule.tools), frozenset(rule.effects), source)
        other = seen.setdefault(key, rule)
        if other.verdict != rule.verdict:
            yield Fault(
                rule.place,
                f"{rule.name!r} says {rule.verdict} of the same calls of which {other.name!r} "
                f"(line {other.place.line}) says {other.verdict}; the more restrictive one wins",
            )


def _hidden(file: PolicyFile) -> Iterator[Fault]:
    """Rules that another one always outdoes: order does not matter, so there are no exceptions."""
    blanket = [r for r in file.rules if r.verdict != "allow" and not r.effects and r.when is None]
    named: dict[str, Rule] = {}
    for rule in sorted(blanket, key=lambda r: -STRICTNESS[r.verdict]):
        for pattern in rule.tools:
            named.setdefault(pattern, rule)
    broad = (item for item in named.items() if not globs.is_literal(item[0]))
    wide = dict(islice(broad, _MOST_WIDE))
    for rule in file.rules:
        over = [_outdone(pattern, rule, named, wide) for pattern in rule.tools]
        first = next(iter(over), None)
        if first is not None and all(over):
            yield Fault(
                rule.place,
                f"{rule.name!r} says {rule.verdict} and never counts: {first.name!r} (line "
                f"{first.place.line}) says {first.verdict} of all calls of these tools, and the "
                "more restrictive rule wins, whatever their order",
            )


def _outdone(
    pattern: str, rule: Rule, named: Mapping[str, Rule], wide: Mapping[str, Rule]
) -> Rule | None:
    """A rule that says something more restrictive of every tool that a pattern stands for."""
    same = [named[pattern]] if pattern in named else []
    others = (other for broad, other in wide.items() if globs.is_part_of(pattern, broad))
    return next(
        (o for o in (*same, *others) if STRICTNESS[o.verdict] > STRICTNESS[rule.verdict]), None
    )


class _Reviewer:
    """Holds a file against the tools there are."""

    def __init__(self, file: PolicyFile, catalogue: Catalogue | None) -> None:
        self._file, self._catalogue = file, catalogue
        self._about: dict[tuple[str, ...], tuple[KnownTool, ...]] = {}
        self._facts: dict[str | None, Facts | None] = {}
        known = catalogue.values() if catalogue else ()
        self._kinds = {
            *_KINDS,
            *(e.partition(":")[0] for tool in known for e in tool.effects or ()),
        }

    def of_patterns(self) -> Iterator[Fault]:
        """Of the effects that the file grants and denies at all."""
        place = Place(1, 1)
        for pattern in (*(self._file.grants or ()), *self._file.denied):
            if fault := self._kind(pattern, place):
                yield fault

    def of_rule(self, rule: Rule) -> Iterator[Fault]:
        """Of one rule."""
        for pattern in rule.effects:
            if fault := self._kind(pattern, rule.place):
                yield fault
        if self._catalogue is not None:
            yield from self._tools(rule, self._catalogue)
        if rule.when is not None:
            yield from self._session(rule, rule.when)
            yield from self._texts(rule, rule.when)
            yield from self._condition(rule, rule.when)

    def _kind(self, pattern: str, place: Place) -> Fault | None:
        kind = pattern.partition(":")[0]
        close = difflib.get_close_matches(kind, self._kinds, n=1, cutoff=0.7)
        if kind in self._kinds or "*" in kind or not close:
            return None
        return Fault(place, f"there are no effects {kind}:…; did you mean {close[0]}:…?")

    def _tools(self, rule: Rule, catalogue: Catalogue) -> Iterator[Fault]:
        for pattern in rule.tools:
            if not self._tools_named(pattern, catalogue) and not self._is_elsewhere(pattern):
                yield Fault(
                    rule.place,
                    f"{rule.name!r} never matches: no tool is called {pattern}"
                    f"{_hint(pattern, catalogue)}; one that only others have is named in elsewhere",
                )
        tools = self._named_by(rule)
        if not tools or any(tool.effects is None for tool in tools):
            return
        effects = {effect for tool in tools for effect in tool.effects or ()}
        for pattern in rule.effects:
            if not any(globs.matches(effect, pattern) for effect in effects):
                yield Fault(
                    rule.place,
                    f"{rule.name!r} never matches {pattern}: its tools have "
                    f"{', '.join(sorted(effects)[:6])}",
                )

    def _tools_named(self, pattern: str, catalogue: Catalogue) -> list[KnownTool]:
        if globs.is_literal(pattern):
            return [catalogue[pattern]] if pattern in catalogue else []
        return [tool for name, tool in catalogue.items() if globs.matches(name, pattern)]

    def _is_elsewhere(self, pattern: str) -> bool:
        return pattern in self._file.elsewhere or globs.any_matches(pattern, self._file.elsewhere)

    def _is_known(self, name: str) -> bool:
        return not self._catalogue or name in self._catalogue or self._is_elsewhere(name)

    def _named_by(self, rule: Rule) -> tuple[KnownTool, ...]:
        """The known tools that a rule names; none where it names others too."""
        if self._catalogue is None or any(self._is_elsewhere(p) for p in rule.tools):
            return ()
        if rule.tools not in self._about:
            found = [t for p in rule.tools for t in self._tools_named(p, self._catalogue)]
            self._about[rule.tools] = tuple({tool.name: tool for tool in found}.values())
        return self._about[rule.tools]

    def _tools_of(self, rule: Rule) -> tuple[KnownTool, ...]:
        """Those of them that may have its effects."""
        tools = self._named_by(rule)
        return tuple(t for t in tools if t.effects is None or rule.is_about(t.effects))

    def _session(self, rule: Rule, when: Condition) -> Iterator[Fault]:
        for found in when.named("session"):
            what, key = map(str, found.keys)
            if what == "sums" and not re.fullmatch(r"spend:\S+", key):
                yield Fault(
                    rule.place, f"sums are kept by effect, such as spend:eur; {key!r} is none"
                )
            elif what == "counts" and self._catalogue and not self._is_known(key):
                yield Fault(rule.place, f"no tool is called {key}{_hint(key, self._catalogue)}")

    def _texts(self, rule: Rule, when: Condition) -> Iterator[Fault]:
        """Names of tools and effects that a condition compares with, which nothing can be."""
        for found, text in when.texts:
            if found.root == "tool" and not self._is_known(text):
                known = _hint(text, self._catalogue or {})
                yield Fault(rule.place, f"no tool is called {text}{known}")
            elif found.root == "effects":
                yield from filter(None, [self._kind(text, rule.place)])

    def _condition(self, rule: Rule, when: Condition) -> Iterator[Fault]:
        tools = self._tools_of(rule)
        fields = _argument_names(tools)
        if fields is not None:
            for found in (*when.named("args"), *when.named("provenance")):
                name = re.split(r"[.\[]", str(found.keys[0]))[0] if found.keys else ""
                if name and name not in fields:
                    hint = difflib.get_close_matches(name, fields, n=1)
                    known = f"did you mean {hint[0]}?" if hint else _there_is(fields)
                    yield Fault(
                        rule.place,
                        f"no tool that {rule.name!r} is about has an argument {name}; {known}",
                    )
                    return
        why = None
        for tool in tools or (None,):
            if (failed := self._try(when, tool)) is None:
                return
            why = why or failed
        yield Fault(rule.place, f"the condition of {rule.name!r} can never be checked: {why}")

    def _try(self, when: Condition, tool: KnownTool | None) -> str | None:
        """What fails on sample values of a tool, whatever the values are; ``None``: nothing."""
        facts = self._samples(tool)
        if facts is None or (tool is None and any(when.named("args"))):
            return None
        try:
            when.holds(facts)
        except Missing:
            return None
        except NotChecked as error:
            text = str(error)
            if "another type" in text or "is text" in text:
                text += "; the exact amount of a call is amount"
            return text
        return None

    def _samples(self, tool: KnownTool | None) -> Facts | None:
        """Sample values of a tool's arguments by their types; ``None`` where one has none."""
        name = tool.name if tool else None
        if name not in self._facts:
            self._facts[name] = _facts(tool, self._file.mentioned)
        return self._facts[name]


def _facts(tool: KnownTool | None, mentioned: Collection[Reference]) -> Facts | None:
    arguments = tool.arguments if tool else {}
    if arguments is None:
        return None
    samples = {}
    for name, schema in arguments.items():
        kind = schema.get("type")
        if not isinstance(kind, str) or kind not in _SAMPLES:
            return None
        samples[name] = _SAMPLES[kind]
    keys: dict[str, dict[str, Any]] = {"counts": {}, "sums": {}}
    for found in mentioned:
        if found.root == "session":
            keys[str(found.keys[0])][str(found.keys[1])] = 1
    origins = {str(r.keys[0]): "user" for r in mentioned if r.root == "provenance" and r.keys}
    return Facts(
        {
            "tool": tool.name if tool else "",
            "args": samples,
            "effects": ["write:sample"],
            "labels": ["private"],
            "user": "sample",
            "session": keys,
            "provenance": origins,
            "amount": 1.5,
            "currency": "EUR",
            "total": 1.5,
        },
        unbounded=True,
    )


def _argument_names(tools: Iterable[KnownTool]) -> set[str] | None:
    """The arguments that some of the tools have; ``None`` where that is not known."""
    names: set[str] = set()
    known = False
    for tool in tools:
        arguments = tool.arguments
        if arguments is None:
            return None
        known = True
        names |= arguments.keys()
    return names if known else None


def _there_is(names: Iterable[str]) -> str:
    shown = sorted(names)[:8]
    return f"there is {', '.join(shown)}" if shown else "it has none"


def _hint(name: str, catalogue: Catalogue) -> str:
    close = difflib.get_close_matches(name, catalogue, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
