"""When an approval expires, what a call undoes and replaces, where a fork began, a trail's seal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns; what is there keeps them empty."""
    op.add_column("sessions", sa.Column("trail_seal", PLAIN))
    op.add_column("sessions", sa.Column("parent_turn", sa.Integer))
    op.add_column("approvals", sa.Column("expires_at", PLAIN))
    op.add_column("approvals", sa.Column("undoes", PLAIN))
    op.add_column("approvals", sa.Column("decided_preview", sa.Text))
    op.add_column("rules", sa.Column("tool_version", sa.Text))
    op.add_column("sessions", sa.Column("modes", sa.Text, nullable=False, server_default="[]"))
    op.add_column("approvals", sa.Column("warnings", sa.Text, nullable=False, server_default="[]"))
    op.add_column(
        "approvals", sa.Column("remember", sa.Boolean, nullable=False, server_default=sa.true())
    )
    op.add_column("effects", sa.Column("undoes", PLAIN))
    op.add_column("effects", sa.Column("before", sa.Text))
    op.create_index("approvals_expiry", "approvals", ["status", "expires_at"])
    op.create_index("effects_undoes", "effects", ["undoes"])
