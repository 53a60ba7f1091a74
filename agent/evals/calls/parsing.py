"""Calls as models write them, read without running anything.

As Python: ``f(a=1)``, ``[f(a=1), g.h("x")]``, one below the other. As JSON: what OpenAI, Anthropic
and most open models say, one or several, arguments as an object or as its text. Either may stand in
a fence of ``` or between ``<tool_call>`` tags. A reply that has no call in it is prose.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST = 200_000
"""Characters of a reply that are read."""

DEEPEST = 50
"""Lists and objects inside each other."""

_FENCED = re.compile(r"```[A-Za-z_-]{0,20}\s*\n?(.*?)```", re.DOTALL)
_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_BEGINS_CALL = re.compile(r"[\[(\s]*[A-Za-z_][\w.]*\(")
_BEGINS_JSON = re.compile(r"\{|\[\s*[{\]]")
_NAMES = ("name", "function", "tool", "tool_name")
_ARGUMENTS = ("arguments", "args", "input", "parameters")
_JSON_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}


class FormatError(ValueError):
    """A reply that was to be calls and is none, or is cut off."""


@dataclass(frozen=True)
class Called:
    """A call that a model asked for.

    Args:
        positional: Values without a name, in order; which parameters they are, a schema says.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    positional: tuple[Any, ...] = ()


def calls_in(text: str, known: Collection[str] = ()) -> list[Called]:
    """The calls of a reply in text; none where it is prose, empty or ``[]``.

    Args:
        known: Names of functions: prose that has one with its bracket in it is a call that nobody
            could carry out, and no prose.

    Raises:
        FormatError: It begins as calls do and cannot be read, or is too long.
    """
    if len(text) > LONGEST:
        raise FormatError(f"longer than {LONGEST:,} characters")
    text = text.strip()
    if tagged := _TAGGED.findall(text):
        return [call for part in tagged for call in calls_in(part, known)]
    fences = _FENCED.findall(text)
    if len(fences) == 1 and text.startswith("```"):
        text = fences[0].strip()
    if _BEGINS_JSON.match(text):
        return list(_of_json(_json(text)))
    if _BEGINS_CALL.match(text):
        return _of_python(text)
    if name := next((name for name in known if f"{name}(" in text), None):
        raise FormatError(f"a call of {name} stands within other words")
    return []


def rendered(calls: Collection[Called]) -> str:
    """The calls as Python writes them; ``calls_in`` reads them back."""
    texts = []
    for call in calls:
        values = [*map(repr, call.positional), *(f"{n}={v!r}" for n, v in call.args.items())]
        texts.append(f"{call.name}({', '.join(values)})")
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


# --- as Python ----------------------------------------------------------------------------------


def _of_python(text: str) -> list[Called]:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise FormatError(f"it is no call that can be read: {said or 'too deep'}") from None
    found: list[Called] = []
    for statement in module.body:
        if not isinstance(statement, ast.Expr):
            raise FormatError("a call is expected, and nothing else")
        several = isinstance(statement.value, ast.List | ast.Tuple)
        nodes = statement.value.elts if several else [statement.value]  # type: ignore[attr-defined]
        found += map(_call, nodes)
    return found


def _call(node: ast.expr) -> Called:
    if not isinstance(node, ast.Call):
        raise FormatError("a call is expected, and nothing else")
    args: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise FormatError("arguments are given one by one, without **")
        if keyword.arg in args:
            raise FormatError(f"the argument {keyword.arg} is repeated")
        args[keyword.arg] = _value(keyword.value, 1)
    return Called(_dotted(node.func), args, tuple(_value(value, 1) for value in node.args))


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise FormatError("the name of a function is a word, or words with points between")
    return ".".join([node.id, *reversed(parts)])


def _value(node: ast.expr, depth: int) -> Any:
    """A literal; a tuple is a list, and JSON's words for true, false and null are read too."""
    if depth > DEEPEST:
        raise FormatError("values are nested too deeply")
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return node.value
        case ast.Name(id=word) if word in _JSON_WORDS:
            return _JSON_WORDS[word]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float())):
            number = node.operand.value  # type: ignore[attr-defined]
            if not isinstance(number, bool):
                return -number if isinstance(node.op, ast.USub) else number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, depth + 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _key(key): _value(value, depth + 1) for key, value in zip(keys, values, strict=True)
            }
    raise FormatError(f"{ast.unparse(node)[:40]!r} is no literal value")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise FormatError("the names in an object are texts")


# --- as JSON ------------------------------------------------------------------------------------


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is no JSON that can be read: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FormatError("a name is given twice in one object")
    return found


def _no_number(word: str) -> Any:
    raise FormatError(f"JSON has no {word}")


def _of_json(value: Any) -> Iterator[Called]:
    """The calls in what was said as JSON: one, several, or a whole message with them."""
    match value:
        case list():
            for item in value:
                yield from _of_json(item)
        case {"tool_calls": list() as calls}:
            yield from _of_json(calls)
        case {"content": list() as blocks} if "name" not in value:
            yield from _of_json(blocks)
        case {"type": "text" | "thinking"}:
            return
        case {"function": dict() as function}:
            yield from _of_json(function)
        case dict():
            yield _named(value)
        case _:
            raise FormatError("a call in JSON is an object with a name and arguments")


def _named(value: Mapping[str, Any]) -> Called:
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if not name:
        raise FormatError("a call in JSON has a name")
    given: Any = next((value[key] for key in _ARGUMENTS if key in value), {})
    if isinstance(given, str):
        given = _json(given) if given.strip() else {}
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise FormatError(f"the arguments of {name} are an object")
    if _depth(given) > DEEPEST:
        raise FormatError("values are nested too deeply")
    return Called(name, given)


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [
        inner
        for item in level
        if isinstance(item, dict | list)
        for inner in (item.values() if isinstance(item, dict) else item)
    ]:
        depth += 1
    return depth
