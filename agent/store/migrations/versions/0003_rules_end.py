"""Until when an "always" rule of a session holds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; a rule that is there was agreed to for its whole session, and keeps that."""
    op.add_column("rules", sa.Column("expires_at", PLAIN))
