"""Handing a message over to an SMTP server (RFC 5321), such that what became of it is known.

Until the mark that ends the message has left, nothing has been sent: a server drops what it has
of a message when the connection ends before it. From then until the server's reply nobody can
tell. ::

    connect ─ TLS ─ sign in ─ MAIL, RCPT … ─ DATA, text ─┃─ end mark ─ reply
    Refused or Busy: nothing was sent                    ┃  Unconfirmed    ┃  its word

The errors are those of ``service``.
"""

from __future__ import annotations

import ipaddress
import os
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote, urlsplit

from tools.worlds.service import Busy, Refused, ServiceError, Unconfirmed

PORTS = {"smtp": 587, "smtps": 465}
MAX_LINE, MAX_LINES = 4_096, 100
"""Bytes of one line of a reply, and lines of one reply."""

MOST_QUOTED = 200
"""Characters of a server's words in an error."""


@dataclass(frozen=True)
class SmtpServer:
    """Where mail is handed over; ``smtps`` speaks TLS from the start, ``smtp`` by STARTTLS."""

    host: str
    port: int
    implicit_tls: bool = False
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> SmtpServer:
        """The server of ``smtp[s]://user:password@host:port``; user and port may be left out.

        Raises:
            ValueError: What the URL should be; no part of it is repeated.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError("a host and a port") from None
        if parts.scheme not in PORTS or not host:
            raise ValueError("smtp:// or smtps:// with a host")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("nothing behind the host and port; a / in a password is written %2F")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if bool(user) != bool(password):
            raise ValueError("a user with a password, or neither")
        if not re.fullmatch(r"[ -~]*", user + password) or not re.fullmatch(r"[!-~]+", host):
            raise ValueError("printable ASCII")
        return cls(host, port or PORTS[parts.scheme], parts.scheme == "smtps", user, password)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Smtp:
    """A server that takes messages.

    Args:
        tls: Whom to believe; by default the authorities of the system.
        patience: Seconds for one message, from the connection on.
        silence: Seconds that the server may say nothing.
    """

    def __init__(
        self,
        server: SmtpServer,
        *,
        tls: ssl.SSLContext | None = None,
        patience: float = 40.0,
        silence: float = 20.0,
    ) -> None:
        self.server, self._tls = server, tls
        self._patience, self._silence = patience, silence

    def hand_over(
        self, sender: str, recipients: Sequence[str], message: bytes, begin: Callable[[], None]
    ) -> str:
        """Give a message to the server, for all recipients or for none.

        Args:
            sender, recipients: Plain addresses.
            message: Lines that end in CRLF.
            begin: Called right before the mark that ends the message; what it raises stops it.

        Returns:
            What the server replied when it took the message.

        Raises:
            Refused: Nothing was sent; the server, or this client, does not want to.
            Busy: Nothing was sent; later it may work.
            Unconfirmed: The connection ended before the server's reply.
        """
        with self._nothing_sent(), self._connected() as line:
            self._secure(line)
            self._sign_in(line)
            self._address(line, sender, recipients, len(message))
            line.expect(line.docmd("DATA"), 354)
            line.send(re.sub(rb"(?m)^\.", b"..", message))
            begin()
            return self._end(line)

    @contextmanager
    def _nothing_sent(self) -> Iterator[None]:
        """Errors from before the end mark, in words that say so."""
        try:
            yield
        except (ServiceError, Unconfirmed):
            raise
        except smtplib.SMTPResponseException as error:
            kind = Busy if 400 <= error.smtp_code < 500 else Refused
            said = _quoted(error.smtp_code, error.smtp_error)
            raise kind(f"{self.server} said: {said}. Nothing was sent.") from error
        except ssl.SSLCertVerificationError as error:
            raise Refused(
                f"The certificate of {self.server} cannot be trusted ({error.verify_message}). "
                "Nothing was sent. Whoever runs this program can name another authority in "
                "SSL_CERT_FILE."
            ) from error
        except (OSError, ValueError) as error:  # those of smtplib and of TLS among them
            why = str(error) or type(error).__name__
            raise Busy(
                f"No message could be given to {self.server}: {why}. Nothing was sent."
            ) from error

    @contextmanager
    def _connected(self) -> Iterator[_Line]:
        with (
            closing(_Line(self.server, self._silence)) as line,
            line.ends_after(self._patience),
        ):
            line.greet(self._context if self.server.implicit_tls else None)
            yield line

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._tls or ssl.create_default_context()

    def _secure(self, line: _Line) -> None:
        """Go over to TLS; only a server on this machine may do without."""
        line.ehlo_or_helo_if_needed()
        if self.server.implicit_tls:
            return
        if line.has_extn("starttls"):
            line.starttls(context=self._context)
            line.ehlo_or_helo_if_needed()
        elif not line.is_local:
            raise Refused(
                f"{self.server} offers no encryption (STARTTLS), so nothing was sent to it. Use "
                "smtps:// if it speaks TLS from the start."
            )

    def _sign_in(self, line: _Line) -> None:
        if not self.server.user:
            return
        try:
            line.login(self.server.user, self.server.password)
        except smtplib.SMTPAuthenticationError as error:
            kind = Busy if 400 <= error.smtp_code < 500 else Refused
            raise kind(
                f"{self.server} did not accept the user or the password ({error.smtp_code}). "
                "Nothing was sent."
            ) from None
        except smtplib.SMTPNotSupportedError:
            raise Refused(f"{self.server} knows no way to sign in. Nothing was sent.") from None

    def _address(self, line: _Line, sender: str, recipients: Sequence[str], size: int) -> None:
        """Name sender and recipients; one who is refused stops the message for all."""
        stated = f" SIZE={size}" if line.has_extn("size") else ""
        line.expect(line.docmd("MAIL", f"FROM:<{sender}>{stated}"), 250)
        replies = [(one, line.docmd("RCPT", f"TO:<{one}>")) for one in recipients]
        refused = [(one, reply) for one, reply in replies if reply[0] not in (250, 251)]
        if not refused:
            return
        kind = Busy if all(400 <= code < 500 for _, (code, _) in refused) else Refused
        said = "; ".join(f"{one} ({_quoted(*reply)})" for one, reply in refused)
        taken = [one for one, reply in replies if reply[0] in (250, 251)]
        others = f" It would have taken {', '.join(taken)}." if taken else ""
        raise kind(f"{self.server} refused {said}.{others} Nothing was sent to anybody.")

    def _end(self, line: _Line) -> str:
        try:
            line.send(b".\r\n")
            code, text = line.getreply()
        except (OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise Unconfirmed(
                f"The whole message had gone to {self.server}, and no reply came ({why}): it may "
                "have been sent."
            ) from error
        if 200 <= code < 300:
            line.leave()
            return _quoted(code, text)
        if 400 <= code < 600:
            raise smtplib.SMTPDataError(code, text)
        raise Unconfirmed(
            f"{self.server} answered the whole message with {_quoted(code, text)}, which says "
            "neither yes nor no: it may have been sent."
        )


def _quoted(code: int, text: bytes | str) -> str:
    """A reply as it may be shown: one short line of ASCII."""
    given = text if isinstance(text, str) else text.decode("ascii", "replace")
    words = " ".join(re.sub(r"[^!-~]+", " ", given).split())
    return f"{code} {words}"[:MOST_QUOTED].rstrip()


def is_this_machine(address: str) -> bool:
    """Whether an IP address, which may name its interface, never leaves this machine."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


