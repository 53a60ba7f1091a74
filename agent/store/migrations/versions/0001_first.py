"""Sessions, approvals, rules, the ledger and the trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "sessions",
        sa.Column("id", PLAIN, primary_key=True),
        sa.Column("state", PLAIN, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("tools", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text()),
        sa.Column("granted", sa.Text(), nullable=False),
        sa.Column("denied", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Text(), nullable=False),
        sa.Column("cost", sa.Double()),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("parent", PLAIN),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("created_at", PLAIN, nullable=False),
        sa.Column("updated_at", PLAIN, nullable=False),
        sa.Column("deleted_at", PLAIN),
        sa.Column("deleted_by", sa.Text()),
        sa.Column("trail_seq", sa.Integer(), nullable=False),
        sa.Column("trail_hash", PLAIN, nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=False),
        sa.Column("lease_epoch", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", sa.Double(), nullable=False),
    )
    op.create_index("sessions_newest", "sessions", ["updated_at", "id"])

    op.create_table(
        "approvals",
        sa.Column("n", NUMBER, primary_key=True),
        sa.Column("id", PLAIN, nullable=False, unique=True),
        sa.Column("kind", PLAIN, nullable=False),
        sa.Column("session", PLAIN, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("interrupt", sa.Text()),
        sa.Column("status", PLAIN, nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("tool_version", sa.Text(), nullable=False),
        sa.Column("args", sa.Text(), nullable=False),
        sa.Column("digest", PLAIN, nullable=False),
        sa.Column("effects", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("preview", sa.Text()),
        sa.Column("provenance", sa.Text()),
        sa.Column("undo", sa.Text()),
        sa.Column("asked_at", PLAIN, nullable=False),
        sa.Column("decided_args", sa.Text()),
        sa.Column("decided_digest", PLAIN),
        sa.Column("decided_by", sa.Text()),
        sa.Column("decided_uid", sa.BigInteger()),
        sa.Column("decided_host", sa.Text()),
        sa.Column("decided_via", sa.Text()),
        sa.Column("decided_at", PLAIN),
        sa.Column("comment", sa.Text()),
        sa.UniqueConstraint("session", "message", "call", "kind", "attempt", name="approvals_call"),
    )
    op.create_index("approvals_inbox", "approvals", ["status", "n"])
    op.create_index("approvals_waiting", "approvals", ["session", "status", "n"])
    op.create_index("approvals_turn", "approvals", ["session", "turn"])

    op.create_table(
        "rules",
        sa.Column("n", NUMBER, primary_key=True),
        sa.Column("id", PLAIN, nullable=False, unique=True),
        sa.Column("session", PLAIN, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("scope_args", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", PLAIN, nullable=False),
        sa.Column("revoked_by", sa.Text()),
        sa.Column("revoked_at", PLAIN),
    )
    op.create_index("ix_rules_session", "rules", ["session"])

    op.create_table(
        "effects",
        sa.Column("n", NUMBER, primary_key=True),
        sa.Column("id", PLAIN, nullable=False, unique=True),
        sa.Column("session", PLAIN, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("tool_version", sa.Text(), nullable=False),
        sa.Column("args", sa.Text(), nullable=False),
        sa.Column("digest", PLAIN, nullable=False),
        sa.Column("state", PLAIN, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("approval", PLAIN),
        sa.Column("rule", sa.Text()),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("transport", sa.Text()),
        sa.Column("transaction", sa.Text()),
        sa.Column("result", sa.Text()),
        sa.Column("evidence", sa.Text()),
        sa.Column("settled", PLAIN),
        sa.Column("started_at", PLAIN, nullable=False),
        sa.Column("ended_at", PLAIN),
        sa.UniqueConstraint("session", "message", "call", name="effects_call"),
    )
    op.create_index("effects_turn", "effects", ["session", "turn"])
    op.create_index("effects_state", "effects", ["state", "session"])

    op.create_table(
        "trail",
        sa.Column("position", NUMBER, primary_key=True),
        sa.Column("session", PLAIN, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", PLAIN, nullable=False),
        sa.Column("kind", PLAIN, nullable=False),
        sa.Column("data", sa.Text()),
        sa.Column("salt", PLAIN),
        sa.Column("data_hash", PLAIN, nullable=False),
        sa.Column("prev", PLAIN, nullable=False),
        sa.Column("hash", PLAIN, nullable=False),
        sa.UniqueConstraint("session", "seq", name="trail_chain"),
    )
    op.create_index("trail_kind", "trail", ["session", "kind", "seq"])
