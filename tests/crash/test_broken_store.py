"""A database that cannot be used: what is said, and that nothing is lost when it comes back.

The commands are those of the command line, each in a process of its own. In the state folder one
order was cancelled, and the cancelling of another waits for a decision.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.errors import SaysoError
from agent.store import Store
from agent.store.schema import VERSION_TABLE
from tests.cli.program import Result, status_of
from tests.crash.conftest import Stage

PAGE = 4096
"""Bytes of a page of a SQLite file."""


@dataclass
class Folder:
    """A state folder, and the command line over it."""

    home: Path
    stage: Stage
    url: str = ""

    @property
    def database(self) -> Path:
        return self.home / "sayso.db"

    def sayso(self, *arguments: str, powerless: bool = False, loses: str = "") -> Result:
        """Run a command; whatever comes of it, it never ends in a traceback."""
        here = self.home.parent / "here"
        here.mkdir(exist_ok=True)
        environment = {**os.environ, "SAYSO_HOME": str(self.home), "COLUMNS": "300"}
        if self.url:
            environment["SAYSO_DATABASE_URL"] = self.url
        told = self.stage.parent.do(
            "command",
            arguments=list(arguments),
            environment=environment,
            folder=str(here),
            powerless=powerless,
            loses=loses,
        )
        result = Result(told["code"], told["out"], told["err"])
        assert "Traceback" not in result.out + result.err
        assert "unexpected" not in result.err, result.err
        return result

    def ids(self, *options: str) -> tuple[str, str]:
        """The session that waits, and its approval."""
        (approval,) = json.loads(self.sayso("approvals", "--json", *options).out)
        return approval["session"], approval["id"]

    def effects(self, session: str = "") -> list[str]:
        """The states of the writes."""
        given = ["--session", session] if session else []
        return [e["state"] for e in json.loads(self.sayso("effects", "--json", *given).out)]


@pytest.fixture(scope="module")
def prepared(stage: Stage) -> Folder:
    folder = Folder(stage.folder / "prepared" / "home", stage)
    folder.home.parent.mkdir()
    assert folder.sayso("run", "Cancel order A1").code == 3
    assert folder.sayso("approve", folder.ids()[1]).code == 0
    assert folder.sayso("run", "Cancel order B1").code == 3
    with closing(sqlite3.connect(folder.database)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


@pytest.fixture
def folder(prepared: Folder, tmp_path: Path) -> Folder:
    """A copy of the folder, which a test may break."""
    shutil.copytree(prepared.home, tmp_path / "home")
    return Folder(tmp_path / "home", prepared.stage)


def check_nothing_is_lost(folder: Folder) -> None:
    """The write that was done is known, and the one that waits can be decided about and happens."""
    (effect,) = json.loads(folder.sayso("effects", "--json").out)
    assert (effect["state"], effect["args"]["order_id"]) == ("committed", "A1")
    assert status_of(folder.home, "B1") == "pending"
    assert folder.sayso("approve", folder.ids()[1]).code == 0
    assert status_of(folder.home, "B1") == "cancelled"
    assert folder.sayso("trail", "verify").code == 0


# --- damage ----------------------------------------------------------------------------------


def overwritten_header(database: Path) -> None:
    with database.open("r+b") as file:
        file.write(b"\x13" * 100)


def overwritten_pages(database: Path) -> None:
    """All but the first one, which holds the schema."""
    with database.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\x13" * (database.stat().st_size - PAGE))


def truncated(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 2)


def of_a_newer_program(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


Damage = Callable[[Path], None]
DAMAGES: dict[Damage, tuple[int, str]] = {
    overwritten_header: (1, "file is not a database"),
    overwritten_pages: (1, "malformed"),
    truncated: (1, "malformed"),
    of_a_newer_program: (2, "Upgrade sayso"),
}
"""What is done to the file, and what is said then."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_used(folder: Folder, damage: Damage) -> None:
    session, approval = folder.ids()
    sound = folder.database.read_bytes()
    damage(folder.database)
    damaged = folder.database.read_bytes()
    for command in (
        ("approvals",),
        ("effects",),
        ("show", session),
        ("approve", approval),
        ("resume", session),
        ("run", "Cancel order B1"),
        ("trail", "verify"),
    ):
        told = folder.sayso(*command)
        code, why = DAMAGES[damage]
        assert (told.code, told.out) == (code, ""), command
        assert why in told.err
        assert "Nothing was changed." in told.err
        assert folder.database.read_bytes() == damaged
    assert folder.sayso("doctor").code == 1
    folder.database.write_bytes(sound)
    check_nothing_is_lost(folder)


