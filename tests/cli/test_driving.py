"""A decision that comes while this process still holds the session is not left lying."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.application import Application, Options
from agent.cli.driving import drive
from agent.cli.report import Outcome
from agent.config import actor, load_settings
from agent.events import ApprovalAsked, Event
from agent.types import Decision
from tests.cli.program import cancel, read, status_of
from tests.support.openai_server import ModelServer, Reply


class DecidesAtTheLastMoment:
    """Approves when the question is told: after the session looked for answers, lease held."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.outcome: Outcome | None = None

    def show(self, event: Event) -> None:
        if isinstance(event, ApprovalAsked):
            who = actor(self.app.settings, "cli")
            self.app.store.approvals.decide(event.approval.id, Decision("approve"), who)

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome


async def test_it_is_carried_on(
    folder: Path, model: Callable[..., ModelServer], sayso_home: Path
) -> None:
    model(read("A1", "B1"), cancel("A1"), cancel("B1"), Reply("Both."))
    async with Application.open(load_settings(), Options()) as app:
        reporter = DecidesAtTheLastMoment(app)
        session = app.create_session()
        code = await drive(
            app, session.id, reporter, begin=lambda opened: opened.run("Cancel A1, then B1")
        )
    assert code == 0
    assert reporter.outcome is not None
    assert reporter.outcome.done.answer == "Both."
    assert [status_of(sayso_home, order) for order in ("A1", "B1")] == ["cancelled", "cancelled"]
