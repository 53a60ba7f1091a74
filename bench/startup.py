"""What a person waits for at the command line: whole processes, from start to end.

The commands take turns, round after round. ``empty`` is the ``--help`` of a Typer application
with one command that does nothing; the listings read a store with 10,000 sessions. For the chat
it is the time from the start of the process until its prompt has echoed a key, beside the time
that a process takes to import ``langchain.agents``.

    python -m bench.startup [--count 10000] [--rounds 15] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, as_json, middle, ratio, table
from bench.worlds import fill

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0
"""Seconds after which a process counts as hung."""

HELP_BOUND, LISTING_BOUND, PROMPT_BOUND = 1.3, 4.0, 0.6

_EMPTY = """
import typer

app = typer.Typer()


@app.command()
def main() -> None:
    \"\"\"Nothing.\"\"\"


app()
"""
_SAYSO = "import sys\nfrom agent.__main__ import main\nsys.exit(main())\n"
_IMPORT = "import langchain.agents\n"

_TAKES_KEYS = b"\x1b[?2004h"  # bracketed paste is switched on when the prompt begins to read
_WHERE_IS_THE_CURSOR, _THERE = b"\x1b[6n", b"\x1b[1;1R"


def compare(count: int, rounds: int) -> list[Figure]:
    """The figures, after one round that only warms the caches."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = folder / "home"
        home.mkdir(mode=0o700)
        one = fill(f"sqlite:///{home}/sayso.db", home, count)[0]
        commands = _commands(folder, one)
        environment = _environment(home)
        found = []
        for _ in range(rounds + 1):
            times = {name: _whole(command, environment) for name, command in commands.items()}
            times["chat"] = _until_prompt([*_script(folder, "sayso", _SAYSO), "chat"], environment)
            found.append(times)
    return _figures(found[1:], list(commands))


def _commands(folder: Path, session: str) -> dict[str, list[str]]:
    sayso = _script(folder, "sayso", _SAYSO)
    return {
        "empty": [*_script(folder, "empty", _EMPTY), "--help"],
        "import langchain.agents": _script(folder, "langchain", _IMPORT),
        "sayso --help": [*sayso, "--help"],
        "sayso sessions": [*sayso, "sessions"],
        "sayso approvals": [*sayso, "approvals"],
        "sayso effects": [*sayso, "effects"],
        "sayso trail show": [*sayso, "trail", "show"],
        "sayso trail show ID": [*sayso, "trail", "show", session],
    }


def _script(folder: Path, name: str, text: str) -> list[str]:
    path = folder / f"start_{name}.py"  # its folder comes first on the path: no package's name
    path.write_text(text, encoding="utf-8")
    return [sys.executable, str(path)]


def _environment(home: Path) -> dict[str, str]:
    """Nothing of this process's settings but what Python needs."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "HOME") if key in os.environ}
    own = {"PYTHONPATH": str(ROOT), "SAYSO_HOME": str(home), "SAYSO_MODEL": "offline"}
    return {**kept, **own, "TERM": "xterm-256color"}


def _whole(command: list[str], environment: dict[str, str]) -> float:
    """Milliseconds from start to end of a process."""
    began = time.perf_counter()
    subprocess.run(
        command, env=environment, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE
    )
    return 1000 * (time.perf_counter() - began)


def _until_prompt(command: list[str], environment: dict[str, str]) -> float:
    """Milliseconds from the start of a process until its prompt echoes a key.

    The key is sent when the prompt has said that it takes keys, since until then the terminal
    itself would echo it.
    """
    began = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execvpe(command[0], command, environment)
    try:
        _read_until(terminal, _TAKES_KEYS)
        os.write(terminal, b"z")
        _read_until(terminal, b"z")
        return 1000 * (time.perf_counter() - began)
    finally:
        os.close(terminal)  # a hang-up: the chat leaves by itself
        os.waitpid(child, 0)


def _read_until(terminal: int, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        if not select.select([terminal], [], [], PATIENCE)[0]:
            raise TimeoutError(f"the chat did not show {wanted!r}: {seen[-200:]!r}")
        seen += os.read(terminal, 65536)
        if _WHERE_IS_THE_CURSOR in seen:
            os.write(terminal, _THERE)
            seen = seen.replace(_WHERE_IS_THE_CURSOR, b"")


def _figures(rounds: list[dict[str, float]], commands: list[str]) -> list[Figure]:
    figures = [Figure(name, middle(rounds, name), "ms") for name in [*commands, "chat"]]
    figures.append(
        Figure("sayso --help / empty", ratio(rounds, "sayso --help", "empty"), "×", HELP_BOUND)
    )
    for name in commands[3:]:
        figures.append(Figure(f"{name} / empty", ratio(rounds, name, "empty"), "×", LISTING_BOUND))
    prompt = ratio(rounds, "chat", "import langchain.agents")
    figures.append(Figure("chat takes keys / import langchain.agents", prompt, "×", PROMPT_BOUND))
    return figures


def report(figures: list[Figure]) -> str:
    """The figures as a table."""
    return table("Starting", figures)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="sessions in the store")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = compare(options.count, options.rounds)
    print(json.dumps(as_json(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
