"""Whole sessions with the offline model and the bundled tools: what a person without a key gets.

The model, the tools, the database and the world are the real ones; only the reviewer is
simulated.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool

from agent.application import Application
from agent.checks.arguments import normalise
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import (
    ByTool,
    Edits,
    Rejects,
    Reviewer,
    When,
    approves,
    stays_silent,
)
from agent.events import ReceiptReady
from agent.models.offline import OfflineChatModel
from agent.session import AgentSession
from tests.support.offline_tasks import REASON, TASKS, Call, Task, Worlds
from tests.support.sessions import session
from tools.contract import OutcomeUnknown
from tools.langchain_tools import ContractTool
from tools.worlds.order_desk import OrderDesk

DOMAINS = ("orders", "research", "files")
CASE_1 = "Cancel orders A1 and A2 if they are still pending"


@asynccontextmanager
async def offline(
    tmp_path: Path, **settings: Any
) -> AsyncIterator[tuple[Application, AgentSession]]:
    """A session of the offline model with every bundled tool and a workspace."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    home = tmp_path / "home"
    async with session(
        home, OfflineChatModel(), domains=DOMAINS, workspace=workspace, **settings
    ) as opened:
        yield opened


def desk(tmp_path: Path) -> OrderDesk:
    return OrderDesk(tmp_path / "home" / "worlds" / "orders.db")


# --- cancelling what is still pending --------------------------------------------------------


async def test_what_is_pending_waits_is_approved_and_cancelled_and_what_is_shipped_is_left(
    tmp_path: Path,
) -> None:
    async with offline(tmp_path) as (app, opened):
        waiting = await converse(opened, CASE_1, stays_silent)

        assert [tool for tool, _ in waiting.calls] == ["get_order", "get_order", "cancel_order"]
        assert (waiting.done.state, waiting.done.exit) == ("waiting", 3)
        assert desk(tmp_path).get("A1").status == "pending"
        (approval,) = waiting.asked
        assert approval.args == {"order_id": "A1", "expected_revision": 1}
        assert approval.preview is not None
        assert approval.preview["summary"] == "order A1: pending → cancelled"
        assert {s["path"]: s["origin"] for s in approval.provenance or ()} == {
            "order_id": "user",
            "expected_revision": "trusted",
        }

        finished = await review(opened, approves)
        orders = desk(tmp_path)
        assert (orders.get("A1").status, orders.get("A2").status) == ("cancelled", "shipped")
        assert orders.history("A2") == ()
        assert re.search(r"Not done: .*A2.*shipped", finished.done.answer)
        assert (finished.done.state, finished.done.exit) == ("done", 0)
        assert [effect.state for effect in app.store.ledger.list()] == ["committed"]
        (receipt,) = finished.of(ReceiptReady)
        assert receipt.receipt == opened.receipt()
        assert orders.history("A1")[-1].id in receipt.receipt.done[0]
        assert app.store.trail.verify() == []


async def test_a_rejections_reason_reaches_the_answer_and_the_call_is_not_proposed_again(
    tmp_path: Path,
) -> None:
    async with offline(tmp_path) as (app, opened):
        trajectory = await converse(opened, "Cancel order A1", Rejects("it ships this afternoon"))

        assert "it ships this afternoon" in trajectory.done.answer
        assert len(trajectory.asked) == 1
        assert desk(tmp_path).get("A1").status == "pending"
        assert app.store.ledger.list() == []
        assert "it ships this afternoon" in opened.receipt().not_done[0]
        assert (trajectory.done.state, trajectory.done.exit) == ("done", 5)


async def test_edited_arguments_run_and_the_answer_is_about_those(tmp_path: Path) -> None:
    async with offline(tmp_path) as (app, opened):
        trajectory = await converse(
            opened, "Refund 20 EUR for order C1", Edits({"amount": "12.50"})
        )

        assert desk(tmp_path).get("C1").refunded == 1250
        assert "12.50" in trajectory.done.answer
        assert app.store.ledger.list()[0].args["amount"] == "12.50"
        assert "12.50" in opened.receipt().done[0]
        assert trajectory.done.exit == 0


