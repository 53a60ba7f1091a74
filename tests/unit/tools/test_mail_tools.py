"""The mail tools as a model and the harness meet them: into the outbox, and by a real server."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.checks.arguments import normalise
from agent.policy.grants import outside
from agent.policy.scopes import covers
from agent.types import Authority
from tests.support.mail_server import DROP, HOST, MailServer, closed_port, mail_server, raw_server
from tests.support.worlds import Clock, Desk, named
from tools.contract import (
    Call,
    CallInfo,
    Committed,
    Effects,
    Finding,
    OutcomeUnknown,
    ToolFailure,
    TransientFailure,
    contract_of,
    current_call,
    is_read,
)
from tools.mail import ANYBODY, mail_tools
from tools.mail.calls import PART
from tools.worlds.mailbox import LocalMailbox
from tools.worlds.mime import message_id
from tools.worlds.sample_mail import OWNER
from tools.worlds.smtp import Smtp, SmtpServer

ME = "mara@office.example"
ANN, BOB, EVE = "ann@b.example", "bob@c.example", "eve@d.example"
HELLO = {"to": [ANN], "subject": "Hello", "body": "See you.", "cc": [BOB]}
REPLY = {**HELLO, "to": ["orders@dockside-print.example"], "cc": [], "reply_to_id": "M105"}
SEND = "send_email"


@dataclass
class World(Desk):
    """A mailbox, and the tools over it."""

    mailbox: LocalMailbox
    path: Path

    def send(self, args: Mapping[str, Any], key: str = "k1", attempt: int = 1) -> Any:
        token = current_call.set(CallInfo(call_id="c", attempt=attempt, idempotency_key=key))
        try:
            return json.loads(self.tools[SEND].invoke(dict(args)))
        finally:
            current_call.reset(token)

    def status(self, key: str = "k1") -> str | None:
        email = self.mailbox.find(key)
        return email.status if email else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another program that keeps the mailbox's file to itself."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield


def make_world(folder: Path, smtp: Smtp | None) -> World:
    path = folder / "mail.db"
    mailbox = LocalMailbox(path, busy_timeout=0.2, now=Clock())
    return World(named(mail_tools(mailbox, ME, smtp)), mailbox, path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Without a server."""
    return make_world(tmp_path, None)


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_server() as served:
        yield served


@pytest.fixture
def sending(tmp_path: Path, server: MailServer) -> World:
    """With one."""
    return make_world(tmp_path, server.smtp())


# --- reads -----------------------------------------------------------------------------------


def test_listing_is_newest_first_and_without_the_texts(world: World) -> None:
    found = world.run("list_emails", {"folder": "inbox", "count": 2})
    assert [email["id"] for email in found["emails"]] == ["M112", "M111"]
    assert (found["matched"], found["offset"]) == (9, 0)
    assert found["emails"][0]["in_reply_to"] == "M105"
    assert "body" not in found["emails"][0]
    rest = world.run("list_emails", {"folder": "inbox", "count": 50, "offset": 2})
    assert len(rest["emails"]) == 7


def test_reading_an_email(world: World) -> None:
    read = world.run("read_email", {"id": "M105"})
    assert read["sender"] == "Dockside Print <orders@dockside-print.example>"
    assert "86.00 EUR" in read["body"]
    assert (read["next_offset"], read["characters"]) == (None, len(read["body"]))


def test_a_long_text_is_read_in_parts(world: World) -> None:
    body = "".join(f"{n} " for n in range(3_500))
    sent = world.send({**HELLO, "body": body})
    parts, offset = [], 0
    while offset is not None:
        read = world.run("read_email", {"id": sent["id"], "offset": offset})
        assert len(read["body"]) <= PART
        parts.append(read["body"])
        offset = read["next_offset"]
    assert len(parts) == 2
    assert "".join(parts) == body
    with pytest.raises(ToolFailure, match=f"{sent['id']} has {len(body)} characters"):
        world.run("read_email", {"id": sent["id"], "offset": len(body)})


