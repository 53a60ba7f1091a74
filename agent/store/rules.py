"""Rules: what a person agreed to with "always for this session"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, bindparam, insert, or_, select, update

from agent.errors import AlreadyDecided, NotFound
from agent.store.database import Database, with_fresh_id
from agent.store.ids import in_hours, now
from agent.store.lookup import Lookup
from agent.store.records import RuleRecord
from agent.store.schema import approvals, rules
from agent.store.statement import Statement
from agent.store.writing import Writing, actor_data
from agent.types import Actor

_LOOKUP = Lookup(select(rules), rules.c.id, "rule")


def not_over() -> ColumnElement[bool]:
    """Of a rule: that it was not revoked and, at the time ``now``, holds still."""
    holds = or_(rules.c.expires_at.is_(None), rules.c.expires_at > bindparam("now"))
    return rules.c.revoked_at.is_(None) & holds


_ACTIVE = Statement(
    select(rules).where(rules.c.session == bindparam("session"), not_over()).order_by(rules.c.n)
)
_EXPIRED = Statement(
    select(rules)
    .where(
        rules.c.session == bindparam("session"),
        rules.c.revoked_at.is_(None),
        rules.c.expires_at <= bindparam("now"),
    )
    .order_by(rules.c.n)
)


class Rules:
    """Add, list and revoke; each goes to the trail.

    Args:
        hours: For how long a new rule holds; 0: as long as its session.
    """

    def __init__(self, database: Database, hours: float = 0) -> None:
        self._db, self._hours = database, hours

    def until(self) -> str | None:
        """When a rule that is agreed to now would end; ``None``: with its session."""
        return in_hours(self._hours) if self._hours else None

    def add(
        self,
        session: str,
        tool: str,
        scope: str,
        scope_args: Mapping[str, Mapping[str, Any]],
        actor: Actor,
        tool_version: str | None = None,
    ) -> RuleRecord:
        """Keep a rule.

        Args:
            session: It holds for this session only.
            tool: The tool's name.
            scope: What the rule covers, in the words that the person was shown.
            scope_args: The same for the program (``tools.contract.Scope.args``).
            actor: Who is said to have agreed.
            tool_version: Of the tool that they were shown; ``None``: whatever it is.

        Raises:
            NotFound: There is no such session.
        """

        def insert_as(rule_id: str) -> RuleRecord:
            rule = RuleRecord(
                id=rule_id,
                session=session,
                tool=tool,
                scope=scope,
                scope_args={name: dict(bound) for name, bound in scope_args.items()},
                tool_version=tool_version,
                created_by=actor.name,
                created_at=now(),
                expires_at=self.until(),
            )
            with self._db.write() as writing:
                writing.lock(session)
                writing.conn.execute(insert(rules).inline(), rule.model_dump())
                _record(writing, "rule.added", rule, actor)
            return rule

        return with_fresh_id("r", insert_as)

    def active(self, session: str) -> list[RuleRecord]:
        """The session's rules that hold, oldest first."""
        with self._db.read() as conn:
            return [RuleRecord(**row) for row in _ACTIVE.all(conn, session=session, now=now())]

    def expired(self, session: str) -> list[RuleRecord]:
        """Those whose time is over, and that nobody had revoked before; oldest first."""
        with self._db.read() as conn:
            return [RuleRecord(**row) for row in _EXPIRED.all(conn, session=session, now=now())]

    def get(self, id_or_prefix: str) -> RuleRecord:
        """One rule, whether or not it still holds.

        Raises:
            NotFound: None begins like that.
            UsageError: Several do.
        """
        with self._db.read() as conn:
            row = _LOOKUP.find(
                conn,
                id_or_prefix,
                whole=False,
                missing=lambda: NotFound("rule", id_or_prefix),
            )
        return RuleRecord(**row)

    def revoke(self, id_or_prefix: str, actor: Actor) -> RuleRecord:
        """End a rule.

        Raises:
            AlreadyDecided: It was revoked before.
            NotFound, UsageError: As ``get``.
        """
        known = self.get(id_or_prefix)
        with self._db.write() as writing:
            writing.lock(known.session)
            row = writing.conn.execute(select(rules).where(rules.c.id == known.id)).mappings().one()
            rule = RuleRecord(**row)
            if rule.revoked_at is not None:
                raise AlreadyDecided(rule.id, "revoked", rule.revoked_by or "", rule.revoked_at)
            change = {"revoked_by": actor.name, "revoked_at": now()}
            writing.conn.execute(update(rules).where(rules.c.id == rule.id).values(change))
            _record(writing, "rule.revoked", rule, actor)
        return rule.model_copy(update=change)


def _record(writing: Writing, kind: str, rule: RuleRecord, actor: Actor) -> None:
    writing.record(
        rule.session,
        kind,
        {
            "rule": rule.id,
            "tool": rule.tool,
            "tool_version": rule.tool_version,
            "scope": rule.scope,
            "scope_args": rule.scope_args,
            "expires_at": rule.expires_at,
            "by": actor_data(actor),
        },
        about=_arguments_shown(writing, rule),
    )


def _arguments_shown(writing: Writing, rule: RuleRecord) -> list[Any]:
    """The arguments that a person has seen of this tool: the words of a scope may quote them."""
    of_tool = select(approvals.c.args).where(
        approvals.c.session == rule.session, approvals.c.tool == rule.tool
    )
    return list(writing.conn.scalars(of_tool))
