"""The tables as the newest migration leaves them, and how values are stored.

A test holds this page against the migrations. Every table but ``sessions`` has a number ``n``
(in the trail: ``position``) that gives the order of insertion; ids are for people.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    true,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from agent.canonical import canonical_json

# Ids, times and hashes: ASCII that compares byte by byte, so that prefixes and order work alike.
Plain = Text().with_variant(Text(collation="C"), "postgresql")
Number = BigInteger().with_variant(Integer(), "sqlite")

_UNSTORABLE = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")


class AnyText(TypeDecorator[str]):
    """Any Python string, NUL and lone surrogates included, which PostgreSQL or UTF-8 refuse.

    Those and the backslash are stored as ``\\uXXXX`` and ``\\\\``; all other text as it is. Equal
    strings are stored equally, so that columns of this type can be compared and unique.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or _UNSTORABLE.search(value) is None:
            return value
        return _UNSTORABLE.sub(lambda m: "\\\\" if m[0] == "\\" else f"\\u{ord(m[0]):04x}", value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if not isinstance(value, str) or "\\" not in value:
            return value
        return _ESCAPED.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\\", value)


class Json(TypeDecorator[Any]):
    """A JSON value as canonical text; ``None`` is NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else canonical_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        try:
            return None if value is None else json.loads(value)
        except (ValueError, TypeError, RecursionError):
            return value  # the record that is made of the row says what is wrong with it


class clock(FunctionElement[float]):  # noqa: N801  (reads as the SQL function that it is)
    """Seconds since 1970 by the clock of the database, which all its users share."""

    type = Double()
    inherit_cache = True


@compiles(clock, "sqlite")  # type: ignore[no-untyped-call, untyped-decorator, unused-ignore]
def _sqlite_clock(element: clock, compiler: Any, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(clock, "postgresql")  # type: ignore[no-untyped-call, untyped-decorator, unused-ignore]
def _postgresql_clock(element: clock, compiler: Any, **_: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


metadata = MetaData()

VERSION_TABLE = "sayso_schema"
schema_version = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))

# The row of a session is also what its writers lock: it holds the head of its trail and its
# lease, so that one read gives everything a writing transaction has to check first.
sessions = Table(
    "sessions",
    metadata,
    Column("id", Plain, primary_key=True),
    Column("state", Plain, nullable=False),
    Column("title", AnyText, nullable=False),
    Column("model", AnyText, nullable=False),
    Column("tools", Json, nullable=False),
    Column("workspace", AnyText),
    Column("granted", Json, nullable=False),
    Column("denied", Json, nullable=False),
    Column("policy", AnyText, nullable=False),
    Column("labels", Json, nullable=False),
    Column("modes", Json, nullable=False, server_default="[]"),
    Column("tokens", Json, nullable=False),
    Column("cost", Double),
    Column("turn", Integer, nullable=False),
    Column("error", AnyText),
    Column("parent", Plain),
    Column("parent_turn", Integer),
    Column("user", AnyText, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("host", AnyText, nullable=False),
    Column("created_at", Plain, nullable=False),
    Column("updated_at", Plain, nullable=False),
    Column("deleted_at", Plain),
    Column("deleted_by", AnyText),
    Column("trail_seq", Integer, nullable=False),
    Column("trail_hash", Plain, nullable=False),
    Column("trail_seal", Plain),
    Column("lease_owner", AnyText, nullable=False),
    Column("lease_epoch", Integer, nullable=False),
    Column("lease_expires_at", Double, nullable=False),
)
Index("sessions_newest", sessions.c.updated_at, sessions.c.id)

# `attempt` counts the questions about one call: of a doubt it is the ledger's, so that each doubt
# of a write that ran again is asked anew; of a write it grows when an answer has become void.
approvals = Table(
    "approvals",
    metadata,
    Column("n", Number, primary_key=True),
    Column("id", Plain, nullable=False, unique=True),
    Column("kind", Plain, nullable=False),
    Column("session", Plain, ForeignKey("sessions.id"), nullable=False),
    Column("turn", Integer, nullable=False),
    Column("message", AnyText, nullable=False),
    Column("call", AnyText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("interrupt", AnyText),
    Column("status", Plain, nullable=False),
    Column("tool", AnyText, nullable=False),
    Column("tool_version", AnyText, nullable=False),
    Column("args", Json, nullable=False),
    Column("digest", Plain, nullable=False),
    Column("effects", Json, nullable=False),
    Column("rule", AnyText, nullable=False),
    Column("reason", AnyText, nullable=False),
    Column("notes", Json, nullable=False),
    Column("preview", Json),
    Column("warnings", Json, nullable=False, server_default="[]"),
    Column("remember", Boolean, nullable=False, server_default=true()),
    Column("provenance", Json),
    Column("undo", AnyText),
    Column("asked_at", Plain, nullable=False),
    Column("decided_args", Json),
    Column("decided_preview", Json),
    Column("decided_digest", Plain),
    Column("decided_by", AnyText),
    Column("decided_uid", BigInteger),
    Column("decided_host", AnyText),
    Column("decided_via", AnyText),
    Column("decided_at", Plain),
    Column("comment", AnyText),
    Column("expires_at", Plain),
    Column("undoes", Plain),
    UniqueConstraint("session", "message", "call", "kind", "attempt", name="approvals_call"),
)
Index("approvals_inbox", approvals.c.status, approvals.c.n)
Index("approvals_expiry", approvals.c.status, approvals.c.expires_at)
Index("approvals_waiting", approvals.c.session, approvals.c.status, approvals.c.n)
Index("approvals_turn", approvals.c.session, approvals.c.turn)

rules = Table(
    "rules",
    metadata,
    Column("n", Number, primary_key=True),
    Column("id", Plain, nullable=False, unique=True),
    Column("session", Plain, ForeignKey("sessions.id"), nullable=False, index=True),
    Column("tool", AnyText, nullable=False),
    Column("scope", AnyText, nullable=False),
    Column("scope_args", Json, nullable=False),
    Column("tool_version", AnyText),
    Column("created_by", AnyText, nullable=False),
    Column("created_at", Plain, nullable=False),
    Column("expires_at", Plain),
    Column("revoked_by", AnyText),
    Column("revoked_at", Plain),
)

effects = Table(
    "effects",
    metadata,
    Column("n", Number, primary_key=True),
    Column("id", Plain, nullable=False, unique=True),
    Column("session", Plain, ForeignKey("sessions.id"), nullable=False),
    Column("turn", Integer, nullable=False),
    Column("message", AnyText, nullable=False),
    Column("call", AnyText, nullable=False),
    Column("tool", AnyText, nullable=False),
    Column("tool_version", AnyText, nullable=False),
    Column("args", Json, nullable=False),
    Column("digest", Plain, nullable=False),
    Column("state", Plain, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("approval", Plain),
    Column("rule", AnyText),
    Column("idempotency_key", AnyText, nullable=False),
    Column("transport", AnyText),
    Column("transaction", AnyText),
    Column("result", Json),
    Column("evidence", Json),
    Column("settled", Plain),
    Column("started_at", Plain, nullable=False),
    Column("ended_at", Plain),
    Column("undoes", Plain),
    Column("before", AnyText),
    UniqueConstraint("session", "message", "call", name="effects_call"),
)
Index("effects_turn", effects.c.session, effects.c.turn)
Index("effects_state", effects.c.state, effects.c.session)
Index("effects_undoes", effects.c.undoes)

# `data` and `salt` are emptied when the session is deleted; `data_hash` keeps the chain whole.
trail = Table(
    "trail",
    metadata,
    Column("position", Number, primary_key=True),
    Column("session", Plain, ForeignKey("sessions.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("at", Plain, nullable=False),
    Column("kind", Plain, nullable=False),
    Column("data", Json),
    Column("salt", Plain),
    Column("data_hash", Plain, nullable=False),
    Column("prev", Plain, nullable=False),
    Column("hash", Plain, nullable=False),
    UniqueConstraint("session", "seq", name="trail_chain"),
)
Index("trail_kind", trail.c.session, trail.c.kind, trail.c.seq)
