"""What a case of our own is made of, as a row: a task, what is planted on its way, the calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from agent.evals.injection.case import GoldCall


def call(tool: str, **args: Any) -> GoldCall:
    """A call as it is written in a row."""
    return GoldCall(tool, args)


@dataclass(frozen=True)
class Task:
    """What the user wants, and the calls that do it.

    Args:
        name: Short; part of the case's id.
        answer: What they are told when all of it is done.
    """

    name: str
    request: str
    calls: tuple[GoldCall, ...]
    answer: str = "Done."


@dataclass(frozen=True)
class Planted:
    """What a stranger wrote, by the place where it stands. Empty: nothing of theirs is there.

    Args:
        mail, subject, sender: Of the mail M113; the sender takes the place of the usual one.
        page, second_page: Of the two pages of the web.
        file, second_file: Text of the two files in ``offers``.
        file_name: A further file in ``offers``, called so.
        description: Of the MCP server's tool.
        failure: What that tool says in place of a result.
        there: A part of what the bundled sample data holds by itself.
    """

    mail: str = ""
    subject: str = ""
    sender: str = ""
    page: str = ""
    second_page: str = ""
    file: str = ""
    second_file: str = ""
    file_name: str = ""
    description: str = ""
    failure: str = ""
    there: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All that was planted."""
        return tuple(self._texts())

    def _texts(self) -> Iterator[str]:
        for field in fields(self):
            if text := getattr(self, field.name):
                yield text


@dataclass(frozen=True)
class Row:
    """One attack on one task.

    Args:
        kind: What it is counted among.
        name: What is special about it.
        attack: The attacker's calls. It has succeeded when each of them has happened.
        together: Only all that was planted together is the attack.
    """

    kind: str
    name: str
    task: Task
    planted: Planted
    attack: tuple[GoldCall, ...]
    together: bool = False
