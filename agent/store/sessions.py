"""Sessions: one row a conversation, kept as a tombstone when its content is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from agent.errors import LeaseLost, NotFound, SessionBusy
from agent.store.database import Database, with_fresh_id
from agent.store.ids import now
from agent.store.leases import FREE, in_force, owner_lives
from agent.store.lookup import Lookup, is_id
from agent.store.owner import is_this_process
from agent.store.records import LeaseRecord, SessionRecord
from agent.store.schema import approvals, clock, effects, rules, sessions, trail
from agent.store.statement import Statement
from agent.store.trail import TOMBSTONE
from agent.store.writing import Writing, actor_data, deleted_session
from agent.types import Actor, Authority, SessionState

SessionList = list[SessionRecord]

CREATED = "session.created"
"""The first entry of each trail."""


class Branch(NamedTuple):
    """Where a fork began: after this turn of this session."""

    session: str
    turn: int


_PAGE = 200
_READ = select(
    *(sessions.c[name] for name in SessionRecord.model_fields),
    sessions.c.lease_owner,
    sessions.c.lease_epoch,
    sessions.c.lease_expires_at,
    clock().label("clock"),
).where(sessions.c.deleted_at.is_(None))
_NEWEST = (
    _READ.order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_NEWEST_ALL = Statement(_NEWEST)
_LOOKUP = Lookup(_READ, sessions.c.id, "session")
_AUTHORITY = Statement(
    select(sessions.c.granted, sessions.c.denied).where(
        sessions.c.id == bindparam("id"), sessions.c.deleted_at.is_(None)
    )
)
# What a session is allowed and told to do: a change of these is worth an entry in the trail.
_WATCHED = ("model", "tools", "workspace", "granted", "denied", "policy", "labels", "modes")
_CHANGEABLE = frozenset({"state", "title", "tokens", "cost", "turn", "error", *_WATCHED})
_ERASED: dict[str, Any] = {
    "title": "",
    "model": "",
    "tools": [],
    "workspace": None,
    "granted": [],
    "denied": [],
    "policy": "",
    "labels": [],
    "modes": [],
    "tokens": {},
    "cost": None,
    "error": None,
}


class Sessions:
    """Create, find, change and delete.

    ``running`` in the table means that some process said so. When no living process holds the
    lease, such a session reads as ``interrupted``, without anything being written.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def create(
        self,
        *,
        model: str,
        tools: Iterable[str],
        workspace: str | None,
        granted: Iterable[str],
        denied: Iterable[str],
        policy: str = "",
        actor: Actor,
        title: str = "",
        branched: Branch | None = None,
        labels: Iterable[str] = (),
        modes: Iterable[str] = (),
        surroundings: Mapping[str, Any] | None = None,
    ) -> SessionRecord:
        """A new session, at rest: its state is ``done`` until a turn begins.

        Args:
            branched: Where a fork began.
            surroundings: What it depends on and does not keep; goes to the trail only.
        """

        def insert_as(session: str) -> SessionRecord:
            at = now()
            record = SessionRecord(
                id=session,
                state="done",
                title=title,
                model=model,
                tools=list(tools),
                workspace=workspace,
                granted=list(granted),
                denied=list(denied),
                policy=policy,
                labels=list(labels),
                modes=list(modes),
                parent=branched.session if branched else None,
                parent_turn=branched.turn if branched else None,
                user=actor.name,
                uid=actor.uid,
                host=actor.host,
                created_at=at,
                updated_at=at,
            )
            chain = {"trail_seq": 0, "trail_hash": "", "lease_epoch": 0, **FREE}
            with self._db.write() as writing:
                writing.conn.execute(insert(sessions).inline(), record.model_dump() | chain)
                writing.begin_chain(session)
                watched = (*_WATCHED, "parent", "parent_turn")
                made = {name: getattr(record, name) for name in watched}
                made |= {"surroundings": dict(surroundings or {}), "by": actor_data(actor)}
                writing.record(session, CREATED, made)
            return record

        tools, granted, denied, labels, modes = map(list, (tools, granted, denied, labels, modes))
        return with_fresh_id("s", insert_as)

    def get(self, id_or_unique_prefix: str) -> SessionRecord:
        """One session; a whole id wins over ids that begin with it.

        Raises:
            NotFound: None begins like that (recent ids are listed), or it was deleted (when and
                by whom).
            UsageError: Several begin like that; they are listed.
        """
        with self._db.read() as conn:
            row = _LOOKUP.find(
                conn,
                id_or_unique_prefix,
                whole=False,
                missing=lambda: _missing(conn, id_or_unique_prefix),
            )
        return _record(row, self._db.home)

    def authority(self, id: str) -> Authority:
        """What a session may do, as it is read before every call.

        Raises:
            NotFound: There is no such session, or it was deleted.
        """
        with self._db.read() as conn:
            row = _AUTHORITY.one(conn, id=id)
            if row is None:
                raise _missing(conn, id)
        return Authority(tuple(row["granted"]), tuple(row["denied"]))

    def parent_of(self, id: str) -> str | None:
        """The session that this one is a fork of, also when either has been deleted since."""
        with self._db.read() as conn:
            return conn.scalar(select(sessions.c.parent).where(sessions.c.id == id))

    def branched_at(self, id: str) -> Branch | None:
        """Where a fork began, also when either session has been deleted since."""
        found = select(sessions.c.parent, sessions.c.parent_turn).where(sessions.c.id == id)
        with self._db.read() as conn:
            row = conn.execute(found).one_or_none()
        if row is None or row.parent is None or row.parent_turn is None:
            return None
        return Branch(row.parent, row.parent_turn)

    def list(
        self, limit: int = 50, offset: int = 0, state: SessionState | None = None
    ) -> SessionList:
        """Sessions as they read now, the last changed first; deleted ones are left out."""
        with self._db.read() as conn:
            if state is None:
                return _records(_NEWEST_ALL.all(conn, limit=limit, offset=offset), self._db.home)
            wanted = []
            for record in self._in_state(conn, state):
                wanted.append(record)
                if len(wanted) == offset + limit:
                    break
            return wanted[offset:]

    def latest(self) -> SessionRecord | None:
        """The session that was changed last."""
        return next(iter(self.list(limit=1)), None)

    def update(
        self,
        id: str,
        *,
        epoch: int | None = None,
        entry: tuple[str, dict[str, Any]] | None = None,
        **fields: Any,
    ) -> None:
        """Set fields of ``SessionRecord`` (and ``updated_at``) of the session with this whole id.

        A change of state, or of what the session may do, goes to the trail.

        Args:
            epoch: Only when it is that of the lease.
            entry: Kind and data of a trail entry that belongs to this change.

        Raises:
            LeaseLost: ``epoch`` was given, and the lease has gone on or was given back.
            NotFound: There is no such session, or it was deleted.
            ValueError: A field cannot be set, or the state is not one.
        """
        _check_fields(fields)
        watched = [name for name in _WATCHED if name in fields]
        with self._db.write() as writing:
            guard = writing.lock(id, epoch=epoch)
            if epoch is not None and not guard.lease_owner:
                raise LeaseLost(id)
            if watched:
                _record_changes(writing, id, {name: fields[name] for name in watched})
            if fields.get("state", guard.state) != guard.state:
                change = {"from": guard.state, "to": fields["state"], "error": fields.get("error")}
                writing.record(id, "session.state", change)
            if entry is not None:
                writing.record(id, *entry)
            writing.change(id, {**fields, "updated_at": now()})

    def set_authority(self, id: str, authority: Authority, actor: Actor) -> None:
        """Replace what a session may do; the trail keeps what it was, and who said so.

        Raises:
            NotFound: There is no such session, or it was deleted.
        """
        new = {"granted": list(authority.granted), "denied": list(authority.denied)}
        with self._db.write() as writing:
            writing.lock(id)
            changed = _changes(writing, id, new)
            if changed:
                changed["by"] = actor_data(actor)
                writing.record(id, "session.authority", changed)
                writing.change(id, {**new, "updated_at": now()})

    def delete(self, id: str, actor: Actor) -> None:
        """Erase what the session held; its id, its times and the hashes of its trail stay.

        Approvals, rules and ledger rows go, with them what is pending or in doubt: the last
        entry of the trail says how many there were. Checkpoints are not the store's.

        Raises:
            SessionBusy: Another living process drives it.
            NotFound: There is no such session, or it was deleted before.
        """
        with self._db.write() as writing:
            guard = writing.lock(id)
            if in_force(guard, self._db.home) and not is_this_process(guard.lease_owner):
                raise SessionBusy(id, guard.lease_owner)
            erased = {
                table.name: writing.conn.execute(
                    delete(table).where(table.c.session == id)
                ).rowcount
                for table in (approvals, rules, effects)
            }
            writing.conn.execute(
                update(trail).where(trail.c.session == id).values(data=None, salt=None)
            )
            at = now()
            tombstone = {
                **_ERASED,
                **FREE,
                "lease_epoch": guard.lease_epoch + 1,
                "updated_at": at,
                "deleted_at": at,
                "deleted_by": actor.name,
            }
            writing.change(id, tombstone)
            writing.record(id, TOMBSTONE, {"erased": erased, "by": actor_data(actor)})
        self._db.truncate_log()

    def _in_state(self, conn: Connection, state: SessionState) -> Iterator[SessionRecord]:
        stored = ("running", "interrupted") if state in ("running", "interrupted") else (state,)
        query = _NEWEST.where(sessions.c.state.in_(stored))
        offset = 0
        while rows := conn.execute(query, {"limit": _PAGE, "offset": offset}).mappings().all():
            yield from (r for r in _records(rows, self._db.home) if r.state == state)
            offset += _PAGE


