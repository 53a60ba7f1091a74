"""Server-sent events, however their lines end and wherever the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.mcp.transport.events import Event, EventReader, Place

ENDS = (b"\n", b"\r", b"\r\n")
LINES = st.sampled_from(
    [
        *(b"", b"data: a", b"data:b", b"data", b"data:  c", b"datax: d", b"data: \xe2\x82\xac"),
        *(b": e", b":", b"event: f", b"event", b"id: g", b"id", b"retry: 7000", b"other: h"),
    ]
) | st.binary(max_size=9).map(lambda line: line.replace(b"\r", b"").replace(b"\n", b""))


def read(*pieces: bytes) -> tuple[list[Event], Place]:
    place = Place()
    reader = EventReader(place)
    return [event for piece in pieces for event in reader.feed(piece)], place


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    """The stream in pieces that end at these places, as far as there are so many bytes."""
    ends = sorted({min(place, len(stream)) for place in at})
    return [stream[a:b] for a, b in zip([0, *ends], [*ends, len(stream)], strict=True)]


@settings(max_examples=500)
@given(
    lines=st.lists(st.tuples(LINES, st.sampled_from(ENDS)), max_size=12),
    at=st.lists(st.integers(0, 120), max_size=12),
    bom=st.booleans(),
)
@example(lines=[(b"data: a", b"\r\n"), (b"", b"\r\n")], at=[8, 9], bom=False)  # in a CRLF
@example(lines=[(b"data: a", b"\n"), (b"", b"\n")], at=[1, 2], bom=True)  # in the mark
def test_neither_line_ends_nor_pieces_make_a_difference(
    lines: list[tuple[bytes, bytes]], at: list[int], bom: bool
) -> None:
    # An empty line behind a bare CR would be one CRLF: it is then ended by a CR, too.
    written = b""
    for line, end in lines:
        joins = not line and written.endswith(b"\r") and end.startswith(b"\n")
        written += line + (b"\r" if joins else end)
    plain = b"".join(line + b"\n" for line, _ in lines)
    mark = b"\xef\xbb\xbf" if bom else b""
    assert read(*cut(mark + written, at)) == read(plain)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\rdata: b\r\rdata: c\r\r", [("message", b"a\nb"), ("message", b"c")]),
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [("message", b"YHOO\n+2\n10")]),
        (b": hi\n\n\n:\n\nevent: x\n\ndata: 1\n\n", [("message", b"1")]),
        (b"event: add\ndata: 7\n\ndata: 8\n\n", [("add", b"7"), ("message", b"8")]),
        (b"data\n\ndata\ndata\n\ndata:", [("message", b""), ("message", b"\n")]),
        (b"data:a\n\ndata: a\n\ndata:  a\n\n", [("message", w) for w in (b"a", b"a", b" a")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [("message", b"a")]),
        (b"data: never ended\n", []),
    ],
)  # fmt: skip
def test_events_are_those_of_the_specification(
    stream: bytes, events: list[tuple[str, bytes]]
) -> None:
    found, place = read(stream)
    assert [(event.name, bytes(event.data)) for event in found] == events
    assert place.events == len(events)


def test_an_event_is_handed_on_before_the_second_half_of_its_line_end() -> None:
    reader = EventReader(Place())
    assert [event.data for event in reader.feed(b"data: a\r\n\r")] == [b"a"]
    assert list(reader.feed(b"\n")) == []
    assert [event.data for event in reader.feed(b"data: b\r\n\r\n")] == [b"b"]


def test_the_place_moves_on_with_each_event_that_has_ended() -> None:
    place = Place()
    reader = EventReader(place)
    assert len(list(reader.feed(b"id: 1\ndata: a\n\ndata: b\n\nid: 2\nretry: 250\ndata: c\n"))) == 2
    assert (place.id, place.pause) == ("1", 0.25), "the last one has not ended"
    list(reader.feed(b"\nid: two words\nretry: soon\n\n"))
    assert (place.id, place.pause) == ("2", 0.25), "what cannot be sent back is none"
    list(EventReader(place).feed(b"\n"))
    assert place.id == "2", "the next stream goes on where this one was cut"
    list(EventReader(place).feed(b"id\n\n"))
    assert place.id == "", "a server may take it back"


def test_what_has_begun_is_counted() -> None:
    reader = EventReader(Place())
    list(reader.feed(b"data: " + b"x" * 100))
    assert reader.held == 106
    list(reader.feed(b"\ndata: y"))
    assert reader.held == 107
    list(reader.feed(b"\n\n"))
    assert reader.held == 0
