"""A server's form on the terminal, outside the chat: filled in field by field."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from agent.cli.output import on_terminal, say
from agent.errors import SaysoError, UsageError
from agent.forms import HOW, LEFT_OUT, Field, answer_to, fields_of
from agent.safe_text import exact_json, one_line

if TYPE_CHECKING:
    from agent.store.records import ApprovalRecord


def answer_from_terminal(approval: ApprovalRecord) -> str:
    """What a person answers who gave no answer on the command line.

    Returns:
        JSON by field, as the form takes it.

    Raises:
        UsageError: There is no form, or no terminal to fill it in.
        SaysoError: The input ended; nothing was decided.
    """
    if approval.kind != "elicitation":
        raise UsageError(
            f"{approval.id} is a call: say with --message TEXT what the model gets in its place. "
            "Nothing was decided."
        )
    if approval.args.get("schema") is None:
        return "done"
    if not on_terminal():
        raise UsageError(
            f"There is no terminal to fill the form in: answer {approval.id} with --message JSON. "
            f"Nothing was decided. What it asks for: sayso approvals {approval.id}"
        )
    say(HOW)
    content: dict[str, Any] = {}
    for field in fields_of(approval.args):
        value = _entered(field, approval.id)
        if value is not LEFT_OUT:
            content[field.name] = value
    return exact_json(content, indent=None)


def show_answer(approval: ApprovalRecord, answer: str) -> None:
    """What the server would get: the answer to its form, with the defaults of what was left out."""
    content = answer_to(approval.args, answer)
    if content is not None:
        say(f"To {one_line(approval.tool)}: {exact_json(content, indent=None)}")


def _entered(field: Field, approval: str) -> Any:
    """One field of the answer; asked again until what was typed fits."""
    while True:
        print(f"{one_line(field.described())}: ", end="", file=sys.stderr, flush=True)  # noqa: T201
        typed = sys.stdin.readline()
        if not typed:
            say("")
            raise SaysoError(f"Nothing was decided; {approval} still waits.")
        try:
            return field.entered(typed)
        except ValueError as error:
            say(one_line(str(error)))
