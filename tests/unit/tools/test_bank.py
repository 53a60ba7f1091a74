"""The bank: whose money moves, within which limits, and that it moves once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.worlds import Clock
from tools.worlds.amounts import Currency
from tools.worlds.bank import SENT_BACK, Instruction, LocalBank, Transfer
from tools.worlds.sample_bank import (
    ACCOUNTS,
    CLOSED,
    DOLLARS,
    EVERYDAY,
    FRIEND,
    GYM,
    LANDLORD,
    SAVINGS,
    WATER_WORKS,
)
from tools.worlds.service import Busy, KeyReused, NotFound, Refused, ServiceError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bank(tmp_path: Path, clock: Clock) -> LocalBank:
    return LocalBank(tmp_path / "worlds" / "bank.db", now=clock)


def wanted(
    source: str = EVERYDAY,
    destination: str = LANDLORD,
    amount: int = 10_000,
    currency: Currency = "EUR",
    client_id: str = "rent-2026-12",
) -> Instruction:
    return Instruction(source, destination, amount, currency, client_id)


def balances(bank: LocalBank) -> dict[str, int]:
    """Every account's balance, also those that nobody may read, by the database itself."""
    bank.accounts()
    with sqlite3.connect(bank.path) as db:
        found = dict(db.execute("SELECT id, balance FROM accounts"))
    db.close()
    return found


def on_the_way(bank: LocalBank) -> dict[str, int]:
    """What has left and not arrived, by currency."""
    bank.accounts()
    with sqlite3.connect(bank.path) as db:
        rows = db.execute(
            "SELECT currency, sum(amount) FROM transfers WHERE status = 'pending' GROUP BY currency"
        ).fetchall()
    db.close()
    return dict(rows)


def money_there(bank: LocalBank) -> dict[str, int]:
    """All the money there is, by currency: it neither appears nor vanishes."""
    found: dict[str, int] = dict(on_the_way(bank))
    currency_of = {account.id: account.currency for account in ACCOUNTS}
    for account, balance in balances(bank).items():
        currency = currency_of[account]
        found[currency] = found.get(currency, 0) + balance
    return found


# Accounts ----------------------------------------------------------------------------------


def test_nothing_is_made_before_the_first_operation(bank: LocalBank) -> None:
    assert not bank.path.parent.exists()
    assert [account.name for account in bank.accounts()] == [
        "Everyday",
        "Savings",
        "Dollar account",
    ]
    assert bank.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("account_id", [LANDLORD, FRIEND, "XB00", "", "everyday"])
def test_only_own_accounts_can_be_looked_into(bank: LocalBank, account_id: str) -> None:
    for look in (bank.account, bank.transfers):
        with pytest.raises(NotFound, match=f"no account of Mara Lindqvist.*{EVERYDAY}"):
            look(account_id)


def test_a_payee_shows_the_name_and_no_balance(bank: LocalBank) -> None:
    payee = bank.payee(LANDLORD)
    assert (payee.holder, payee.own, payee.instant) == ("Nora Feld Housing", False, True)
    assert not hasattr(payee, "balance")
    assert bank.payee(SAVINGS).own
    assert not bank.payee(WATER_WORKS).instant
    assert bank.payee(GYM).accepts  # this bank cannot know
    with pytest.raises(NotFound, match="never guess it"):
        bank.payee("XB00LARK00000000")


def test_what_others_write_is_not_passed_on(bank: LocalBank) -> None:
    """A sender names their own transfer; that text says nothing to this customer's programs."""
    incoming = [t for t in bank.transfers(EVERYDAY).transfers if t.source == FRIEND]
    assert [t.client_transaction_id for t in incoming] == [""]
    assert bank.transfers(EVERYDAY, "pizza").matched == 0


# Transfers ---------------------------------------------------------------------------------


def test_a_transfer_inside_the_bank_settles_at_once(bank: LocalBank) -> None:
    before = balances(bank)
    made = bank.transfer(wanted(), "k")
    assert (made.status, made.recipient, made.amount) == ("settled", "Nora Feld Housing", 10_000)
    after = balances(bank)
    assert after[EVERYDAY] == before[EVERYDAY] - 10_000
    assert after[LANDLORD] == before[LANDLORD] + 10_000
    assert bank.account(EVERYDAY).revision == 2
    assert bank.find("k") == made
    assert bank.transfers(EVERYDAY, "rent-2026-12").transfers == (made,)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (wanted(destination=EVERYDAY), "the same account"),
        (wanted(currency="USD"), "is in EUR, not in USD"),
        (wanted(source=DOLLARS, currency="USD"), "takes no USD"),
        (wanted(destination=CLOSED), "Rowing Club.*does not accept"),
        (wanted(amount=0), "more than 0.00"),
        (wanted(amount=-5), "more than 0.00"),
        (wanted(amount=100_001), "at most 1000.00 EUR at once"),
    ],
)
def test_what_the_bank_does_not_permit_moves_nothing(
    bank: LocalBank, asked: Instruction, words: str
) -> None:
    before = balances(bank)
    with pytest.raises(Refused, match=words):
        bank.transfer(asked, "k")
    assert balances(bank) == before
    assert bank.find("k") is None
    assert bank.transfers(EVERYDAY, "rent-2026-12").matched == 0


