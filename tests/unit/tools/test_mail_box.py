"""The sample mailbox: what is in it, and the record of what was to be sent."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import getaddresses
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.worlds import Clock
from tools.worlds.addresses import plain_address
from tools.worlds.mailbox import FOLDERS, Email, LocalMailbox
from tools.worlds.mime import Letter
from tools.worlds.sample_mail import MAILS, OWNER
from tools.worlds.service import KeyReused, NotFound, Refused, ServiceError, Unconfirmed

LETTER = Letter(OWNER, ("ann@b.example",), (), "Hello", "See you.")


@pytest.fixture
def mailbox(tmp_path: Path) -> LocalMailbox:
    return LocalMailbox(tmp_path / "mail.db", busy_timeout=0.2, now=Clock())


def ids(mailbox: LocalMailbox, folder: str | None = None, text: str = "") -> list[str]:
    return [email.id for email in mailbox.emails(folder, text, 0, 50).emails]


# --- what is in it ---------------------------------------------------------------------------


def test_the_sample_is_a_mailbox_of_one_person(mailbox: LocalMailbox) -> None:
    found = mailbox.emails(None, "", 0, 50)
    assert found.matched == len(found.emails) == len(MAILS) == 12
    for email in found.emails:
        for _, address in getaddresses([email.sender, *email.to, *email.cc]):
            assert plain_address(address) == address
        assert OWNER in " ".join((email.sender, *email.to))
        assert datetime.fromisoformat(email.at) <= datetime(2026, 12, 1, 12, tzinfo=UTC)
    dates = [email.at for email in found.emails]
    assert dates == sorted(dates, reverse=True)


def test_threads_are_known_by_their_message_ids(mailbox: LocalMailbox) -> None:
    chain = mailbox.thread("M103")
    assert len(chain) == 3
    assert chain[-1] == mailbox.email("M103").message_id
    assert chain[:2] == mailbox.thread("M102")
    assert mailbox.thread(None) == ()


def test_folders_and_words_narrow_the_list(mailbox: LocalMailbox) -> None:
    by_folder = [set(ids(mailbox, folder)) for folder in FOLDERS]
    assert sum(map(len, by_folder)) == len(set().union(*by_folder)) == 12
    assert by_folder[FOLDERS.index("outbox")] == set()
    assert ids(mailbox, text="DP-4471 courier") == ["M105"]
    assert ids(mailbox, "sent", "flyers") == ["M104"]
    assert ids(mailbox, text="nora@feld") == ["M103", "M102", "M101"]
    assert ids(mailbox, text="unheard-of") == []


@pytest.mark.parametrize("text", ["%", "_", "\\", "%' OR 1=1 --", "DP_4471", "DP%71"])
def test_words_are_no_patterns(mailbox: LocalMailbox, text: str) -> None:
    assert ids(mailbox, text=text) == []


def test_a_page_of_the_list(mailbox: LocalMailbox) -> None:
    whole = ids(mailbox)
    page = mailbox.emails(None, "", 5, 3)
    assert ([email.id for email in page.emails], page.matched) == (whole[5:8], 12)
    assert mailbox.emails(None, "", 50, 3).emails == ()


@pytest.mark.parametrize(
    "id", ["M999", "M1", "M0", "M-1", "X101", "", "M", "M101 ", "M" + "9" * 30]
)
def test_an_email_that_is_not_there(mailbox: LocalMailbox, id: str) -> None:
    with pytest.raises(NotFound, match="list_emails"):
        mailbox.email(id)


# --- the outbox ------------------------------------------------------------------------------


def test_what_is_queued_is_in_the_outbox_once(mailbox: LocalMailbox) -> None:
    first = mailbox.queue(LETTER, "k1")
    assert (first.status, first.folder, first.letter) == ("queued", "outbox", LETTER)
    assert mailbox.queue(LETTER, "k1") == first == mailbox.find("k1")
    assert mailbox.queue(LETTER, "k2").id != first.id
    assert len(ids(mailbox, "outbox")) == 2
    assert mailbox.find("k3") is None


@pytest.mark.parametrize(
    "change",
    [
        {"to": ("eve@b.example",)},
        {"cc": ("eve@b.example",)},
        {"subject": "Bye"},
        {"body": "See you never."},
        {"sender": "me@b.example"},
        {"reply_to_id": "M105"},
    ],
)
def test_a_key_is_for_one_letter(mailbox: LocalMailbox, change: dict[str, object]) -> None:
    mailbox.queue(LETTER, "k1")
    other = replace(LETTER, **change)  # type: ignore[arg-type]
    for again in (mailbox.queue, lambda letter, key: mailbox.prepare(letter, key, 1)):
        with pytest.raises(KeyReused):
            again(other, "k1")
    assert len(ids(mailbox, "outbox")) == 1


def test_a_letter_can_answer_only_what_is_there(mailbox: LocalMailbox) -> None:
    email = mailbox.queue(replace(LETTER, reply_to_id="M105"), "k1")
    assert email.answers == "M105"
    with pytest.raises(NotFound):
        mailbox.queue(replace(LETTER, reply_to_id="M999"), "k2")
    assert len(ids(mailbox, "outbox")) == 1


def test_the_way_of_a_letter_that_is_sent(mailbox: LocalMailbox) -> None:
    email = mailbox.prepare(LETTER, "k1", 1)
    assert (email.status, email.attempt) == ("preparing", 1)
    mailbox.begin(email.id, 1)
    assert mailbox.email(email.id).status == "sending"
    mailbox.settle(email.id, 1, "sent", "250 ok")
    sent = mailbox.email(email.id)
    assert (sent.status, sent.folder, sent.said) == ("sent", "sent", "250 ok")
    assert mailbox.prepare(LETTER, "k1", 2) == sent, "it is not sent again"


@pytest.mark.parametrize("status", ["preparing", "sending", "refused", "unknown"])
def test_an_attempt_is_begun_once_and_a_later_one_anew(mailbox: LocalMailbox, status: str) -> None:
    email = mailbox.prepare(LETTER, "k1", 1)
    if status != "preparing":
        mailbox.begin(email.id, 1)
    if status in ("refused", "unknown"):
        mailbox.settle(email.id, 1, status, "why")  # type: ignore[arg-type]
    with pytest.raises(Unconfirmed):
        mailbox.prepare(LETTER, "k1", 1)
    again = mailbox.prepare(LETTER, "k1", 2)
    assert (again.status, again.attempt, again.said) == ("preparing", 2, "")
    assert (again.id, again.message_id) == (email.id, email.message_id)


def test_of_giving_up_and_sending_one_comes_first(mailbox: LocalMailbox) -> None:
    email = mailbox.prepare(LETTER, "k1", 1)
    assert mailbox.give_up(email.id, 1)
    with pytest.raises(Refused, match="given up before it was sent"):
        mailbox.begin(email.id, 1)
    mailbox.prepare(LETTER, "k1", 2)
    with pytest.raises(Refused):
        mailbox.begin(email.id, 1)  # whoever had been asleep since the first attempt
    mailbox.begin(email.id, 2)
    assert not mailbox.give_up(email.id, 2)
    assert not mailbox.give_up(email.id, 1)
    assert mailbox.email(email.id).status == "sending"


def test_giving_up_races_with_sending(tmp_path: Path) -> None:
    """Two processes: whatever the order, exactly one of them finds it not begun."""
    one, other = (LocalMailbox(tmp_path / "mail.db") for _ in range(2))
    for number in range(20):
        email = one.prepare(LETTER, f"k{number}", 1)
        start, won = threading.Barrier(2), list[str]()

        def begin(
            email: Email = email, start: threading.Barrier = start, won: list[str] = won
        ) -> None:
            start.wait()
            try:
                one.begin(email.id, 1)
            except Refused:
                return
            won.append("begin")

        thread = threading.Thread(target=begin)
        thread.start()
        start.wait()
        if other.give_up(email.id, 1):
            won.append("give up")
        thread.join()
        assert len(won) == 1


def test_what_is_queued_can_be_withdrawn_and_nothing_else(mailbox: LocalMailbox) -> None:
    email = mailbox.queue(LETTER, "k1")
    assert mailbox.withdraw(email.id, "w1").status == "withdrawn"
    assert mailbox.withdraw(email.id, "w1").status == "withdrawn", "the same request"
    assert ids(mailbox, "outbox") == []
    assert mailbox.withdrawn("w1") is not None
    assert mailbox.withdrawn("k1") is None
    assert mailbox.find("w1") is None
    with pytest.raises(NotFound, match="was withdrawn"):
        mailbox.email(email.id)
    with pytest.raises(NotFound, match="was withdrawn"):
        mailbox.withdraw(email.id, "w2")
    with pytest.raises(Refused, match="was withdrawn"):
        mailbox.prepare(LETTER, "k1", 2)
    with pytest.raises(Refused, match="received, not queued"):
        mailbox.withdraw("M105", "w3")
    assert mailbox.email("M105").folder == "inbox"
    found = mailbox.find("k1")
    assert found is not None
    assert found.status == "withdrawn"


@given(st.sampled_from(["", "a b", "a\n", "x" * 201, "é"]))
def test_what_is_no_key_is_refused(key: str) -> None:
    with TemporaryDirectory() as folder, pytest.raises(ServiceError):
        LocalMailbox(Path(folder) / "mail.db").queue(LETTER, key)


class Attempts(RuleBasedStateMachine):
    """Processes that prepare, begin, settle and give up one letter, in any order.

    What must hold: the last byte leaves in an attempt only while nobody has given that up or begun
    a later one; and what was sent stays sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.mailbox = LocalMailbox(Path(self.folder.name) / "mail.db")
        self.attempt, self.id = 0, ""
        self.given_up: set[int] = set()
        self.begun: set[int] = set()
        self.sent = False

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule()
    def prepare(self) -> None:
        email = self.mailbox.prepare(LETTER, "k", self.attempt + 1)
        self.id = email.id
        if not self.sent:
            self.attempt += 1
            assert (email.status, email.attempt) == ("preparing", self.attempt)

    @precondition(lambda self: self.attempt)
    @rule(back=st.integers(0, 2))
    def begin(self, back: int) -> None:
        attempt = max(self.attempt - back, 1)
        try:
            self.mailbox.begin(self.id, attempt)
        except Refused:
            return
        assert attempt == self.attempt
        assert attempt not in self.given_up | self.begun
        assert not self.sent
        self.begun.add(attempt)

    @precondition(lambda self: self.attempt)
    @rule()
    def give_up(self) -> None:
        if self.mailbox.give_up(self.id, self.attempt):
            assert self.attempt not in self.begun
            self.given_up.add(self.attempt)

    @precondition(lambda self: self.attempt in self.begun)
    @rule(status=st.sampled_from(["sent", "refused", "unknown"]))
    def settle(self, status: str) -> None:
        before = self.mailbox.email(self.id).status
        self.mailbox.settle(self.id, self.attempt, status, "why")  # type: ignore[arg-type]
        if before == "sending" and status == "sent":
            self.sent = True

    @invariant()
    def stays_sent(self) -> None:
        if self.sent:
            assert self.mailbox.email(self.id).status == "sent"


TestAttempts = Attempts.TestCase
TestAttempts.settings = settings(max_examples=20, stateful_step_count=12)  # each step is on disk
