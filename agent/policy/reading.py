"""From the text of a policy file to its rules, or to everything that is wrong with it.

A field that nobody knows is a fault, not a remark: a misspelt ``when`` would make its rule hold
always. All faults are found in one go, each with its place and what to write instead.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from agent.errors import InvalidPolicy
from agent.policy import globs
from agent.policy.catalogue import Catalogue
from agent.policy.conditions import Condition
from agent.policy.document import Fault, FaultyText, Fields, Items, Node, Place, Scalar, parse
from agent.policy.language import LABELS, ORIGINS, ConditionError
from agent.policy.model import Case, PolicyFile, Recipients, Rule
from agent.policy.review import review
from agent.types import Behavior

SIZE_LIMIT = 4 * 1024 * 1024
"""Bytes of a file; ten thousand rules take about a third of it."""

MOST_FAULTS = 20
"""Faults of one file that are listed."""

ENOUGH = 500
"""Faults after which a file is not read on: each of them takes time to be put into words."""

WORK_LIMIT = 50_000_000
"""Units of work, each some 0.1 µs, of looking at all conditions of a file once."""

T = TypeVar("T")

_VERDICTS: Mapping[str, Behavior] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_AMOUNT = re.compile(r"-?\d{1,15}(\.\d{1,10})?")
_YAML_WORDS = re.compile(r"(?i:yes|no|on|off|y|n|true|false|null|~)")
_NUMBER_LIKE = re.compile(r"[-+]?[\d.][\d_.eExXoObB:,-]*")
_CALL = re.compile(r"\s*([A-Za-z0-9_.-]{1,64})\s*(?:\((.*)\))?\s*", re.DOTALL)


def read_policy(
    text: str, file: str = "policy.yaml", catalogue: Catalogue | None = None
) -> PolicyFile:
    """Read and check a policy file.

    Args:
        file: Its name, as it is shown in faults.
        catalogue: The tools there are; with it, what can never match is a fault too.

    Raises:
        InvalidPolicy: Everything that is wrong, each with file, line and column.
    """
    if len(text.encode("utf-8", "surrogatepass")) > SIZE_LIMIT:
        raise InvalidPolicy([f"{file}:1:1: it is larger than {SIZE_LIMIT // 1024} KiB"])
    reader = _Reader(file)
    try:
        root = parse(text.removeprefix("\ufeff"))
    except FaultyText as error:
        raise InvalidPolicy([error.fault.at(file)]) from error
    digest = hashlib.sha256(text.encode()).hexdigest()
    warnings: list[Fault] = []
    try:
        found = reader.policy(root, digest)
    except _Enough:
        raise InvalidPolicy(_listed(reader.faults, file)) from None
    if not reader.faults:
        faults, warnings = review(found, catalogue)
        reader.faults += faults
    if reader.faults:
        raise InvalidPolicy(_listed(reader.faults, file))
    said = tuple(fault.at(file) for fault in sorted(warnings, key=lambda fault: fault.place))
    return PolicyFile(**{**_fields_of(found), "warnings": said})


def read_call(text: str) -> tuple[str, dict[str, Any]]:
    """``refund_order({"order_id": "C1"})`` as the tool's name and its arguments.

    Raises:
        ValueError: What is wrong with it, in words.
    """
    found = _CALL.fullmatch(text)
    if found is None:
        raise ValueError('a call is written as refund_order({"order_id": "C1", "amount": "5.00"})')
    name, inside = found[1], (found[2] or "").strip()
    if not inside:
        return name, {}
    try:
        args = json.loads(inside, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the arguments of {name} are one JSON object, names and texts in double quotes: "
            f'{{"order_id": "C1"}} ({error})'
        ) from None
    if not isinstance(args, dict):
        raise ValueError(f'the arguments of {name} are one JSON object: {{"order_id": "C1"}}')
    return name, args


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an argument is given twice")
    return found


def _fields_of(found: PolicyFile) -> dict[str, Any]:
    return {name: getattr(found, name) for name in PolicyFile.__dataclass_fields__}


def _listed(faults: Sequence[Fault], file: str) -> list[str]:
    lines = [fault.at(file) for fault in sorted(set(faults), key=lambda f: (f.place, f.text))]
    if len(lines) > MOST_FAULTS:
        at_least = "at least " if len(faults) >= ENOUGH else ""
        return [*lines[:MOST_FAULTS], f"{file}: and {at_least}{len(lines) - MOST_FAULTS} more"]
    return lines


class _Enough(Exception):
    """There are so many faults that the rest is not looked for."""


class _Reader:
    """Reads nodes into values; what does not fit is kept as a fault and left out."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self._work = 0

    # --- the parts of a file ---

    def policy(self, root: Node | None, digest: str) -> PolicyFile:
        """The whole file."""
        if root is None or (isinstance(root, Scalar) and not root.text):
            self._fault(Place(1, 1), "it is empty; it begins with version: 1")
            return PolicyFile(self.file, digest)
        fields = self._fields(root, _TOP, "a policy")
        version = fields.get("version")
        if version is None:
            self._fault(root.place, "version: 1 is missing")
        elif self._text(version) != "1":
            self._fault(version.place, "this program knows version: 1")
        defaults = self._default(fields.get("default"))
        return PolicyFile(
            file=self.file,
            digest=digest,
            rules=self._rules(fields.get("rules")),
            reads=defaults.get("reads"),
            writes=defaults.get("writes"),
            grants=self._effects(fields["grants"]) if "grants" in fields else None,
            denied=self._effects(fields.get("deny")),
            recipients=self._recipients(fields.get("recipients")),
            cases=tuple(self._each(fields.get("tests"), self._case, "tests")),
            elsewhere=self._patterns(fields.get("elsewhere"), globs.TOOL, _TOOL_WORDS),
        )

    def _default(self, node: Node | None) -> dict[str, Behavior]:
        if node is None:
            return {}
        fields = self._fields(node, ("reads", "writes"), "default")
        read = {name: self._verdict(inner) for name, inner in fields.items()}
        return {name: verdict for name, verdict in read.items() if verdict}

    def _recipients(self, node: Node | None) -> Recipients | None:
        if node is None:
            return None
        names = ("allow", "arguments", "otherwise", "remember")
        fields = self._fields(node, names, "recipients")
        if "allow" not in fields:
            self._fault(node.place, "allow is missing: a list of addresses, such as *@example.com")
        given: dict[str, Any] = {
            "allow": self._patterns(fields.get("allow"), globs.RECIPIENT, _RECIPIENT_WORDS)
        }
        if "arguments" in fields:
            given["arguments"] = self._texts(fields["arguments"])
            if not given["arguments"] and isinstance(fields["arguments"], Items):
                self._fault(
                    fields["arguments"].place,
                    "an empty list names no argument; leave arguments out for to, cc, bcc …",
                )
        if "otherwise" in fields:
            otherwise = self._verdict(fields["otherwise"])
            if otherwise == "allow":
                self._fault(fields["otherwise"].place, "write ask or deny")
            elif otherwise:
                given["otherwise"] = otherwise
        if "remember" in fields:
            given["remember"] = self._flag(fields["remember"])
        return Recipients(place=node.place, **given)

    def _rules(self, node: Node | None) -> tuple[Rule, ...]:
        rules = self._each(node, self._rule, "rules")
        seen: dict[str, Rule] = {}
        for rule in rules:
            if rule.name in seen:
                self._fault(
                    rule.place,
                    f"a rule is named {rule.name!r} already, in line {seen[rule.name].place.line}",
                )
            seen.setdefault(rule.name, rule)
        return tuple(rules)

    def _rule(self, node: Node) -> Rule | None:
        fields = self._fields(node, _RULE, "a rule")
        name = self._name(fields.get("name"), node.place, "rule")
        verdict = self._verdict(fields["verdict"]) if "verdict" in fields else None
        if "verdict" not in fields and isinstance(node, Fields):
            self._fault(node.place, "verdict is missing: allow, ask or deny")
        given: dict[str, Any] = {}
        if "tools" in fields:
            given["tools"] = self._patterns(fields["tools"], globs.TOOL, _TOOL_WORDS)
        if "effects" in fields:
            given["effects"] = self._effects(fields["effects"])
            if not given["effects"] and isinstance(fields["effects"], Items):
                self._fault(
                    fields["effects"].place,
                    "an empty list matches nothing; leave effects out for calls of any effects",
                )
        if "when" in fields:
            given["when"] = self._condition(fields["when"])
        for word in ("message", "reason"):
            if word in fields:
                given[word] = self._text(fields[word]) or ""
        if "expires" in fields:
            given["expires"] = self._duration(fields["expires"])
        if "remember" in fields:
            given["remember"] = self._flag(fields["remember"])
        for word in ("expires", "remember"):
            if word in fields and verdict in ("allow", "deny"):
                self._fault(
                    fields[word].place,
                    f"{word} is for what is asked; a rule that says {verdict} has no use for it",
                )
        if name is None or verdict is None:
            return None
        return Rule(name=name, verdict=verdict, place=node.place, **given)

    def _case(self, node: Node) -> Case | None:
        fields = self._fields(node, _CASE, "a test")
        call = self._call(fields.get("call"), node.place)
        expect = self._verdict(fields["expect"]) if "expect" in fields else None
        if "expect" not in fields and isinstance(node, Fields):
            self._fault(node.place, "expect is missing: allow, ask or deny")
        if call is None or expect is None:
            return None
        session = fields.get("session")
        so_far = self._fields(session, ("counts", "sums", "always"), "session") if session else {}
        labels = self._words(fields.get("labels"), LABELS, "label")
        given = dict(self._provenance(fields.get("provenance")))
        return Case(
            *call,
            expect=expect,
            place=node.place,
            name=(self._text(fields["name"]) or "") if "name" in fields else "",
            rule=self._text(fields["rule"]) if "rule" in fields else None,
            effects=frozenset(self._effects(fields["effects"])) if "effects" in fields else None,
            labels=labels,
            user=(self._text(fields["user"]) or "") if "user" in fields else "",
            counts=dict(self._counts(so_far.get("counts"))),
            sums=dict(self._sums(so_far.get("sums"))),
            always=self._flag(so_far["always"]) if "always" in so_far else False,
            provenance=given,
            grants=self._effects(fields["grants"]) if "grants" in fields else None,
        )

    def _call(self, node: Node | None, place: Place) -> tuple[str, Mapping[str, Any]] | None:
        if node is None:
            self._fault(place, 'call is missing: \'refund_order({"order_id": "C1"})\'')
            return None
        if isinstance(node, Fields):
            fields = self._fields(node, ("tool", "args"), "call")
            tool = self._text(fields["tool"]) if "tool" in fields else None
            if tool is None:
                self._fault(node.place, "tool is missing")
                return None
            args = self._plain(fields["args"]) if "args" in fields else {}
            if not isinstance(args, dict):
                self._fault(node.place, "args is a map from names to values")
                return None
            return tool, args
        text = self._text(node)
        if text is None:
            return None
        try:
            return read_call(text)
        except ValueError as error:
            self._fault(node.place, str(error))
            return None

    # --- single values ---

    def _fault(self, place: Place, text: str) -> None:
        self.faults.append(Fault(place, text))
        if len(self.faults) >= ENOUGH:
            raise _Enough

    def _fields(self, node: Node, known: Sequence[str], what: str) -> dict[str, Node]:
        if not isinstance(node, Fields):
            self._fault(node.place, f"{what} has fields: {', '.join(known)}")
            return {}
        found = {}
        for key, value in node.entries:
            if key.text in known:
                found[key.text] = value
                continue
            close = difflib.get_close_matches(key.text.lower(), known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(known)}"
            self._fault(key.place, f"{what} has no field {key.text!r}; {hint}")
        return found

    def _each(self, node: Node | None, read: Callable[[Node], T | None], what: str) -> list[T]:
        if node is None or (isinstance(node, Scalar) and not node.text and not node.quoted):
            return []
        if not isinstance(node, Items):
            self._fault(node.place, f"{what} is a list: each entry begins with “- ”")
            return []
        return [value for inner in node.nodes if (value := read(inner)) is not None]

    def _text(self, node: Node) -> str | None:
        if not isinstance(node, Scalar):
            self._fault(node.place, "a text is expected here")
            return None
        if not node.text.strip():
            self._fault(node.place, "a text is expected here; it is empty")
            return None
        return node.text.strip()

    def _name(self, node: Node | None, place: Place, what: str) -> str | None:
        if node is None:
            self._fault(place, f"name is missing; a {what} is called by it wherever it is shown")
            return None
        name = self._text(node)
        if name is not None and (len(name) > 80 or not name.isprintable() or "/" in name):
            self._fault(node.place, "a name has at most 80 printable characters and no /")
            return None
        return name

    def _texts(self, node: Node | None) -> tuple[str, ...]:
        if node is None:
            return ()
        if isinstance(node, Items):
            return tuple(text for inner in node.nodes if (text := self._text(inner)) is not None)
        text = self._text(node)
        return () if text is None else (text,)

    def _words(self, node: Node | None, known: Sequence[str], what: str) -> tuple[str, ...]:
        words = self._texts(node)
        for word in words:
            if word not in known and node is not None:
                self._fault(node.place, f"there is no {what} {word!r}; {_one_of(word, known)}")
        return words

    def _patterns(self, node: Node | None, form: re.Pattern[str], expected: str) -> tuple[str, ...]:
        if node is None:
            return ()
        found = self._texts(node)
        if not found and isinstance(node, Items):
            self._fault(node.place, f"an empty list matches nothing; {expected}")
        for text in found:
            if not form.fullmatch(text):
                self._fault(node.place, f"{text!r} cannot be used here; {expected}")
        return found

    def _effects(self, node: Node | None) -> tuple[str, ...]:
        found = self._texts(node)
        for text in found:
            if node is not None and not globs.EFFECT.fullmatch(text):
                self._fault(
                    node.place,
                    f"{text!r} is no effect; one is a kind and what it concerns, such as "
                    "write:orders or spend:eur; * stands for anything: read:*",
                )
        return found

    def _verdict(self, node: Node) -> Behavior | None:
        text = self._text(node)
        if text is None:
            return None
        if text not in _VERDICTS:
            self._fault(node.place, f"{text!r} is no verdict; {_one_of(text, tuple(_VERDICTS))}")
            return None
        return _VERDICTS[text]

    def _flag(self, node: Node) -> bool:
        if isinstance(node, Scalar) and not node.quoted and node.text in ("true", "false"):
            return node.text == "true"
        self._fault(node.place, "write true or false")
        return False

    def _duration(self, node: Node) -> timedelta | None:
        text = self._text(node)
        found = re.fullmatch(r"([1-9]\d{0,3})([mhd])", text or "")
        if found is None:
            if text is not None:
                self._fault(node.place, f"{text!r} is no time; write 30m, 2h or 7d")
            return None
        return timedelta(**{_UNITS[found[2]]: int(found[1])})

    def _condition(self, node: Node) -> Condition | None:
        text = self._text(node)
        if text is None or not isinstance(node, Scalar):
            return None
        try:
            condition = Condition.of(text)
            self._work += condition.least
            if self._work > WORK_LIMIT:
                raise ConditionError("the patterns of this file take too long all together")
            return condition
        except ConditionError as error:
            place = node.place
            if not node.quoted and "\n" not in text:
                place = Place(place.line, place.column + error.offset)
            self._fault(place, f"{error.text} (at {_near(text, error.offset)})")
            return None

    def _counts(self, node: Node | None) -> Iterator[tuple[str, int]]:
        for key, value in self._pairs(node, "counts"):
            if isinstance(value, Scalar) and re.fullmatch(r"\d{1,6}", value.text):
                yield key, int(value.text)
            else:
                self._fault(value.place, "a whole number is expected here")

    def _sums(self, node: Node | None) -> Iterator[tuple[str, str]]:
        for key, value in self._pairs(node, "sums"):
            if isinstance(value, Scalar) and _AMOUNT.fullmatch(value.text):
                yield key, value.text
            else:
                self._fault(value.place, "an amount is expected here, such as 12.50")

    def _provenance(self, node: Node | None) -> Iterator[tuple[str, str]]:
        for key, value in self._pairs(node, "provenance"):
            words = self._words(value, ORIGINS, "origin")
            if len(words) == 1:
                yield key, words[0]

    def _pairs(self, node: Node | None, what: str) -> Iterator[tuple[str, Node]]:
        if node is None:
            return
        if not isinstance(node, Fields):
            self._fault(node.place, f"{what} is a map from names to values")
            return
        for key, value in node.entries:
            yield key.text, value

    def _plain(self, node: Node) -> Any:
        """A value as JSON has it. What YAML versions read differently must be quoted."""
        if isinstance(node, Items):
            return [self._plain(inner) for inner in node.nodes]
        if isinstance(node, Fields):
            return {key.text: self._plain(value) for key, value in node.entries}
        text = node.text
        if node.quoted:
            return text
        if text in ("true", "false", "null", ""):
            return {"true": True, "false": False}.get(text)
        if found := _NUMBER.fullmatch(text):
            return float(text) if found[2] else int(text)
        if _YAML_WORDS.fullmatch(text) or _NUMBER_LIKE.fullmatch(text):
            self._fault(node.place, f"{text} can be read in two ways; put it in quotes if it is "
                        "a text, else write true, false, null or a plain number")  # fmt: skip
        return text


_TOP = ("version", "default", "grants", "deny", "recipients", "rules", "tests", "elsewhere")
_RULE = (
    "name", "tools", "effects", "when", "verdict", "reason", "message", "expires", "remember",
)  # fmt: skip
_CASE = (
    "name", "call", "expect", "rule", "effects", "labels", "user", "session", "provenance",
    "grants",
)  # fmt: skip
_TOOL_WORDS = "names of tools have letters, digits, _ and -; * stands for anything: refund_*"
_RECIPIENT_WORDS = "write an address, *@example.com, or a plain name"


def _one_of(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"write {', '.join(known[:-1])} or {known[-1]}"


def _near(text: str, offset: int) -> str:
    rest = " ".join(text[offset : offset + 30].split())
    return f"“{rest}”" if rest else "its end"
