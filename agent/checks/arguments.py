"""V_syn: do the arguments fit the tool? The one ``normalise`` that every path goes through.

It runs when the model proposes a call, before a person's edit is stored, and again at the point
of execution; digests are always of normalised arguments, so what was approved is what runs.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema.exceptions import ValidationError
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel
from pydantic import ValidationError as PydanticValidationError

from agent.canonical import canonical_json, check_plain
from agent.errors import SaysoError
from agent.safe_text import shorten, spelled
from agent.schemas import UnusableSchema, check
from agent.store.named_secrets import NamedSecrets, looks_secret, masked_by_name
from tools.calling import contained
from tools.contract import RESERVED


@dataclass(frozen=True)
class Normalised:
    """Arguments as they will run: plain JSON, validated, defaults filled in.

    ``notes`` name each value that was changed on the way, such as ``"limit: '5' → 5"``, and what
    of the tool's schema could not be checked.
    """

    args: dict[str, Any]
    notes: tuple[str, ...] = ()


class ArgumentsError(SaysoError):
    """Arguments that do not fit; ``problems`` has one line each, saying what to change."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        self.tool, self.problems = tool, tuple(problems)
        super().__init__(f"The arguments do not fit {tool}:\n" + "\n".join(self.problems))


def normalise(tool: BaseTool, args: Mapping[str, Any]) -> Normalised:
    """Validate arguments against the tool's own schema and spell them the one way.

    Normalising twice gives the same as once. Optional arguments whose default is null and that
    were not given stay away; other defaults are filled in, so that a reviewer sees them.

    Raises:
        ArgumentsError: What is missing, unknown or of the wrong type, in words.
    """
    once = _checked(tool, args)
    if not _is_stable(tool, args, once.args):
        raise ArgumentsError(
            tool.name,
            ["the tool's own check changes its arguments each time, so it cannot be said what "
             "would run; it cannot be called"],
        )  # fmt: skip
    return once


def _is_stable(tool: BaseTool, given: Mapping[str, Any], checked: Mapping[str, Any]) -> bool:
    """Whether checking again would change nothing; as is plain where the first time changed
    nothing."""
    spelled = canonical_json(checked)
    if spelled == canonical_json(given):
        return True
    try:
        return canonical_json(_checked(tool, checked).args) == spelled
    except ArgumentsError:
        return False


def _checked(tool: BaseTool, args: Mapping[str, Any]) -> Normalised:
    """Validate once. Whatever the tool's own code does wrong here is an error in words."""
    try:
        check_plain(args)
        _check_names(tool, args)
        schema = _model_schema(tool)
        if isinstance(schema, dict):
            return _against_json_schema(tool.name, schema, args)
        return _against_model(tool.name, schema, args)
    except ArgumentsError as error:
        raise _without_secrets(error, args) from error.__cause__
    except Exception as error:
        unusable = ArgumentsError(tool.name, [f"cannot be used: {error}"])
        raise _without_secrets(unusable, args) from error


def _without_secrets(error: ArgumentsError, args: Mapping[str, Any]) -> ArgumentsError:
    """The error without the values of secret-looking arguments, which a check may have quoted: it
    is kept, and read again, as words."""
    secrets = NamedSecrets(args)
    return ArgumentsError(error.tool, [secrets.masked(problem) for problem in error.problems])


def _check_names(tool: BaseTool, args: Mapping[str, Any]) -> None:
    if isinstance(tool, StructuredTool) and (kept := sorted(RESERVED & args.keys())):
        raise ArgumentsError(
            tool.name, [f"{name}: cannot be passed on; the tool must name it otherwise"
                        for name in kept]
        )  # fmt: skip


def _model_schema(tool: BaseTool) -> type[BaseModel] | dict[str, Any]:
    """The schema of what the model may send: injected parameters are not part of it."""
    if isinstance(tool.args_schema, dict):
        return tool.args_schema
    shown = tool.tool_call_schema
    if isinstance(shown, dict):
        return shown
    assert isinstance(shown, type)
    assert issubclass(shown, BaseModel)
    own = tool.args_schema
    if not (isinstance(own, type) and issubclass(own, BaseModel)):
        return shown
    # The tool's own model has its validators, which the shown subset lacks.
    if own.model_fields.keys() == shown.model_fields.keys():
        return own
    decorators = own.__pydantic_decorators__
    if decorators.field_validators or decorators.model_validators or decorators.validators:
        raise ArgumentsError(
            tool.name,
            ["the tool has checks of its own beside injected parameters, so what would run "
             "cannot be known beforehand; it cannot be called"],
        )  # fmt: skip
    return shown


