"""Systematic changes of right calls, to see what a scorer makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent.evals.calls.cases import Case
from agent.evals.calls.parsing import Called

Change = Callable[[Case, list[Called]], list[Called] | None]
"""The changed calls, or ``None`` where the change cannot be made."""

_PUNCTUATION = " ,./-_*^"


def _none(case: Case, calls: list[Called]) -> list[Called]:
    return calls


def _reversed(case: Case, calls: list[Called]) -> list[Called] | None:
    return calls[::-1] if len(calls) > 1 else None


def _one_missing(case: Case, calls: list[Called]) -> list[Called] | None:
    return calls[:-1]


def _one_twice(case: Case, calls: list[Called]) -> list[Called] | None:
    return [*calls, calls[0]]


def _other_function(case: Case, calls: list[Called]) -> list[Called] | None:
    others = [name for name in case.offered if name != calls[0].name]
    return [replace(calls[0], name=others[0]), *calls[1:]] if others else None


def _made_up_function(case: Case, calls: list[Called]) -> list[Called]:
    return [replace(calls[0], name=calls[0].name + "_v2"), *calls[1:]]


def _extra_argument(case: Case, calls: list[Called]) -> list[Called]:
    return [replace(calls[0], args={**calls[0].args, "unheard_of": 1}), *calls[1:]]


def _required_left_out(case: Case, calls: list[Called]) -> list[Called] | None:
    required = case.offered[calls[0].name].required
    return _without(calls, lambda name: name in required)


def _optional_left_out(case: Case, calls: list[Called]) -> list[Called] | None:
    wanted = case.calls[0].args
    return _without(calls, lambda name: wanted[name].optional)


def _without(calls: list[Called], which: Callable[[str], bool]) -> list[Called] | None:
    name = next((name for name in calls[0].args if which(name)), None)
    if name is None:
        return None
    args = {key: value for key, value in calls[0].args.items() if key != name}
    return [replace(calls[0], args=args), *calls[1:]]


def _of_first(of: Callable[[Any], bool], to: Callable[[Any], Any]) -> Change:
    """Change the first value of a kind, in the arguments themselves."""

    def change(case: Case, calls: list[Called]) -> list[Called] | None:
        for at, call in enumerate(calls):
            for name, value in call.args.items():
                if (of(value) and to(value) != value) or (
                    of(value) and type(to(value)) is not type(value)
                ):
                    changed = replace(call, args={**call.args, name: to(value)})
                    return [*calls[:at], changed, *calls[at + 1 :]]
        return None

    return change


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 1


def _has_digits(value: Any) -> bool:
    return isinstance(value, str) and any(c.isdigit() for c in value)


def _in_words(value: Any) -> bool:
    return isinstance(value, str) and any(sign in value.strip() for sign in _PUNCTUATION)


def _without_signs(value: str) -> str:
    return "".join(char for char in value if char not in _PUNCTUATION)


def _is_long_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1


CHANGES: Mapping[str, Change] = {
    "nothing": _none,
    "order of calls": _reversed,
    "a call missing": _one_missing,
    "a call twice": _one_twice,
    "another function offered": _other_function,
    "a function made up": _made_up_function,
    "an argument made up": _extra_argument,
    "a required argument left out": _required_left_out,
    "an optional argument left out": _optional_left_out,
    "another number": _of_first(_is_integer, lambda value: value + 1),
    "integer as float": _of_first(_is_integer, float),
    "number as text": _of_first(_is_integer, str),
    "true and false": _of_first(lambda value: isinstance(value, bool), lambda value: not value),
    "another text": _of_first(_is_text, lambda value: f"{value} too"),
    "text in capitals": _of_first(_is_text, str.upper),
    "spaces doubled": _of_first(
        lambda v: isinstance(v, str) and " " in v, lambda v: v.replace(" ", "  ")
    ),
    "a full stop at the end": _of_first(_is_text, lambda value: f"{value}."),
    "signs within dropped": _of_first(_in_words, _without_signs),
    "a point between digits": _of_first(_has_digits, lambda value: ".".join(value)),
    "quotes of another kind": _of_first(
        lambda value: isinstance(value, str) and ("'" in value or '"' in value),
        lambda value: value.translate(str.maketrans({"'": '"', '"': "'"})),
    ),
    "list turned round": _of_first(_is_long_list, lambda value: value[::-1]),
    "text as list of one": _of_first(_is_text, lambda value: [value]),
}
"""Each kind by what is changed; ``nothing`` are the right calls as they are."""
