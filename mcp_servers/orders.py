"""The order desk as an MCP server: ``python -m mcp_servers.orders`` speaks stdio.

``ORDER_DESK_DB`` names the database; see ``mcp_servers.config``. Standard output carries the
protocol and nothing else; logs go to standard error. The server ends with its standard input.
"""

from __future__ import annotations

import logging
import sys

from fastmcp import FastMCP

from mcp_servers.config import OrdersSettings, read_settings
from mcp_servers.serving import make_server
from tools.orders import order_tools
from tools.worlds.order_desk import OrderDesk

INSTRUCTIONS = (
    "An order desk. Look an order up before changing it: cancel_order wants the revision that "
    "get_order returned. Cancelling and refunding cannot be undone."
)


def build_server(desk: OrderDesk) -> FastMCP:
    """The order desk's tools over one desk, ready to run on a transport."""
    return make_server("orders", INSTRUCTIONS, order_tools(desk))


def main() -> None:
    """Serve over stdio until standard input ends."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    server = build_server(OrderDesk(read_settings(OrdersSettings).database))
    server.run(transport="stdio", show_banner=False, log_level="WARNING")


if __name__ == "__main__":
    main()
