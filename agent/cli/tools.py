"""``sayso tools``: what the agent could call, and which of it waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.output import answer_json_array, answer_table, only_answers, say
from agent.cli.start import Plan, Start, with_start

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


@with_start("tools", "workspace", "trust")
def tools(
    start: Start, as_json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False
) -> None:
    """The tools of a new session: what each may do, and whether it waits for you."""
    import asyncio

    from agent.cli.faults import logged
    from agent.cli.start import plan

    planned = plan(start, "cli")
    with logged(planned.settings.ensure_home()), only_answers():
        rows = asyncio.run(_rows(planned))
    if as_json_:
        answer_json_array(rows)
        return
    answer_table(
        ["NAME", "ACCESS", "DOMAIN", "VERSION", "EFFECTS", "DESCRIPTION"],
        [
            [
                row["name"],
                row["access"],
                row["domain"],
                row["version"],
                ", ".join(row["effects"]) if row["effects"] else "depends on the arguments",
                row["description"],
            ]
            for row in rows
        ],
    )


async def _rows(plan: Plan) -> list[dict[str, Any]]:
    from contextlib import AsyncExitStack

    rows = []
    for domain, tools in domains(plan).items():
        rows += [_row(tool, domain) for tool in tools]
    if plan.servers:
        async with AsyncExitStack() as stack:
            rows += [_row(tool, "mcp") for tool in await plan.server_tools(stack)]
    return rows


def domains(plan: Plan) -> dict[str, list[BaseTool]]:
    """The tools that the settings name, by domain; says which are left out, and why.

    Raises:
        UsageError: Some cannot be loaded.
    """
    from pathlib import Path

    from agent.toolset import Places, load_tools

    settings = plan.settings
    places = Places.of(settings, settings.workspace or Path.cwd())
    load_tools(settings.tools, places)  # all together: names must differ
    found = {}
    for name in settings.tools:
        toolset = load_tools([name], places)
        for notice in toolset.notices:
            say(notice)
        found[name.partition("@sha256:")[0]] = list(toolset.tools)
    return found


def _row(tool: BaseTool, domain: str) -> dict[str, Any]:
    from tools.contract import contract_of, is_read

    contract = contract_of(tool)
    effects = None if callable(contract.effects) else sorted(contract.effects)
    reads = effects is not None and is_read(frozenset(effects))
    return {
        "name": tool.name,
        "access": "read" if reads else "write" if effects is not None else "depends",
        "domain": domain,
        "version": contract.version,
        "effects": effects,
        "description": next(iter(tool.description.strip().splitlines()), ""),
        "undo": contract.undo.text if contract.undo else None,
    }
