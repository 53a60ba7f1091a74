"""Handing a message over: over real sockets, and what is said when it fails at each stage."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from tests.support.mail_server import (
    DROP,
    HOST,
    PASSWORD,
    USER,
    MailServer,
    closed_port,
    mail_server,
    raw_server,
)
from tools.worlds.service import Busy, Refused, ServiceError, Unconfirmed
from tools.worlds.smtp import MOST_QUOTED, Smtp, SmtpServer, is_this_machine

ME, ANN, BOB = "me@a.example", "ann@b.example", "bob@c.example"
MESSAGE = b"From: me@a.example\r\nSubject: Hi\r\n\r\nSee you.\r\n"
NOTHING = "Nothing was sent"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_server() as served:
        yield served


def send(
    smtp: Smtp, message: bytes = MESSAGE, begin: Callable[[], None] = lambda: None, *to: str
) -> str:
    return smtp.hand_over(ME, to or (ANN, BOB), message, begin)


# --- where -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example", SmtpServer("mail.example", 587)),
        ("smtps://mail.example", SmtpServer("mail.example", 465, True)),
        ("smtp://mail.example:2525/", SmtpServer("mail.example", 2525)),
        ("smtp://[::1]:25", SmtpServer("::1", 25)),
        (
            "smtps://ann%40a.example:s3cret%2Fp%25ss%20w%3A@mail.example:465",
            SmtpServer("mail.example", 465, True, "ann@a.example", "s3cret/p%ss w:"),
        ),
    ],
)
def test_the_server_of_a_url(url: str, server: SmtpServer) -> None:
    assert SmtpServer.of(url) == server


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example",
        "mail.example:25",
        "http://mail.example",
        "smtp://",
        "smtp://:25",
        "smtp://mail.example:port",
        "smtp://mail.example:99999",
        "smtp://ann@mail.example",
        "smtp://:pw@mail.example",
        "smtp://mail.example/inbox",
        "smtp://mail.example?x=1",
        "smtp://ann:s3cret/pass@mail.example",
        "smtp://ann:s3cret%0D%0A@mail.example",
        "smtp://ann:s3crét@mail.example",
        "smtp://mail.exa mple",
        "smtp://[::1",
    ],
)
def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        SmtpServer.of(url)
    assert "s3cr" not in str(error.value)


def test_a_password_is_not_shown() -> None:
    server = SmtpServer.of("smtp://ann:s3cret@mail.example")
    assert "s3cret" not in repr(server) + str(server)


# --- taken -----------------------------------------------------------------------------------


def test_a_message_arrives_at_all_its_recipients(server: MailServer) -> None:
    begun: list[int] = []
    said = send(server.smtp(), begin=lambda: begun.append(len(server.mails)))
    assert said == "250 2.0.0 taken as 4711"
    (mail,) = server.mails
    assert (mail.mail_from, mail.rcpt_tos, mail.content) == (ME, [ANN, BOB], MESSAGE)
    assert begun == [0], "the last byte left after it was said that it would"


@given(st.lists(st.sampled_from([b".", b"..", b".x", b"x", b"", b"QUIT", b"MAIL FROM:<e@v>"])))
def test_lines_that_look_like_smtp_arrive_as_they_are(
    module_server: MailServer, lines: list[bytes]
) -> None:
    message = MESSAGE + b"".join(line + b"\r\n" for line in lines)
    module_server.mails.clear()
    send(module_server.smtp(), message)
    (mail,) = module_server.mails
    assert mail.content == message


@pytest.fixture(scope="module")
def module_server() -> Iterator[MailServer]:
    with mail_server() as served:
        yield served


def test_this_machines_name_is_neither_looked_up_nor_told(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "own-name.example")
    send(server.smtp())
    assert server.greeted_as == ["[127.0.0.1]"]


# --- TLS and signing in ----------------------------------------------------------------------


@pytest.mark.parametrize("implicit_tls", [False, True])
def test_tls_is_used_and_checked(authority: trustme.CA, implicit_tls: bool) -> None:
    with mail_server(authority, implicit_tls=implicit_tls) as server:
        send(server.smtp(authority, implicit_tls=implicit_tls))
        assert server.encrypted == [True]
        with pytest.raises(Refused, match=r"certificate .* cannot be trusted .*SSL_CERT_FILE"):
            send(server.smtp(implicit_tls=implicit_tls))
        with pytest.raises(Refused, match=NOTHING):
            send(server.smtp(trustme.CA(), implicit_tls=implicit_tls))
        assert len(server.mails) == 1


@pytest.mark.parametrize("implicit_tls", [False, True])
def test_a_certificate_of_another_name_is_refused(
    authority: trustme.CA, implicit_tls: bool
) -> None:
    with mail_server(authority, implicit_tls=implicit_tls, name="other.example") as server:
        with pytest.raises(Refused, match="cannot be trusted"):
            send(server.smtp(authority, implicit_tls=implicit_tls))
        assert server.mails == []


def test_a_refused_starttls_does_not_lead_to_plain_text(authority: trustme.CA) -> None:
    with mail_server(authority) as server:
        server.plan["STARTTLS"] = "454 4.7.0 not now"
        with pytest.raises(Busy, match=r"454 4\.7\.0 not now\. Nothing was sent"):
            send(server.smtp(authority))
        assert server.commands == ["EHLO", "STARTTLS"]


def test_only_a_server_on_this_machine_may_do_without_tls(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes over a clear line beyond this machine: nothing, and no password."""
    from tools.worlds import smtp

    monkeypatch.setattr(smtp._Line, "is_local", False)
    with pytest.raises(Refused, match="offers no encryption"):
        send(server.smtp(user=USER, password=PASSWORD))
    assert server.commands == ["EHLO"]


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("192.0.2.1", False),
        ("fe80::1%eth0", False),
        ("::", False),
    ],
)
def test_which_addresses_are_this_machine(address: str, local: bool) -> None:
    assert is_this_machine(address) is local


