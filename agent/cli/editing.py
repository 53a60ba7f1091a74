"""An edit from the command line: checked against the tool itself before a person confirms it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.faults import logged
from agent.errors import InvalidDecision
from agent.inbox import as_edited
from agent.toolset import Places, load_tools
from agent.trust import as_given

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent.cli.start import Plan
    from agent.store.records import ApprovalRecord, SessionRecord
    from agent.types import Decision


def checked_edit(
    plan: Plan, session: SessionRecord, approval: ApprovalRecord, decision: Decision
) -> tuple[dict[str, BaseTool], ApprovalRecord]:
    """The session's tools by name, and the approval as the edit would have it.

    Raises:
        InvalidDecision: The tool is not available here, or the arguments do not fit it.
        UntrustedFolder: A file of the session's tools is not what it was.
    """
    with logged(plan.settings.ensure_home()):
        tools = asyncio.run(_tools(plan, session, approval.tool))
    if approval.tool not in tools:
        raise InvalidDecision(
            f"The tool {approval.tool} is not available here, so the edit cannot be checked. "
            "Nothing was decided. If it comes from this folder's .mcp.json, add --trust."
        )
    return tools, asyncio.run(as_edited(approval, decision.args, tools.get))


async def _tools(plan: Plan, session: SessionRecord, wanted: str) -> dict[str, BaseTool]:
    """The session's own tools; those of MCP servers only when the wanted one is not among them."""
    workspace = Path(session.workspace) if session.workspace else None
    places = Places.of(plan.settings, workspace)
    names = as_given(session.tools, plan.settings.tools)
    found = {tool.name: tool for tool in load_tools(names, places).tools}
    if wanted not in found and plan.servers:
        async with AsyncExitStack() as stack:
            found |= {tool.name: tool for tool in await plan.server_tools(stack)}
    return found