@pytest.mark.parametrize("source", [LANDLORD, FRIEND, "XB00LARK00000000"])
def test_money_leaves_the_customers_own_accounts_alone(bank: LocalBank, source: str) -> None:
    before = balances(bank)
    with pytest.raises(NotFound, match="no account of Mara Lindqvist"):
        bank.transfer(wanted(source=source, destination=EVERYDAY, amount=100), "k")
    assert balances(bank) == before


def test_money_goes_to_accounts_that_exist(bank: LocalBank) -> None:
    with pytest.raises(NotFound, match="no account 'XB00LARK00000000'"):
        bank.transfer(wanted(destination="XB00LARK00000000"), "k")


def test_a_day_has_a_limit_and_the_next_one_has_its_own(bank: LocalBank, clock: Clock) -> None:
    bank.transfer(wanted(amount=100_000, client_id="a"), "a")
    with pytest.raises(Refused, match=r"at most 1500\.00 EUR a day, and 1000\.00 have left"):
        bank.transfer(wanted(amount=50_001, client_id="b"), "b")
    bank.transfer(wanted(amount=50_000, client_id="c"), "c")
    assert bank.account(EVERYDAY).sent_today == 150_000
    clock.now += timedelta(hours=14)
    assert bank.account(EVERYDAY).sent_today == 0
    bank.transfer(wanted(amount=50_001, client_id="b"), "b")


def test_an_account_is_never_overdrawn(bank: LocalBank, clock: Clock) -> None:
    for day in range(2):
        bank.transfer(wanted(amount=100_000, client_id=f"day-{day}"), f"k{day}")
        clock.now += timedelta(days=1)
    with pytest.raises(Refused, match=r"has 480\.35 EUR; 480\.36 is more"):
        bank.transfer(wanted(amount=48_036, client_id="c"), "c")
    assert bank.transfer(wanted(amount=48_035, client_id="d"), "d").status == "settled"
    assert bank.account(EVERYDAY).balance == 0


# To other banks ----------------------------------------------------------------------------


def test_money_to_another_bank_is_pending_until_it_is_cleared(
    bank: LocalBank, clock: Clock
) -> None:
    before, all_of_it = balances(bank), money_there(bank)
    made = bank.transfer(wanted(destination=WATER_WORKS), "k")
    assert (made.status, made.ends_at) == ("pending", "2026-12-01T11:00:00Z")
    assert balances(bank) == {**before, EVERYDAY: before[EVERYDAY] - 10_000}
    assert money_there(bank) == all_of_it
    clock.now += timedelta(minutes=59)
    assert (found := bank.find("k")) is not None
    assert found.status == "pending"
    clock.now += timedelta(minutes=1)
    assert (found := bank.find("k")) is not None
    assert found.status == "settled"
    assert balances(bank)[WATER_WORKS] == before[WATER_WORKS] + 10_000
    assert money_there(bank) == all_of_it


def test_money_that_another_bank_sends_back_is_back(bank: LocalBank, clock: Clock) -> None:
    before = balances(bank)
    bank.transfer(wanted(destination=GYM), "k")
    clock.now += timedelta(hours=1)
    (found,) = bank.transfers(EVERYDAY, "rent-2026-12").transfers
    assert (found.status, found.reason) == ("failed", SENT_BACK)
    assert balances(bank) == before
    assert bank.account(EVERYDAY).sent_today == 0
    clock.now += timedelta(days=1)
    assert bank.account(EVERYDAY).revision == 3  # cleared once


# Keys --------------------------------------------------------------------------------------


def test_the_same_request_gets_the_same_transfer(bank: LocalBank, clock: Clock) -> None:
    """By its key, by the customer's own id, or by both; the record is shown as it stands."""
    before = balances(bank)[EVERYDAY]
    first = bank.transfer(wanted(destination=WATER_WORKS), "k")
    assert bank.transfer(wanted(destination=WATER_WORKS), "k") == first
    assert bank.transfer(wanted(destination=WATER_WORKS), "other") == first
    assert bank.find("other") == first
    clock.now += timedelta(hours=2)
    again = bank.transfer(wanted(destination=WATER_WORKS), "k")
    assert (again.id, again.status) == (first.id, "settled")
    assert balances(bank)[EVERYDAY] == before - 10_000


@pytest.mark.parametrize(
    "other",
    [
        wanted(amount=10_001),
        wanted(destination=FRIEND),
        wanted(source=SAVINGS),
        wanted(client_id="rent-2027-01"),
    ],
)
def test_a_key_belongs_to_one_request(bank: LocalBank, other: Instruction) -> None:
    bank.transfer(wanted(), "k")
    before = balances(bank)
    with pytest.raises(KeyReused, match="was not run"):
        bank.transfer(other, "k")
    assert balances(bank) == before


