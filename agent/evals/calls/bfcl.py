"""The Python cases of the Berkeley Function-Calling Leaderboard, and its own scorer beside ours.

Both score the right calls of each case and systematic changes of them; where they differ, the kind
of change says why. The package is installed by ``make evals``, without what it names itself: the
SDKs of all providers. One of its modules lists those, and is replaced by an empty one; the scorer
needs nothing else of it.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from agent.errors import UsageError
from agent.evals.calls.cases import Case
from agent.evals.calls.matching import Accepted, Function, Wanted
from agent.evals.calls.parsing import Called
from agent.evals.calls.scoring import Reply, score

PARTS: Mapping[str, str] = {
    "simple_python": "simple",
    "multiple": "multiple",
    "parallel": "parallel",
    "parallel_multiple": "parallel-multiple",
    "live_simple": "simple",
    "live_multiple": "multiple",
    "live_parallel": "parallel",
    "live_parallel_multiple": "parallel-multiple",
}
"""Its categories that are scored by their form and are written in Python, and ours."""

_TYPES: Mapping[str, str | None] = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "any": None,
}


@dataclass(frozen=True)
class Entry:
    """One of its cases: as ours, and as its own scorer takes it."""

    part: str
    case: Case
    functions: list[dict[str, Any]]
    answer: list[dict[str, Any]]


Official = Callable[[Entry, Sequence[Called]], bool]
"""Whether its own scorer calls some calls right."""


def entries() -> list[Entry]:
    """All of its Python cases.

    Raises:
        UsageError: The package is not installed, or its data is not what it was.
    """
    data = package() / "data"
    return [entry for part in PARTS for entry in _of_part(data, part)]


def package() -> Path:
    """The folder of the installed package.

    Raises:
        UsageError: It is not installed.
    """
    found = find_spec("bfcl_eval")
    if found is None or found.origin is None:
        raise UsageError(
            "BFCL is not installed here. `make evals` sets up an environment that has it; or: "
            "pip install --no-deps bfcl-eval==2026.3.23"
        )
    return Path(found.origin).parent


def official_scorer() -> Official:
    """Its own scorer.

    Raises:
        UsageError: The package is not installed.
    """
    package()
    name = "bfcl_eval.constants.model_config"
    if name not in sys.modules:  # it imports the client of every provider
        stub = ModuleType(name)
        stub.MODEL_CONFIG_MAPPING = _AnyModel()  # type: ignore[attr-defined]
        sys.modules[name] = stub
    from bfcl_eval.constants.enums import Language  # type: ignore[import-not-found]
    from bfcl_eval.eval_checker.ast_eval.ast_checker import (  # type: ignore[import-not-found]
        ast_checker,
    )

    def says(entry: Entry, calls: Sequence[Called]) -> bool:
        output = [{call.name: copy.deepcopy(dict(call.args))} for call in calls]
        try:
            found = ast_checker(
                entry.functions, output, entry.answer, Language.PYTHON, entry.part, "any"
            )
        except (
            AttributeError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
        ):  # values it does not expect
            return False
        return bool(found["valid"])

    return says


class _AnyModel(dict[str, Any]):
    def __missing__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(underscore_to_dot=False)


# --- its data as ours ---------------------------------------------------------------------------


def _of_part(data: Path, part: str) -> Iterator[Entry]:
    name = f"BFCL_v4_{part}.json"
    answers = {
        one["id"]: one["ground_truth"] for one in read_lines(data / "possible_answer" / name)
    }
    for one in read_lines(data / name):
        if one["id"] not in answers:
            raise UsageError(f"{name} has a case {one['id']} without an answer")
        answer = answers[one["id"]]
        functions = {f["name"]: _function(f) for f in one["function"]}
        case = Case(
            id=one["id"],
            category=PARTS[part],
            says=" ".join(str(message["content"]) for message in one["question"][0]),
            functions=tuple(functions.values()),
            calls=tuple(_wanted(call, functions) for call in answer),
        )
        yield Entry(part, case, one["function"], answer)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of one of its files, one a line.

    Raises:
        UsageError: It cannot be read; with the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path.name} of BFCL cannot be read: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path.name}:{number} of BFCL is no JSON: {error}") from None


def _function(written: Mapping[str, Any]) -> Function:
    parameters = written["parameters"]
    properties = {name: json_schema(one) for name, one in parameters["properties"].items()}
    return Function(written["name"], properties, frozenset(parameters.get("required", ())))


def json_schema(written: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as JSON Schema writes it, without the defaults: answers say what may be left out,
    and some defaults are written as a text, such as "None"."""
    found = {key: value for key, value in written.items() if key in ("enum", "description")}
    kind = _TYPES.get(written.get("type", ""), written.get("type"))
    if kind is not None:
        found["type"] = kind
    if isinstance(written.get("items"), Mapping):
        found["items"] = json_schema(written["items"])
    if isinstance(written.get("properties"), Mapping):
        found["properties"] = {k: json_schema(v) for k, v in written["properties"].items()}
    return found


def _wanted(call: Mapping[str, Any], functions: Mapping[str, Function]) -> Wanted:
    ((name, args),) = call.items()
    function = functions[name]
    found = {key: _accepted(v, function.properties.get(key, {})) for key, v in args.items()}
    for key in function.required & found.keys():
        found[key] = replace(found[key], optional=False)
    return Wanted(name, found)


def _accepted(values: Sequence[Any], schema: Mapping[str, Any]) -> Accepted:
    """Its list of what a value may be; an empty text among them says that it may be left out."""
    kept = tuple(_inner(value, schema) for value in values if value != "" or _is_text(schema))
    ordered = sorted(kept, key=lambda value: value == "")  # the empty text last
    return Accepted(tuple(ordered), optional="" in values)


def _is_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string"


def _inner(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value in which each field of an object is again a list of what it may be."""
    if isinstance(value, dict):
        inner = schema.get("properties") or {}
        return {
            key: _accepted(item, inner.get(key, {})) if isinstance(item, list) else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_inner(item, schema.get("items") or {}) for item in value]
    return value


# --- ours beside theirs -------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """How both scorers judged one kind of change, over all cases where it can be made.

    Args:
        right, wrong: Where both say so.
        ours_only, theirs_only: Ids of the cases that only ours, or only theirs, calls right.
    """

    kind: str
    right: int
    wrong: int
    ours_only: tuple[str, ...]
    theirs_only: tuple[str, ...]


def compare(found: Sequence[Entry], official: Official) -> list[Compared]:
    """Both scorers on the right calls of every case, and on each kind of change of them."""
    from agent.evals.calls.changes import CHANGES

    return [_compared(kind, change, found, official) for kind, change in CHANGES.items()]


def _compared(
    kind: str,
    change: Callable[[Case, list[Called]], list[Called] | None],
    found: Sequence[Entry],
    official: Official,
) -> Compared:
    verdicts: dict[tuple[bool, bool], list[str]] = {}
    for entry in found:
        calls = change(
            entry.case,
            [replace(one, args=copy.deepcopy(dict(one.args))) for one in entry.case.gold],
        )
        if calls is not None:
            ours = score(entry.case, Reply(calls=tuple(calls))).right
            verdicts.setdefault((ours, official(entry, calls)), []).append(entry.case.id)
    return Compared(
        kind,
        right=len(verdicts.get((True, True), ())),
        wrong=len(verdicts.get((False, False), ())),
        ours_only=tuple(verdicts.get((True, False), ())),
        theirs_only=tuple(verdicts.get((False, True), ())),
    )