@pytest.mark.parametrize("encrypted", [False, True])
def test_signing_in(authority: trustme.CA, encrypted: bool) -> None:
    with mail_server(authority if encrypted else None, sign_in=True) as server:
        send(server.smtp(authority, user=USER, password=PASSWORD))
        assert server.encrypted == [encrypted]
        assert len(server.signed_in) == 1
        with pytest.raises(Refused, match=r"did not accept the user or the password \(535\)") as e:
            send(server.smtp(authority, user=USER, password="s3cret-and-wrong"))
        assert "s3cret" not in str(e.value)
        if encrypted:
            with pytest.raises(Refused, match=r"530 .*Nothing was sent"):
                send(server.smtp(authority))  # it wants to know who it is
        assert len(server.mails) == 1


def test_a_server_that_knows_no_passwords(server: MailServer) -> None:
    with pytest.raises(Refused, match="knows no way to sign in"):
        send(server.smtp(user=USER, password=PASSWORD))
    assert server.mails == []


# --- refused ---------------------------------------------------------------------------------

BEFORE = ["MAIL", "RCPT", f"RCPT {BOB}", "DATA", "END"]


@pytest.mark.parametrize("stage", BEFORE)
@pytest.mark.parametrize(("reply", "kind"), [("451 4.3.0 later", Busy), ("554 5.7.1 no", Refused)])
def test_a_refusal_is_known_and_says_who_said_what(
    server: MailServer, stage: str, reply: str, kind: type[ServiceError]
) -> None:
    server.plan[stage] = reply
    with pytest.raises(kind) as error:
        send(server.smtp())
    assert type(error.value) is kind
    assert NOTHING in str(error.value)
    assert reply in str(error.value)
    assert str(server.port) in str(error.value)
    assert server.mails == []


def test_one_recipient_who_is_refused_stops_the_message_for_all(server: MailServer) -> None:
    cy = "cy@d.example"
    server.plan = {f"RCPT {BOB}": "550 5.1.1 no such user", f"RCPT {cy}": "452 4.2.2 full"}
    with pytest.raises(Refused) as error:
        send(server.smtp(), MESSAGE, lambda: None, ANN, BOB, cy)
    assert type(error.value) is Refused
    assert str(error.value) == (
        f"{HOST}:{server.port} refused {BOB} (550 5.1.1 no such user); {cy} (452 4.2.2 full). "
        f"It would have taken {ANN}. Nothing was sent to anybody."
    )
    assert server.mails == []
    assert "DATA" not in server.commands


def test_what_stops_it_at_the_last_moment_stops_it(server: MailServer) -> None:
    def stop() -> None:
        raise Refused("It was given up.")

    with pytest.raises(Refused, match="given up"):
        send(server.smtp(), begin=stop)
    server.plan["RCPT"] = "550 settle"  # a second connection: the first one's end has been seen
    with pytest.raises(Refused):
        send(server.smtp())
    assert server.mails == []