@pytest.mark.parametrize(
    "other", [wanted(amount=10_001), wanted(destination=FRIEND), wanted(source=SAVINGS)]
)
def test_a_client_transaction_id_belongs_to_one_request(
    bank: LocalBank, other: Instruction
) -> None:
    bank.transfer(wanted(), "k")
    before = balances(bank)
    with pytest.raises(KeyReused, match=r"TR1006, 100\.00 EUR to Nora Feld Housing.*was not run"):
        bank.transfer(other, "another-key")
    assert balances(bank) == before


def test_the_id_of_somebody_elses_transfer_is_free(bank: LocalBank) -> None:
    assert bank.transfer(wanted(client_id="pizza"), "k").status == "settled"


def test_a_refused_request_leaves_key_and_id_free(bank: LocalBank) -> None:
    with pytest.raises(Refused):
        bank.transfer(wanted(amount=100_001), "k")
    assert bank.transfer(wanted(), "k").status == "settled"


def test_a_bank_without_keys_moves_money_each_time(tmp_path: Path) -> None:
    bank = LocalBank(tmp_path / "bank.db", honours_keys=False)
    before = balances(bank)[EVERYDAY]
    bank.transfer(wanted(), "k")
    bank.transfer(wanted(), "k")
    assert balances(bank)[EVERYDAY] == before - 20_000
    assert bank.transfers(EVERYDAY, "rent-2026-12").matched == 2
    assert bank.find("k") is None


def test_a_locked_bank_says_that_nothing_changed(bank: LocalBank) -> None:
    bank.accounts()
    impatient = LocalBank(bank.path, busy_timeout=0)
    other = sqlite3.connect(bank.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy, match="nothing was changed"):
        impatient.transfer(wanted(), "k")
    other.close()
    assert impatient.transfer(wanted(), "k").status == "settled"


class BankMachine(RuleBasedStateMachine):
    """Random transfers under few keys and ids, so that they are repeated, and a moving clock."""

    keys = st.sampled_from(["k1", "k2", "k3", "k4", "k5"])
    ids = st.sampled_from(["a", "b", "c", "d"])
    accounts = st.sampled_from([EVERYDAY, SAVINGS, LANDLORD, WATER_WORKS, GYM])
    amounts = st.sampled_from([1, 10_000, 60_000, 90_000])

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.bank = LocalBank(Path(self.folder.name) / "bank.db", now=self.clock)
        self.by_key: dict[str, Transfer] = {}
        self.all_of_it = money_there(self.bank)

    @rule(source=accounts, destination=accounts, amount=amounts, client_id=ids, key=keys)
    def transfer(
        self, source: str, destination: str, amount: int, client_id: str, key: str
    ) -> None:
        asked = wanted(source, destination, amount, client_id=client_id)
        by_id = {made.client_transaction_id: made for made in self.by_key.values()}
        known = [made for made in (self.by_key.get(key), by_id.get(client_id)) if made]
        before = balances(self.bank)
        try:
            made = self.bank.transfer(asked, key)
        except KeyReused:
            assert known
            assert balances(self.bank) == before
            return
        except ServiceError:
            assert not known
            assert balances(self.bank) == before
            return
        assert made.instruction == asked
        if known:
            assert {one.id for one in known} == {made.id}
            assert balances(self.bank) == before
        self.by_key[key] = made

    @rule(minutes=st.sampled_from([30, 90, 24 * 60]))
    def later(self, minutes: int) -> None:
        self.clock.now += timedelta(minutes=minutes)

    @invariant()
    def money_is_conserved_and_a_key_moves_it_once(self) -> None:
        if not hasattr(self, "bank"):
            return
        assert money_there(self.bank) == self.all_of_it
        with sqlite3.connect(self.bank.path) as db:
            rows = db.execute("SELECT client_id FROM transfers WHERE number > 5").fetchall()
        db.close()
        ids = [client_id for (client_id,) in rows]
        assert len(ids) == len(set(ids)) == len({made.id for made in self.by_key.values()})

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestBankMachine = BankMachine.TestCase
TestBankMachine.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)


# Many at once ------------------------------------------------------------------------------

RACE = """
import sys
from tools.worlds.bank import Instruction, LocalBank
from tools.worlds.sample_bank import EVERYDAY, SAVINGS
bank = LocalBank(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for n in range(6):
    by_key = Instruction(EVERYDAY, SAVINGS, 100, "EUR", f"key-{n}")
    print("key", bank.transfer(by_key, f"shared-{n}").id)
    by_id = Instruction(SAVINGS, EVERYDAY, 100, "EUR", f"id-{n}")
    print("id", bank.transfer(by_id, f"{sys.argv[2]}-{n}").id)
"""


def test_processes_that_race_move_the_money_once(tmp_path: Path) -> None:
    path = tmp_path / "bank.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(path), str(number)],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lines = {line for process in processes for line in process.communicate()[0].splitlines()}
    assert len(lines) == 12  # each process was told of the same transfers
    bank = LocalBank(path)
    assert (bank.account(EVERYDAY).balance, bank.account(SAVINGS).balance) == (248_035, 820_000)
    assert bank.transfers(EVERYDAY).matched == 5 + 12
