"""One database: sessions, approvals, rules, the ledger of writes, the trail and the leases."""

from agent.store.ledger import Begun
from agent.store.owner import Owner
from agent.store.store import Store
from agent.store.trail import Problem

__all__ = ["Begun", "Owner", "Problem", "Store"]
