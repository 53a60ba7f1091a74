"""Numbered migrations, forward only, and the one function that runs them.

A new one is a file ``versions/NNNN_what.py`` with ``revision = "NNNN"``; ``HEAD`` in
``agent.store.database`` names the newest, so that opening a current database imports no Alembic.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection


def migrate(connection: Connection) -> None:
    """Bring the schema to the newest version, inside the transaction of ``connection``."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
