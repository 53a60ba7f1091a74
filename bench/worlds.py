"""A store with many sessions in it, as years of use would leave it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import insert, text

from agent.canonical import call_digest
from agent.store.database import Database
from agent.store.ids import now
from agent.store.records import ApprovalRecord, EffectRecord, SessionRecord
from agent.store.schema import approvals, effects, sessions

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
_PAGE = 500


def fill(url: str, home: Path, count: int, decided: int = 0) -> list[str]:
    """Add sessions, each with a pending approval, a committed write and their trail.

    Args:
        decided: How many approvals more there are that were decided long ago.

    Returns:
        The ids of the sessions.
    """
    database = Database(url, home)
    try:
        numbers = iter(range(count))
        while page := list(islice(numbers, _PAGE)):
            _add(database, page)
        old = iter(range(decided))
        while page := list(islice(old, 10 * _PAGE)):
            with database.write() as writing:
                rows = [dict(_decided(number, count)) for number in page]
                writing.conn.execute(insert(approvals), rows)
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("ANALYZE"))  # as the database does by itself in the course of time
    finally:
        database.close()
    return [_id("s", number) for number in range(count)]


def _add(database: Database, numbers: list[int]) -> None:
    with database.write() as writing:
        records = [_session(number) for number in numbers]
        chain = {"trail_seq": 0, "trail_hash": "", "lease_owner": "", "lease_epoch": 0}
        rows = [{**record, **chain, "lease_expires_at": 0.0} for record in records]
        writing.conn.execute(insert(sessions), rows)
        writing.conn.execute(insert(approvals), [dict(_approval(number)) for number in numbers])
        writing.conn.execute(insert(effects), [dict(_effect(number)) for number in numbers])
        for record in records:
            session = record["id"]
            writing.lock(session)
            writing.record(session, "session.created", {"model": record["model"]})
            writing.record(session, "effect.intended", {"tool": "cancel_order"})
            writing.record(session, "effect.committed", {"tool": "cancel_order"})
            writing.record(session, "approval.asked", {"tool": "refund_order"})


def _id(kind: str, number: int) -> str:
    """A valid id, another one for each number."""
    digits = []
    for _ in range(6):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return f"{kind}-{''.join(reversed(digits))}"


def _session(number: int) -> dict[str, Any]:
    at = now()
    return SessionRecord(
        id=_id("s", number),
        state="waiting",
        title=f"Cancel order A{number} if it is still pending",
        model="offline",
        tools=["orders", "research"],
        granted=["read:*", "network:*", "write:*"],
        tokens={"input": 1200, "output": 80},
        turn=1,
        user="ann",
        uid=1000,
        host="box",
        created_at=at,
        updated_at=at,
    ).model_dump()


def _approval(number: int) -> ApprovalRecord:
    args = {"order_id": f"A{number}", "amount": 12.5, "currency": "EUR"}
    return ApprovalRecord(
        id=_id("a", number),
        kind="write",
        session=_id("s", number),
        turn=1,
        message=f"m-{number}",
        call="call-2",
        interrupt="i",
        tool="refund_order",
        args=args,
        digest=call_digest("refund_order", args),
        effects=["spend:eur"],
        rule="writes",
        reason="It may do: spend:eur.",
        preview={"summary": f"order A{number}: refund 12.50 EUR", "before": "", "after": ""},
        provenance=[{"path": "order_id", "origin": "user", "tool": None}],
        asked_at=now(),
    )


def _decided(number: int, sessions_there: int) -> ApprovalRecord:
    """One of many approvals of the past, in one of the sessions."""
    in_session = number % sessions_there
    decided = {
        "id": _id("a", 1_000_000 + number),
        "message": f"m-old-{number}",
        "status": "approved",
        "decided_by": "ann",
        "decided_uid": 1000,
        "decided_host": "box",
        "decided_via": "cli",
        "decided_at": now(),
    }
    approval = _approval(in_session).model_copy(update=decided)
    return approval.model_copy(update={"decided_digest": approval.digest})


def _effect(number: int) -> EffectRecord:
    args = {"order_id": f"A{number}", "expected_revision": 3}
    return EffectRecord(
        id=_id("e", number),
        session=_id("s", number),
        turn=1,
        message=f"m-{number}",
        call="call-1",
        tool="cancel_order",
        args=args,
        digest=call_digest("cancel_order", args),
        state="committed",
        rule="r-222222",
        idempotency_key=f"sayso-{number}",
        transport="answered",
        result={"text": '{"id":"A1","status":"cancelled"}', "status": "success"},
        started_at=now(),
        ended_at=now(),
    )
