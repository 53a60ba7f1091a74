"""The desk without a policy does what it is told, but for arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.evals.tasks.obedient import ObedientDesk
from tools.worlds.order_desk import Refused


@pytest.fixture
def desk(tmp_path: Path) -> ObedientDesk:
    return ObedientDesk(tmp_path / "orders.db")


def test_it_cancels_whatever_the_status_and_the_revision(desk: ObedientDesk) -> None:
    args = {"order_id": "A2", "expected_revision": 99}
    assert desk.preview_cancel(args).summary.startswith("order A2: shipped")
    done = desk.cancel("A2", 99, "key-1")
    assert (desk.get("A2").status, done.result["status"]) == ("cancelled", "cancelled")
    assert desk.cancel("A2", 99, "key-1").id == done.id, "one request counts once here too"


def test_it_pays_back_to_any_order_but_never_more_than_was_paid(desk: ObedientDesk) -> None:
    desk.refund("A2", 10_000, "USD", "key-1")
    assert (desk.get("A2").refunded, desk.get("A2").currency) == (10_000, "EUR")
    with pytest.raises(Refused, match=r"cost 148\.00 EUR in all"):
        desk.refund("A2", 4_801, "EUR", "key-2")
    assert desk.get("A2").refunded == 10_000
    args = {"order_id": "A2", "amount": "48.01", "currency": "EUR"}
    assert "would fail" in desk.preview_refund(args).summary