async def test_a_missing_currency_is_asked_for_and_the_answer_to_that_completes_the_call(
    tmp_path: Path,
) -> None:
    async with offline(tmp_path) as (_, opened):
        question = await converse(opened, "Refund 20 for order C1", approves)
        assert question.asked == []
        assert re.search(r"currency.*\?", question.done.answer)
        assert (question.done.exit, desk(tmp_path).get("C1").refunded) == (0, 0)

        answered = await converse(opened, "EUR", approves)
        (approval,) = answered.asked
        assert approval.args == {"order_id": "C1", "amount": "20.00", "currency": "EUR"}
        assert desk(tmp_path).get("C1").refunded == 2000


async def test_research_asks_nobody_and_ends_with_labels_and_no_receipt(tmp_path: Path) -> None:
    async with offline(tmp_path) as (app, opened):
        trajectory = await converse(
            opened,
            "How much did monthly bike-share use in Larkford grow from 2023 to 2024?",
            stays_silent,
        )

        assert "34.6%" in trajectory.done.answer
        assert trajectory.asked == []
        assert trajectory.of(ReceiptReady) == []
        assert (trajectory.done.state, trajectory.done.exit) == ("done", 0)
        assert app.store.sessions.get(opened.id).labels == ["untrusted"]
        assert app.store.ledger.list() == []


async def test_a_file_is_written_after_its_diff_was_shown(tmp_path: Path) -> None:
    async with offline(tmp_path) as (app, opened):
        (tmp_path / "work" / "todo.md").write_text("buy milk\ncall Ann\n")
        waiting = await converse(opened, "replace milk with bread in todo.md", stays_silent)

        (approval,) = waiting.asked
        assert approval.tool == "edit_file"
        assert approval.preview is not None
        assert "-buy milk" in approval.preview["diff"]
        assert "+buy bread" in approval.preview["diff"]
        assert (tmp_path / "work" / "todo.md").read_text() == "buy milk\ncall Ann\n"

        finished = await review(opened, approves)
        assert (tmp_path / "work" / "todo.md").read_text() == "buy bread\ncall Ann\n"
        assert app.store.ledger.list()[0].approval == approval.id
        assert finished.done.exit == 0


async def test_a_silent_reviewer_leaves_everything_as_it_was_and_a_later_process_goes_on(
    tmp_path: Path,
) -> None:
    async with offline(tmp_path) as (_, opened):
        session_id = opened.id
        await converse(opened, CASE_1, stays_silent)

    async with (
        session(
            tmp_path / "home", OfflineChatModel(), domains=DOMAINS, workspace=tmp_path / "work"
        ) as (app, _),
        app.open_session(session_id) as again,
    ):
        finished = await review(again, approves)
        assert desk(tmp_path).get("A1").status == "cancelled"
        assert re.search(r"Not done: .*A2.*shipped", finished.done.answer)


# --- the twenty tasks, through the whole session ---------------------------------------------


class SessionWorlds(Worlds):
    """The worlds of the tasks, with the faults of a task happening inside the tools.

    Args:
        keeps_record: Whether an answer that is lost can be looked up, or the same call sent again.
    """

    def __init__(self, folder: Path, task: Task, *, keeps_record: bool = True) -> None:
        super().__init__(folder)
        self._task, self._keeps_record = task, keeps_record
        self._seen = Counter[str]()

    def tools(self) -> list[BaseTool]:
        return [self._faulty(tool) for tool in super().tools()]

    def _faulty(self, tool: BaseTool) -> BaseTool:
        assert isinstance(tool, ContractTool)
        assert tool.func is not None
        body = tool.func

        @functools.wraps(body)
        def run(**args: Any) -> Any:
            self._seen[tool.name] += 1
            result = body(**args)
            made = Call(tool.name, args)
            if self._task.after and (lost := self._task.after(self, made, self._seen[tool.name])):
                raise OutcomeUnknown(lost)
            return result

        contract = tool.contract
        if not self._keeps_record:
            contract = replace(contract, reconcile=None, idempotency="none")
        return tool.model_copy(update={"func": run, "contract": contract})

    def reviewer(self) -> Reviewer:
        """Rejects what the task says is refused, approves everything else."""
        before = self._task.before

        def refused(approval: Any) -> bool:
            return bool(before and before(self, Call(approval.tool, approval.args), 1))

        return When(refused, Rejects(REASON), approves)


