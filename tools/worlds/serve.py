"""The grocery shop or the bank as a service of its own: ``python -m tools.worlds.serve grocery``.

It listens on ``http://127.0.0.1:8771``, the bank on ``:8772``, and says so on standard error. Every
request needs a bearer token: the value of the variable that ``--token-env`` names, or one that is
made for this run and printed. Its database is the one that sayso's own tools use, in the state
folder ``SAYSO_HOME``, or the file of ``--data``. SIGTERM and Ctrl-C end it with status 0. What
keeps it from starting is said in a line, with status 2.

What travels is not encrypted: beyond this machine it is for a network that you trust.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.worlds.service import ServiceError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PORTS = {"grocery": 8771, "bank": 8772}

LOOPBACK = "127.0.0.1"
_MAX_PORT = 65535
_TOKEN = re.compile(r"[!-~]{16,}")


class CannotStart(Exception):
    """Why it does not start, and what to do about it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve as the command line says, until a signal ends it.

    Raises:
        SystemExit: Status 0 at a signal; 2, with a line that says why, when it cannot start.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)  # also while modules are imported
    parser = _parser()
    options = parser.parse_args(arguments)
    world, variable = options.world, options.token_env
    try:
        token = secrets.token_urlsafe(24) if variable is None else _token_of(variable)
        port = PORTS[world] if options.port is None else options.port
        with _listen(options.host, port, has_own_token=variable is not None) as listening:
            application = _SERVICES[world](options.data or _default_data(world), token)
            if variable is None:
                _say(f"Token, for this run: {token}")
            _say(f"Listening on {_url(listening)}")
            _serve(application, listening)
    except (CannotStart, ServiceError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def _end(number: int, frame: object) -> None:
    raise SystemExit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.worlds.serve", description="A sample service over HTTP."
    )
    parser.add_argument("world", choices=sorted(PORTS))
    parser.add_argument("--host", default=LOOPBACK, help="where it listens (%(default)s)")
    ports = ", ".join(f"{world}: {port}" for world, port in PORTS.items())
    parser.add_argument("--port", type=_port, help=f"0: any free one ({ports})")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="its database, made with sample data when missing; else the one that sayso's "
        "own tools use, in SAYSO_HOME",
    )
    parser.add_argument(
        "--token-env",
        metavar="NAME",
        help="the variable that holds the token; else one is made and printed",
    )
    return parser


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {_MAX_PORT}")
    return int(text)


def _token_of(variable: str) -> str:
    """The token in a variable; it is never part of a message."""
    token = os.environ.get(variable)
    if token is None:
        raise CannotStart(f"--token-env {variable}: there is no such variable; export one")
    if not _TOKEN.fullmatch(token):
        raise CannotStart(
            f"--token-env {variable}: its value is no token: at least 16 visible ASCII characters"
        )
    return token


def _default_data(world: str) -> Path:
    """Where sayso has this world, in a state folder that only its owner can read.

    Raises:
        CannotStart: The folder cannot be made.
    """
    from platformdirs import user_state_path

    given = os.environ.get("SAYSO_HOME", "")
    try:
        home = Path(given).expanduser() if given.strip() else user_state_path("sayso")
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a ~name that is nobody's
        raise CannotStart(f"SAYSO_HOME {given} cannot be used: {error}; try --data FILE") from error
    return home / "worlds" / f"{world}.db"


# --- the services ----------------------------------------------------------------------------


def _grocery(data: Path, token: str) -> ASGIApp:
    from tools.worlds.grocery import GroceryShop
    from tools.worlds.grocery_http import grocery_service

    shop = GroceryShop(data)
    shop.carts()  # a file that cannot be used is found now, and not by the first request
    return grocery_service(shop, token)


def _bank(data: Path, token: str) -> ASGIApp:
    from tools.worlds.bank import LocalBank
    from tools.worlds.bank_http import bank_service

    bank = LocalBank(data)
    bank.accounts()
    return bank_service(bank, token)


_SERVICES: dict[str, Callable[[Path, str], ASGIApp]] = {"grocery": _grocery, "bank": _bank}


# --- listening -------------------------------------------------------------------------------


def _listen(host: str, port: int, *, has_own_token: bool) -> socket.socket:
    """A listening socket; beyond this machine only with a token that its owner has chosen.

    Raises:
        CannotStart: As it says.
    """
    where = f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = found[0]
        if not (has_own_token or ipaddress.ip_address(str(address[0])).is_loopback):
            raise CannotStart(f"--host {host}: others could call there; it needs --token-env NAME")
        listening = socket.create_server(address, family=family)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CannotStart(f"{where} cannot be used: {why}; try --host or --port") from error
    # Else an answer in two parts waits 40 ms for the client's acknowledgement of the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _serve(application: ASGIApp, listening: socket.socket) -> None:
    """Answer requests until a signal comes; those that are being answered have 2 seconds more."""
    import uvicorn

    logging.getLogger("uvicorn.error").addFilter(_is_no_farewell)
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            workers=1,  # else it reads WEB_CONCURRENCY
            log_config=None,
            access_log=False,  # addresses hold arguments
            proxy_headers=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
    )
    server.run(sockets=[listening])


def _is_no_farewell(record: logging.LogRecord) -> bool:
    """No traceback of a request that had not arrived as a whole when the service ended."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


if __name__ == "__main__":
    main()
