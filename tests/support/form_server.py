"""An MCP server whose tools ask the person: forms with every kind of field, one after the other.

``python form_server.py`` speaks stdio.
"""

from __future__ import annotations

from typing import Any

from fastmcp import Context, FastMCP

server = FastMCP("forms")

TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "format": "email", "description": "Where we write to"},
        "day": {"type": "string", "format": "date", "default": "2026-03-01"},
        "room": {
            "type": "string",
            "oneOf": [{"const": "s", "title": "Sea view"}, {"const": "y", "title": "Back yard"}],
        },
        "extras": {
            "type": "array",
            "items": {"type": "string", "enum": ["breakfast", "parking", "gym"]},
            "minItems": 1,
            "maxItems": 2,
        },
        "code": {"type": "string", "minLength": 2, "maxLength": 4},
    },
    "required": ["mail", "room", "extras"],
}


def one(name: str, **schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name]}


async def asked(context: Context, message: str, schema: dict[str, Any]) -> str:
    answer = await context.session.elicit_form(message, schema)
    return f"{answer.action} {sorted((answer.content or {}).items())}"


@server.tool
async def trip(context: Context) -> str:
    """Ask for a whole trip."""
    return await asked(context, "Tell me about your trip.", TRIP)


@server.tool
async def stops(context: Context) -> str:
    """Ask for the city, then for the nights."""
    city = await asked(context, "Which city?", one("city", type="string"))
    return f"{city}, {await asked(context, 'How long?', one('nights', type='integer', default=2))}"


if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False, log_level="ERROR")
