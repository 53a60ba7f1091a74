"""A head that was kept elsewhere: its format, and what it shows of a record that was put back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import NotFound, StoreError, UsageError
from agent.store import Problem, Store
from agent.store.heads import Head, parse_head
from tests.unit.store.databases import ANN, new_session
from tests.unit.store.tampering import cut, rewrite, rows_of, sql

HASHES = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(3)]
HEAD = Head([("s-1kq7wxz4m", 8, HASHES[0]), ("s-2kq7wxz4m", 1234567, HASHES[1])])
LINES = HEAD.text().splitlines()


# --- the format -----------------------------------------------------------------------------


def test_the_first_line_is_a_digest_of_the_others() -> None:
    first, *lines = LINES
    assert lines == [f"s-1kq7wxz4m 8 {HASHES[0]}", f"s-2kq7wxz4m 1234567 {HASHES[1]}"]
    below = "".join(f"{line}\n" for line in lines)
    assert first == f"sayso-trail-head 1 {hashlib.sha256(below.encode()).hexdigest()}"
    assert HEAD.json() == {
        "head": "sayso-trail-head 1",
        "digest": first.split()[2],
        "sessions": [
            {"session": "s-1kq7wxz4m", "seq": 8, "hash": HASHES[0]},
            {"session": "s-2kq7wxz4m", "seq": 1234567, "hash": HASHES[1]},
        ],
    }
    assert Head([]).text() == f"sayso-trail-head 1 {hashlib.sha256(b'').hexdigest()}"


@pytest.mark.parametrize(
    "spell",
    [
        Head.text,
        lambda head: head.text() + "\n",
        lambda head: head.text().replace("\n", "\r\n") + "\r\n\r\n",
        lambda head: json.dumps(head.json()),
        lambda head: json.dumps(head.json(), indent=2) + "\n",
    ],
)
@pytest.mark.parametrize("head", [HEAD, Head([])])
def test_a_head_is_read_as_it_was_written(spell: Callable[[Head], str], head: Head) -> None:
    assert parse_head(spell(head)).ends == head.ends


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "does not begin with 'sayso-trail-head 1'"),
        ("s-1kq7wxz4m 8 abc", "does not begin with"),
        ("\n".join(LINES[1:]), "does not begin with"),
        ("sayso-trail-head 2 " + LINES[0][-64:], "does not begin with"),
        ("{", "does not begin with"),
        ("[" * 100_000, "does not begin with"),
        ('{"a":' * 100_000, "does not begin with"),
        ('{"head": "sayso-trail-head 1", "digest": null, "sessions": []}', "does not begin with"),
        ('{"head": "sayso-trail-head 1", "sessions": 7}', "does not begin with"),
        ("\n".join([*LINES, "and more"]), "Line 4 of the head is not"),
        ("\n".join([LINES[0], "", *LINES[1:]]), "Line 2 of the head is not"),
        ("\n".join([LINES[0], f"s-1 {'9' * 30} {HASHES[0]}"]), "Line 2 of the head is not"),
        ("\n".join(LINES[:2]), "digest does not fit"),
        ("\n".join([LINES[0], LINES[2], LINES[1]]), "digest does not fit"),
        ("\n".join([*LINES, LINES[2]]), "digest does not fit"),
    ],
)
def test_what_is_no_head_or_was_altered_is_refused(written: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        parse_head(written)
    assert caught.value.exit_code == 2


@given(st.integers(0, len(HEAD.text()) - 1), st.characters())
def test_one_other_character_is_noticed(place: int, character: str) -> None:
    written = HEAD.text()
    changed = written[:place] + character + written[place + 1 :]
    try:
        assert parse_head(changed).ends == HEAD.ends
        assert changed.split() == written.split()
    except UsageError:
        assert changed != written


@given(st.text())
def test_any_text_is_a_head_or_a_usage_error(written: str) -> None:
    with pytest.raises(UsageError):
        parse_head(written)


# --- against a record -----------------------------------------------------------------------


@pytest.fixture
def chain(store: Store, session: str) -> str:
    """A session with four entries."""
    store.trail.append(session, [(f"note.{n}", {"n": n}) for n in range(2, 5)])
    return session


def test_the_head_names_every_session_in_order(store: Store, chain: str) -> None:
    other = new_session(store).id
    store.sessions.delete(other, ANN)
    head = store.trail.head()
    assert sorted(head.ends) == list(head.ends) == sorted([chain, other])
    assert head.ends[chain] == (4, store.trail.entries(chain)[-1].hash)
    assert head.ends[other].seq == 2


def test_a_chain_that_has_grown_still_holds_what_the_head_names(store: Store, chain: str) -> None:
    head = parse_head(store.trail.head().text())
    store.trail.append(chain, [("note.5", {})])
    store.sessions.delete(chain, ANN)
    new_session(store)
    assert store.trail.verify(head=head) == []
    assert store.trail.verify(chain, head) == []


def test_a_cut_chain_is_found_by_the_head_alone(store: Store, chain: str) -> None:
    head = store.trail.head()
    cut(store, chain, 2)
    assert store.trail.verify() == []
    problem = Problem(chain, 4, "is named by the head, and it is not there")
    assert store.trail.verify(head=head) == [problem]


def test_a_chain_that_was_cut_and_went_on_is_found_too(store: Store, chain: str) -> None:
    head = store.trail.head()
    cut(store, chain, 2)
    store.trail.append(chain, [("note.3", {}), ("note.4", {}), ("note.5", {})])
    assert store.trail.verify() == []
    problem = Problem(chain, 4, "is not the entry that the head names")
    assert store.trail.verify(chain, head) == [problem]


def test_a_chain_that_was_made_anew_is_found(store: Store, chain: str) -> None:
    head = store.trail.head()
    rows = rows_of(store, chain)
    rewrite(store, chain, [*rows[:1], rows[1] | {"data": {"n": 99}}, *rows[2:]])
    assert store.trail.verify() == []
    problem = Problem(chain, 4, "is not the entry that the head names")
    assert store.trail.verify(head=head) == [problem]


def test_a_session_that_is_gone_is_found_by_the_head(store: Store, chain: str) -> None:
    other = new_session(store).id
    head = store.trail.head()
    sql(
        store,
        f"DELETE FROM trail WHERE session = '{other}'",
        f"DELETE FROM sessions WHERE id = '{other}'",
    )
    assert store.trail.verify() == []
    problem = Problem(other, 1, "is named by the head, and its session is not there")
    assert store.trail.verify(head=head) == store.trail.verify(other, head) == [problem]
    assert store.trail.verify(chain, head) == []
    with pytest.raises(NotFound):
        store.trail.verify(other)


def test_a_new_database_in_place_of_the_old_one_is_found(
    store: Store, fresh_url: Callable[[], str], chain: str
) -> None:
    head = store.trail.head()
    other = Store.open(fresh_url())
    problem = Problem(chain, 4, "is named by the head, and its session is not there")
    assert other.trail.verify(head=head) == [problem]
    other.close()


def test_a_damaged_record_has_no_head(store: Store, chain: str) -> None:
    sql(store, "UPDATE sessions SET trail_hash = 'x'")
    with pytest.raises(StoreError, match=f"{chain}.* the record is damaged.* sayso trail verify"):
        store.trail.head().text()
