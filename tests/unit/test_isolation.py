"""The test suite's own fences hold."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from agent.config import load_settings
from tests.support.network import NetworkRefused


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, ("192.0.2.1", 443)),
        (socket.AF_INET, ("example.invalid", 443)),
        (socket.AF_INET6, ("2001:db8::1", 443)),
    ],
)
def test_other_machines_are_out_of_reach(
    method: str, family: socket.AddressFamily, address: tuple[str, int]
) -> None:
    with socket.socket(family) as client, pytest.raises(NetworkRefused):
        getattr(client, method)(address)


async def test_other_machines_are_not_even_looked_up() -> None:
    with pytest.raises(NetworkRefused):
        await asyncio.open_connection("example.invalid", 443)


async def test_loopback_works() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port, family=socket.AF_INET)
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()


def test_a_local_socket_works(tmp_path: Path) -> None:
    path = os.path.relpath(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
        served, _ = server.accept()
        with served:
            client.sendall(b"hello")
            assert served.recv(5) == b"hello"


def test_the_environment_of_whoever_runs_the_tests_is_gone(sayso_home: Path) -> None:
    ours = {name for name in os.environ if name.startswith(("SAYSO_", "OPENAI_", "LANG"))}
    assert ours - {"LANG", "LANGUAGE"} == {"SAYSO_HOME"}
    assert load_settings().home == sayso_home
    assert not sayso_home.exists()
