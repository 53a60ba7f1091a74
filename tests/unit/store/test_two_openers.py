"""Opening a database twice in one process does not give up the locks of the first opener."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agent.store import Store
from agent.types import Actor

CHILD = """
import sys
from agent.store import Store
from agent.types import Actor

store = Store.open(sys.argv[1])
for _ in range(20):
    store.sessions.create(model="m", tools=[], workspace=None, granted=[], denied=[],
                          actor=Actor("ben", 1, "h"))
store.close()
"""


def test_a_second_opener_costs_no_rows(tmp_path: Path) -> None:
    """Closing a descriptor of the file would drop this process's locks: the next process to
    leave would take itself for the last one and remove the write-ahead log under us."""
    url = f"sqlite:///{tmp_path / 'sayso.db'}"
    first = Store.open(url)
    expected = 0
    for _ in range(3):
        Store.open(url).close()
        subprocess.run(
            [sys.executable, "-c", CHILD, url], check=True, cwd=Path(__file__).parents[3]
        )
        first.sessions.create(
            model="m", tools=[], workspace=None, granted=[], denied=[], actor=Actor("ana", 1, "h")
        )
        expected += 21
        assert len(first.sessions.list(limit=1000)) == expected
    first.close()
