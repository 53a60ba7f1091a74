"""A whole conversation with a simulated reviewer, and what it left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from agent.evals.reviewers import Reviewer
from agent.events import CallFinished, CallProposed, Done, Event

if TYPE_CHECKING:
    from agent.session import AgentSession
    from agent.store.records import ApprovalRecord

E = TypeVar("E")

MOST_ROUNDS = 50
"""Pauses of one turn after which a conversation counts as endless."""


@dataclass
class Trajectory:
    """What happened: every event in order, and every approval that the reviewer was shown."""

    events: list[Event] = field(default_factory=list)
    asked: list[ApprovalRecord] = field(default_factory=list)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def done(self) -> Done:
        """How it ended."""
        return self.of(Done)[-1]

    @property
    def calls(self) -> list[tuple[str, dict[str, object]]]:
        """Every proposed call, as (tool, arguments)."""
        return [(event.tool, event.args) for event in self.of(CallProposed)]

    @property
    def results(self) -> dict[str, str]:
        """The last result of each call id."""
        return {event.call: event.text for event in self.of(CallFinished)}


async def converse(
    session: AgentSession, text: str, reviewer: Reviewer, *, rounds: int = MOST_ROUNDS
) -> Trajectory:
    """Send one message and let the reviewer decide until the turn rests, or he stays silent."""
    trajectory = await collect(session.run(text))
    return await review(session, reviewer, trajectory, rounds=rounds)


async def review(
    session: AgentSession,
    reviewer: Reviewer,
    trajectory: Trajectory | None = None,
    *,
    rounds: int = MOST_ROUNDS,
) -> Trajectory:
    """Let the reviewer decide about what waits, until the session rests or he stays silent.

    An answer that cannot be applied raises, as it would for a person.
    """
    trajectory = trajectory or Trajectory()
    for _ in range(rounds):
        waiting = session.pending()
        trajectory.asked += waiting
        answers = [(approval.id, reviewer(approval)) for approval in waiting]
        given = [(id_, decision) for id_, decision in answers if decision is not None]
        if not given:
            break
        session.decide_many(given)
        await collect(session.resume(), trajectory)
    return trajectory


async def collect(events: AsyncIterator[Event], trajectory: Trajectory | None = None) -> Trajectory:
    """Follow events to their end, into a trajectory."""
    trajectory = trajectory or Trajectory()
    async for event in events:
        trajectory.events.append(event)
    return trajectory
