"""What a condition may be: the words of CEL that are let through, and what they must stand for.

The library gives no tree of an expression, so its text is read as tokens: enough to find the fields
that it names, what it loops over and what it compares, and to refuse the rest of the language.

The language is the Common Expression Language (CEL specification, "Language Definition").
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from agent.policy.patterns import LARGEST, Cost, cost_of

LONGEST = 1_000
"""Characters of one condition."""

_DIGITS = 15
"""Decimal digits that a binary fraction holds exactly enough to be compared."""

_MOST_REPEATED = 100

ROOTS = (
    "tool", "args", "effects", "labels", "user", "session", "provenance",
    "amount", "currency", "total",
)  # fmt: skip
_PLAIN_ROOTS = frozenset(ROOTS) - {"args", "session", "provenance"}
MACROS = ("all", "exists", "exists_one", "filter")
FUNCTIONS = ("has", "size", "contains", "startsWith", "endsWith", "matches")
_WORDS = frozenset({"true", "false", "null", "in"})
_SESSION = ("counts", "sums")
LABELS = ("untrusted", "private")
ORIGINS = ("user", "trusted", "untrusted", "record", "reviewer", "model", "none")

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<text>r"[^"\n]*"|r'[^'\n]*'|"(?!"")(\\.|[^"\\\n])*"|'(?!'')(\\.|[^'\\\n])*')
    |(?P<number>\d+(\.\d+)?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[<>!?:()\[\],.+\-*/%])""",
    re.VERBOSE,
)


class ConditionError(Exception):
    """What is wrong with a condition, and what to write instead; ``offset`` in its text."""

    def __init__(self, text: str, offset: int = 0) -> None:
        self.text, self.offset = text, offset
        super().__init__(text)


@dataclass(frozen=True)
class Reference:
    """A field that a condition names: ``args.to`` is ``("args", ("to",))``.

    ``whole``: it is looked up by something that is not written down, as in ``args[name]``.
    """

    root: str
    keys: tuple[str | int, ...] = ()
    whole: bool = False
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.root + "".join(
            f".{key}" if isinstance(key, str) and key.isidentifier() else f'["{key}"]'
            if isinstance(key, str) else f"[{key}]"
            for key in self.keys
        )  # fmt: skip


@dataclass(frozen=True)
class Search:
    """A pattern, and the field that it is looked for in; ``None``: an element of the loop around
    it, or what cannot be said."""

    over: Reference | None
    cost: Cost


@dataclass(frozen=True)
class Loop:
    """A macro: what it goes through, what it calls each element, what it asks of it."""

    over: Reference
    body: tuple[Reference, ...]
    tokens: int
    searches: tuple[Search, ...]


@dataclass(frozen=True)
class Parsed:
    """A condition, checked and compiled.

    Args:
        references: Every field that it names.
        outside: Those that it names outside of loops.
        searches: Patterns that are looked for outside of loops.
        fixed: Units of work that do not depend on the call.
        equalities: Fields that are compared with a value that is written down, and its kind.
        texts: Texts that are written down, each after the field that it is compared with.
    """

    program: Any
    references: tuple[Reference, ...]
    outside: tuple[Reference, ...]
    loops: tuple[Loop, ...]
    searches: tuple[Search, ...]
    fixed: int
    equalities: tuple[tuple[Reference, str], ...]
    texts: tuple[tuple[Reference, str], ...]


def parsed(source: str) -> Parsed:
    """Check and compile.

    Raises:
        ConditionError: What is wrong, where, and what to write instead.
    """
    if len(source) > LONGEST:
        raise ConditionError(f"a condition has at most {LONGEST} characters; make it two rules")
    tokens = _tokens(source)
    _check_signs(tokens)
    _check_functions(tokens)
    program = _compiled(source)
    loops, spans = _loops(tokens)
    bound = {name for name, _, _ in spans}
    references = tuple(_references(tokens, bound))
    for found in references:
        _check_reference(found)
    _check_words(tokens, references)
    inside = [(start, end) for _, start, end in spans]
    outside = tuple(r for r in references if not any(s <= r.offset < e for s, e in inside))
    searches = tuple(
        Search(over, cost)
        for offset, over, cost in _searches(tokens)
        if not any(s <= offset < e for s, e in inside)
    )
    compared = tuple(_equalities(tokens, references))
    beside = ((found, _unquoted(token.text)) for found, token in _texts_beside(tokens, references))
    fixed = len(tokens) + sum(search.cost.once for search in searches)
    return Parsed(
        program, references, outside, tuple(loops), searches, fixed, compared, tuple(beside)
    )


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