def test_what_is_not_there_says_where_to_look(world: World) -> None:
    with pytest.raises(ToolFailure, match="list_emails shows the ids"):
        world.run("read_email", {"id": "M999"})


def test_reads_are_reads_of_private_data_by_strangers(world: World) -> None:
    for name in ("list_emails", "read_email"):
        contract = world.contract(name)
        assert contract.effects_of({}) == {"read:mail"}
        assert (contract.open_world, contract.private) == (True, True)


# --- effects and authority -------------------------------------------------------------------


def effects(args: Any, world: World) -> Effects:
    return world.contract(SEND).effects_of(args)


def test_each_recipient_is_an_effect_in_one_spelling(world: World) -> None:
    args = {**HELLO, "to": ["Ann@B.Example", ANN], "cc": ["Bo@MÜNCHEN.example"]}
    assert effects(args, world) == {
        "write:mail",
        "disclose:email",
        f"disclose:email.{ANN}",
        "disclose:email.bo@xn--mnchen-3ya.example",
    }


@given(
    st.dictionaries(
        st.sampled_from(["to", "cc", "subject"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just(ANN),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=6,
        ),
    )
)
def test_whatever_the_arguments_are_the_effects_are_no_less_than_whom_they_name(
    args: dict[str, Any],
) -> None:
    declared: Any = contract_of(_TOOLS[SEND]).effects
    told = declared(args)
    assert {"write:mail", "disclose:email"} < told
    try:
        valid = normalise(_TOOLS[SEND], {"subject": "s", "body": "b", **args}).args
    except Exception:
        return
    named_ones = {f"disclose:email.{a.lower()}" for a in (*valid["to"], *valid["cc"])}
    assert named_ones == told - {"write:mail", "disclose:email"}


_TOOLS = named(mail_tools(LocalMailbox("/nonexistent/mail.db"), OWNER))


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"to": []},
        {"to": None},
        {"to": ANN},
        {"to": 7},
        {"to": [7]},
        {"to": [f'"{ANN}" <{EVE}>']},
        {"to": [f"{ANN}, {EVE}"]},
        {"to": [ANN], "cc": [EVE, "nobody"]},
        {"to": [ANN], "cc": None},
        {"to": {ANN: EVE}},
    ],
)
def test_recipients_that_cannot_be_told_may_be_anybody(world: World, args: Any) -> None:
    declared: Any = world.contract(SEND).effects
    if args != {"to": {ANN: EVE}}:
        assert ANYBODY in declared(args)
    assert outside(declared(args), Authority(granted=("write:mail", "disclose:email")))


@pytest.mark.parametrize(
    ("authority", "beyond"),
    [
        (Authority(), []),
        (Authority(denied=("disclose:*",)), ["email", ANN, BOB]),
        (Authority(denied=("disclose:email.*",)), [ANN, BOB]),
        (Authority(denied=("disclose:email.*@c.example",)), [BOB]),
        (Authority(denied=("disclose:email.*@d.example",)), []),
        (Authority(granted=("write:mail", "disclose:email")), [ANN, BOB]),
        (Authority(granted=("write:mail", "disclose:email", f"disclose:email.{ANN}")), [BOB]),
        (Authority(granted=("write:mail", "disclose:email", "disclose:email.*@?.example")), []),
        (Authority(granted=("disclose:*",)), ["mail"]),
    ],
)
def test_whom_one_may_write_to_is_granted_by_address(
    world: World, authority: Authority, beyond: list[str]
) -> None:
    spelled = {**HELLO, "to": ["Ann@B.example"]}
    names = {"email": "disclose:email", "mail": "write:mail"}
    wanted = {names.get(name, f"disclose:email.{name}") for name in beyond}
    assert outside(effects(spelled, world), authority) == wanted


def test_writes_are_writes(world: World) -> None:
    for name, args in ((SEND, HELLO), ("withdraw_email", {"id": "M113"})):
        assert not is_read(world.contract(name).effects_of(args))


