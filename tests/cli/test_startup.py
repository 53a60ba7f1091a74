"""Starting: what is imported, from where, and how faults are told."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent import __version__
from agent.store import Store
from tests.cli.program import SCRIPT, TIMEOUT, Invoke

ROOT = Path(__file__).parents[2]

IMPORTED = """
import sys
sys.argv = ["sayso", *sys.argv[1:]]
from agent.__main__ import main
code = main()
roots = {name.partition(".")[0] for name in sys.modules}
print("imported", code, *sorted(roots), file=sys.stderr)
"""


def imported_by(*arguments: str) -> set[str]:
    """The top-level modules that a command imports, in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    words = ended.stderr.splitlines()[-1].split()
    assert words[:2] == ["imported", "0"]
    return set(words[2:])


HEAVY = {"langchain", "langchain_core", "langgraph", "openai", "mcp", "prompt_toolkit"}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_typer_and_little_else(arguments: list[str]) -> None:
    found = imported_by(*arguments)
    assert "typer" in found
    assert found & (HEAVY | {"sqlalchemy", "pydantic", "asyncio"}) == set()


def test_the_help_of_a_command_imports_nothing_of_what_it_would_do() -> None:
    assert imported_by("run", "--help") & (HEAVY | {"sqlalchemy"}) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions"],
        ["approvals", "--all"],
        ["effects", "--json"],
        ["trail", "show"],
        ["trail", "verify"],
        ["trail", "export"],
        ["mcp", "list"],
    ],
)
def test_listings_import_no_langchain(arguments: list[str]) -> None:
    assert imported_by(*arguments) & HEAVY == set()


def test_the_version(sayso: Invoke) -> None:
    assert sayso("--version").out == f"sayso {__version__}\n"


def test_wrong_usage_exits_2(sayso: Invoke) -> None:
    for arguments in (("nonsense",), ("run",), ("run", "x", "--on-ask", "maybe"), ("approve",)):
        result = sayso(*arguments)
        assert (result.code, result.out) == (2, "")
        assert "Usage: sayso" in result.err


def test_every_command_has_a_help(sayso: Invoke) -> None:
    commands = re.findall(r"^│ ([a-z]+) ", sayso("--help").out, re.MULTILINE)
    assert {"chat", "run", "resume", "approvals", "approve", "trail", "doctor"} <= set(commands)
    for command in commands:
        result = sayso(command, "--help")
        assert result.code == 0
        assert f"Usage: sayso {command}" in result.out
        assert "<bool>" not in result.out, "a flag takes no value"


def test_the_unexpected_is_one_sentence_and_the_rest_is_in_the_log(
    sayso: Invoke, sayso_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Store:
        raise ZeroDivisionError("a fault \x1b[31mof ours")

    monkeypatch.setattr(Store, "of", broken)
    result = sayso("sessions")
    assert (result.code, result.out) == (1, "")
    log = sayso_home / "logs" / "sayso.log"
    assert "ZeroDivisionError: a fault ␛[31mof ours" in result.err
    assert str(log) in result.err
    assert "Traceback" not in result.err
    assert "Traceback" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_database_that_cannot_be_used_is_said(sayso: Invoke, sayso_home: Path) -> None:
    sayso_home.mkdir(mode=0o700)
    (sayso_home / "sayso.db").write_bytes(b"this is no database, it is a letter" * 100)
    result = sayso("sessions")
    assert (result.code, result.out) == (1, "")
    assert "sayso.db" in result.err
    assert "Traceback" not in result.err


def test_the_chat_needs_a_terminal(sayso: Invoke) -> None:
    result = sayso("chat")
    assert (result.code, result.out) == (2, "")
    assert 'sayso run "TASK"' in result.err


# --- foreign packages ----------------------------------------------------------------------

PLANTED = "import pathlib, os\npathlib.Path(os.environ['PLANTED']).touch()\n"


@pytest.fixture
def clone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with packages of our names; each of its files leaves a mark when it is run."""
    mark = folder.parent / "mark"
    monkeypatch.setenv("PLANTED", str(mark))
    for package in ("agent", "tools", "prompts", "mcp_servers"):
        (folder / package).mkdir()
        for name in ("__init__.py", "__main__.py", "contract.py", "errors.py"):
            (folder / package / name).write_text(PLANTED)
    (folder / "sitecustomize.py").write_text(PLANTED)
    return mark


@pytest.mark.parametrize("safe_path", [False, True])
def test_the_script_works_from_a_folder_with_packages_of_the_same_names(
    script: Invoke, clone: Path, safe_path: bool
) -> None:
    env = {**os.environ, **({"PYTHONSAFEPATH": "1"} if safe_path else {})}
    env.pop("PYTHONPATH", None)
    assert script("sessions", "--json", env=env).out == "[]\n"
    listed = script("tools", "--tools", "orders,research", env=env)
    assert listed.code == 0
    assert "cancel_order" in listed.out
    assert not clone.exists()


def test_a_foreign_tools_package_on_the_path_is_refused_unrun(
    script: Invoke, clone: Path, folder: Path, tmp_path: Path
) -> None:
    only_tools = tmp_path / "elsewhere"
    (only_tools / "tools").mkdir(parents=True)
    (only_tools / "tools" / "__init__.py").write_text(PLANTED)
    result = script("sessions", env={**os.environ, "PYTHONPATH": str(only_tools)})
    assert (result.code, result.out) == (2, "")
    assert str(only_tools / "tools" / "__init__.py") in result.err
    assert not clone.exists()


def test_python_m_agent_is_the_same_command(folder: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "agent", "--version"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, f"sayso {__version__}\n")
    assert SCRIPT.exists()
