"""What crash runs share: how many, the process that forks them, the databases, the table."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from agent.store import Store
from tests.support.crash_parent import Outcome, Parent
from tests.support.crash_points import points_of
from tests.support.crash_report import Report, as_table
from tests.support.crash_runs import Run
from tests.support.crash_tools import KINDS, Kind
from tests.unit.store.databases import postgres, sqlite_template

__all__ = ["postgres", "sqlite_template"]

DATABASES = ("sqlite", "postgresql")
DEFAULTS = {"kills": 10, "seed": 1}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("crash runs")
    group.addoption("--kills", type=int, help="random kills of each combination (10)")
    group.addoption("--rounds", type=int, help="rounds of each race (50, with sessions 20)")
    group.addoption("--seed", type=int, help="of the first random kill, and of races (1)")
    group.addoption("--tool", choices=KINDS, help="only this kind of tool")
    group.addoption("--database", choices=DATABASES, help="only this database")


def option(config: pytest.Config, name: str) -> Any:
    """An option of the above, also where this folder was not named on the command line."""
    given = config.getoption(name, None)
    return DEFAULTS.get(name) if given is None else given


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every kind of tool on every database, with its named points; random kills by their seed."""
    config, wanted = metafunc.config, {*metafunc.fixturenames}
    for mark in metafunc.definition.iter_markers("parametrize"):
        wanted.difference_update([mark.args[0]] if isinstance(mark.args[0], str) else mark.args[0])
    databases = [d for d in DATABASES if option(config, "database") in (None, d)]
    tools = [kind for kind in KINDS if option(config, "tool") in (None, kind)]
    pairs = [(tool, database) for tool in tools for database in databases]
    if "point" in wanted:
        points = [
            _on_one_worker(f"{tool}-{database}", name, tool, database, run)
            for tool, database in pairs
            for name, run in points_of(tool)
        ]
        metafunc.parametrize(("tool", "database", "point"), points)
    elif "tool" in wanted:
        marked = [
            _on_one_worker(f"{tool}-{database}", "", tool, database) for tool, database in pairs
        ]
        metafunc.parametrize(("tool", "database"), marked)
    elif "database" in wanted:
        metafunc.parametrize("database", [_on_one_worker(name, "", name) for name in databases])
    if "seed" in wanted:
        first = option(config, "seed")
        metafunc.parametrize("seed", range(first, first + option(config, "kills")))


def _on_one_worker(group: str, name: str, *values: Any) -> Any:
    """All of a group run on the same worker, which has their processes and servers."""
    identity = f"{group}-{name}" if name else group
    return pytest.param(*values, id=identity, marks=pytest.mark.xdist_group(group))


@dataclass
class Stage:
    """Where crash runs take place: their parent, a folder, and the remote service over it."""

    parent: Parent
    folder: Path
    service: str


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    shared = "/dev/shm"  # a sync takes no time there
    roomy = os.path.isdir(shared) and shutil.disk_usage(shared).free > 2**30
    where = shared if roomy else None
    with Parent() as parent, tempfile.TemporaryDirectory(prefix="crash-", dir=where) as folder:
        yield Stage(parent, Path(folder), parent.do("serve", folder=folder)["url"])


@pytest.fixture(scope="session")
def shared_schema(postgres: str) -> Iterator[str]:
    """A PostgreSQL schema that all runs share, as a team does."""
    name = f"crash{uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute(f"CREATE SCHEMA {name}")
    url = f"{postgres}&options=-csearch_path%3D{name}"
    Store.open(url).close()
    yield url
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute(f"DROP SCHEMA {name} CASCADE")


_numbers = count(1)


@pytest.fixture
def place(
    database: str, stage: Stage, request: pytest.FixtureRequest
) -> Iterator[Callable[[], tuple[Path, str]]]:
    """Makes folders of a run, with a state folder in each, and the URLs of databases for them."""
    made: list[Path] = []

    def make() -> tuple[Path, str]:
        made.append(stage.folder / str(next(_numbers)))
        home = made[-1] / "home"
        home.mkdir(mode=0o700, parents=True)
        if database == "postgresql":
            url = request.getfixturevalue("shared_schema")
            return made[-1], f"{url}&application_name=crash-{made[-1].name}"
        shutil.copy(request.getfixturevalue("sqlite_template"), home / "sayso.db")
        return made[-1], f"sqlite:///{home}/sayso.db"

    yield make
    for folder in made:
        shutil.rmtree(folder)


Play = Callable[[Run], Outcome]


@pytest.fixture
def play(
    tool: Kind,
    database: str,
    stage: Stage,
    place: Callable[[], tuple[Path, str]],
    record_property: Callable[[str, object], None],
) -> Play:
    """Lets a run take place, and keeps its report for the table."""

    def run(run: Run) -> Outcome:
        folder, url = place()
        outcome = stage.parent.run(run, folder, url, stage.service)
        record_property(PROPERTY, [f"{tool} {database}", outcome.report.as_json()])
        return outcome

    return run


# --- the table at the end --------------------------------------------------------------------

PROPERTY = "crash run"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What came of all runs, where this folder was named on the command line."""
    runs: dict[str, int] = defaultdict(int)
    sums: dict[str, Report] = defaultdict(Report)
    for reports in terminalreporter.stats.values():
        calls = (r for r in reports if getattr(r, "when", "") == "call")
        for name, found in (p for r in calls for p in r.user_properties):
            if name == PROPERTY and found:
                runs[found[0]] += 1
                sums[found[0]] += Report.of_json(found[1])
    if runs:
        terminalreporter.section("crash runs")
        for line in as_table({name: (runs[name], sums[name]) for name in runs}):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"seed {option(config, 'seed')}")
