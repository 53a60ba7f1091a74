"""A server's question in the chat: its panel, and the form filled in field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from agent.forms import HOW, LEFT_OUT, Field, fields_of
from agent.mcp.addresses import read_address
from agent.repl.prompts import Prompts
from agent.repl.questions import Void
from agent.repl.screen import Quoted, Screen
from agent.safe_text import exact_json, look_alikes, one_line, strict


def question_lines(args: Mapping[str, Any]) -> list[RenderableType]:
    """What a server asks, whole: its words, and the fields or the address.

    What is kept may be no form and no address, of an earlier version or another program: that is
    said, and it is shown as it is.

    Args:
        args: Of the question's approval.
    """
    lines: list[RenderableType] = [
        Text("it says", "dim"),
        Quoted(Text(strict(str(args.get("message", ""))), overflow="fold")),
    ]
    if args.get("schema") is None:
        url = str(args.get("url", ""))
        lines += [
            Text("it wants you to open (nothing is opened for you)", "dim"),
            Text(strict(url), "bold", overflow="fold"),
            _host(url),
        ]
        lines += [Text(f"! {warning}", "bold red") for warning in map(str, look_alikes(url))]
        return lines
    lines.append(Text("it wants", "dim"))
    return [*lines, *_fields(args)]


def _host(url: str) -> Text:
    try:
        return Text.assemble(("at  ", "dim"), (read_address(url).at, "bold"))
    except ValueError:
        return Text("! that is no web address; do not open it", "bold red")


def _fields(args: Mapping[str, Any]) -> list[RenderableType]:
    try:
        described = [one_line(field.described()) for field in fields_of(args)]
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return [
            Text("! that is no form that can be filled in", "bold red"),
            Text(exact_json(args["schema"]), overflow="fold"),
        ]
    return [Padding(Text(field, overflow="fold"), (0, 0, 0, 2)) for field in described]


async def fill(
    args: Mapping[str, Any],
    prompts: Prompts,
    screen: Screen,
    void: Void,
    said: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Ask for each field; ``None`` when the person went back, or the question became void.

    Args:
        args: Of the question's approval.
        void: Whether it is.
        said: An answer that is being changed: what Enter takes, in place of the defaults.
    """
    content: dict[str, Any] = {}
    screen.note(HOW if said is None else "Enter keeps what you said.")
    for field in fields_of(args):
        if said is not None:
            field = field.with_default(said.get(field.name, LEFT_OUT))
        value = await _entered(field, prompts, screen, void)
        if value is None:
            return None
        content |= value
    return content


async def _entered(
    field: Field, prompts: Prompts, screen: Screen, void: Void
) -> dict[str, Any] | None:
    """One field of the answer, perhaps left out; asked again until what was typed fits."""
    while True:
        typed = await prompts.line(f"{one_line(field.described())}:")
        if typed is None or void():
            return None
        try:
            value = field.entered(typed)
        except ValueError as error:
            screen.error(one_line(str(error)))
        else:
            return {} if value is LEFT_OUT else {field.name: value}
