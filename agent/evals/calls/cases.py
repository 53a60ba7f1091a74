"""Cases: what a user says, which functions are offered, which calls are right. Read from YAML.

::

    functions:
      get_order:
        description: One order by its id.
        properties: {order_id: {type: string}}
        required: [order_id]
    cases:
      - id: simple-1
        category: simple
        says: Where is order A1?
        offers: [get_order]
        calls:
          - {call: get_order, args: {order_id: [A1]}}

Each argument is the list of what it may be. ``may_omit`` names arguments of a call that may also be
left out. A case without ``calls`` is right when nothing is called; with ``asks``, when the model
asks for what it names as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel, ConfigDict, Field

from agent.errors import InvalidFile
from agent.evals.calls.matching import Accepted, Function, Wanted
from agent.evals.calls.parsing import Called, rendered
from agent.evals.written import Written, read_written

Category = Literal[
    "simple", "multiple", "parallel", "parallel-multiple", "irrelevance", "missing-parameter"
]
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True)
class Case:
    """One reply of a model.

    Args:
        calls: The right calls, in any order; none where nothing is to be called.
        asks: What has to be asked for, in a word; then nothing is to be called.
    """

    id: str
    category: str
    says: str
    functions: tuple[Function, ...]
    calls: tuple[Wanted, ...] = ()
    asks: str | None = None

    @cached_property
    def offered(self) -> Mapping[str, Function]:
        """The functions by name."""
        return {function.name: function for function in self.functions}

    @cached_property
    def gold(self) -> tuple[Called, ...]:
        """The right calls, with the first value that each argument may have."""
        return tuple(Called(one.name, plain(dict(one.args))) for one in self.calls)

    @cached_property
    def gold_text(self) -> str:
        """The right calls as Python writes them; empty where nothing is to be called."""
        return rendered(self.gold) if self.gold else ""


def plain(wanted: Any) -> Any:
    """A wanted value as one that a model could give: the first of several, at any depth."""
    if isinstance(wanted, Accepted):
        return plain(wanted.values[0])
    if isinstance(wanted, dict):
        return {key: plain(item) for key, item in wanted.items() if not _is_left_out(item)}
    return [plain(item) for item in wanted] if isinstance(wanted, list) else wanted


def _is_left_out(wanted: Any) -> bool:
    return isinstance(wanted, Accepted) and (
        not wanted.values or (wanted.optional and all(value == "" for value in wanted.values))
    )


# --- files --------------------------------------------------------------------------------------


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FunctionWritten(_Strict):
    """A function as a file describes it."""

    description: str
    properties: dict[str, dict[str, Any]] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)


class CallWritten(_Strict):
    """A right call as a file writes it."""

    call: str
    args: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    may_omit: list[str] = Field(default_factory=list)


class CaseWritten(_Strict):
    """A case as a file writes it."""

    id: str
    category: Category
    says: str
    offers: Annotated[list[str], Field(min_length=1)]
    calls: list[CallWritten] = Field(default_factory=list)
    asks: str | None = None


class CasesWritten(_Strict):
    """A file of cases."""

    functions: dict[str, FunctionWritten]
    cases: Annotated[list[CaseWritten], Field(min_length=1)]


def bundled_cases() -> list[Case]:
    """The cases that come with sayso."""
    with as_file(files(__package__) / "cases.yaml") as path:
        return read_cases(path)


def read_cases(path: Path) -> list[Case]:
    """The cases of a file.

    Raises:
        InvalidFile: It cannot be used; each fault with its line.
    """
    written = read_written(path, CasesWritten)
    if faults := _faults_of_functions(written) or _faults_of_cases(written):
        raise InvalidFile(faults)
    functions = {name: _function(name, one) for name, one in written.value.functions.items()}
    return [_case(one, functions) for one in written.value.cases]


def _function(name: str, written: FunctionWritten) -> Function:
    required = frozenset(written.required)
    return Function(name, written.properties, required, written.description)


def _case(written: CaseWritten, functions: Mapping[str, Function]) -> Case:
    return Case(
        id=written.id,
        category=written.category,
        says=written.says,
        functions=tuple(functions[name] for name in written.offers),
        calls=tuple(_wanted(call) for call in written.calls),
        asks=written.asks,
    )


def _wanted(written: CallWritten) -> Wanted:
    omitted = set(written.may_omit)
    args = {name: Accepted(tuple(v), name in omitted) for name, v in written.args.items()}
    return Wanted(written.call, args)


def _faults_of_functions(written: Written[CasesWritten]) -> list[str]:
    faults = []
    for name, function in written.value.functions.items():
        at = written.at("functions", name)
        for missing in set(function.required) - function.properties.keys():
            faults.append(f"{at}: {name} requires {missing!r}, which is none of its properties")
        try:
            Draft202012Validator.check_schema({"properties": function.properties})
        except SchemaError as error:
            faults.append(f"{at}: the schema of {name} is none: {error.message}")
    return faults


def _faults_of_cases(written: Written[CasesWritten]) -> list[str]:
    faults, first = list[str](), dict[str, str]()
    functions = written.value.functions
    for number, case in enumerate(written.value.cases):
        at = written.at("cases", number)
        if case.id in first:
            faults.append(f"{at}: {case.id!r} is the id of the case in {first[case.id]} too")
        first.setdefault(case.id, at)
        for name in case.offers:
            if name not in functions:
                faults.append(f"{at}: {case.id} offers {name!r}, which is not described")
        if problem := _misfit(case):
            faults.append(f"{at}: {case.id} {problem}")
        for place, call in enumerate(case.calls):
            at = written.at("cases", number, "calls", place)
            if call.call not in case.offers or call.call not in functions:
                faults.append(f"{at}: {case.id} does not offer {call.call!r}")
            else:
                faults += [f"{at}: {what}" for what in _faults_of_call(call, functions[call.call])]
    return faults


def _misfit(case: CaseWritten) -> str | None:
    """What does not fit a case's category."""
    match case.category:
        case "missing-parameter":
            return (
                None if case.asks and not case.calls else "says in `asks` what is missing, no calls"
            )
        case "irrelevance":
            return "has no calls, that is its category" if case.calls or case.asks else None
        case "simple" | "multiple":
            fits = len(case.calls) == 1
        case _:
            fits = len(case.calls) > 1
    if case.asks or not fits:
        return f"has {len(case.calls)} calls, which is not what {case.category} means"
    return None


def _faults_of_call(call: CallWritten, function: FunctionWritten) -> list[str]:
    faults = [
        f"{call.call} needs {name!r}"
        for name in function.required
        if name not in call.args or name in call.may_omit
    ]
    faults += [
        f"{name!r} is left out of nothing" for name in call.may_omit if name not in call.args
    ]
    for name, values in call.args.items():
        if name not in function.properties:
            faults.append(f"{call.call} has no {name!r}")
            continue
        check = Draft202012Validator(function.properties[name])
        for value in values:
            if (error := next(check.iter_errors(value), None)) is not None:
                faults.append(f"{name} of {call.call} can never be {value!r}: {error.message}")
    return faults


def by_category(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """The cases of each category, in the order of the categories."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(case.category, []).append(case)
    known = [*CATEGORIES]
    return dict(
        sorted(found.items(), key=lambda pair: known.index(pair[0]) if pair[0] in known else 99)
    )
