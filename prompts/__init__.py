"""The texts that the model reads, as files; nothing here imports anything of the project.

``system.md`` is the frame, ``<domain>.md`` is added when that domain's tools are bound, and
``messages.toml`` holds what the harness says to the model between its calls.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from string import Template


@cache
def _text(file_name: str) -> str:
    return files(__name__).joinpath(file_name).read_text(encoding="utf-8")


@cache
def _messages() -> dict[str, Template]:
    return {
        key: Template(text.strip()) for key, text in tomllib.loads(_text("messages.toml")).items()
    }


def message(key: str, **values: object) -> str:
    """A text of ``messages.toml`` with its ``$placeholders`` filled in.

    Raises:
        KeyError: For an unknown key or a missing value: both are faults of the caller.
    """
    return _messages()[key].substitute({name: str(value) for name, value in values.items()})


def system_prompt(domains: Iterable[str], own: str | None = None) -> str:
    """The system prompt for a session.

    Args:
        domains: Names of the domains whose tools are bound, such as ``"orders"``; those that
            have a file add their guidance, in the order given.
        own: A user's own prompt; it takes the place of ``system.md``.
    """
    known = {entry.name for entry in files(__name__).iterdir()}
    parts = [own if own is not None else _text("system.md")]
    parts += [_text(f"{domain}.md") for domain in domains if f"{domain}.md" in known]
    return "\n\n".join(part.strip() for part in parts)
