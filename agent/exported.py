"""The graph for other front ends, such as LangGraph's own server (see ``langgraph.json``).

It comes without a checkpointer, since the server brings one, and without a recording: it reads,
and says that what changes the world needs a sayso session.
"""

from __future__ import annotations

import asyncio
from typing import Any

import prompts
from agent.config import load_settings
from agent.graph import build_agent
from agent.models import configured_chat_model
from agent.toolset import Places, load_tools


async def make_graph() -> Any:
    """The agent graph with the settings of the environment.

    Building it makes folders and reads files, which LangGraph's server wants off its loop.
    """
    return await asyncio.to_thread(_build)


def _build() -> Any:
    settings = load_settings()
    places = Places.of(settings, settings.workspace, settings.database_files)
    toolset = load_tools(settings.tools, places)
    return build_agent(
        configured_chat_model(settings), toolset.tools, prompts.system_prompt(toolset.domains)
    )
