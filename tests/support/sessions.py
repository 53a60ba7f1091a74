"""Opening the whole application in a test: a scripted model, real tools, a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agent.application import Application, Options
from agent.config import load_settings
from agent.models.scripted import ScriptedCall, ScriptedChatModel, ScriptedStep
from agent.session import AgentSession

SCRIPTED = "scripted:test"


def calls(
    *requests: tuple[str, dict[str, Any]], ids: Sequence[str | None] = (), text: str = ""
) -> ScriptedStep:
    """A scripted reply with these calls, as (tool, arguments), under these ids."""
    padded = [*ids, *[None] * (len(requests) - len(ids))]
    return ScriptedStep(
        text,
        tuple(
            ScriptedCall(name, args, id_)
            for (name, args), id_ in zip(requests, padded, strict=True)
        ),
    )


def reads(*orders: str) -> ScriptedStep:
    """A scripted reply that reads these orders: without that, none of them may be changed."""
    return calls(*(("get_order", {"order_id": order}) for order in orders))


@asynccontextmanager
async def application(
    home: Path,
    steps: Iterable[Any] | BaseChatModel = (),
    *,
    tools: Sequence[BaseTool] = (),
    domains: Sequence[str] = ("orders",),
    options: Options | None = None,
    **settings: Any,
) -> AsyncIterator[Application]:
    """The application over ``home``, with a model that follows ``steps``."""
    model = steps if isinstance(steps, BaseChatModel) else ScriptedChatModel(list(steps))
    values = {"home": home, "model": SCRIPTED, "tools": tuple(domains), "reviewer": "ana"}
    loaded = load_settings(environ={}, **{**values, **settings})
    async with Application.open(
        loaded, options or Options(via="test"), models={SCRIPTED: model}, tools=tools
    ) as app:
        yield app


@asynccontextmanager
async def session(
    home: Path, steps: Iterable[Any] | BaseChatModel = (), **kwargs: Any
) -> AsyncIterator[tuple[Application, AgentSession]]:
    """A new session in an application of its own."""
    async with application(home, steps, **kwargs) as app, app.new_session() as opened:
        yield app, opened
