"""The fence around the tests: this process reaches loopback addresses and nothing else."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class NetworkRefused(BaseException):
    """A test tried to reach another machine. Not an ``Exception``: no retry may swallow it."""


@contextmanager
def loopback_only() -> Iterator[None]:
    """Connecting to another machine fails at once, and so does looking one up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", _fenced_lookup(socket.getaddrinfo))
        for method in ("connect", "connect_ex"):
            patch.setattr(socket.socket, method, _fenced(getattr(socket.socket, method)))
        yield


def _refuse_beyond_loopback(host: str) -> None:
    try:
        loopback = host in ("", "localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name that would have to be looked up
        loopback = False
    if not loopback:
        raise NetworkRefused(f"tests reach 127.0.0.1 and ::1 only, not {host}")


def _fenced_lookup(lookup: Any) -> Any:
    def fenced(host: str | bytes | None, *args: Any, **options: Any) -> Any:
        _refuse_beyond_loopback(host.decode() if isinstance(host, bytes) else host or "")
        return lookup(host, *args, **options)

    return fenced


def _fenced(connect: Any) -> Any:
    def fenced(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_beyond_loopback(address[0])
        return connect(self, address)

    return fenced
