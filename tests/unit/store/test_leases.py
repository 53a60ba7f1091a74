"""Leases and owners: one driver a session, and a dead one does not keep others waiting."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import LeaseLost, NotFound, SessionBusy
from agent.store import Owner, Store
from agent.store.owner import is_this_process, process_owner, provably_dead
from tests.unit.store.databases import ANN, kinds

OTHER, THIRD = Owner("elsewhere:1:aa"), Owner("elsewhere:2:bb")
HOLD = """
import sys
from pathlib import Path
from agent.store.owner import process_owner
print(process_owner(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_a_held_session_is_busy_for_others(store: Store, session: str) -> None:
    assert store.leases.holder(session) is None
    lease = store.leases.acquire(session, OTHER, ttl=60)
    assert lease.epoch == 1
    assert store.leases.holder(session) == lease
    assert store.leases.holder(lease.session) == lease
    with pytest.raises(SessionBusy) as busy:
        store.leases.acquire(session, THIRD, ttl=60)
    assert busy.value.owner == OTHER.text
    assert store.leases.holder(session) == lease


def test_the_owner_gets_its_own_epoch_again(store: Store, session: str) -> None:
    lease = store.leases.acquire(session, OTHER, ttl=60)
    again = store.leases.acquire(session, OTHER, ttl=120)
    assert again.epoch == lease.epoch
    assert again.expires_at > lease.expires_at
    renewed = store.leases.renew(again, ttl=240)
    assert renewed.expires_at > again.expires_at
    assert store.leases.holder(session) == renewed


def test_an_expired_lease_is_taken_over_with_the_next_epoch(store: Store, session: str) -> None:
    lease = store.leases.acquire(session, OTHER, ttl=-1)
    assert store.leases.holder(lease.session) != lease
    assert store.leases.holder(session) is None
    taken = store.leases.acquire(session, THIRD, ttl=60)
    assert taken.epoch == lease.epoch + 1
    assert store.leases.holder(lease.session) != lease
    assert kinds(store, session)[-1] == "lease.taken_over"
    with pytest.raises(LeaseLost):
        store.leases.renew(lease, ttl=60)
    store.leases.release(lease)
    assert store.leases.holder(session) == taken


def test_an_expired_lease_that_nobody_took_can_be_renewed(store: Store, session: str) -> None:
    lease = store.leases.acquire(session, OTHER, ttl=-1)
    renewed = store.leases.renew(lease, ttl=60)
    assert store.leases.holder(session) == renewed


def test_a_released_lease_keeps_its_epoch(store: Store, session: str) -> None:
    lease = store.leases.acquire(session, OTHER, ttl=60)
    store.leases.release(lease)
    assert store.leases.holder(session) is None
    with pytest.raises(LeaseLost):
        store.leases.renew(lease, ttl=60)
    assert store.leases.acquire(session, OTHER, ttl=60).epoch == lease.epoch + 1
    assert "lease.taken_over" not in kinds(store, session)


def test_there_is_no_lease_without_a_session(store: Store, session: str) -> None:
    assert store.leases.holder("s-nope") is None
    with pytest.raises(NotFound):
        store.leases.acquire("s-nope", OTHER, ttl=60)
    store.sessions.delete(session, ANN)
    with pytest.raises(NotFound):
        store.leases.acquire(session, OTHER, ttl=60)


def test_this_process_is_one_owner_and_lives(tmp_path: Path) -> None:
    owner = process_owner(tmp_path)
    assert process_owner(tmp_path) is owner
    host, pid, token = owner.text.rsplit(":", 2)
    assert (host, pid) == (socket.gethostname(), str(os.getpid()))
    lock = tmp_path / "run" / f"{token}.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    assert lock.parent.stat().st_mode & 0o777 == 0o700
    assert is_this_process(owner.text)
    assert not is_this_process(OTHER.text)
    assert not provably_dead(owner.text, tmp_path)


def test_a_killed_process_is_provably_dead_for_everyone_after(tmp_path: Path) -> None:
    with _holder(tmp_path) as holder:
        owner = _owner_of(holder)
        assert not provably_dead(owner, tmp_path)
        holder.kill()
    assert provably_dead(owner, tmp_path)
    assert provably_dead(owner, tmp_path)


def test_an_old_proof_is_swept_after_a_day_and_not_before(tmp_path: Path) -> None:
    with _holder(tmp_path) as holder:
        owner = _owner_of(holder)
        holder.kill()
    run = tmp_path / "run"
    (lock,) = run.iterdir()
    os.utime(lock, (0, 0))  # the process had been running for long
    with _holder(tmp_path) as second:
        _owner_of(second)
        assert provably_dead(owner, tmp_path)
        (proof,) = run.glob("*.dead")
        os.utime(proof, (0, 0))
        with _holder(tmp_path) as third:
            _owner_of(third)
            assert not provably_dead(owner, tmp_path)
            assert len(list(run.iterdir())) == 2
            third.kill()
        second.kill()


def test_what_cannot_be_known_counts_as_living(tmp_path: Path) -> None:
    with _holder(tmp_path) as holder:
        owner = _owner_of(holder)
        holder.kill()
    token = owner.rsplit(":", 1)[1]
    here = socket.gethostname()
    for unknown in (f"elsewhere:1:{token}", f"{here}:1:feed", f"{here}:1:../x", "nonsense", ""):
        assert not provably_dead(unknown, tmp_path)
    assert not provably_dead(owner, None)
    assert not provably_dead(owner, tmp_path / "another")


def test_a_forked_child_neither_is_nor_outlives_its_parent(tmp_path: Path) -> None:
    """The parent forks and is killed; its child, still alive, does not hold its lock."""
    program = """
import os, sys
from pathlib import Path
from agent.store.owner import is_this_process, process_owner
home = Path(sys.argv[1])
mine = process_owner(home)
if os.fork():
    sys.stdin.read()
else:
    own = process_owner(home)
    print(mine, own, is_this_process(mine.text), flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        mine, own, is_parent = parent.stdout.readline().split()
        assert (mine == own, is_parent) == (False, "False")
        assert not provably_dead(mine, tmp_path)
        parent.kill()
        os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
        assert provably_dead(mine, tmp_path)
        assert not provably_dead(own, tmp_path)


def _holder(home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(home)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _owner_of(holder: subprocess.Popen[str]) -> str:
    assert holder.stdout is not None
    return holder.stdout.readline().strip()
