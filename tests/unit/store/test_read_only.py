"""A SQLite file that cannot become what the store needs is said to be so at once."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from agent.store.database import _switch_to_wal


def test_only_who_is_locked_out_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (x)")
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as read_only,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        _switch_to_wal(read_only)
