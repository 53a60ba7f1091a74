"""What stands in ``${…}`` in a file that names MCP servers, and the values put in its place.

============================================  ==================================================
written                                       becomes
============================================  ==================================================
``${NAME}``, ``${env:NAME}``                  the environment variable; not set: an error
``${NAME:-default}``                          the same, or the default where it is empty or unset
``${input:some-id}``                          the environment variable ``SOME_ID``, else the answer
                                              of a person to the file's input of that id
``${workspaceFolder}``                        the folder that the file belongs to
``${workspaceFolderBasename}``                the last part of it
``${userHome}``                               the person's home
``${pathSeparator}``, ``${/}``                ``/``
============================================  ==================================================

A value is put in once and not looked at again. No ``SAYSO_*`` variable is ever put in. What a
person is shown has no value that may be a secret.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.config import mask
from agent.mcp.configuration.members import is_ours
from agent.mcp.configuration.showing import in_clear, may_be_shown, sounds_secret

MAX_LENGTH = 32_000
"""Characters of one text after its variables were put in."""

_PLACEHOLDER = re.compile(r"\$\{[^}]*\}?")
_VARIABLE = re.compile(
    r"\$\{(?:env:(?P<env>[A-Za-z_]\w*)|(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?)\}",
    re.ASCII,
)
_INPUT = re.compile(r"\$\{input:(?P<id>[^}]+)\}")


class VariableError(Exception):
    """A text has a variable in it that has no value here; the message says which and what to do."""


@dataclass(frozen=True)
class Input:
    """Something that a file wants a person to be asked for.

    Args:
        id: Its name in the file.
        description: The question, as the file puts it.
        secret: The answer is not to be seen while it is typed.
        options: The answers to choose from; empty where any text will do.
        default: What an empty answer means; empty for nothing.
    """

    id: str
    description: str = ""
    secret: bool = False
    options: tuple[str, ...] = ()
    default: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that answers it: ``api-key`` → ``API_KEY``."""
        return re.sub(r"[^A-Z0-9_]", "_", self.id.upper())


Ask = Callable[[Input], str | None]
"""Asks a person for an input: one of its options, if it has any; ``None`` for no answer."""


def as_written(wanted: Input) -> str:
    """The ``Ask`` of whoever only looks: the input stays as the file has it."""
    return f"${{input:{wanted.id}}}"


def read_input(entry: Any) -> Input:
    """One of VS Code's inputs, as its file has it.

    Raises:
        VariableError: It has another shape, or is of a kind that runs a command of VS Code.
    """
    match entry:
        case {"id": str(id), "type": "promptString"}:
            options: Sequence[Any] = ()
        case {"id": str(id), "type": "pickString", "options": list(options)} if options:
            options = [o.get("value") if isinstance(o, dict) else o for o in options]
        case {"id": str(id), "type": kind}:
            raise VariableError(f"the input {id!r} is a {kind!r}, which cannot be asked for here")
        case _:
            raise VariableError("an input needs an id, and the type promptString or pickString")
    description, default = entry.get("description", ""), entry.get("default", "")
    if not all(isinstance(text, str) for text in (description, default, *options)):
        raise VariableError(f"description, default and options of input {id!r} must be texts")
    return Input(id, description, entry.get("password") is True, tuple(options), default)


def inputs_named(entry: Any) -> set[str]:
    """The ids of the inputs that the texts of a server name."""
    return set(re.findall(r"\$\{input:([^}]+)\}", json.dumps(entry, ensure_ascii=False)))


def id_of(entry: Any) -> str | None:
    """The id of one of VS Code's inputs; ``None`` for what is none."""
    named = entry.get("id") if isinstance(entry, dict) else None
    return named if isinstance(named, str) else None


@dataclass(frozen=True)
class Expanded:
    """A text with its variables put in.

    Args:
        value: As it is used.
        shown: As a person is shown it; variables whose values may be secrets are still in it.
        hidden: The values of those, masked, by the names of the variables.
    """

    value: str
    shown: str
    hidden: Mapping[str, str] = field(default_factory=dict)