class _Line(smtplib.SMTP):
    """A connection: bounded in time, and in what it takes for a reply."""

    def __init__(self, server: SmtpServer, silence: float) -> None:
        # The name in EHLO: the library's own would be looked up in the network.
        super().__init__(local_hostname="[127.0.0.1]", timeout=silence)
        self._host = server.host  # whose name the certificate has to show
        self.sock = socket.create_connection((server.host, server.port), silence)

    def greet(self, tls: ssl.SSLContext | None) -> None:
        """Take the server's first words, behind TLS if it begins with that."""
        if tls is not None:
            assert self.sock is not None
            self.sock = tls.wrap_socket(self.sock, server_hostname=self._host)
        self.expect(self.getreply(), 220)

    @property
    def is_local(self) -> bool:
        """Whether the other end is on this machine."""
        assert self.sock is not None
        return is_this_machine(self.sock.getpeername()[0])

    @contextmanager
    def ends_after(self, seconds: float) -> Iterator[None]:
        """End the connection after that time: a timeout alone begins anew with each byte."""
        assert self.sock is not None
        with socket.socket(fileno=os.dup(self.sock.fileno())) as same:  # TLS takes over the other

            def end() -> None:
                with suppress(OSError):
                    same.shutdown(socket.SHUT_RDWR)

            timer = threading.Timer(seconds, end)
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()
                timer.join()

    def getreply(self) -> tuple[int, bytes]:
        """One reply: its code and its text.

        Raises:
            SMTPServerDisconnected: The connection ended, or what came is no reply.
        """
        if self.file is None:
            assert self.sock is not None
            self.file = self.sock.makefile("rb")
        lines: list[bytes] = []
        while len(lines) < MAX_LINES:
            try:
                line = self.file.readline(MAX_LINE)
            except OSError as error:
                raise smtplib.SMTPServerDisconnected(
                    str(error) or "the connection broke"
                ) from error
            if not line:
                raise smtplib.SMTPServerDisconnected("the server closed the connection")
            if not (line.endswith(b"\n") and re.match(rb"[2-5][0-9][0-9](?:[ -]|\r?\n)", line)):
                break
            lines.append(line[4:].strip())
            if line[3:4] != b"-":
                return int(line[:3]), b"\n".join(lines)
        raise smtplib.SMTPServerDisconnected("what the server says is not SMTP")

    def expect(self, reply: tuple[int, bytes], code: int) -> None:
        """Go on after this reply only.

        Raises:
            SMTPResponseException: It was another one.
        """
        if reply[0] != code:
            raise smtplib.SMTPResponseException(*reply)

    def leave(self) -> None:
        """Take leave; the message is the server's by now, so nothing depends on it."""
        with suppress(OSError):
            self.send(b"QUIT\r\n")
