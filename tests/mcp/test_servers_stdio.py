"""Our servers as processes over stdio: what goes to which stream, and how they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.courses import LMS_TOKEN
from tests.support.served import INITIALIZE, RawStdio, raw_stdio
from tools.worlds.order_desk import OrderDesk

CHATTY = str(Path(__file__).parent / "chatty_server.py")
PROGRAMS = ("mcp_servers.orders", "mcp_servers.research", "mcp_servers.courses")
LMS = {"LMS_TOKEN": LMS_TOKEN}
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def calling(tool: str, id: int | str = 7, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


def text_in(message: dict[str, object]) -> object:
    result = message["result"]
    assert isinstance(result, dict)
    return result["content"][0]["text"]


@contextmanager
def running_call(*arguments: str, status: int = 0) -> Iterator[tuple[RawStdio, socket.socket]]:
    """A server in the middle of call 7, and the line on which the call waits to be let go."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        raw_stdio(CHATTY, *arguments, status=status) as server,
    ):
        server.initialize()
        server.write(calling("wait", port=listening.getsockname()[1]))
        line, _ = listening.accept()
        with line:
            assert line.recv(4) == b"runs"
            yield server, line


# Streams ---------------------------------------------------------------------------------------


def test_only_the_protocol_goes_to_standard_output() -> None:
    with raw_stdio(CHATTY, env={"PYTHONUNBUFFERED": ""}) as server:
        server.initialize()
        server.write(calling("chatter"))
        assert text_in(server.read()) == "nothing to read"
        server.write(b'{"jsonrpc": "2.0", "id": 8, "method": "ping"}')
        assert server.read() == {"jsonrpc": "2.0", "id": 8, "result": {}}
        said = server.end()
        assert server.stdout.read() == b""
    for words in ("printed", "no end of line", "written to the descriptor", "by a child: ''"):
        assert words in said
    assert said.index("printed") < said.index("written"), "it is not kept until the end"


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_comes_in_one_go_is_answered_before_the_end(program: str, tmp_path: Path) -> None:
    """From a file, whose end is there before the first answer."""
    requests = tmp_path / "requests"
    listing = {"jsonrpc": "2.0", "method": "tools/list"}
    messages = [INITIALIZE, *({**listing, "id": number} for number in range(2, 22))]
    requests.write_text("\n".join(map(json.dumps, messages)))
    with requests.open() as source:
        ended = subprocess.run(
            [sys.executable, "-m", program],
            stdin=source,
            capture_output=True,
            env={**os.environ, **LMS},
        )
    assert (ended.returncode, ended.stderr) == (0, b"")
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(1, 22))
    assert all("result" in answer for answer in answers)


def test_an_id_that_is_still_running_is_not_taken_twice() -> None:
    with running_call() as (server, line):
        server.write(calling("chatter", id=7))
        refused = server.read()
        assert refused["id"] is None, "else it would be the answer to the call that runs"
        assert refused["error"]["code"] == -32600
        line.sendall(b"go")
        assert text_in(server.read()) == "told go"
        server.write(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}')
        assert server.read() == {"jsonrpc": "2.0", "id": 7, "result": {}}


# The end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("mcp_servers.orders", signal.SIGTERM),
        ("mcp_servers.research", signal.SIGINT),
        ("mcp_servers.courses", signal.SIGTERM),  # it has a connection to close
        ("mcp_servers.courses", signal.SIGINT),
    ],
)
def test_a_signal_ends_it_quietly(program: str, number: signal.Signals) -> None:
    with raw_stdio("-m", program, env=LMS) as server:
        server.initialize()
        server.running.send_signal(number)
        assert server.running.wait() == 0
        assert server.stdout.read() == b""


def test_at_the_end_of_its_input_it_answers_what_is_running() -> None:
    with running_call() as (server, line):
        server.stdin.close()
        line.sendall(b"go")
        assert text_in(server.read()) == "told go"


@pytest.mark.parametrize("number", SIGNALS)
def test_at_a_signal_it_answers_what_is_running(number: signal.Signals) -> None:
    with running_call() as (server, line):
        server.running.send_signal(number)
        line.sendall(b"go")
        assert text_in(server.read()) == "told go"
        assert server.running.wait() == 0


@pytest.mark.parametrize("number", [None, *SIGNALS])
def test_a_call_that_goes_on_for_ever_does_not_hold_it(number: signal.Signals | None) -> None:
    with running_call("0.1", status=1) as (server, _):
        if number:
            server.running.send_signal(number)
        assert server.end() == "Ended while a call was still running.\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_it_at_once(number: signal.Signals) -> None:
    with running_call(status=-number) as (server, _):
        while server.running.poll() is None:  # the first one has to be taken before the second
            server.running.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                server.running.wait(0.01)
        assert server.running.returncode == -number


def test_when_nobody_reads_its_answers_it_ends() -> None:
    with raw_stdio("-m", "mcp_servers.research") as server:
        server.initialize()
        server.stdout.close()
        server.write(b'{"jsonrpc": "2.0", "id": 8, "method": "ping"}')
        assert server.running.wait() == 0


def test_when_nobody_takes_its_answers_a_signal_ends_it() -> None:
    listings = [b'{"jsonrpc": "2.0", "id": "%d", "method": "tools/list"}' % n for n in range(400)]
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        raw_stdio(CHATTY, "0.1", status=1) as server,
    ):
        server.initialize()
        server.write(b"\n".join(listings))  # with answers that are more than a pipe holds
        server.write(calling("wait", port=listening.getsockname()[1]))
        line, _ = listening.accept()
        with line:
            assert line.recv(4) == b"runs"
            line.sendall(b"go")
        server.running.terminate()
        assert server.running.wait() == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_without_its_streams_it_says_so(closed: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" -m mcp_servers.research {closed}', sys.executable],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode in (0, 2)
    if closed == "<&-":
        assert ended.stderr.startswith("Standard input, output and error are all needed")


# A kill ----------------------------------------------------------------------------------------

WITHOUT_END = """
CREATE TRIGGER without_end AFTER INSERT ON transactions BEGIN
    SELECT (
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
        SELECT max(n) FROM numbers
    );
END
"""


def test_a_write_that_a_kill_cut_off_counts_once_when_it_is_repeated(tmp_path: Path) -> None:
    """Whether the kill came in the middle of the write, or after it."""
    path = tmp_path / "orders.db"
    before = OrderDesk(path).get("C1")
    refund = calling(
        "refund_order",
        order_id="C1",
        amount="1.00",
        currency=before.currency,
        idempotency_key="k1",
    )
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
        db.execute(WITHOUT_END)
        with killed(path) as server:
            server.write(refund)
            with suppress(sqlite3.OperationalError):
                while True:  # until the server has begun to write, and others cannot
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("ROLLBACK")
        db.execute("DROP TRIGGER without_end")
    assert OrderDesk(path).get("C1") == before
    answers = []
    for _ in "12":
        with killed(path) as server:
            server.write(refund)
            answers.append(text_in(server.read()))
    assert answers[0] == answers[1]
    assert OrderDesk(path).get("C1").refunded == before.refunded + 100


@contextmanager
def killed(path: Path) -> Iterator[RawStdio]:
    """The order server over a database, greeted; killed at the end."""
    env = {"ORDER_DESK_DB": str(path)}
    with raw_stdio("-m", "mcp_servers.orders", env=env, status=-signal.SIGKILL) as server:
        server.initialize()
        yield server
        server.running.kill()