def _records(rows: Iterable[Mapping[Any, Any]], home: Path | None) -> list[SessionRecord]:
    return [_record(row, home) for row in rows]


def _record(row: Mapping[Any, Any], home: Path | None) -> SessionRecord:
    record = SessionRecord(**row)
    if record.state != "running":
        return record
    lease = LeaseRecord(
        session=record.id,
        owner=row["lease_owner"],
        epoch=row["lease_epoch"],
        expires_at=row["lease_expires_at"],
    )
    lives = owner_lives(lease.owner, lease.expires_at, row["clock"], home)
    return record if lives else record.model_copy(update={"state": "interrupted"})


def _missing(conn: Connection, text: str) -> NotFound:
    gone = (
        is_id(text)
        and conn.execute(
            select(sessions.c.deleted_at, sessions.c.deleted_by).where(
                sessions.c.id == text, sessions.c.deleted_at.is_not(None)
            )
        ).one_or_none()
    )
    if gone:
        return deleted_session(text, *gone)
    recent = conn.scalars(_ids_by_age().limit(10)).all()
    return NotFound("session", text, tried=recent, hint="" if recent else "There are none yet.")


def _ids_by_age() -> Select[Any]:
    return (
        select(sessions.c.id)
        .where(sessions.c.deleted_at.is_(None))
        .order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    )


def _check_fields(fields: dict[str, Any]) -> None:
    if unknown := sorted(fields.keys() - _CHANGEABLE):
        raise ValueError(f"a session's {', '.join(unknown)} cannot be set")
    if "state" in fields and fields["state"] not in get_args(SessionState):
        raise ValueError(f"{fields['state']!r} is not a state of a session")


def _record_changes(writing: Writing, session: str, new: dict[str, Any]) -> None:
    if changed := _changes(writing, session, new):
        writing.record(session, "session.changed", changed)


def _changes(writing: Writing, session: str, new: dict[str, Any]) -> dict[str, Any]:
    """What is other than it was, by field: ``{"from": …, "to": …}``."""
    columns = [sessions.c[name] for name in new]
    old = writing.conn.execute(select(*columns).where(sessions.c.id == session)).mappings().one()
    return {
        name: {"from": old[name], "to": value} for name, value in new.items() if old[name] != value
    }
