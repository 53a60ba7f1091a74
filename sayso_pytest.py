"""pytest plugin: the fixture ``sayso`` makes sessions under test.

It is a module of its own, outside ``agent``, and imports nothing of it before a test asks for the
fixture: pytest loads it for every project of the environment, and a project may have packages of
the same names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agent.evals.harness import Harness

_OURS = {"agent": "evals/harness.py", "tools": "contract.py", "prompts": "messages.toml"}
"""Packages of sayso, and a file of each that nobody else's has."""

_PROVIDER = "OPENAI_"
"""Begins the variables that a named model may need."""

_FIGURES = pytest.StashKey[list[tuple[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--sayso-model``: with which model sessions run that a test gives no script."""
    group = parser.getgroup("sayso")
    group.addoption(
        "--sayso-model",
        default="offline",
        metavar="NAME",
        help="Model of sessions without a script, such as openai:gpt-5-mini (default: offline).",
    )
    group.addoption(
        "--sayso-figures",
        action="store_true",
        help="Print what each session took: steps, calls, writes, approvals, tokens.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Where the figures of the sessions are kept."""
    config.stash[_FIGURES] = []


@pytest.fixture
def sayso(
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
    record_property: Any,
) -> Iterator[Harness]:
    """Sessions under test: ``sayso.session(script, tools=…, reviewer=…).say("…")``."""
    _check_names()
    from agent.evals.harness import harness

    name = request.config.getoption("--sayso-model")
    environ = {key: value for key, value in os.environ.items() if key.startswith(_PROVIDER)}
    with harness(tmp_path_factory.mktemp("sayso"), name, environ) as made:
        yield made
        for sitting in made.sessions:
            figures = sitting.so_far.recorded.figures
            record_property(f"sayso.{sitting.id}", str(figures))
            request.config.stash[_FIGURES].append((request.node.nodeid, figures))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The figures, when they were asked for; they fail nothing."""
    figures = config.stash.get(_FIGURES, [])
    if not figures or not config.getoption("--sayso-figures"):
        return
    terminalreporter.section("sayso")
    for test, took in figures:
        tokens = f", {sum(took.tokens)} tokens" if any(took.tokens) else ""
        terminalreporter.write_line(
            f"{test}: {took.steps} steps, {took.calls} calls, {took.writes} writes, "
            f"{took.asked} asked{tokens}"
        )


def _check_names() -> None:
    """Make sure that ``agent`` and the others are ours.

    Raises:
        pytest.UsageError: A package of the project has the name of one of sayso's.
    """
    for name, file in _OURS.items():
        spec = find_spec(name)
        where = Path(spec.origin).parent if spec is not None and spec.origin else None
        if where is None or not (where / file).is_file():
            raise pytest.UsageError(
                f"The package {name!r} of this project ({where}) has the name of one of sayso's, "
                f"so sayso cannot be loaded beside it. A folder of that name without an "
                f"__init__.py is no package and does no harm."
            )