def test_any_page_that_is_overwritten(folder: Folder) -> None:
    """Whatever is read then is right, or an error in words."""
    sound = folder.database.read_bytes()
    url = f"sqlite:///{folder.database}"
    with closing(Store.open(url)) as store:
        right = [look(store) for look in LOOKS]
    for page in range(len(sound) // PAGE):
        with folder.database.open("r+b") as file:
            file.seek(page * PAGE)
            file.write(b"\x13" * PAGE)
        for look, expected in zip(LOOKS, right, strict=True):
            try:
                with closing(Store.open(url)) as store:
                    found = look(store)
            except SaysoError:
                continue
            assert found == expected, f"page {page} of {folder.database}"
        folder.database.write_bytes(sound)


LOOKS: tuple[Callable[[Store], object], ...] = (
    lambda store: store.sessions.list(),
    lambda store: store.approvals.list(None),
    lambda store: store.ledger.list(),
    lambda store: store.trail.entries(),
)


# --- nowhere to write ------------------------------------------------------------------------


@contextmanager
def read_only(folder: Folder, *, all_of_it: bool) -> Iterator[None]:
    """The file, or the whole folder, may only be read."""
    folder.database.chmod(0o400)
    if all_of_it:
        folder.home.chmod(0o500)
    try:
        yield
    finally:
        folder.home.chmod(0o700)
        folder.database.chmod(0o600)


def test_a_file_that_may_only_be_read(folder: Folder) -> None:
    session, approval = folder.ids()
    with read_only(folder, all_of_it=False):
        shown = folder.sayso("approvals", powerless=True)
        assert (shown.code, approval in shown.out) == (0, True)
        for command in (("approve", approval), ("resume", session), ("run", "Cancel order B1")):
            told = folder.sayso(*command, powerless=True)
            assert told.code == 1
            assert "readonly database. Nothing was changed." in told.err
    check_nothing_is_lost(folder)


def test_a_folder_that_may_only_be_read(folder: Folder) -> None:
    session, approval = folder.ids()
    with read_only(folder, all_of_it=True):
        for command in (("approvals",), ("approve", approval), ("resume", session)):
            told = folder.sayso(*command, powerless=True)
            assert told.code == 1
            assert "Nothing was changed." in told.err
    check_nothing_is_lost(folder)


def test_the_disk_is_full_while_a_decision_is_stored(folder: Folder) -> None:
    told = folder.sayso("approve", folder.ids()[1], loses="before the decision commits")
    assert told.code == 1
    assert "It is not known whether the last change was saved" in told.err
    check_nothing_is_lost(folder)


B1 = 'cancel_order(order_id="B1", expected_revision=1)'


@pytest.mark.parametrize(
    ("instant", "known", "happened"),
    [
        ("before the intent commits", f"{B1} was not run now.", False),
        ("before the outcome", f"{B1} was run and answered;", True),
    ],
)
def test_the_disk_is_full_while_a_write_is_under_way(
    folder: Folder, instant: str, known: str, happened: bool
) -> None:
    session, approval = folder.ids()
    told = folder.sayso("approve", approval, loses=instant)
    assert told.code == 1
    assert known in told.err
    assert f"carry it on: sayso resume {session}" in told.err
    assert (status_of(folder.home, "B1") == "cancelled") == happened

    assert folder.sayso("resume", session).code == 0
    assert status_of(folder.home, "B1") == "cancelled"
    assert folder.effects() == ["committed", "committed"]
    assert folder.sayso("trail", "verify").code == 0


# --- PostgreSQL ------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(stage: Stage, shared_schema: str, tmp_path: Path) -> Folder:
    """A state folder whose database is a PostgreSQL that others use as well."""
    url = f"{shared_schema}&application_name=crash-{tmp_path.name}"
    return Folder(tmp_path / "home", stage, url)


@pytest.mark.xdist_group("postgresql")
@pytest.mark.parametrize(
    ("instant", "known", "happened"),
    [
        ("before the decision commits", "It is not known whether the last change was", False),
        ("before the intent commits", f"{B1} was not run now.", False),
        ("before the outcome commits", f"{B1} was run and answered;", True),
    ],
)
def test_the_connection_is_lost(
    elsewhere: Folder, instant: str, known: str, happened: bool
) -> None:
    session = elsewhere.sayso("run", "Cancel order B1").out.strip()
    _, approval = elsewhere.ids("--session", session)
    told = elsewhere.sayso("approve", approval, loses=instant)
    assert told.code == 1
    assert known in told.err
    assert (status_of(elsewhere.home, "B1") == "cancelled") == happened

    again = ("approve", approval) if "decision" in instant else ("resume", session)
    assert elsewhere.sayso(*again).code == 0
    assert status_of(elsewhere.home, "B1") == "cancelled"
    assert elsewhere.effects(session) == ["committed"]
    assert elsewhere.sayso("trail", "verify", session).code == 0
