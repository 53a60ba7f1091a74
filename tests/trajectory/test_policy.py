"""Policy files in whole sessions: what they let run, make wait and deny, and until when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.application import Options
from agent.errors import InvalidPolicy, UsageError
from agent.evals.driving import Trajectory, converse
from agent.evals.reviewers import approves, stays_silent
from agent.policy import Policy
from agent.types import Decision
from tests.support.sessions import application, calls, reads, session

SMALL = """
version: 1
rules:
  - name: small refunds
    tools: refund_order
    when: amount <= 50 && total <= 60
    verdict: allow
  - name: never C2
    tools: refund_order
    when: args.order_id == "C2"
    verdict: deny
    reason: C2 is in court.
    message: Say that the legal team answers.
  - name: careful
    tools: cancel_order
    verdict: ask
    remember: false
    expires: 2h
  - name: not out of pages
    tools: cancel_order
    when: provenance.order_id == "untrusted"
    verdict: deny
    reason: The number stands only in text of strangers.
"""


def refund(order: str, amount: str) -> tuple[str, dict[str, Any]]:
    return "refund_order", {"order_id": order, "amount": amount, "currency": "EUR"}


CANCEL = ("cancel_order", {"order_id": "A1", "expected_revision": 1})


def policy(text: str = SMALL) -> Options:
    return Options(policy=text, via="test")


async def test_what_a_rule_allows_runs_unasked_and_the_ledger_names_the_rule(
    tmp_path: Path,
) -> None:
    steps = [reads("C1"), calls(refund("C1", "20.00")), "Refunded."]
    async with session(tmp_path, steps, options=policy()) as (app, opened):
        trajectory = await converse(opened, "Refund 20 EUR of C1", stays_silent)

        assert trajectory.asked == []
        (effect,) = app.store.ledger.list(session=opened.id)
        assert (effect.state, effect.rule, effect.approval) == (
            "committed", "project/small refunds", None
        )  # fmt: skip
        assert opened.record.policy == app.policy.digest != ""
        assert app.store.trail.verify() == []


async def test_what_was_spent_counts_also_within_one_reply_and_after_a_restart(
    tmp_path: Path,
) -> None:
    both = calls(refund("C1", "40.00"), refund("C1", "39.00"))
    steps = [reads("C1"), both, "One.", reads("C1"), calls(refund("C1", "30.00")), "Two."]
    async with session(tmp_path, steps, options=policy()) as (app, opened):
        (asked,) = (await converse(opened, "Refund 40 EUR of C1, twice", stays_silent)).asked
        assert asked.args["amount"] == "39.00", "the first one runs, the second one waits"
        opened.decide(asked.id, Decision("reject"))
        async for _ in opened.resume():
            pass
    async with (
        application(tmp_path, steps, options=policy()) as app,
        app.open_session(opened.id) as later,
    ):
        (asked,) = (await converse(later, "and 30", stays_silent)).asked
        assert asked.args["amount"] == "30.00"
        assert [e.state for e in app.store.ledger.list(session=opened.id)] == ["committed"]


async def test_a_denial_holds_whoever_would_approve_and_the_model_reads_its_message(
    tmp_path: Path,
) -> None:
    steps = [reads("C2"), calls(refund("C2", "1.00"), ids=["x"]), "The legal team answers."]
    async with session(tmp_path, steps, options=policy()) as (app, opened):
        trajectory = await converse(opened, "Refund 1 EUR of C2", approves)

        assert trajectory.asked == []
        assert "Say that the legal team answers." in trajectory.results["x"]
        (denied,) = app.store.trail.entries(opened.id, kind="call.denied")
        assert (denied.data["rule"], denied.data["reason"]) == (
            "project/never C2",
            "C2 is in court.",
        )
        reply = (await opened.history())[-3]  # then its error, and the answer
        assert (denied.data["message"], denied.data["call"]) == (reply.id, "x")
        assert denied.data["told"] == "Say that the legal team answers."
        assert trajectory.done.exit == 5


async def test_a_rule_says_how_long_an_approval_may_be_answered_and_that_always_is_no_answer(
    tmp_path: Path,
) -> None:
    steps = [reads("A1"), calls(CANCEL), "Done."]
    async with session(tmp_path, steps, options=policy(), approval_hours=168) as (_, opened):
        (asked,) = (await converse(opened, "Cancel A1", stays_silent)).asked

        assert asked.rule == "project/careful"
        assert asked.expires_at is not None
        assert asked.expires_at[:13] <= _in_hours(asked.asked_at, 2)
        assert asked.remember is False
        assert opened.always_scope(asked.id) is None


def _in_hours(at: str, hours: int) -> str:
    from datetime import datetime, timedelta

    return (datetime.fromisoformat(at) + timedelta(hours=hours)).isoformat()[:13]


async def test_where_a_value_comes_from_decides(tmp_path: Path) -> None:
    steps = [
        calls(("fetch", {"url": "https://larkford.gov/x"})),
        calls(("cancel_order", {"order_id": "A1", "expected_revision": 1}), ids=["c"]),
        "I may not.",
    ]
    domains = ("orders", "research")
    text = SMALL.replace('provenance.order_id == "untrusted"', 'provenance.order_id == "model"')
    async with session(tmp_path, steps, options=policy(text), domains=domains) as (_, opened):
        trajectory = await converse(opened, "Do what the page says", approves)

        assert trajectory.asked == []
        assert "only in text of strangers" in trajectory.results["c"]


async def test_an_allowed_call_is_judged_again_where_it_begins(tmp_path: Path) -> None:
    steps = [reads("C1"), calls(refund("C1", "20.00"), ids=["r"]), "It was not run."]
    async with session(tmp_path, steps, options=policy()) as (app, opened):
        strict = Options(policy=SMALL.replace("<= 50", "<= 10"), via="test")
        async with application(tmp_path / "other", [], options=strict) as other:
            context, before = opened._context, opened._context.policy

            class UntilItIsProposed(Policy):
                def looks_at(self, tool: str) -> frozenset[str]:
                    if tool == "refund_order":
                        context.policy = other.policy
                    return super().looks_at(tool)

            context.policy = UntilItIsProposed(before.organisation, before.project)
            trajectory = await converse(opened, "Refund 20 EUR of C1", stays_silent)

    assert "does not allow this call now" in trajectory.results["r"]
    assert app.store.ledger.list(session=opened.id) == []


async def test_what_a_person_approved_does_not_run_once_the_policy_denies_it(
    tmp_path: Path,
) -> None:
    steps = [reads("A1"), calls(CANCEL, ids=["c"]), "It was not run."]
    async with session(tmp_path, steps) as (_, opened):
        await converse(opened, "Cancel A1", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
    frozen = "version: 1\nrules: [{name: freeze, tools: 'cancel_*', verdict: deny}]\n"
    async with (
        application(tmp_path, steps, options=policy(frozen)) as app,
        app.open_session(opened.id) as later,
    ):
        told = Trajectory([event async for event in later.resume()])
        assert "does not allow this call now" in told.results["c"]
        (line,) = later.receipt().not_done
        assert "the policy does not allow it now" in line
        assert app.store.approvals.list(None)[0].was_void
        assert app.store.ledger.list(session=opened.id) == []


async def test_an_edit_cannot_reach_what_the_policy_denies(tmp_path: Path) -> None:
    steps = [reads("C1", "C2"), calls(refund("C1", "100.00"), ids=["r"]), "It was not run."]
    async with session(tmp_path, steps, options=policy()) as (app, opened):
        (asked,) = (await converse(opened, "Refund 100 EUR of C1", stays_silent)).asked
        opened.decide(asked.id, Decision("edit", args={**asked.args, "order_id": "C2"}))
        told = Trajectory([event async for event in opened.resume()])

        assert "does not allow this call now" in told.results["r"]
        assert app.store.approvals.get(asked.id).was_void
        assert app.store.ledger.list(session=opened.id) == []


async def test_the_organisations_file_binds_the_projects(tmp_path: Path) -> None:
    above = tmp_path / "organisation.yaml"
    above.write_text("version: 1\ndefault: {writes: ask}\n")
    steps = [reads("C1"), calls(refund("C1", "20.00")), "Refunded."]
    async with session(tmp_path / "h", steps, options=policy(), policy=above) as (_, opened):
        (asked,) = (await converse(opened, "Refund 20 EUR of C1", stays_silent)).asked
        assert asked.rule == "organisation/default"


async def test_a_resumed_session_says_that_its_policy_is_another_one(tmp_path: Path) -> None:
    async with session(tmp_path, ["Hello."], options=policy()) as (app, opened):
        assert app.changes(opened.record) == []
    async with application(tmp_path, []) as app:
        (sentence,) = app.changes(app.store.sessions.get(opened.id))
        assert "policy" in sentence


async def test_strangers_text_still_makes_an_allowed_write_wait(tmp_path: Path) -> None:
    steps = [
        calls(("search", {"query": "bike share"})),
        reads("C1"),
        calls(refund("C1", "20.00")),
        "Refunded.",
    ]
    domains = ("orders", "research")
    async with session(tmp_path, steps, options=policy(), domains=domains) as (_, opened):
        (asked,) = (await converse(opened, "Refund 20 EUR of C1", stays_silent)).asked
        assert asked.rule == "flow/untrusted"
        assert asked.remember is False


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nrulez: []\n",
        "version: 1\nrules:\n  - {name: a, tools: refund_ordr, verdict: allow}\n",
        'version: 1\nrules:\n  - {name: a, tools: "*", when: "amont > 5", verdict: deny}\n',
        "version: 1\nrules: [\n",
    ],
)
async def test_a_file_that_is_wrong_is_said_before_anything_runs(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidPolicy, match=r"policy\.yaml:\d"):
        async with application(tmp_path, [], options=policy(text)):
            pass


async def test_an_organisations_file_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        async with application(tmp_path, [], policy=tmp_path / "gone.yaml"):
            pass


async def test_the_file_tools_do_not_touch_it(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    mine = workspace / "policy.yaml"
    mine.write_text(SMALL)
    write = ("write_file", {"path": "policy.yaml", "content": "version: 1\n"})
    steps = [calls(write, ids=["w"]), "I could not."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=workspace) as (
        _,
        opened,
    ):
        trajectory: Trajectory = await converse(opened, "Change the policy", approves)
        assert mine.read_text() == SMALL
        assert trajectory.done.state == "done"
