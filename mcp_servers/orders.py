"""The order desk as an MCP server.

``python -m mcp_servers.orders`` speaks stdio, ``… --http`` Streamable HTTP on
``http://127.0.0.1:8767/mcp``. ``ORDER_DESK_DB`` names the database, ``AGENT_TOKEN`` and its
companions who may call over HTTP; see ``mcp_servers.config``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_servers.program import run

if TYPE_CHECKING:
    from mcp_servers.config import OrdersSettings
    from mcp_servers.serving import Offer
    from tools.worlds.order_desk import OrderDesk

DEFAULT_PORT = 8767
INSTRUCTIONS = (
    "An order desk. Look an order up before changing it: cancel_order wants the revision that "
    "get_order returned. Cancelling and refunding cannot be undone."
)


def offer(desk: OrderDesk) -> Offer:
    """The order desk's tools over one desk."""
    from mcp_servers.serving import offer_tools
    from tools.orders import plain_order_tools

    return offer_tools("orders", INSTRUCTIONS, plain_order_tools(desk))


def main() -> None:
    """Serve as the command line says."""
    run("mcp_servers.orders", _settings, _offer, DEFAULT_PORT)


def _settings() -> OrdersSettings:
    from mcp_servers.config import OrdersSettings, read_settings

    return read_settings(OrdersSettings)


def _offer(settings: OrdersSettings) -> Offer:
    from tools.worlds.order_desk import OrderDesk

    return offer(OrderDesk(settings.database))


if __name__ == "__main__":
    main()