class Variables:
    """The values for the texts of one server; remembers which of the environment were taken.

    Args:
        environment: Where the values of variables come from.
        home: The person's home folder.
        folder: The folder that the file belongs to; ``None`` when it belongs to a person.
        inputs: VS Code's inputs, as the file has them.
        ask: Asks for an input whose variable is not set; ``None``: nobody can be asked.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        home: Path,
        folder: Path | None,
        inputs: Sequence[Any] = (),
        ask: Ask | None = None,
    ) -> None:
        self.taken: list[str] = []
        self._environment, self._inputs, self._ask = environment, inputs, ask
        self._places = {"userHome": str(home), "pathSeparator": os.sep, "/": os.sep}
        if folder is not None:
            self._places["workspaceFolder"] = str(folder)
            self._places["workspaceFolderBasename"] = folder.name

    def expand(self, text: str, *, deciding: bool = False) -> Expanded:
        """The text with all values put in.

        Args:
            deciding: Which code runs hangs on it: values are shown but for those of variables that
                are called what secrets are called.

        Raises:
            VariableError: One has none, cannot be read, or makes the text longer than
                ``MAX_LENGTH``.
        """
        parts, position, length = [], 0, 0
        for placeholder in _PLACEHOLDER.finditer(text):
            between = text[position : placeholder.start()]
            parts += [Expanded(between, between), self._put_in(placeholder[0], deciding)]
            position, length = placeholder.end(), length + len(parts[-1].value)
            if length > MAX_LENGTH:
                break
        parts.append(Expanded(text[position:], text[position:]))
        expanded = "".join(part.value for part in parts)
        if len(expanded) > MAX_LENGTH:
            raise VariableError(f"a text here is longer than {MAX_LENGTH} characters")
        if "\0" in expanded:
            raise VariableError("a text here contains a NUL character")
        hidden = {name: masked for part in parts for name, masked in part.hidden.items()}
        return Expanded(expanded, "".join(part.shown for part in parts), hidden)

    def _put_in(self, written: str, deciding: bool) -> Expanded:
        place = written[2:-1]
        if place in self._places:
            return Expanded(self._places[place], self._places[place])
        if place.startswith("workspaceFolder"):
            raise VariableError(f"{written} means nothing in this file; write the folder's path")
        if wanted := _INPUT.fullmatch(written):
            return self._answer(written, wanted["id"], deciding)
        if variable := _VARIABLE.fullmatch(written):
            name = variable["env"] or variable["name"]
            return self._variable(written, name, variable["default"], deciding)
        raise VariableError(f"cannot read {written[:100]!r}; write ${{VAR}} or ${{VAR:-default}}")

    def _variable(self, written: str, name: str, default: str | None, deciding: bool) -> Expanded:
        value = self._take(name)
        if not value and default is not None:
            return Expanded(default, default)
        if value is None:
            raise VariableError(
                f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
            )
        return _covered(written, name, value, deciding)

    def _take(self, name: str) -> str | None:
        if is_ours(name):
            raise VariableError(f"{name} is no business of a server's; leave it out")
        if name in self._environment and name not in self.taken:
            self.taken.append(name)
        return self._environment.get(name)

    def _answer(self, written: str, id: str, deciding: bool) -> Expanded:
        wanted = self._input(id)
        value = self._take(wanted.variable)
        if not value:
            value = self._asked(wanted)
        elif wanted.options and value not in wanted.options:
            options = ", ".join(map(repr, wanted.options[:20]))
            raise VariableError(f"the input {id!r}, {wanted.variable}, is none of {options}")
        if wanted.options or value == written:
            return Expanded(value, value)  # as the file has it
        return _covered(written, wanted.variable, value, deciding and not wanted.secret)

    def _asked(self, wanted: Input) -> str:
        if self._ask is None:
            raise VariableError(
                f"it needs the input {wanted.id!r}; set the variable {wanted.variable}, or start "
                "sayso on a terminal, where it asks"
            )
        answer = self._ask(wanted)
        if answer is None:
            raise VariableError(
                f"the input {wanted.id!r} got no answer; set {wanted.variable}, or answer"
            )
        return answer

    def _input(self, id: str) -> Input:
        for entry in self._inputs:
            if id_of(entry) == id:
                return read_input(entry)
        raise VariableError(f"there is no input {id!r} among the inputs of this file")


def _covered(written: str, name: str, value: str, deciding: bool) -> Expanded:
    """A value that comes from a person or their environment, hidden where it may be a secret."""
    if may_be_shown(name, value) or (deciding and not sounds_secret(name)):
        return Expanded(value, in_clear(value))
    return Expanded(value, written, {name: mask(value)})
