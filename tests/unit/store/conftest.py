"""Every test of the store runs on SQLite and on PostgreSQL."""

from tests.unit.store.databases import (
    backend,
    empty_url,
    fresh_url,
    lease,
    postgres,
    postgres_schema,
    session,
    sqlite_template,
    store,
)

__all__ = [
    "backend",
    "empty_url",
    "fresh_url",
    "lease",
    "postgres",
    "postgres_schema",
    "session",
    "sqlite_template",
    "store",
]
