"""Server-sent events out of a stream of bytes.

Specification: https://html.spec.whatwg.org/multipage/server-sent-events.html, "Parsing an event
stream" and "Interpreting an event stream". Two differences: data stays bytes, and an id is kept
only if it can be sent back in a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

VISIBLE = re.compile(r"[\x21-\x7e]{1,1000}")
"""What a session id, an event id and a revision may be, which we send back in a header."""

_BOM = b"\xef\xbb\xbf"


@dataclass
class Place:
    """How far a server's events were read, over all the streams that brought them.

    Attributes:
        id: Of the last event; empty where the server gave none.
        pause: Seconds before a stream that was cut is to be taken up again.
        events: How many there were.
    """

    id: str = ""
    pause: float = 1.0
    events: int = 0


@dataclass
class Event:
    """One event; its data lines are joined by a line feed."""

    name: str
    data: bytearray


class EventReader:
    """Reads one stream, in pieces of any size; an event that the stream does not end is none.

    Args:
        place: Is moved on with each event.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._line = bytearray()
        self._at_start, self._after_cr = True, False
        self._name, self._id = "", place.id
        # None until there is a line of data: an event without one is not handed on.
        self._data: bytearray | None = None

    @property
    def held(self) -> int:
        """Bytes of what has begun and not ended."""
        return len(self._line) + len(self._data or b"")

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that end in this piece; no earlier piece is looked at again."""
        if not piece:
            return
        if self._after_cr:  # the other half of a CRLF
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        begun, *others = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._line += begun
        for other in others:
            line, self._line = self._line, bytearray(other)
            if (event := self._take_up(line)) is not None:
                yield event

    def _take_up(self, line: bytearray) -> Event | None:
        """Take up a whole line; the event that it ends, if it ends one."""
        if self._at_start and line.startswith(_BOM):
            del line[: len(_BOM)]
        self._at_start = False
        if not line:
            return self._ended()
        if line.startswith(b"data:") or line == b"data":
            del line[: 6 if line.startswith(b"data: ") else 5]  # in place: it may be long
            if self._data is None:
                self._data = line
            else:
                self._data += b"\n"
                self._data += line
            return None
        name, _, value = line.partition(b":")  # of a comment the name is empty
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        match bytes(name):
            case b"event":
                self._name = text
            case b"id" if not text or VISIBLE.fullmatch(text):
                self._id = text
            case b"retry" if re.fullmatch(r"[0-9]{1,9}", text):
                self._place.pause = max(int(text) / 1000, 0.1)
        return None

    def _ended(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data = "", None
        self._place.id = self._id
        if data is None:
            return None
        self._place.events += 1
        return Event(name or "message", data)