_END = _Token("end", "", -1)


def _tokens(source: str) -> list[_Token]:
    found, position = [], 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise ConditionError(
                f"{source[position]!r} is not used here; write texts in quotes and numbers in "
                "digits, such as 12.50",
                position,
            )
        if match.lastgroup != "space" and match.group("space") is None:
            kind = next(k for k in ("text", "number", "name", "sign") if match[k] is not None)
            found.append(_Token(kind, match[0], position))
        position = match.end()
    return found


def _check_signs(tokens: Sequence[_Token]) -> None:
    """Comparing needs no arithmetic; a minus is only the sign of a number."""
    for before, token, after in _with_neighbours(tokens):
        if token.kind == "number" and len(token.text.replace(".", "").strip("0")) > _DIGITS:
            raise ConditionError(
                f"a number has at most {_DIGITS} digits, or it could not be compared exactly",
                token.offset,
            )
        follows_a_value = before.kind in ("number", "text") or before.text in (")", "]")
        follows_a_value |= before.kind == "name" and before.text != "in"
        is_sign = token.text == "-" and after.kind == "number" and not follows_a_value
        if token.kind == "sign" and token.text in "+-*/%" and not is_sign:
            raise ConditionError(
                f"{token.text} is not used here: conditions compare and do not calculate. What "
                "was spent with this call is total; what was spent before it is "
                'session.sums["spend:eur"]',
                token.offset,
            )


def _with_neighbours(tokens: Sequence[_Token]) -> Iterator[tuple[_Token, _Token, _Token]]:
    return zip([_END, *tokens], tokens, [*tokens[1:], _END], strict=False)


def _compiled(source: str) -> Any:
    import cel  # not at the top: with it comes its own command line, a fifth of a second

    try:
        return cel.compile(source)
    except Exception as error:
        said = str(error)
        found = re.search(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)", said)
        if found is None:
            raise ConditionError("it cannot be read as a condition") from None
        lines = source.splitlines(keepends=True)
        offset = sum(map(len, lines[: int(found[1]) - 1])) + int(found[2]) - 1
        if found[3].startswith("OtherError"):
            raise ConditionError("it is nested too deeply") from None
        raise ConditionError(
            f"it cannot be read as a condition: {found[3]}", min(offset, len(source))
        ) from None


def _loops(tokens: Sequence[_Token]) -> tuple[list[Loop], list[tuple[str, int, int]]]:
    """The macros, and of each the name it binds and where that holds."""
    loops: list[Loop] = []
    spans: list[tuple[str, int, int]] = []
    for position, token in enumerate(tokens):
        if token.text not in MACROS or _text(tokens, position + 1) != "(":
            continue
        if any(start <= token.offset < end for _, start, end in spans):
            raise ConditionError(
                f"{token.text} inside of another one is not used here; make it two rules",
                token.offset,
            )
        over = _before(tokens, position - 1)
        name = tokens[position + 2] if position + 2 < len(tokens) else _END
        if over is None or name.kind != "name" or _text(tokens, position + 3) != ",":
            raise ConditionError(
                f"{token.text} goes through a field and has a name and a question, such as "
                f'args.to.{token.text}(one, one.endsWith("@example.com"))',
                token.offset,
            )
        if name.text in ROOTS or name.text in _WORDS:
            raise ConditionError(
                f"{name.text} is a field already; call an element otherwise", name.offset
            )
        end = _closing(tokens, position + 1)
        body = tokens[position + 4 : end]
        names = {name.text}
        roots = tuple(r for r in _references(body, names))
        searches = tuple(Search(over_, cost) for _, over_, cost in _searches(body))
        loops.append(Loop(over, roots, len(body), searches))
        spans.append((name.text, token.offset, tokens[end].offset))
    return loops, spans


