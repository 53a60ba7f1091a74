"""The connection to PostgreSQL is lost at any message of a decision, an intent, an outcome.

Either before the server has the message, or after it has done what it says and before the answer
is there. What is told is true, and what was begun can be done again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.errors import AlreadyDecided, StoreError
from agent.store import Store
from agent.store.records import LeaseRecord
from agent.types import Decision
from tests.support.crash_proxy import Proxy
from tests.unit.store.databases import ANN, ask, new_session, write_of
from tools.contract import Finding

NOTHING = "Nothing was changed."
PERHAPS = "It is not known whether the last change was saved"


@dataclass
class Case:
    """Something that is done in one transaction: what it leaves before and after."""

    do: Callable[[Store], object]
    look: Callable[[Store], object]
    before: object
    after: object


def decision(store: Store, lease: LeaseRecord) -> Case:
    approval = ask(store, lease.session).id

    def decide(through: Store) -> None:
        with suppress(AlreadyDecided):  # by the first try
            through.approvals.decide(approval, Decision("approve"), ANN)

    return Case(decide, lambda s: s.approvals.get(approval).status, "pending", "approved")


def intent(store: Store, lease: LeaseRecord) -> Case:
    def state(there: Store) -> str | None:
        effect = there.ledger.for_call(lease.session, "m1", "c1")
        return effect.state if effect else None

    def begin(through: Store) -> None:
        if through.ledger.begin(**write_of(lease)).outcome == "in_doubt":
            effect = through.ledger.for_call(lease.session, "m1", "c1")
            assert effect is not None
            through.ledger.find(
                effect.id, attempt=1, finding=Finding(False, "It is not there."), result={}
            )
            assert through.ledger.begin(**write_of(lease)).outcome == "run"

    return Case(begin, state, None, "intended")


def outcome(store: Store, lease: LeaseRecord) -> Case:
    effect = store.ledger.begin(**write_of(lease)).effect

    def finish(through: Store) -> None:
        result = {"text": "done", "status": "success"}
        through.ledger.finish(effect.id, attempt=1, state="committed", result=result)

    return Case(finish, lambda s: s.ledger.get(effect.id).state, "intended", "committed")


def finding(store: Store, lease: LeaseRecord) -> Case:
    effect = store.ledger.begin(**write_of(lease)).effect
    store.ledger.begin(**write_of(lease))

    def find(through: Store) -> None:
        found = Finding(True, "It is there.")
        through.ledger.find(effect.id, attempt=1, finding=found, result={"text": "found"})

    return Case(find, lambda s: s.ledger.get(effect.id).state, "in_doubt", "committed")


@pytest.fixture
def proxy(shared_schema: str) -> Iterator[Proxy]:
    server = Path(parse_qs(urlsplit(shared_schema).query)["host"][0])
    with (
        tempfile.TemporaryDirectory(prefix="proxy-") as folder,
        Proxy(Path(folder), server) as standing,
    ):
        yield standing


@pytest.mark.xdist_group("postgresql")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("make", [decision, intent, outcome, finding])
def test_what_is_told_is_true_and_can_be_done_again(
    make: Callable[[Store, LeaseRecord], Case],
    after: bool,
    proxy: Proxy,
    shared_schema: str,
    tmp_path: Path,
) -> None:
    through_proxy = shared_schema.replace(str(proxy.server), str(proxy.folder))
    with (
        closing(Store.open(shared_schema, home=tmp_path / "home")) as store,
        closing(Store.open(through_proxy, home=tmp_path / "home")) as through,
    ):
        told = set()
        for nth in count(1):
            session = new_session(store).id
            case = make(store, store.leases.acquire(session, store.owner(), ttl=600))
            proxy.cut(nth, after=after)
            try:
                case.do(through)
                said = ""
            except StoreError as error:
                said = str(error)
            found = case.look(store)
            if not proxy.has_cut:
                assert (said, found) == ("", case.after)
                break
            if NOTHING in said:
                assert found == case.before
            elif said:
                assert PERHAPS in said
                assert found in (case.before, case.after)
            else:  # it was noticed in time, and another connection was made
                assert found == case.after
            told.add(next((what for what in (NOTHING, PERHAPS) if what in said), ""))

            case.do(through)
            assert case.look(store) == case.after
            assert store.trail.verify(session) == []
        assert {NOTHING, PERHAPS} <= told
