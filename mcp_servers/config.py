"""What the servers read from their environment; nothing else in this package reads it.

A server is started by somebody's MCP host, which names what it gets: no ``SAYSO_*`` variable
and no ``.env`` file counts here.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class OrdersSettings(BaseSettings):
    """Settings of ``mcp_servers.orders``."""

    model_config = SettingsConfigDict(env_file=None, extra="ignore")

    database: Path = Field(
        default_factory=lambda: platformdirs.user_state_path("sayso") / "worlds" / "orders.db",
        validation_alias="ORDER_DESK_DB",
        description="The order desk's database; made with sample orders when missing. By "
        "default the one that sayso's own order tools use.",
    )
    """``ORDER_DESK_DB``"""