def _text(tokens: Sequence[_Token], position: int) -> str:
    return tokens[position].text if 0 <= position < len(tokens) else ""


def _closing(tokens: Sequence[_Token], opening: int) -> int:
    depth = 0
    for position in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[position].text, 0)
        if depth == 0:
            return position
    return len(tokens) - 1


def _before(tokens: Sequence[_Token], dot: int) -> Reference | None:
    """The field that ends right before a dot, if it is one that is written down."""
    for start in range(dot):
        if tokens[start].text in ROOTS and _text(tokens, start - 1) != ".":
            found, end = _path(tokens, start)
            if end == dot and not found.whole:
                return found
    return None


def _references(tokens: Sequence[_Token], bound: Collection[str]) -> Iterator[Reference]:
    for position, token in enumerate(tokens):
        is_field = token.kind == "name" and token.text not in _WORDS
        if not is_field or _text(tokens, position - 1) == "." or token.text in bound:
            continue
        if _text(tokens, position + 1) == "(":
            continue
        yield _path(tokens, position)[0]


def _path(tokens: Sequence[_Token], start: int) -> tuple[Reference, int]:
    """The field that begins at a token, and the position after it."""
    keys: list[str | int] = []
    position, whole = start + 1, False
    while True:
        sign, key = _text(tokens, position), _text(tokens, position + 1)
        if sign == "." and _text(tokens, position + 2) != "(":
            keys.append(key)
            position += 2
        elif sign == "[" and _text(tokens, position + 2) == "]" and _is_literal(tokens, position):
            keys.append(ast.literal_eval(key))
            position += 3
        else:
            whole = sign == "["
            break
    root = tokens[start]
    return Reference(root.text, tuple(keys), whole, root.offset), position


def _is_literal(tokens: Sequence[_Token], bracket: int) -> bool:
    key = tokens[bracket + 1]
    return key.kind == "text" or (key.kind == "number" and "." not in key.text)


def _check_reference(found: Reference) -> None:
    if found.root not in ROOTS:
        raise ConditionError(
            f"there is no field {found.root}{_closest(found.root, ROOTS)}", found.offset
        )
    keys = found.keys
    if found.root in _PLAIN_ROOTS and (keys or found.whole):
        raise ConditionError(f"{found.root} has no fields of its own", found.offset)
    if found.root == "session":
        known = bool(keys) and keys[0] in _SESSION and len(keys) == 2 and not found.whole
        if not known or not isinstance(keys[-1], str):
            raise ConditionError(
                'of the session there is session.counts["refund_order"], how often a tool ran, '
                'and session.sums["spend:eur"], what was spent',
                found.offset,
            )
    if found.root == "provenance" and len(keys) > 1:
        path = ".".join(map(str, keys))
        raise ConditionError(
            f'the name of an argument inside another goes in quotes: provenance["{path}"]',
            found.offset,
        )


def _check_functions(tokens: Sequence[_Token]) -> None:
    for before, token, after in _with_neighbours(tokens):
        if token.kind != "name" or after.text != "(" or token.text in _WORDS:
            continue
        known = (*FUNCTIONS, *MACROS)
        if token.text not in known:
            raise ConditionError(
                f"there is no function {token.text}{_closest(token.text, known)}", token.offset
            )
        if (token.text == "has") is (before.text == ".") and token.text != "size":
            example = "has(args.note)" if token.text == "has" else f'args.to.{token.text}("…")'
            raise ConditionError(f"{token.text} is written so: {example}", token.offset)


def _check_words(tokens: Sequence[_Token], references: Sequence[Reference]) -> None:
    """Labels and origins are few, so a misspelt one can be told; a pattern must be one."""
    for found, token in _texts_beside(tokens, references):
        if found.root == "labels":
            _check_known(token, "label", LABELS)
        elif found.root == "provenance" and found.keys:
            _check_known(token, "origin", ORIGINS)
        elif found.root == "currency" and token.text != token.text.upper():
            raise ConditionError(f"currencies are in capitals: {token.text.upper()}", token.offset)
    for position, token in enumerate(tokens):
        if token.text == "matches":
            _check_pattern(tokens, position)