# --- pydantic models: tools of this process ------------------------------------------------


def _against_model(name: str, model: type[BaseModel], args: Mapping[str, Any]) -> Normalised:
    allowed = {field.alias or key for key, field in model.model_fields.items()}
    problems = _unknown(args, allowed) if model.model_config.get("extra") != "allow" else []
    try:
        value = contained(model.model_validate, dict(args))
    except PydanticValidationError as error:
        problems += [_in_words(e) for e in error.errors() if e["type"] != "extra_forbidden"]
    except Exception as error:  # a validator of the tool's own that raises something else
        problems.append(f"refused by the tool's own check: {error}")
    if problems:
        raise ArgumentsError(name, problems)
    dumped = contained(lambda: value.model_dump(mode="json", by_alias=True))
    check_plain(dumped)
    given = {key: inner for key, inner in dumped.items() if key in args or inner is not None}
    return Normalised(given, tuple(_changes(args, given)))


def _in_words(error: Any) -> str:
    path = _path(error["loc"])
    if error["type"] == "missing":
        return f"{path}: missing, and it is required"
    return f"{path}: {error['msg']}{_got(error['loc'], error['input'])}"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    for key, value in before.items():
        if key in after and canonical_json(after[key]) != canonical_json(value):
            yield f"{spelled(key)}: {_shown(value)} → {_shown(after[key])}"


# --- JSON schemas: tools that came over MCP ------------------------------------------------


def _against_json_schema(
    name: str, schema: Mapping[str, Any], args: Mapping[str, Any]
) -> Normalised:
    properties = schema.get("properties") or {}
    closed = "additionalProperties" not in schema and "patternProperties" not in schema
    problems = _unknown(args, properties) if closed and isinstance(properties, Mapping) else []
    try:
        checked = check(schema, dict(args))
    except UnusableSchema as error:
        raise ArgumentsError(
            name, [f"the tool's own schema cannot be used ({error}); it cannot be called"]
        ) from error
    problems += [_json_in_words(problem) for problem in checked.problems]
    if problems:
        raise ArgumentsError(name, problems)
    filled = {
        key: inner["default"]
        for key, inner in properties.items()
        if key not in args and isinstance(inner, Mapping) and inner.get("default") is not None
    }
    return Normalised({**json.loads(canonical_json(args)), **filled}, checked.unchecked)


def _json_in_words(error: ValidationError) -> str:
    path = _path(error.absolute_path)
    if error.validator == "required":
        present: Any = error.instance
        wanted: Any = error.validator_value
        missing = [key for key in wanted if key not in present]
        return f"{path}: missing {', '.join(map(repr, missing))}"
    if error.validator == "type":
        got = _got(error.absolute_path, error.instance)
        return f"{path}: should be {error.validator_value}{got}"
    return f"{path}: {shorten(_message(error), 500)}"


def _message(error: ValidationError) -> str:
    """The library's words, which begin with the value in most cases."""
    without = error.message.removeprefix(repr(error.instance))
    if without == error.message:
        return without
    is_secret = _is_secret(error.absolute_path)
    return ("the value" if is_secret else repr(masked_by_name(error.instance))) + without


# --- both ----------------------------------------------------------------------------------


def _unknown(args: Mapping[str, Any], allowed: Iterable[str]) -> list[str]:
    names = sorted(allowed)
    return [
        f"{spelled(key)}: the tool has no such argument{_suggest(key, names)}"
        for key in args
        if key not in names
    ]


def _suggest(key: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; it takes: {', '.join(names)}" if names else "; it takes none"


def _path(parts: Iterable[str | int]) -> str:
    return ".".join(spelled(str(part)) for part in parts) or "arguments"


def _got(path: Iterable[str | int], value: Any) -> str:
    """What was sent, unless it is a secret."""
    return "" if _is_secret(path) else f", got {_shown(masked_by_name(value))}"


def _is_secret(path: Iterable[str | int]) -> bool:
    return any(looks_secret(str(part)) for part in path)


def _shown(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
