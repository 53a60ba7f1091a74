"""Opening a database: creation, versions, files, errors, and values that must survive."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from agent.errors import SchemaTooNew, StoreError, UsageError
from agent.store import Store, migrations
from agent.store.database import HEAD
from agent.store.schema import VERSION_TABLE, AnyText, Json, metadata
from tests.unit.store.databases import ANN, FreshUrl, ask, new_session

ODD = "a\0b\ud800 \\u0000 C:\\temp «ü» \U0001f600"


def test_the_newest_migration_is_the_schema_of_the_program(empty_url: str) -> None:
    store = Store.open(empty_url)
    with store.engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == HEAD
    store.close()
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_an_open_database_keeps_its_rows_when_opened_again(empty_url: str) -> None:
    first = Store.open(empty_url)
    session = new_session(first)
    first.close()
    again = Store.open(empty_url)
    assert again.sessions.get(session.id) == session
    again.close()


def test_a_newer_schema_is_refused_and_left_alone(fresh_url: FreshUrl) -> None:
    url = fresh_url()
    store = Store.open(url)
    with store.engine.begin() as conn:
        conn.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0999'"))
    store.close()
    with pytest.raises(SchemaTooNew) as refused:
        Store.open(url)
    assert (refused.value.found, refused.value.known) == ("0999", HEAD)


def test_alembic_is_imported_only_to_migrate(tmp_path: Path, sqlite_template: Path) -> None:
    program = (
        "import sys; from agent.store import Store\n"
        "Store.open(sys.argv[1]).close()\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} &"
        " {'alembic', 'langchain_core', 'langgraph', 'langchain'}))"
    )

    def imported(url: str) -> str:
        command = [sys.executable, "-c", program, url]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert imported(f"sqlite:///{tmp_path}/new.db") == "['alembic']"
    assert imported(f"sqlite:///{sqlite_template}") == "[]"


def test_sqlite_files_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "state" / "sayso.db"
    store = Store.open(f"sqlite:///{path}")
    new_session(store)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["sayso.db", "sayso.db-shm", "sayso.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()
    path.chmod(0o644)
    Store.open(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_sqlite_connections_are_durable_and_checked(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    with store.engine.connect() as conn:
        pragmas = {
            name: conn.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 10_000,
    }
    store.close()


@pytest.mark.parametrize("url", ["", "no url", "mysql://host/x", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_cannot_be_used_is_wrong_usage(url: str) -> None:
    with pytest.raises(UsageError):
        Store.open(url)


def test_what_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "sayso.db"
    path.write_text("not a database, but long enough to be looked at as if it were one\n" * 20)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(f"sqlite:///{path}/below/sayso.db")


def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    with pytest.raises(StoreError) as failed:
        Store.open("postgresql://ann:geheim@127.0.0.1:1/sayso?connect_timeout=2")
    assert "geheim" not in str(failed.value)


def test_any_text_and_any_json_survive(store: Store) -> None:
    session = new_session(store, title=ODD, workspace=ODD, tools=[ODD])
    read = store.sessions.get(session.id)
    assert (read.title, read.workspace, read.tools) == (ODD, ODD, [ODD])
    args = {ODD: [ODD, 2**70, 1.5, None, True, {"": ODD}]}
    asked = ask(store, session.id, call=ODD, message=ODD, args=args, reason=ODD)
    read_approval = store.approvals.for_call(session.id, ODD, ODD)
    assert read_approval == asked
    assert read_approval.args == args
    assert ask(store, session.id, call=ODD, message=ODD).id == asked.id
    store.trail.append(session.id, [("odd", args)])
    assert store.trail.entries(session.id)[-1].data == args
    assert store.trail.verify() == []


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_stored_text_is_plain_and_tells_strings_apart(one: str, other: str) -> None:
    column = AnyText()
    stored = column.process_bind_param(one, None)  # type: ignore[arg-type]
    assert stored is not None
    assert "\0" not in stored
    stored.encode()
    assert column.process_result_value(stored, None) == one  # type: ignore[arg-type]
    assert (stored == column.process_bind_param(other, None)) == (one == other)  # type: ignore[arg-type]


def test_absent_json_is_null_and_empty_is_not() -> None:
    column = Json()
    assert column.process_bind_param(None, None) is None  # type: ignore[arg-type]
    assert column.process_bind_param({}, None) == "{}"  # type: ignore[arg-type]


def test_a_failing_statement_is_a_store_error_and_changes_nothing(store: Store) -> None:
    session = new_session(store)
    before = store.trail.heads()
    with store.engine.begin() as conn:
        conn.execute(text("ALTER TABLE approvals RENAME TO gone"))
    with pytest.raises(StoreError, match="Nothing was changed"):
        ask(store, session.id)
    assert store.trail.heads() == before
    store.sessions.update(session.id, title="the connection still works")
    assert ANN.name == store.sessions.get(session.id).user
