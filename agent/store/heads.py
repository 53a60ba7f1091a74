"""The head of the trail: the end of every chain, in a form to be kept outside the database.

As text::

    sayso-trail-head 1 <digest>
    <session> <seq> <hash>
    …

``digest`` is the SHA-256 (hex) of all the lines below the first, each with its line feed; it
notices a copy that was cut or damaged. As JSON the same is ``{"head": "sayso-trail-head 1",
"digest": …, "sessions": [{"session": …, "seq": …, "hash": …}, …]}``, with the same digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from agent.errors import StoreError, UsageError

_FORMAT = "sayso-trail-head 1"
_TITLE = re.compile(rf"{_FORMAT} ([0-9a-f]{{64}})")
_LINE = re.compile(r"([a-z0-9-]{1,64}) ([1-9][0-9]{0,17}) ([0-9a-f]{64})")


class End(NamedTuple):
    """The last entry of a chain: its number, and its hash."""

    seq: int
    hash: str


class Head:
    """The ends of chains by session, in the order in which they are written."""

    def __init__(self, ends: Iterable[tuple[str, int, str]]) -> None:
        self.ends = {session: End(seq, last) for session, seq, last in ends}

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over the lines."""
        return hashlib.sha256("".join(f"{line}\n" for line in self._lines()).encode()).hexdigest()

    def text(self) -> str:
        """The lines, joined; without a line feed after the last.

        Raises:
            StoreError: A chain has no end that could be kept: the record is damaged.
        """
        return "\n".join([f"{_FORMAT} {self.digest}", *self._lines()])

    def json(self) -> dict[str, Any]:
        """The same as a JSON value; raises as ``text`` does."""
        ends = [{"session": name, **end._asdict()} for name, end in self.ends.items()]
        return {"head": _FORMAT, "digest": self.digest, "sessions": ends}

    def _lines(self) -> Iterator[str]:
        for session, end in self.ends.items():
            line = f"{session} {end.seq} {end.hash}"
            if not _LINE.fullmatch(line):
                raise StoreError(
                    f"The trail of session {session!r} has no end that could be kept: the record "
                    "is damaged. See what is wrong: sayso trail verify"
                )
            yield line


def parse_head(text: str) -> Head:
    """A head that was kept, as text or as JSON; line ends and empty lines at the end may differ.

    Raises:
        UsageError: It is not a head, or not whole, or was altered; in words.
    """
    written = _lines_of_json(text) if text[:1] == "{" else text.rstrip().splitlines()
    first, *lines = written or [""]
    title = _TITLE.fullmatch(first)
    if title is None:
        raise UsageError(
            f"This is not a head of the trail: it does not begin with {_FORMAT!r} and a digest. "
            "One is printed by: sayso trail head"
        )
    found = [_LINE.fullmatch(line) for line in lines]
    for number, line in enumerate(found, 2):
        if line is None:
            raise UsageError(f"Line {number} of the head is not: session, number, hash.")
    head = Head((line[1], int(line[2]), line[3]) for line in found if line is not None)
    if len(head.ends) != len(lines) or head.digest != title[1]:
        raise UsageError(
            "The head's digest does not fit its lines: it was altered, or is not whole. "
            "Nothing was checked."
        )
    return head


def _lines_of_json(text: str) -> list[str]:
    """The lines of a head that was kept as JSON; none when it is something else."""
    try:
        value = json.loads(text)
        ends = [f"{end['session']} {end['seq']} {end['hash']}" for end in value["sessions"]]
        return [f"{value['head']} {value['digest']}", *ends]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
