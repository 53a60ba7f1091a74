"""The store: one database for everything that must outlive a process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from agent.store.approvals import Approvals
from agent.store.database import Database
from agent.store.leases import Leases
from agent.store.ledger import Ledger
from agent.store.owner import Owner, process_owner
from agent.store.rules import Rules
from agent.store.safeguards import Safeguards
from agent.store.sessions import Sessions
from agent.store.trail import Trail

if TYPE_CHECKING:
    from agent.config import Settings


class Store:
    """Sessions, approvals, rules, ledger, trail and leases over one database.

    All calls are synchronous and safe from any thread. They raise ``StoreError`` when the
    database fails, besides what each says.
    """

    def __init__(self, database: Database, rule_hours: float = 0) -> None:
        self._db = database
        self.sessions = Sessions(database)
        self.approvals = Approvals(database)
        self.rules = Rules(database, rule_hours)
        self.ledger = Ledger(database)
        self.trail = Trail(database)
        self.leases = Leases(database)

    @classmethod
    def of(cls, settings: Settings) -> Store:
        """Open the database that the settings name, with the key of its trail, and with how long
        they let an "always" rule hold.

        Raises what ``open`` raises, and ``UsageError`` for a state folder that cannot be used.
        """
        keys = (settings.trail_key, settings.trail_key_before)
        key, before = (key.get_secret_value() if key else None for key in keys)
        guards = Safeguards(key, settings.secrets, before)
        home = settings.ensure_home()
        return cls(Database(settings.database_url, home, guards), settings.rule_hours)

    @classmethod
    def open(
        cls, url: str, *, home: Path | None = None, safeguards: Safeguards | None = None
    ) -> Store:
        """Open a database, create it when missing and bring its schema up to date.

        Args:
            url: ``sqlite:////absolute/path.db`` or ``postgresql://user@host/name``.
            home: The state folder, where processes prove that they live (``agent.store.owner``).
                Default: the folder of the SQLite file. PostgreSQL has none: there the lease of
                a process that died is waited for, unless ``home`` is given.
            safeguards: What guards the trail: its key, and what is masked by value.

        Raises:
            UsageError: The URL is not understood, or its driver is not installed.
            StoreError: It cannot be opened; ``SchemaTooNew`` when a newer program wrote it.
        """
        return cls(Database(url, home, safeguards))

    @property
    def url(self) -> str:
        """The URL as it was given; on PostgreSQL it may hold a password."""
        return self._db.url

    @property
    def engine(self) -> Engine:
        """The engine, for what shares the database."""
        return self._db.engine

    def owner(self) -> Owner:
        """This process as an owner of leases, made at the first call and kept for its life."""
        return process_owner(self._db.home)

    def close(self) -> None:
        """Close the connections; leases are not released by it."""
        self._db.close()
