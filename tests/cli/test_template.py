"""kill -9 in the template's write: the next process finds out what happened, from the record."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.store import Store
from tests.cli.program import Invoke

TEMPLATE = Path(__file__).parents[2] / "tools" / "template.py"
TASK = "Read the shopping list, then set the quantity of 'lemons' to 2 on the shopping list"

KILLED = """

def _killed_once(item: str, quantity: int) -> str:
    import os
    mark = Path(__file__).with_name("killed")
    if mark.exists():
        return change_shopping_list(item, quantity)
    mark.touch()
    if {after}:
        change_shopping_list(item, quantity)
    os.kill(os.getpid(), 9)
    return "never"


tools[1].func = _killed_once
"""


@pytest.mark.parametrize("after", [True, False], ids=["after the change", "before the change"])
def test_a_kill_in_the_write_is_settled_by_the_record(
    after: bool, script: Invoke, folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    (folder / "my_tools.py").write_text(TEMPLATE.read_text() + KILLED.format(after=after))
    started = script("run", "--tools", "my_tools.py", TASK)
    assert started.code == 3, started.err
    (approval,) = store.approvals.list()
    assert script("approve", approval.id).code == -signal.SIGKILL
    (effect,) = store.ledger.list()
    assert effect.state == "intended"

    assert script("resume", started.out.strip()).code == 0
    (effect,) = store.ledger.list()
    assert (effect.state, effect.attempts) == ("committed", 1 if after else 2)
    with closing(sqlite3.connect(folder / "shopping-list.db")) as db:
        changes = list(db.execute("SELECT key, item, quantity FROM changes"))
    assert changes == [(effect.idempotency_key, "lemons", 2)]
    assert store.approvals.list(status="pending") == []