def test_always_is_for_exactly_these_recipients(world: World) -> None:
    always: Any = world.contract(SEND).always
    scope = always(HELLO)
    assert scope.text == f"any e-mail to exactly {ANN}, {BOB}"
    assert covers(scope.args, {**HELLO, "subject": "Other", "body": "Other"})
    for other in ({"to": [ANN, EVE]}, {"to": [EVE]}, {"cc": []}, {"cc": [BOB, EVE]}, {"to": ANN}):
        assert not covers(scope.args, {**HELLO, **other})
    assert not covers(always({"to": [ANN]}).args, HELLO)


# --- before it is sent -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"to": [f'"{ANN}" <{EVE}>']},
        {"to": [f"{ANN}\r\nBcc: {EVE}"]},
        {"to": ANN},
        {"to": []},
        {"cc": [f"{ANN},{EVE}"]},
        {"subject": f"Hi\r\nBcc: {EVE}"},
        {"subject": ""},
        {"body": "\x1b[2J"},
        {"reply_to_id": "M105; DROP TABLE emails"},
        {"bcc": [EVE]},
        {"from": EVE},
    ],
)
def test_arguments_that_do_not_fit_reach_nothing(world: World, change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        world.tools[SEND].invoke({**HELLO, **change})
    assert world.mailbox.emails("outbox", "", 0, 1).matched == 0


def test_an_email_is_read_before_it_is_answered(world: World) -> None:
    unmet = world.unmet(SEND, REPLY)
    assert unmet.read == Call("read_email", {"id": "M105"})
    assert "M105 was not read" in unmet.why
    assert world.unmet(SEND, REPLY, world.seen("read_email", {"id": "M103"})) is not None
    assert world.unmet(SEND, REPLY, world.seen("list_emails", {})) is not None
    assert world.unmet(SEND, REPLY, world.seen("read_email", {"id": "M105"})) is None
    assert world.unmet(SEND, HELLO) is None
    assert world.unmet(SEND, {**HELLO, "reply_to_id": None}) is None


def test_the_preview_is_the_letter_and_says_what_becomes_of_it(
    world: World, sending: World
) -> None:
    shown = world.preview(SEND, {**REPLY, "cc": [BOB]})
    assert shown.after == (
        f"From: {ME}\nTo: orders@dockside-print.example\nCc: {BOB}\n"
        "In reply to: M105, 'Re: 500 flyers for the winter fair' from "
        "Dockside Print <orders@dockside-print.example>\n"
        "Subject: Hello\n\nSee you."
    )
    assert "nobody gets it" in shown.summary
    assert shown == world.preview(SEND, {**REPLY, "cc": [BOB]}), (
        "the same as long as nothing changes"
    )
    sent = sending.preview(SEND, HELLO)
    assert f"to {ANN}, {BOB}" in sent.summary
    assert f"handed over to {HOST}:" in sent.summary
    assert "cannot be called back" in sent.summary
    assert "would fail. There is no e-mail 'M999'" in (
        world.preview(SEND, {**REPLY, "reply_to_id": "M999"}).summary
    )
    assert world.mailbox.emails("outbox", "", 0, 1).matched == 0


# --- into the outbox -------------------------------------------------------------------------


def test_without_a_server_it_lies_in_the_outbox_and_says_so(world: World) -> None:
    result = world.send(HELLO)
    assert result["status"] == "queued"
    assert "where it stays" in result["done"]
    assert result["transaction"] == result["id"]
    (listed,) = world.run("list_emails", {"folder": "outbox"})["emails"]
    assert (listed["id"], listed["to"], listed["cc"]) == (result["id"], [ANN], [BOB])
    assert world.verify(SEND, HELLO, result, "k1").happened is True
    found = world.find(SEND, HELLO, "k1")
    assert (found.happened, found.transaction) == (True, result["id"])
    assert json.loads(str(found.result)) == result


def test_a_key_counts_once(world: World) -> None:
    assert world.contract(SEND).idempotency == "key"
    first = world.send(HELLO)
    assert world.send(HELLO, attempt=2) == first
    with pytest.raises(ToolFailure, match="belongs to another request"):
        world.send({**HELLO, "to": [EVE]})
    assert world.mailbox.emails("outbox", "", 0, 5).matched == 1


def test_what_lies_in_the_outbox_can_be_withdrawn(world: World) -> None:
    undo = world.contract(SEND).undo
    assert undo is not None
    result = world.send(HELLO)
    call = world.undo(SEND, HELLO, result)
    assert call == Call("withdraw_email", {"id": result["id"]})
    assert world.preview(call.tool, call.args).before.startswith(f"From: {ME}\nTo: {ANN}\n")
    assert world.find(call.tool, call.args, "w1").happened is False
    gone = world.run(call.tool, call.args, "w1")
    assert gone["status"] == "withdrawn"
    assert world.run(call.tool, call.args, "w1") == gone
    assert world.verify(call.tool, call.args, gone, "w1").happened is True
    assert world.find(call.tool, call.args, "w2").happened is False
    with pytest.raises(ToolFailure, match="was withdrawn"):
        world.run("read_email", call.args)
    assert "would fail" in world.preview(call.tool, call.args).summary
    with pytest.raises(Exception, match="was withdrawn"):
        world.undo(SEND, HELLO, result)


def test_a_mailbox_that_is_locked_is_busy_and_nothing_changed(world: World) -> None:
    world.send(HELLO)
    with world.locked(), pytest.raises(TransientFailure, match="nothing was changed"):
        world.send(HELLO, "k2")
    assert world.mailbox.emails("outbox", "", 0, 5).matched == 1


# --- by a server -----------------------------------------------------------------------------


def test_what_was_sent_arrived_as_it_was_shown(sending: World, server: MailServer) -> None:
    body = "Hello,\n\n.a line with a dot\nüñí → 👋\n"
    args = {"to": [ANN], "cc": [BOB], "subject": "Grüße → 👋 " * 12, "body": body}
    result = sending.send({**args, "reply_to_id": "M105"})
    assert result["status"] == "sent"
    assert "250 2.0.0 taken as 4711" in result["done"]
    (message,), (mail,) = server.messages, server.mails
    assert (mail.mail_from, mail.rcpt_tos) == (ME, [ANN, BOB])
    assert (message["From"], message["To"], message["Cc"]) == (ME, ANN, BOB)
    assert str(message["Subject"]).split() == args["subject"].split()
    assert message.get_content().replace("\r\n", "\n") == body
    assert message["Message-ID"] == message_id("k1", ME)
    assert message["In-Reply-To"] == sending.mailbox.email("M105").message_id
    assert message["References"].split() == list(sending.mailbox.thread("M105"))
    assert parsedate_to_datetime(message["Date"]) == Clock().now
    assert datetime.fromisoformat(sending.mailbox.email(result["id"]).at) == Clock().now
    assert sending.mailbox.email(result["id"]).folder == "sent"
    assert sending.verify(SEND, {**args, "reply_to_id": "M105"}, result, "k1").happened is True


def test_what_was_sent_is_not_sent_again(sending: World, server: MailServer) -> None:
    first = sending.send(HELLO)
    for attempt in (1, 2, 3):
        assert sending.send(HELLO, attempt=attempt) == first
    assert len(server.mails) == 1
    with pytest.raises(ToolFailure, match="belongs to another request"):
        sending.send({**HELLO, "to": [EVE]})


def test_a_server_knows_no_keys_and_takes_nothing_back(sending: World) -> None:
    contract = sending.contract(SEND)
    assert (contract.idempotency, contract.undo) == ("none", None)
    sent = sending.send(HELLO)
    with pytest.raises(ToolFailure, match="sent, not queued"):
        sending.run("withdraw_email", {"id": sent["id"]}, "w1")


@pytest.mark.parametrize("stage", ["MAIL", f"RCPT {BOB}", "DATA", "END"])
@pytest.mark.parametrize(
    ("reply", "error"), [("450 later", TransientFailure), ("550 never", ToolFailure)]
)
def test_a_refusal_is_a_failure_with_the_servers_words(
    sending: World, server: MailServer, stage: str, reply: str, error: type[ToolFailure]
) -> None:
    server.plan[stage] = reply
    with pytest.raises(error) as raised:
        sending.send(HELLO)
    assert type(raised.value) is error
    assert reply in str(raised.value)
    assert "Nothing was sent" in str(raised.value)
    assert (server.mails, sending.status()) == ([], "refused")
    assert sending.find(SEND, HELLO, "k1").happened is False
    (listed,) = sending.run("list_emails", {"folder": "outbox"})["emails"]
    assert listed["status"] == "refused"
    assert reply in sending.run("read_email", {"id": listed["id"]})["note"]
    del server.plan[stage]
    assert sending.send(HELLO, attempt=2)["status"] == "sent"


def test_nobody_at_the_other_end_is_a_failure(tmp_path: Path) -> None:
    world = make_world(tmp_path, Smtp(SmtpServer(HOST, closed_port())))
    with pytest.raises(TransientFailure, match=r"Nothing was sent.*Try the same call again"):
        world.send(HELLO)
    assert world.status() == "refused"


def test_a_lost_reply_is_unknown_until_a_person_says(sending: World, server: MailServer) -> None:
    server.plan["END"] = DROP
    with pytest.raises(OutcomeUnknown, match="may have been sent"):
        sending.send(HELLO)
    assert sending.status() == "unknown"
    found = sending.find(SEND, HELLO, "k1")
    assert found.happened is None
    assert message_id("k1", ME) in found.summary, "by which it can be looked for"
    assert sending.verify(SEND, HELLO, None, "k1").happened is None
    with pytest.raises(OutcomeUnknown):
        sending.send(HELLO)
    assert len(server.mails) == 1
    del server.plan["END"]
    assert sending.send(HELLO, attempt=2)["status"] == "sent"  # "it did not happen"
    first, second = server.messages
    assert first["Message-ID"] == second["Message-ID"], "a recipient can tell that it is the same"


def test_a_process_that_died_before_the_last_byte_has_not_sent(sending: World) -> None:
    letter = replace(sending.mailbox.queue(_letter(), "k0").letter)
    sending.mailbox.prepare(letter, "k1", 1)
    found = sending.find(SEND, HELLO, "k1")
    assert (found.happened, sending.status()) == (False, "refused")
    assert "given up" in found.summary


def test_a_process_that_died_at_the_last_byte_has_perhaps(sending: World) -> None:
    email = sending.mailbox.prepare(_letter(), "k1", 1)
    sending.mailbox.begin(email.id, 1)
    found = sending.find(SEND, HELLO, "k1")
    assert (found.happened, sending.status()) == (None, "sending")
    assert "was being sent when that was interrupted" in found.summary


def test_one_who_slept_through_being_given_up_sends_nothing(
    tmp_path: Path, server: MailServer
) -> None:
    """The record is asked about while the body waits for the server; it says no, and is obeyed."""
    found: list[Finding] = []

    class Slow(Smtp):
        def hand_over(self, sender: Any, recipients: Any, message: Any, begin: Any) -> str:
            def later() -> None:
                found.append(world.find(SEND, HELLO, "k1"))
                begin()

            return super().hand_over(sender, recipients, message, later)

    world = make_world(tmp_path, Slow(SmtpServer(HOST, server.port)))
    with pytest.raises(ToolFailure, match="given up before it was sent"):
        world.send(HELLO)
    assert [one.happened for one in found] == [False]
    assert (server.mails, world.status()) == ([], "refused")


def test_a_record_that_cannot_be_written_in_time_stops_the_message(
    tmp_path: Path, server: MailServer
) -> None:
    class Slow(Smtp):
        def hand_over(self, sender: Any, recipients: Any, message: Any, begin: Any) -> str:
            def locked() -> None:
                with world.locked():
                    begin()

            return super().hand_over(sender, recipients, message, locked)

    world = make_world(tmp_path, Slow(SmtpServer(HOST, server.port)))
    with pytest.raises(TransientFailure):
        world.send(HELLO)
    assert server.mails == []
    assert world.find(SEND, HELLO, "k1").happened is False


def test_a_message_that_was_taken_and_could_not_be_recorded_is_in_doubt(
    tmp_path: Path, server: MailServer
) -> None:
    class Slow(Smtp):
        def hand_over(self, *args: Any) -> str:
            said = super().hand_over(*args)
            lock.execute("BEGIN IMMEDIATE")
            return said

    world = make_world(tmp_path, Slow(SmtpServer(HOST, server.port)))
    world.mailbox.emails(None, "", 0, 1)
    with (
        closing(sqlite3.connect(world.path, isolation_level=None)) as lock,
        pytest.raises(OutcomeUnknown, match=r"took M113 \(250 .*could not be recorded"),
    ):
        world.send(HELLO)
    assert len(server.mails) == 1
    assert world.find(SEND, HELLO, "k1").happened is None


def test_a_server_that_says_nothing_costs_its_time_and_no_more(tmp_path: Path) -> None:
    with raw_server(hold=True) as silent:
        world = make_world(tmp_path, silent.smtp(silence=0.2))
        with pytest.raises(TransientFailure, match="timed out"):
            world.send(HELLO)
        assert world.status() == "refused"


# --- the record ------------------------------------------------------------------------------


def test_the_record_of_another_letter_proves_nothing(world: World) -> None:
    world.send(HELLO)
    other = {**HELLO, "subject": "Other"}
    assert world.find(SEND, other, "k1").happened is None
    assert world.find(SEND, HELLO, None).happened is None
    assert world.find(SEND, HELLO, "k2").happened is False
    assert world.verify(SEND, HELLO, {"done": "sent", "id": "M113"}, "k2").happened is None
    world.run("withdraw_email", {"id": "M113"}, "w1")
    assert world.find(SEND, HELLO, "k1").happened is True, "it had been put there"


def test_a_record_that_cannot_be_read_has_told_nothing(world: World) -> None:
    world.send(HELLO)
    world.path.write_bytes(b"this is no database" * 500)
    for suffix in ("-wal", "-shm"):
        world.path.with_name(world.path.name + suffix).unlink(missing_ok=True)
    found = world.find(SEND, HELLO, "k1")
    assert found.happened is None
    assert "could not be read" in found.summary
    with pytest.raises(Exception, match="cannot be used"):
        world.undo(SEND, HELLO, {"id": "M113"})


def test_a_server_that_was_taken_away_leaves_the_record_true(
    sending: World, server: MailServer
) -> None:
    """Settings may change between two attempts of one call."""
    server.plan["END"] = DROP
    with pytest.raises(OutcomeUnknown):
        sending.send(HELLO)
    alone = World(named(mail_tools(sending.mailbox, ME)), sending.mailbox, sending.path)
    with pytest.raises(OutcomeUnknown, match="may have been sent"):
        alone.send(HELLO, attempt=2)
    server.plan["END"] = "550 no"
    with pytest.raises(ToolFailure):
        sending.send(HELLO, "k2")
    with pytest.raises(ToolFailure, match="nor will be"):
        alone.send(HELLO, "k2", attempt=2)
    queued = alone.send(HELLO, "k3")
    assert sending.send(HELLO, "k3", attempt=2) == queued


def test_undo_needs_a_result_that_names_the_email(world: World) -> None:
    undo: Any = world.contract(SEND).undo
    with pytest.raises(Exception, match="names no e-mail"):
        undo.call(Committed(HELLO, None))


def _letter() -> Any:
    from tools.worlds.mime import Letter

    return Letter(ME, (ANN,), (BOB,), "Hello", "See you.")
