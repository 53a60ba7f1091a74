"""Alembic's entry: run the migrations on the connection that ``migrate`` passed in.

Alembic executes this file by itself; it is not for importing.
"""

from __future__ import annotations

from alembic import context

from agent.store.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
