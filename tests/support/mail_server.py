"""SMTP servers on real sockets: one that does as a test says at each command, and raw ones."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tools.worlds.smtp import Smtp, SmtpServer

HOST = "127.0.0.1"
DROP = "drop"
USER, PASSWORD = "ann", "s3cret/p%ss word"


@dataclass
class MailServer:
    """What a server does, and what it was given.

    Args:
        plan: By command, such as ``MAIL``, ``RCPT``, ``RCPT bob@a.example`` or ``END`` (the whole
            message has come): the reply in place of its own, or ``DROP``. ``DATA`` is the command.
        mails: The messages that it took.
        greeted_as: What clients called themselves.
        signed_in: The mechanisms by which they tried to sign in.
        encrypted: Of each mail, whether it came over TLS.
    """

    port: int = 0
    plan: dict[str, str] = field(default_factory=dict)
    mails: list[Envelope] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    greeted_as: list[str] = field(default_factory=list)
    signed_in: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    def smtp(self, authority: trustme.CA | None = None, **options: Any) -> Smtp:
        """A client of it."""
        where = {key: options.pop(key) for key in ("user", "password") if key in options}
        implicit = options.pop("implicit_tls", False)
        server = SmtpServer(HOST, self.port, implicit, **where)
        return Smtp(server, tls=trusting(authority) if authority else None, **options)

    @property
    def messages(self) -> list[EmailMessage]:
        """The messages as a mail program reads them."""
        parse = BytesParser(policy=default).parsebytes
        return [parse(mail.content) for mail in self.mails]  # type: ignore[arg-type,misc]


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@contextmanager
def mail_server(
    authority: trustme.CA | None = None,
    *,
    implicit_tls: bool = False,
    sign_in: bool = False,
    name: str = HOST,
) -> Iterator[MailServer]:
    """A server; with an authority it offers TLS under a certificate for that name."""
    served = MailServer()
    context = None
    if authority is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(context)
    options: dict[str, Any] = {"hostname": "mail.example"}
    if sign_in:
        needs_tls = authority is not None
        options |= {"authenticator": _authenticator(served)}
        options |= {"auth_required": needs_tls, "auth_require_tls": needs_tls}
    controller = _Controller(
        _Handler(served),
        served=served,
        options=options,
        starttls=None if implicit_tls else context,
        hostname=HOST,
        port=_free_port(),
        ssl_context=context if implicit_tls else None,
    )
    controller.start()
    served.port = controller.port
    try:
        yield served
    finally:
        controller.stop()


@contextmanager
def raw_server(*answers: bytes, hold: bool = False, forever: bytes = b"") -> Iterator[MailServer]:
    """A server that says its first answer when connected, and each further one to a line.

    Args:
        hold: Afterwards it says nothing and keeps the connection; else it closes it.
        forever: Sent again and again afterwards.
    """
    end = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError), connection.makefile("rb") as lines:
            for number, answer in enumerate(answers):
                if number:
                    lines.readline()
                connection.sendall(answer)
            while forever and not end.is_set():
                connection.sendall(forever)
                end.wait(0.01)
            if hold:
                end.wait()

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield MailServer(listener.getsockname()[1])
        finally:
            end.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def closed_port() -> int:
    """A port of this machine that nobody listens on."""
    return _free_port()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _authenticator(served: MailServer) -> Callable[..., AuthResult]:
    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        given = (data.login.decode(), data.password.decode())
        served.signed_in.append(mechanism)
        return AuthResult(success=given == (USER, PASSWORD), handled=False)

    return check


class _Controller(Controller):
    def __init__(
        self,
        handler: Any,
        *,
        served: MailServer,
        options: dict[str, Any],
        starttls: ssl.SSLContext | None,
        **where: Any,
    ) -> None:
        self._options = {**options, "tls_context": starttls}
        self._served = served
        super().__init__(handler, **where)

    def factory(self) -> SMTP:
        return _Smtp(self._served, self.handler, **self._options)


class _Smtp(SMTP):
    """The library's server, which can be told to answer otherwise before it does anything."""

    def __init__(self, served: MailServer, handler: Any, **options: Any) -> None:
        self._served = served
        super().__init__(handler, **options)

    async def _otherwise(self, command: str, arg: str | None = None) -> bool:
        served = self._served
        served.commands.append(command)
        planned = served.plan.get(f"{command} {arg}") if arg else None
        planned = planned or served.plan.get(command)
        if planned == DROP:
            self.transport.abort()  # type: ignore[union-attr]
        elif planned:
            await self.push(planned)
        return planned is not None

    async def smtp_EHLO(self, hostname: str) -> None:  # noqa: N802
        self._served.greeted_as.append(hostname)
        if not await self._otherwise("EHLO"):
            await super().smtp_EHLO(hostname)

    async def smtp_STARTTLS(self, arg: str) -> None:  # noqa: N802
        if not await self._otherwise("STARTTLS"):
            await super().smtp_STARTTLS(arg)

    async def smtp_AUTH(self, arg: str) -> None:  # noqa: N802
        if not await self._otherwise("AUTH"):
            await super().smtp_AUTH(arg)

    async def smtp_MAIL(self, arg: str) -> None:  # noqa: N802
        if not await self._otherwise("MAIL"):
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg: str) -> None:  # noqa: N802
        if not await self._otherwise("RCPT", arg.partition("<")[2].rstrip(">")):
            await super().smtp_RCPT(arg)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        if not await self._otherwise("DATA"):
            await super().smtp_DATA(arg)

    async def smtp_QUIT(self, arg: str) -> None:  # noqa: N802
        if not await self._otherwise("QUIT"):
            await super().smtp_QUIT(arg)


class _Handler:
    def __init__(self, served: MailServer) -> None:
        self._served = served

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        served = self._served
        planned = served.plan.get("END", "250 2.0.0 taken as 4711")
        if planned.startswith("2") or planned == DROP:
            served.mails.append(envelope)
            served.encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        if planned == DROP:
            server.transport.abort()  # type: ignore[union-attr]
            await asyncio.sleep(0)
        return planned
