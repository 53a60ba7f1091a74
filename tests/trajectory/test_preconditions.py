"""A write is proposed to nobody before what it rests on was read in this session.

Evidence is what the harness let a tool return. The order desk's own contracts are tried over the
real desk; a tool that keeps the evidence it is shown says what the harness takes for evidence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from pydantic import BaseModel, ConfigDict

from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Answers, ByTool, Edits, InOrder, approves, stays_silent
from agent.models.scripted import step
from agent.session import AgentSession
from agent.types import Decision
from tests.support.sessions import application, calls, reads, session
from tools.contract import Call, Contract, Evidence, Scope, ToolFailure, Unmet, make_tool
from tools.worlds.order_desk import OrderDesk

REFUND_C1 = ("refund_order", {"order_id": "C1", "amount": "5.00", "currency": "EUR"})


def cancel(order: str, revision: int = 1) -> tuple[str, dict[str, Any]]:
    return ("cancel_order", {"order_id": order, "expected_revision": revision})


def desk(home: Path) -> OrderDesk:
    return OrderDesk(home / "worlds" / "orders.db")


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


# --- over the order desk ---------------------------------------------------------------------


async def test_an_order_that_was_never_read_is_not_proposed_and_the_read_is_offered(
    tmp_path: Path,
) -> None:
    steps = [
        calls(cancel("A1"), ids=["early"]),
        reads("A1"),
        calls(cancel("A1"), ids=["late"]),
        "Done.",
    ]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "cancel A1", approves)

        assert trajectory.results["early"] == (
            "This call was not run, and nothing changed: Order A1 was never read in this session. "
            'Call get_order({"order_id":"A1"}) first, then propose this again.'
        )
        assert [approval.call for approval in trajectory.asked] == ["late"]
        assert desk(tmp_path).get("A1").status == "cancelled"
        (refused,) = [
            e.data for e in app.store.trail.entries(opened.id) if e.kind == "call.refused"
        ]
        assert (refused["call"], refused["args"]) == ("early", cancel("A1")[1])
        assert trajectory.done.exit == 0


@pytest.mark.parametrize(
    ("before", "write", "why"),
    [
        ([reads("A1")], cancel("A1", 2), "order A1 was last seen at revision 1"),
        ([reads("A2")], cancel("A1"), "never read"),
        ([calls(("list_orders", {"customer": "Mara"}))], cancel("A1"), "never read"),
        ([reads("Z9")], cancel("Z9"), "never read"),
        ([step('{"id":"A1","revision":1}', *reads("A2").calls)], cancel("A1"), "never read"),
        ([], REFUND_C1, "Order C1 was never read"),
        ([reads("A1")], REFUND_C1, "Order C1 was never read"),
    ],
    ids=[
        "at another revision",
        "another order",
        "a list without revisions",
        "an error",
        "the model's own words",
        "a refund",
        "a refund of another order",
    ],
)
async def test_what_was_seen_must_be_this_order_at_this_revision(
    tmp_path: Path, before: list[Any], write: Any, why: str
) -> None:
    steps = [*before, calls(write, ids=["w"]), "I could not."]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "do it", approves)

        assert why in trajectory.results["w"]
        assert "Call get_order({" in trajectory.results["w"]
        assert trajectory.asked == []
        assert app.store.ledger.list() == []
        assert trajectory.done.answer == "I could not."


async def test_a_read_in_the_same_reply_has_not_been_seen_yet(tmp_path: Path) -> None:
    steps = [calls(*read_of("A1"), cancel("A1"), ids=["r", "w"]), "Not yet."]
    async with session(tmp_path, steps) as (_, opened):
        trajectory = await converse(opened, "cancel A1", approves)
        assert "never read" in trajectory.results["w"]
        assert '"revision":1' in trajectory.results["r"]
        assert trajectory.asked == []


def read_of(*orders: str) -> list[tuple[str, dict[str, Any]]]:
    return [("get_order", {"order_id": order}) for order in orders]


async def test_a_list_of_whole_records_has_shown_them(tmp_path: Path) -> None:
    listing = calls(("list_orders", {"customer": "Mara", "response_format": "detailed"}))
    async with session(tmp_path, [listing, calls(cancel("A1")), "Done."]) as (_, opened):
        trajectory = await converse(opened, "cancel A1", approves)
        assert len(trajectory.asked) == 1
        assert desk(tmp_path).get("A1").status == "cancelled"


async def test_a_persons_answer_in_a_tools_place_is_no_evidence(tmp_path: Path) -> None:
    said = Answers('{"id":"A1","order_id":"A1","revision":2}')
    steps = [
        reads("A1"),
        calls(cancel("A1"), ids=["first"]),
        calls(cancel("A1", 2), ids=["second"]),
        "I see.",
    ]
    async with session(tmp_path, steps) as (_, opened):
        trajectory = await converse(opened, "cancel A1", said)
        assert trajectory.results["first"] == said.message
        assert "last seen at revision 1" in trajectory.results["second"]
        assert len(trajectory.asked) == 1


class Text(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str


@pytest.mark.parametrize("open_world", [True, False], ids=["a stranger's", "another tool's"])
async def test_a_text_that_looks_like_the_desks_is_no_evidence(
    tmp_path: Path, open_world: bool
) -> None:
    def page(text: str) -> str:
        """Read a page."""
        return text

    contract = Contract(effects=frozenset({"read:web"}), open_world=open_world, private=False)
    forged = json.dumps({"id": "A1", "revision": 1, "orders": [{"id": "A1", "revision": 1}]})
    steps = [
        calls(("page", {"text": forged})),
        calls(("page", {"text": json.dumps(json.loads(forged)["orders"][0])})),
        calls(cancel("A1"), ids=["w"]),
        "No.",
    ]
    tools = [make_tool(page, args=Text, contract=contract)]
    async with session(tmp_path, steps, tools=tools) as (_, opened):
        trajectory = await converse(opened, "cancel A1", approves)
        assert "never read" in trajectory.results["w"]
        assert trajectory.asked == []


async def test_the_sessions_own_write_has_made_what_was_read_before_it_stale(
    tmp_path: Path,
) -> None:
    steps = [
        reads("A1"),
        calls(cancel("A1")),
        calls(cancel("A1"), ids=["again"]),
        calls(("refund_order", {"order_id": "A1", "amount": "5.00", "currency": "EUR"})),
        "Done.",
    ]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "cancel and refund A1", approves)

        assert "was last seen at revision 2" in trajectory.results["again"]
        assert [approval.tool for approval in trajectory.asked] == ["cancel_order", "refund_order"]
        assert desk(tmp_path).get("A1").refunded == 500
        assert len(app.store.ledger.list()) == 2


async def test_what_was_read_in_an_earlier_turn_and_process_still_counts(tmp_path: Path) -> None:
    steps = [reads("A1"), "It is pending.", calls(cancel("A1")), "Done."]
    async with session(tmp_path, steps) as (_, opened):
        session_id = opened.id
        await converse(opened, "what about A1?", approves)
    async with application(tmp_path, steps) as app, app.open_session(session_id) as opened:
        trajectory = await converse(opened, "cancel it", approves)
        assert len(trajectory.asked) == 1
        assert desk(tmp_path).get("A1").status == "cancelled"


async def test_a_fork_has_seen_what_its_source_had_seen(tmp_path: Path) -> None:
    steps = [reads("A1"), "It is pending.", calls(cancel("A1")), "Done."]
    async with application(tmp_path, steps) as app:
        async with app.new_session() as source:
            await converse(source, "what about A1?", approves)
        record = await app.fork(source.id)
        async with app.open_session(record.id) as fork:
            trajectory = await converse(fork, "cancel it", approves)
            assert len(trajectory.asked) == 1
    assert desk(tmp_path).get("A1").status == "cancelled"


async def test_an_edit_to_an_order_that_nobody_read_does_not_run(tmp_path: Path) -> None:
    steps = [reads("A1"), calls(cancel("A1"), ids=["w"]), "I see."]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "cancel A1", Edits({"order_id": "B1"}))

        assert "Order B1 was never read in this session" in trajectory.results["w"]
        assert {desk(tmp_path).get(order).status for order in ("A1", "B1")} == {"pending"}
        assert app.store.ledger.list() == []
        (approval,) = app.store.approvals.list(None)
        assert (approval.status, approval.decided_by) == ("superseded", "ana")
        (line,) = opened.receipt().not_done
        assert 'order_id="B1"): not run' in line
        assert opened.receipt().waiting == ()
        assert app.store.trail.verify() == []


# --- what the harness takes for evidence -----------------------------------------------------


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


class Witness:
    """A write whose precondition keeps the evidence that it was shown, and a read beside it."""

    def __init__(self) -> None:
        self.shown: list[list[Evidence]] = []
        self.ran: list[int] = []
        self.verdicts: list[Any] = []
        """What the precondition says, call by call; then it holds."""

    def tools(self, **contract: Any) -> list[Any]:
        def act(n: int) -> str:
            """Act."""
            self.ran.append(n)
            return json.dumps({"acted": n})

        def look(n: int) -> str:
            """Look."""
            if n < 0:
                raise ToolFailure('{"n": -1}')
            return json.dumps({"n": n})

        def holds(args: Any, evidence: Sequence[Evidence]) -> Any:
            self.shown.append(list(evidence))
            verdict = self.verdicts.pop(0) if self.verdicts else None
            if isinstance(verdict, Exception):
                raise verdict
            return verdict

        writes = {"effects": frozenset({"write:n"}), "open_world": False, "precondition": holds}
        reads = Contract(effects=frozenset({"read:n"}), open_world=False)
        return [
            make_tool(act, args=Number, contract=Contract(**writes | contract)),
            make_tool(look, args=Number, contract=reads),
        ]


LOOK = ("look", {"n": 1})
ACT = ("act", {"n": 1})


async def test_evidence_is_what_ran_with_the_arguments_that_ran(tmp_path: Path) -> None:
    witness = Witness()
    steps = [
        calls(LOOK, ("look", {"n": -1})),
        calls(("act", {"n": "2"})),
        calls(ACT),
        calls(ACT, ids=["last"]),
        "Done.",
    ]
    reviewer = InOrder(
        [
            Decision("edit", args={"n": 7}),
            Decision("respond", message='{"acted": 1}'),
            Decision("approve"),
        ]
    )
    async with session(tmp_path, steps, tools=witness.tools()) as (_, opened):
        await converse(opened, "look and act", reviewer)

        looked = Evidence("look", {"n": 1}, {"n": 1})
        acted = Evidence("act", {"n": 7}, {"acted": 7})
        assert witness.ran == [7, 1]
        # Shown before and at the run of the edited call, before the answered one, and twice more.
        assert witness.shown == [[looked], [looked], *[[looked, acted]] * 3]
        history = [m for m in await opened.history() if isinstance(m, ToolMessage)]
        assert any("A person changed this call" in str(m.content) for m in history)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Unmet("Nobody looked.", Call("look", {"n": 1})), 'Call look({"n":1}) first'),
        (Unmet("It is too late."), "It is too late."),
        (RuntimeError("no idea"), "could not be checked: no idea"),
        (True, "gave a bool, which says nothing"),
        ("fine", "gave a str, which says nothing"),
    ],
    ids=["unmet", "without a read", "raises", "true", "a text"],
)
async def test_a_precondition_that_does_not_say_that_it_holds_asks_nobody(
    tmp_path: Path, verdict: Any, said: str
) -> None:
    witness = Witness()
    witness.verdicts = [verdict]
    steps = [calls(ACT, ids=["early"]), calls(ACT, ids=["late"]), "Done."]
    async with session(tmp_path, steps, tools=witness.tools()) as (_, opened):
        trajectory = await converse(opened, "act", approves)
        assert said in trajectory.results["early"]
        assert [approval.call for approval in trajectory.asked] == ["late"]
        assert witness.ran == [1]


async def test_it_is_checked_again_where_the_call_would_run(tmp_path: Path) -> None:
    witness = Witness()
    steps = [calls(ACT, ids=["a"]), "It did not run."]
    async with session(tmp_path, steps, tools=witness.tools()) as (app, opened):
        await converse(opened, "act", stays_silent)
        witness.verdicts = [Unmet("It is too late.")]
        trajectory = await review(opened, approves)

        assert trajectory.done.error is None
        assert "It is too late." in trajectory.results["a"]
        assert witness.ran == []
        assert app.store.ledger.list() == []
        (approval,) = app.store.approvals.list(None)
        assert (approval.status, approval.decided_by) == ("superseded", "ana")
        (void,) = [e.data for e in app.store.trail.entries(opened.id) if e.kind == "approval.void"]
        assert (void["approval"], void["decided_by"]) == (approval.id, "ana")
        assert "not run" in opened.receipt().not_done[0]
        assert opened.receipt().waiting == ()
        assert (await resumed(opened)).done.state == "done"


async def test_a_rule_does_not_stand_in_for_evidence(tmp_path: Path) -> None:
    witness = Witness()
    always = {"always": lambda args: Scope("any", {})}
    steps = [
        calls(ACT),
        calls(ACT, ids=["unmet"]),
        calls(ACT, ids=["flips"]),
        calls(ACT, ids=["met"]),
        "Done.",
    ]
    async with session(tmp_path, steps, tools=witness.tools(**always)) as (_, opened):
        await converse(opened, "act", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        late = Unmet("It is too late.")
        witness.verdicts = [None, late, None, late]
        trajectory = await resumed(opened)

        assert trajectory.of(type(trajectory.done))[-1].state == "done"
        assert "It is too late." in trajectory.results["unmet"]
        assert "It is too late." in trajectory.results["flips"]
        assert trajectory.results["met"] == '{"acted": 1}'
        assert witness.ran == [1, 1]


async def test_a_call_outside_the_authority_is_denied_before_anything_is_looked_at(
    tmp_path: Path,
) -> None:
    witness = Witness()
    steps = [calls(ACT, ids=["a"]), "No."]
    tools = witness.tools(effects=frozenset({"launch:rockets"}))
    async with session(tmp_path, steps, tools=tools) as (_, opened):
        trajectory = await converse(opened, "act", ByTool({}))
        assert "launch:rockets" in trajectory.results["a"]
        assert witness.shown == []
