"""Three models that are wrong each in a way of its own, so that a scorer can be tried without one.

They are made of the right answers: each spoils them with one kind of error, as often as it is told,
and otherwise writes them as models do, in any order and in one of several spellings. Their figures
measure the scorer, and say nothing of any model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from agent.evals.calls.cases import Case
from agent.evals.calls.parsing import Called, rendered
from agent.evals.calls.scoring import Reply

Spoil = Callable[[Case, list[Called], Random], list[Called]]

_OTHER_VERBS: Mapping[str, str] = {
    "get": "fetch",
    "list": "show_all",
    "cancel": "delete",
    "search": "find",
    "find": "search",
    "create": "make",
    "send": "write",
    "set": "change",
    "read": "open",
}
_OTHER_NAMES: Mapping[str, str] = {"add": "sum", "mult": "multiply", "transfer": "move_money"}
_MADE_UP: Mapping[str, Any] = {
    "string": "example",
    "number": 1.5,
    "integer": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


@dataclass(frozen=True)
class Mock:
    """A model with one kind of error.

    Args:
        often: In how many of the cases where the error is possible it is made.
    """

    name: str
    spoil: Spoil
    often: float
    seed: int = 0

    def __call__(self, case: Case) -> Reply:
        """Its reply; the same for the same case and seed."""
        chance = Random(f"{self.seed}/{self.name}/{case.id}")
        calls = list(case.gold)
        if chance.random() < self.often:
            calls = self.spoil(case, calls, chance)
        return Reply(_written(calls, chance) if calls else _declined(case))


def makes_up_names(case: Case, calls: list[Called], chance: Random) -> list[Called]:
    """Call one function by a name that sounds as good."""
    if calls:
        at = chance.randrange(len(calls))
        verb, _, rest = calls[at].name.partition("_")
        other = _OTHER_NAMES.get(calls[at].name) or f"{_OTHER_VERBS.get(verb, 'do_' + verb)}_{rest}"
        calls[at] = replace(calls[at], name=other.rstrip("_"))
    return calls


def drops_optional(case: Case, calls: list[Called], chance: Random) -> list[Called]:
    """Leave out what is not required, whatever the user said."""
    return [
        replace(
            call, args={n: v for n, v in call.args.items() if n in case.offered[call.name].required}
        )
        for call in calls
    ]


def ignores_irrelevance(case: Case, calls: list[Called], chance: Random) -> list[Called]:
    """Call something where nothing fits, or where something is missing, with made-up values."""
    if calls:
        return calls
    function = chance.choice(case.functions)
    args = {
        name: _made_up(schema)
        for name, schema in function.properties.items()
        if name in function.required
    }
    return [Called(function.name, args)]


def _made_up(schema: Mapping[str, Any]) -> Any:
    return schema["enum"][0] if "enum" in schema else _MADE_UP[schema.get("type", "string")]


def mocks(seed: int = 0) -> dict[str, Mock]:
    """The bundled ones, as ``--model`` names them."""
    found = (
        Mock("mock:makes-up-names", makes_up_names, 0.3, seed),
        Mock("mock:drops-optional", drops_optional, 0.8, seed),
        Mock("mock:ignores-irrelevance", ignores_irrelevance, 0.8, seed),
    )
    return {mock.name: mock for mock in found}


# --- how models write ---------------------------------------------------------------------------


def _written(calls: list[Called], chance: Random) -> str:
    """The same calls in some order, their arguments too, in one of several spellings."""
    shuffled = [replace(call, args=_shuffled(call.args, chance)) for call in calls]
    chance.shuffle(shuffled)
    spelling = chance.choice((rendered, _in_double_quotes, _as_json, _fenced))
    return spelling(shuffled)


def _shuffled(args: Mapping[str, Any], chance: Random) -> dict[str, Any]:
    names = list(args)
    chance.shuffle(names)
    return {name: args[name] for name in names}


def _in_double_quotes(calls: list[Called]) -> str:
    texts = [
        f"{c.name}({','.join(f'{n}={json.dumps(v)}' for n, v in c.args.items())})" for c in calls
    ]
    return texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"


def _as_json(calls: list[Called]) -> str:
    return json.dumps([{"name": call.name, "arguments": call.args} for call in calls])


def _fenced(calls: list[Called]) -> str:
    return f"```python\n{rendered(calls)}\n```"


def _declined(case: Case) -> str:
    return f"Which one? Please say {case.asks}." if case.asks else ""