def test_what_a_server_says_is_one_short_line(server: MailServer) -> None:
    server.plan["MAIL"] = "550-first\x1b[2J line\r\n550 " + "x" * 900
    with pytest.raises(Refused) as error:
        send(server.smtp())
    assert str(error.value).isprintable()
    assert "first [2J line xxx" in str(error.value)
    assert len(str(error.value)) < MOST_QUOTED + 100


# --- cut off ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["EHLO", "MAIL", "RCPT", f"RCPT {BOB}", "DATA"])
def test_a_connection_that_ends_before_the_message_has_left(server: MailServer, stage: str) -> None:
    server.plan[stage] = DROP
    with pytest.raises(Busy, match=NOTHING):
        send(server.smtp())
    assert server.mails == []


def test_a_connection_that_ends_before_the_reply(server: MailServer) -> None:
    """The server has it, and nobody here can know."""
    server.plan["END"] = DROP
    with pytest.raises(Unconfirmed, match=r"The whole message had gone to .* may have been sent"):
        send(server.smtp())
    assert len(server.mails) == 1


def test_a_connection_that_ends_after_the_reply(server: MailServer) -> None:
    server.plan["QUIT"] = DROP
    assert send(server.smtp()).startswith("250")


@pytest.mark.parametrize("reply", ["354 go on", "HELLO", "99 what", "250-and then"])
def test_a_reply_to_the_whole_message_that_says_neither_yes_nor_no(
    server: MailServer, reply: str
) -> None:
    server.plan["END"] = reply
    with pytest.raises(Unconfirmed, match="may have been sent"):
        send(server.smtp(silence=0.3))


def test_nobody_listens() -> None:
    smtp = Smtp(SmtpServer(HOST, closed_port()))
    with pytest.raises(Busy, match=r"refused.*Nothing was sent"):
        send(smtp)


@pytest.mark.parametrize(
    "answers",
    [
        (),
        (b"",),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (b"220",),
        (b"220-" + b"x" * 10_000,),
        (b"554 5.3.2 not today\r\n",),
        (b"220 hi\r\n", b"\x00\xff\x00\r\n"),
        (b"220 hi\r\n", b"\r\n"),
    ],
)
def test_what_is_no_mail_server(answers: tuple[bytes, ...]) -> None:
    with raw_server(*answers) as server, pytest.raises(ServiceError, match=NOTHING):
        send(server.smtp())


def test_a_reply_without_end_is_none() -> None:
    with raw_server(forever=b"220-more\r\n") as server, pytest.raises(Busy, match="not SMTP"):
        send(server.smtp(patience=30))


@pytest.mark.parametrize("answers", [(), (b"220 hi\r\n",), (b"220 hi\r\n", b"250-x\r\n")])
def test_a_server_that_falls_silent_is_left(answers: tuple[bytes, ...]) -> None:
    with (
        raw_server(*answers, hold=True) as server,
        pytest.raises(Busy, match=r"timed out.*Nothing was sent"),
    ):
        send(server.smtp(silence=0.2))


@pytest.mark.parametrize("implicit_tls", [False, True])
def test_a_server_that_never_comes_to_an_end_is_left(implicit_tls: bool) -> None:
    """Each byte begins the timeout of the socket anew; the time for the whole does not."""
    with raw_server(forever=b"2") as server, pytest.raises(ServiceError, match=NOTHING):
        send(server.smtp(patience=0.3, silence=600, implicit_tls=implicit_tls))


def test_a_late_end_of_the_time_is_no_proof(server: MailServer) -> None:
    """The time runs out while the server thinks about the whole message."""
    with (
        pytest.raises(Unconfirmed),
        raw_server(
            b"220 hi\r\n",
            b"250 mail.example\r\n",
            b"250 ok\r\n",
            b"250 ok\r\n",
            b"250 ok\r\n",
            b"354 go on\r\n",
            hold=True,
        ) as held,
    ):
        send(held.smtp(patience=0.5, silence=600))


def test_nothing_is_left_running(server: MailServer) -> None:
    send(server.smtp())
    assert [t.name for t in threading.enumerate() if isinstance(t, threading.Timer)] == []