def _starts(
    tokens: Sequence[_Token], references: Sequence[Reference]
) -> Iterator[tuple[int, Reference]]:
    by_offset = {token.offset: position for position, token in enumerate(tokens)}
    return ((by_offset[found.offset], found) for found in references)


def _texts_beside(
    tokens: Sequence[_Token], references: Sequence[Reference]
) -> Iterator[tuple[Reference, _Token]]:
    """Texts that are written down, each with the field that it is compared with: by ``==`` or
    ``!=`` on either side, in a list that the field is looked for in, or looked for in the field."""
    for start, found in _starts(tokens, references):
        end = _path(tokens, start)[1]
        sign, after = _text(tokens, end), tokens[end + 1] if end + 1 < len(tokens) else _END
        beside = [after] if sign in ("==", "!=") else []
        if sign == "in" and after.text == "[":
            beside = [*takewhile(lambda token: token.text != "]", tokens[end + 2 :])]
        if start >= 2 and tokens[start - 1].text in ("==", "!=", "in"):
            beside.append(tokens[start - 2])
        yield from ((found, token) for token in beside if token.kind == "text")


def _equalities(
    tokens: Sequence[_Token], references: Sequence[Reference]
) -> Iterator[tuple[Reference, str]]:
    """Fields that are compared with a value that is written down, and its kind: in CEL values of
    two kinds are never equal, so such a rule would silently never match."""
    for start, found in _starts(tokens, references):
        end = _path(tokens, start)[1]
        after = [*tokens[end : end + 3], _END, _END, _END]
        if after[0].text in ("==", "!=") and _is_written(after[1]):
            yield found, after[1].kind
        elif after[0].text in ("==", "!=") and after[1].text == "-":
            yield found, "number"
        elif (after[0].text, after[1].text) == ("in", "[") and _is_written(after[2]):
            yield found, after[2].kind
        elif (
            start >= 2 and tokens[start - 1].text in ("==", "!=") and _is_written(tokens[start - 2])
        ):
            yield found, tokens[start - 2].kind


def _is_written(token: _Token) -> bool:
    return token.kind in ("text", "number")


def _check_known(token: _Token, what: str, known: Sequence[str]) -> None:
    if token.kind != "text":
        return
    word = ast.literal_eval(token.text)
    if word not in known:
        raise ConditionError(f"there is no {what} {word!r}{_closest(word, known)}", token.offset)


def _check_pattern(tokens: Sequence[_Token], position: int) -> None:
    pattern = tokens[position + 2] if position + 2 < len(tokens) else _END
    if pattern.kind != "text" or _text(tokens, position + 3) != ")":
        raise ConditionError(
            "matches takes a pattern that is written down, in quotes", tokens[position].offset
        )
    counts = [int(n) for n in re.findall(r"\{(\d{1,6})|,(\d{1,6})\}", pattern.text) for n in n if n]
    if any(count > _MOST_REPEATED for count in counts):
        raise ConditionError(
            f"a pattern repeats something {_MOST_REPEATED} times at most", pattern.offset
        )
    try:
        if cost_of(_unquoted(pattern.text)).once > LARGEST:
            raise ValueError("too large")
        _compiled(f"''.matches({pattern.text})").execute({})
    except Exception:
        raise ConditionError(
            "this pattern is no regular expression, or too large", pattern.offset
        ) from None


def _searches(tokens: Sequence[_Token]) -> Iterator[tuple[int, Reference | None, Cost]]:
    """Each pattern that is looked for: where, in which field, and what it costs."""
    for position, token in enumerate(tokens):
        pattern = tokens[position + 2] if position + 2 < len(tokens) else _END
        if token.text == "matches" and pattern.kind == "text":
            yield token.offset, _before(tokens, position - 1), cost_of(_unquoted(pattern.text))


def _unquoted(text: str) -> str:
    """What a text in quotes says."""
    if text.startswith("r"):
        return text[2:-1]
    plain = re.sub(r"\\(.)", lambda m: {"`": "`", "?": "?", "X": r"\x"}.get(m[1], m[0]), text)
    return str(ast.literal_eval(plain))


def _closest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there is {', '.join(known)}"
