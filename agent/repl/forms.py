"""A server's question in the chat: its panel, and the form filled in field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from agent.mcp.questions import choices, value_of
from agent.repl.prompts import Prompts
from agent.repl.questions import Void
from agent.repl.screen import Screen
from agent.safe_text import look_alikes, one_line, strict


def question_lines(args: Mapping[str, Any]) -> list[RenderableType]:
    """What a server asks, whole: its words, and the fields or the address.

    Args:
        args: Of the question's approval.
    """
    lines: list[RenderableType] = [
        Text("it says", "dim"),
        *(Text(f"  │ {strict(line)}") for line in str(args.get("message", "")).split("\n")),
    ]
    if args.get("schema") is None:
        url = str(args.get("url", ""))
        lines += [
            Text("it wants you to open (nothing is opened for you)", "dim"),
            Text(strict(url), "bold", overflow="fold"),
        ]
        lines += [Text(f"! {warning}", "bold red") for warning in map(str, look_alikes(url))]
        return lines
    lines.append(Text("it wants", "dim"))
    lines += [Text(f"  {_described(*field)}", overflow="fold") for field in _fields(args)]
    return lines


async def fill(
    args: Mapping[str, Any], prompts: Prompts, screen: Screen, void: Void
) -> dict[str, Any] | None:
    """Ask for each field; ``None`` when the person went back, or the question became void.

    An optional field is left out by an empty line, as is one with a default.
    """
    content: dict[str, Any] = {}
    for name, field, required in _fields(args):
        while True:
            typed = await prompts.line(f"{_described(name, field, required)}:")
            if typed is None or void():
                return None
            if not typed.strip() and "default" in field:
                content[name] = field["default"]
            elif typed.strip() or required:
                try:
                    content[name] = value_of(field, typed.strip())
                except ValueError as error:
                    screen.error(one_line(f"{error}"))
                    continue
            break
    return content


def _fields(args: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], bool]]:
    schema = args["schema"]
    required = schema.get("required", [])
    return [(name, field, name in required) for name, field in schema["properties"].items()]


def _described(name: str, field: Mapping[str, Any], required: bool) -> str:
    """``colour (red, green; optional): which one``"""
    of = ", ".join(choices(field)) or str(field.get("type", ""))
    if field.get("type") == "array":
        of = f"some of {of}, with commas"
    elif field.get("type") == "boolean":
        of = "yes or no"
    notes = [of]
    if "default" in field:
        notes.append(f"else {field['default']}")
    elif not required:
        notes.append("optional")
    about = str(field.get("description") or field.get("title") or "")
    if about.lower() == name.lower():
        about = ""
    return one_line(f"{name} ({'; '.join(notes)}){f': {about}' if about else ''}")
