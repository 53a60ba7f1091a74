"""``sayso tools``: what the agent could call, what that touches, and the verdict it would get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.output import answer_json, answer_json_array, answer_table, only_answers, say
from agent.cli.start import Plan, Start, with_start

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent.inventory import Entry
    from agent.policy import Policy


@with_start("tools", "workspace", "grant", "deny", "profile", "trust")
def tools(
    start: Start,
    reach: Annotated[
        bool, typer.Option("--reach", help="Only what all of them together can touch.")
    ] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """The tools of a new session: what each can touch, and whether it runs, waits or never runs."""
    import asyncio

    from agent.cli.faults import logged
    from agent.cli.start import plan
    from agent.inventory import reach_in_words, reaches

    planned = plan(start, "cli")
    with logged(planned.settings.ensure_home()), only_answers():
        found = asyncio.run(_inventory(planned))
    entries = [entry for _, entry in found]
    if reach and as_json_:
        answer_json(reaches(entries))
    elif reach:
        rows = [[verdict, effect] for verdict, all_ in reaches(entries).items() for effect in all_]
        answer_table(["VERDICT", "EFFECT"], rows)
    elif as_json_:
        answer_json_array(_row(entry, domain) for domain, entry in found)
    else:
        answer_table(_HEADINGS, [_cells(entry, domain) for domain, entry in found])
        for line in reach_in_words(entries):
            say(line)


async def _inventory(plan: Plan) -> list[tuple[str, Entry]]:
    """Each tool with its domain, under the policy files and the authority of a new session.

    Raises:
        InvalidPolicy: A policy file is wrong, so that no session can begin.
    """
    from contextlib import AsyncExitStack

    from agent.authority import check_patterns
    from agent.config import actor
    from agent.inventory import Standing, inventory
    from agent.policy import Spent, authority_of_new

    start = plan.start
    authority = authority_of_new(start.profile, start.grant, start.deny)
    check_patterns((*authority.granted, *authority.denied))
    found = [(domain, tool) for domain, tools in domains(plan).items() for tool in tools]
    async with AsyncExitStack() as stack:
        if plan.servers:
            found += [("mcp", tool) for tool in await plan.server_tools(stack)]
        tools = [tool for _, tool in found]
        user = actor(plan.settings, "cli").name
        policy = _policy(plan, tools)
        entries = inventory(tools, Standing(policy, authority, user=user, spent=Spent()))
    return list(zip((domain for domain, _ in found), entries, strict=True))


def _policy(plan: Plan, tools: Sequence[BaseTool]) -> Policy:
    """The policy files as a new session would have them."""
    from agent.policy import Policy, catalogue_of
    from agent.policy.loading import load_policy
    from agent.toolset import every_bundled_tool

    if plan.settings.policy is None and plan.policy is None:
        return Policy()
    known = catalogue_of([*every_bundled_tool(plan.settings.ensure_home()), *tools])
    return load_policy(plan.settings.policy, plan.policy, known)


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


_HEADINGS = (
    "NAME", "ACCESS", "VERDICT", "BY", "DOMAIN", "VERSION", "EFFECTS", "DESCRIPTION",
)  # fmt: skip


def _cells(entry: Entry, domain: str) -> list[str]:
    row = _row(entry, domain)
    own = (row["name"], row["access"], entry.verdict, entry.decides, row["domain"], row["version"])
    return [*own, entry.touches, row["description"]]


def _row(entry: Entry, domain: str) -> dict[str, Any]:
    tool, contract, prospect = entry.tool, entry.contract, entry.prospect
    return {
        "name": tool.name,
        "access": entry.access,
        "domain": domain,
        "version": contract.version,
        "effects": sorted(entry.reach) if entry.reach is not None else None,
        "verdict": prospect.verdict or "depends",
        "verdicts": prospect.verdicts,
        "rule": prospect.rule or None,
        "reason": prospect.reason or None,
        "hinges_on": prospect.hinges_on,
        "description": next(iter(tool.description.strip().splitlines()), ""),
        "undo": contract.undo.text if contract.undo else None,
    }