def without_research(tools: dict[str, BaseTool]) -> list[BaseTool]:
    """The tools that a session with the domain ``research`` does not have by itself."""
    return [tool for name, tool in tools.items() if name not in ("search", "fetch", "calculator")]


def spelled(tools: dict[str, BaseTool], tool: str, args: dict[str, Any]) -> str:
    """One call as text, its arguments as they would run."""
    return f"{tool} {json.dumps(normalise(tools[tool], args).args, sort_keys=True)}"


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_task_through_the_whole_session(task: Task, tmp_path: Path) -> None:
    worlds = SessionWorlds(tmp_path, task, keeps_record=task.name != "write in doubt")
    tools = {tool.name: tool for tool in worlds.tools()}
    async with session(
        tmp_path / "home", OfflineChatModel(), domains=["research"], tools=without_research(tools)
    ) as (app, opened):
        turns = [await converse(opened, text, worlds.reviewer()) for text in task.texts]
        history = await opened.history()

        made = [
            sorted(spelled(tools, call["name"], call["args"]) for call in message.tool_calls)
            for message in history
            if isinstance(message, AIMessage) and message.tool_calls
        ]
        assert made == [
            sorted(spelled(tools, call.tool, call.args) for call in step) for step in task.steps
        ]
        answer = turns[-1].done.answer
        assert all(re.search(pattern, answer) for pattern in task.says), answer
        assert not any(re.search(pattern, answer) for pattern in task.never), answer
        assert task.world(worlds)
        check_the_record(app, opened, turns)


async def test_a_lost_answer_is_found_in_the_desks_own_record_and_nobody_is_asked(
    tmp_path: Path,
) -> None:
    (task,) = (task for task in TASKS if task.name == "write in doubt")
    worlds = SessionWorlds(tmp_path, task)
    tools = {tool.name: tool for tool in worlds.tools()}
    async with session(
        tmp_path / "home", OfflineChatModel(), domains=["research"], tools=without_research(tools)
    ) as (app, opened):
        turn = await converse(opened, *task.texts, worlds.reviewer())

        assert [tool for tool, _ in turn.calls] == ["get_order", "cancel_order"]
        (effect,) = app.store.ledger.list()
        (transaction,) = worlds.desk.history("A1")
        assert (effect.state, effect.transaction) == ("committed", transaction.id)
        assert transaction.id in turn.done.answer
        assert "Unknown" not in turn.done.answer
        assert opened.pending() == []
        assert turn.done.exit == 0
        check_the_record(app, opened, [turn])


def check_the_record(app: Application, opened: AgentSession, turns: list[Trajectory]) -> None:
    """Every write was asked for, once, and what the ledger says of it is what was decided."""
    asked = {approval.id for turn in turns for approval in turn.asked if approval.kind == "write"}
    rows = app.store.approvals.list(None, session=opened.id, kind="write", limit=None)
    assert {row.id for row in rows} == asked
    approved = {row.id for row in rows if row.status == "approved"}
    effects = app.store.ledger.list(session=opened.id, limit=None)
    assert {effect.approval for effect in effects} == approved
    assert all(effect.attempts == 1 for effect in effects)
    assert app.store.trail.verify() == []


async def test_two_tools_of_one_task_can_have_two_reviewers(tmp_path: Path) -> None:
    async with offline(tmp_path) as (_, opened):
        reviewer = ByTool({"cancel_order": approves, "write_file": Rejects("not in this folder")})
        await converse(opened, "Cancel order B1", reviewer)
        refused = await converse(opened, "write 'hello' to hello.txt", reviewer)

        assert desk(tmp_path).get("B1").status == "cancelled"
        assert not (tmp_path / "work" / "hello.txt").exists()
        assert "not in this folder" in refused.done.answer
