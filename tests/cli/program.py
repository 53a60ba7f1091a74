"""The command line as tests drive it, and what a scripted model says."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.openai_server import Call, Reply

SCRIPT = Path(sys.executable).with_name("sayso")
TIMEOUT = 100.0


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Invoke = Callable[..., Result]


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start the console script and do not wait for it."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([str(SCRIPT), *arguments], text=True, **{**pipes, **options})


def finish(process: subprocess.Popen[str]) -> Result:
    """Wait for a started script; none is left behind, whatever it does."""
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    return Result(process.returncode, out, err)


def read(*orders: str) -> Reply:
    """The model reads orders, side by side."""
    return Reply(tool_calls=tuple(Call("get_order", {"order_id": order}) for order in orders))


def cancel(*orders: str) -> Reply:
    """The model asks to cancel orders, side by side."""
    return Reply(
        tool_calls=tuple(
            Call("cancel_order", {"order_id": order, "expected_revision": 1}) for order in orders
        )
    )


def status_of(home: Path, order: str) -> str:
    """An order's status in the world, read from its own database."""
    with contextlib.closing(sqlite3.connect(home / "worlds" / "orders.db")) as db:
        (status,) = db.execute("SELECT status FROM orders WHERE id = ?", (order,)).fetchone()
    return str(status)
