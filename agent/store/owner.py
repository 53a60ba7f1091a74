"""Who holds a lease: this process, in a form that lets others see that it died.

Each process that drives sessions holds an ``flock`` on ``<state folder>/run/<token>.lock``. The
kernel drops the lock when the process ends, however it ends, so anybody on the same machine who
can take the lock knows that the owner is dead, without guessing from process ids. The token is
random: neither a reused process id nor a reboot can make a dead owner look alive.

The file outlives its process, as the proof for every session it drove. A new owner that finds
it abandoned renames it to ``<token>.dead``, and a day later, far longer than any lease lasts, one
removes it.

Forks: the descriptor is closed on ``exec`` and, in a plain fork, in the child. The lock then
ends with the parent, and a child that asks gets an identity of its own.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_KEEP_DEAD = 24 * 3600


@dataclass(frozen=True)
class Owner:
    """The holder of leases, written ``host:pid:token``."""

    text: str

    def __str__(self) -> str:
        return self.text


class _Identities:
    """The owners of this process by state folder, and the descriptors that prove it lives."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owners: dict[Path | None, Owner] = {}
        self.descriptors: list[int] = []
        self.follows_forks = False

    def forget(self) -> None:
        """In the child of a fork: let go of the parent's locks and identity."""
        self.lock = threading.Lock()
        for descriptor in self.descriptors:
            os.close(descriptor)  # the parent's own descriptor still holds the lock
        self.descriptors.clear()
        self.owners.clear()


_identities = _Identities()


def process_owner(home: Path | None) -> Owner:
    """This process as an owner: the same one at every call, with a lock file under ``home``.

    Without a state folder there is no lock file, and its leases end by expiry only.
    """
    with _identities.lock:
        if home not in _identities.owners:
            if not _identities.follows_forks:
                os.register_at_fork(after_in_child=_identities.forget)
                _identities.follows_forks = True
            token = secrets.token_hex(8)
            if home is not None:
                _identities.descriptors.append(_hold(home, token))
            _identities.owners[home] = Owner(f"{socket.gethostname()}:{os.getpid()}:{token}")
        return _identities.owners[home]


def is_this_process(owner: str) -> bool:
    """Whether the owner of this name is this very process."""
    return any(owner == mine.text for mine in _identities.owners.values())


def provably_dead(owner: str, home: Path | None) -> bool:
    """Whether it is certain that this owner no longer runs.

    ``False`` also means "not known": another machine, another state folder, no lock file.
    """
    parts = owner.rsplit(":", 2)
    if home is None or len(parts) != 3 or parts[0] != socket.gethostname():
        return False
    token = parts[2]
    if not token.isalnum():  # it becomes part of a path
        return False
    folder = home / "run"
    return _is_abandoned(folder / f"{token}.lock") or (folder / f"{token}.dead").exists()


def _hold(home: Path, token: str) -> int:
    folder = home / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(folder)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(folder / f"{token}.lock", flags, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _is_abandoned(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that two who look at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    for path in (*folder.glob("*.lock"), *folder.glob("*.dead")):
        try:
            if path.suffix == ".lock" and _is_abandoned(path):
                os.utime(path)
                path.rename(path.with_suffix(".dead"))
            elif path.suffix == ".dead" and time.time() - path.stat().st_mtime > _KEEP_DEAD:
                path.unlink()
        except FileNotFoundError:
            continue  # another process sweeps too
