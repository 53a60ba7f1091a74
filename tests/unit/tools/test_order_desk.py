"""The order desk: what it refuses, what it records, and that many may use it at once."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tools.worlds.amounts import minor_units, money
from tools.worlds.database import Database
from tools.worlds.order_desk import (
    CommitUnknown,
    DeskBusy,
    DeskError,
    KeyReused,
    Order,
    OrderDesk,
    Refused,
    UnknownOrder,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture
def desk(tmp_path: Path) -> OrderDesk:
    return OrderDesk(
        tmp_path / "worlds" / "orders.db", now=lambda: datetime(2026, 12, 1, tzinfo=UTC)
    )


def start(script: str, *args: object, **options: Any) -> subprocess.Popen[str]:
    """A real process over the desk; ``script`` finds its arguments in ``sys.argv``."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def start_together(processes: list[subprocess.Popen[str]]) -> None:
    """Let processes that print ``ready`` and read a line go on, once all are there."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def assert_books_balance(desk: OrderDesk) -> None:
    """Every change is on the record exactly once, and the record adds up to the orders."""
    steps = {"pending": 1, "shipped": 2, "delivered": 3, "cancelled": 2}
    page = 1
    while orders := desk.list(page=page, page_size=50).orders:
        for order in orders:
            history = desk.history(order.id)
            cancelled = sum(t.operation == "cancel" for t in history)
            refunds = [t for t in history if t.operation == "refund"]
            assert cancelled <= 1
            assert sum(minor_units(t.request["amount"]) for t in refunds) == order.refunded
            assert order.revision == steps[order.status] + len(refunds)
            if history:
                assert history[-1].result["revision"] == order.revision
        page += 1


# Sample data -------------------------------------------------------------------------------


def test_a_new_desk_holds_the_sample_orders(desk: OrderDesk) -> None:
    found = desk.list(page_size=50)
    assert found.matched == len(found.orders) == 40
    assert [desk.get(i).status for i in ("A1", "A2", "B1", "C1")] == [
        "pending",
        "shipped",
        "pending",
        "delivered",
    ]
    assert {order.currency for order in found.orders} == {"EUR", "USD", "GBP"}
    assert_books_balance(desk)


def test_two_desks_start_out_equal_and_private(desk: OrderDesk, tmp_path: Path) -> None:
    other = OrderDesk(tmp_path / "other.db")
    assert desk.list(page_size=50, with_items=True) == other.list(page_size=50, with_items=True)
    assert stat.S_IMODE(desk.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(desk.path.parent.stat().st_mode) == 0o700


def test_nothing_is_made_before_the_first_operation(desk: OrderDesk) -> None:
    assert not desk.path.parent.exists()


def test_totals_are_the_sum_of_the_items(desk: OrderDesk) -> None:
    for order in desk.list(page_size=50, with_items=True).orders:
        assert order.total == sum(i.quantity * i.unit_price for i in order.items)


@pytest.mark.parametrize(
    ("text", "minor"), [("0.05", 5), ("12.5", 1250), ("129", 12900), ("0", 0), ("007.10", 710)]
)
def test_amounts_are_read_without_floats(text: str, minor: int) -> None:
    assert minor_units(text) == minor
    assert minor_units(money(minor)) == minor


@pytest.mark.parametrize("text", ["-1", "1.234", "1,5", "1e3", "", " 1", "NaN", "١٢", "1."])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        minor_units(text)


# Listing -----------------------------------------------------------------------------------


def test_filters_narrow_and_combine(desk: OrderDesk) -> None:
    by_email = desk.list(customer="MARA.LINDQVIST@", page_size=50)
    assert {o.customer_name for o in by_email.orders} == {"Mara Lindqvist"}
    assert desk.list(customer="tomás").matched == desk.list(customer="TOMÁS").matched == 5
    pending = desk.list(customer="mara", status="pending")
    assert [o.id for o in pending.orders] == ["D11", "A1"]
    days = desk.list(placed_from="2026-11-08", placed_to="2026-11-09", sort="id")
    assert [o.id for o in days.orders] == ["C12", "D2", "D7"]


@pytest.mark.parametrize("text", ["%", "_", "' OR 1=1 --", "nobody"])
def test_a_filter_is_text_never_sql(desk: OrderDesk, text: str) -> None:
    assert desk.list(customer=text).matched == 0


def test_sorting(desk: OrderDesk) -> None:
    totals = [o.total for o in desk.list(sort="total_highest", page_size=50).orders]
    assert totals == sorted(totals, reverse=True)
    placed = [o.placed_at for o in desk.list(sort="placed_oldest", page_size=50).orders]
    assert placed == sorted(placed)
    ids = [o.id for o in desk.list(sort="id", page_size=50).orders]
    assert ids[:9] == ["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "B1"]
    assert ids.index("C10") == ids.index("C9") + 1


def test_pages_cover_everything_once(desk: OrderDesk) -> None:
    pages = [desk.list(page=n, page_size=15) for n in (1, 2, 3, 4)]
    assert [len(p.orders) for p in pages] == [15, 15, 10, 0]
    assert {p.pages for p in pages} == {3}
    assert len({o.id for p in pages for o in p.orders}) == 40


def test_a_page_is_bounded(desk: OrderDesk) -> None:
    assert len(desk.list(page_size=10_000).orders) == 40
    assert desk.list(page_size=10_000).pages == 1
    assert len(desk.list(page_size=0).orders) == 1


# Writing -----------------------------------------------------------------------------------


def test_cancel_changes_status_and_revision_and_is_on_the_record(desk: OrderDesk) -> None:
    transaction = desk.cancel("A1", 1, "k1")
    order = desk.get("A1")
    assert (order.status, order.revision, order.updated_at) == (
        "cancelled",
        2,
        "2026-12-01T00:00:00Z",
    )
    assert transaction.result == {
        "status": "cancelled",
        "revision": 2,
        "refunded": "0.00",
        "refundable": "129.00",
        "currency": "EUR",
    }
    assert desk.find_transaction("k1") == transaction
    assert desk.history("A1") == (transaction,)


@pytest.mark.parametrize(
    ("order_id", "revision", "words"),
    [
        ("A2", 2, "already shipped.*refunded once it is delivered"),
        ("C1", 3, "already delivered.*can be refunded"),
        ("A5", 2, "already cancelled, since"),
        ("A1", 7, "at revision 1, not 7.*Read it again"),
    ],
)
def test_cancel_is_refused_with_the_reason(
    desk: OrderDesk, order_id: str, revision: int, words: str
) -> None:
    before = desk.get(order_id)
    with pytest.raises(Refused, match=words):
        desk.cancel(order_id, revision, "k")
    assert desk.get(order_id) == before
    assert desk.find_transaction("k") is None


def test_an_unknown_order_names_near_ones(desk: OrderDesk) -> None:
    with pytest.raises(UnknownOrder, match="Near it there are A8, A7, A6") as caught:
        desk.get("A9")
    assert caught.value.near == ("A8", "A7", "A6")
    with pytest.raises(UnknownOrder):
        desk.cancel("Z1", 1, "k")
    with pytest.raises(UnknownOrder):
        desk.history("")


def test_refunds_add_up_to_the_total_and_stop_there(desk: OrderDesk) -> None:
    desk.refund("C1", 5000, "EUR", "r1")
    last = desk.refund("C1", 13350, "EUR", "r2")
    assert (last.result["refunded"], last.result["refundable"]) == ("183.50", "0.00")
    assert desk.get("C1").revision == 5
    with pytest.raises(Refused, match=r"0\.00 EUR left"):
        desk.refund("C1", 1, "EUR", "r3")
    assert_books_balance(desk)


@pytest.mark.parametrize(
    ("order_id", "amount", "currency", "words"),
    [
        ("A1", 100, "EUR", "still pending: cancel it first"),
        ("A2", 100, "EUR", "on its way"),
        ("C1", 100, "USD", "paid in EUR.*not converted"),
        ("C1", 18351, "EUR", r"183\.50 EUR left.*183\.51 is more"),
        ("C1", 0, "EUR", "more than 0"),
        ("C1", -5, "EUR", "more than 0"),
    ],
)
def test_refund_is_refused_with_the_reason(
    desk: OrderDesk, order_id: str, amount: int, currency: str, words: str
) -> None:
    before = desk.get(order_id)
    with pytest.raises(Refused, match=words):
        desk.refund(order_id, amount, currency, "k")
    assert desk.get(order_id) == before


def test_a_cancelled_order_can_be_refunded(desk: OrderDesk) -> None:
    desk.cancel("A1", 1, "k1")
    desk.refund("A1", 12900, "EUR", "k2")
    assert desk.get("A1").refundable == 0


# Idempotency -------------------------------------------------------------------------------


def test_the_same_key_and_request_get_the_recorded_answer(desk: OrderDesk) -> None:
    first = desk.refund("C1", 100, "EUR", "k")
    assert desk.refund("C1", 100, "EUR", "k") == first
    assert OrderDesk(desk.path).refund("C1", 100, "EUR", "k") == first
    assert desk.get("C1").refunded == 100


def test_the_recorded_answer_outlives_the_state_that_allowed_it(desk: OrderDesk) -> None:
    first = desk.cancel("A1", 1, "k")
    desk.refund("A1", 100, "EUR", "r")
    assert desk.cancel("A1", 1, "k") == first


def test_a_key_belongs_to_one_request(desk: OrderDesk) -> None:
    desk.refund("C1", 100, "EUR", "k")
    for other in (
        lambda: desk.refund("C1", 101, "EUR", "k"),
        lambda: desk.refund("A3", 100, "EUR", "k"),
        lambda: desk.cancel("A1", 1, "k"),
    ):
        with pytest.raises(KeyReused, match="was not run"):
            other()
    assert (desk.get("C1").refunded, desk.get("A1").status) == (100, "pending")


def test_a_refused_request_leaves_its_key_free(desk: OrderDesk) -> None:
    with pytest.raises(Refused):
        desk.refund("A1", 100, "EUR", "k")
    desk.cancel("A1", 1, "c")
    assert desk.refund("A1", 100, "EUR", "k").result["refunded"] == "1.00"


class DeskMachine(RuleBasedStateMachine):
    """Random requests against a plain model of the desk."""

    ids = st.sampled_from(["A1", "A2", "B1", "B7", "C1", "D6"])
    keys = st.sampled_from(["k1", "k2", "k3", "k4"])

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.desk = OrderDesk(Path(self.folder.name) / "orders.db")
        self.answers: dict[str, tuple[Any, Any]] = {}
        self.orders: dict[str, Order] = {
            i: self.desk.get(i) for i in ("A1", "A2", "B1", "B7", "C1", "D6")
        }

    @rule(order_id=ids, revision=st.integers(1, 3), key=keys)
    def cancel(self, order_id: str, revision: int, key: str) -> None:
        before = self.orders[order_id]
        allowed = before.status == "pending" and before.revision == revision
        self._try(
            ("cancel", order_id, revision),
            key,
            allowed,
            lambda: self.desk.cancel(order_id, revision, key),
        )

    @rule(order_id=ids, amount=st.sampled_from([1, 5000, 20000]), key=keys)
    def refund(self, order_id: str, amount: int, key: str) -> None:
        allowed = amount <= self.orders[order_id].refundable
        currency = self.orders[order_id].currency
        self._try(
            ("refund", order_id, amount),
            key,
            allowed,
            lambda: self.desk.refund(order_id, amount, currency, key),
        )

    def _try(self, request: Any, key: str, allowed: bool, run: Any) -> None:
        if key in self.answers:
            known, answer = self.answers[key]
            if known == request:
                assert run() == answer
            else:
                with pytest.raises(KeyReused):
                    run()
        elif allowed:
            self.answers[key] = request, run()
            order = self.desk.get(request[1])
            assert order.revision == self.orders[order.id].revision + 1
            self.orders[order.id] = order
        else:
            with pytest.raises(Refused):
                run()

    @invariant()
    def nothing_else_changed(self) -> None:
        if hasattr(self, "desk"):
            assert {i: self.desk.get(i) for i in self.orders} == self.orders

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            assert_books_balance(self.desk)
            self.folder.cleanup()


TestDeskMachine = DeskMachine.TestCase
TestDeskMachine.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)


# Many at once ------------------------------------------------------------------------------

FIRST_USE = """
import sys
from tools.worlds.order_desk import OrderDesk
print("ready", flush=True)
sys.stdin.readline()
desk = OrderDesk(sys.argv[1])
print(desk.list().matched, desk.cancel("A1", 1, "same-key").id)
"""


def test_processes_that_start_together_make_one_desk(tmp_path: Path) -> None:
    path = tmp_path / "worlds" / "orders.db"
    processes = [start(FIRST_USE, path) for _ in range(6)]
    start_together(processes)
    outputs = {process.communicate() for process in processes}
    assert len(outputs) == 1, outputs
    ((out, err),) = outputs
    assert (out.split()[0], err) == ("40", "")
    assert_books_balance(OrderDesk(path))


RACE = """
import sys
from tools.worlds.order_desk import DeskError, OrderDesk
desk, me = OrderDesk(sys.argv[1]), sys.argv[2]
pending = [order.id for order in desk.list(status="pending", page_size=50).orders]
print("ready", flush=True)
sys.stdin.readline()
for order_id in pending:
    try:
        desk.cancel(order_id, 1, f"{me}-{order_id}")
        print("won", order_id)
    except DeskError as error:
        print("lost", order_id, type(error).__name__)
    print("shared", desk.refund("C1", 10, "EUR", f"shared-{order_id}").id)
"""


def test_of_racing_processes_one_cancels_and_a_shared_key_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    desk = OrderDesk(path)
    pending = [order.id for order in desk.list(status="pending", page_size=50).orders]
    processes = [start(RACE, path, n) for n in range(4)]
    start_together(processes)
    lines: list[list[str]] = []
    for process in processes:
        out, err = process.communicate()
        assert err == ""
        lines += [line.split() for line in out.splitlines()]
    won = Counter(line[1] for line in lines if line[0] == "won")
    lost = Counter(tuple(line[1:]) for line in lines if line[0] == "lost")
    shared = Counter(line[1] for line in lines if line[0] == "shared")
    assert won == dict.fromkeys(pending, 1)
    assert lost == {(order_id, "Refused"): 3 for order_id in pending}
    assert len(shared) == len(pending)
    assert set(shared.values()) == {4}
    assert desk.get("C1").refunded == 10 * len(pending)
    assert_books_balance(desk)


def test_a_reader_is_not_held_up_by_a_writer(desk: OrderDesk) -> None:
    desk.get("A1")
    other = sqlite3.connect(desk.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE orders SET revision = 99 WHERE id = 'A1'")
    assert desk.get("A1").revision == 1
    other.close()


def test_a_locked_desk_says_that_nothing_changed(desk: OrderDesk) -> None:
    desk.get("A1")
    impatient = OrderDesk(desk.path, busy_timeout=0)
    other = sqlite3.connect(desk.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DeskBusy, match="nothing was changed"):
        impatient.cancel("A1", 1, "k")
    other.close()
    assert impatient.cancel("A1", 1, "k").order_id == "A1"


# What can break ----------------------------------------------------------------------------

STOP_INSIDE = """
import sys
from datetime import UTC, datetime
from tools.worlds.order_desk import OrderDesk
def clock():
    print("inside", flush=True)
    sys.stdin.read()
OrderDesk(sys.argv[1], now=clock).cancel("A1", 1, "k")
"""


STOP_HALF_MADE = """
import sys
from tools.worlds import sample_orders
from tools.worlds.order_desk import OrderDesk
def half_then_wait(orders):
    yield from orders[:20]
    print("inside", flush=True)
    sys.stdin.read()
sample_orders.ORDERS = half_then_wait(sample_orders.ORDERS)
OrderDesk(sys.argv[1]).get("A1")
"""


def test_killed_while_the_desk_is_made_the_next_one_makes_it_whole(desk: OrderDesk) -> None:
    process = start(STOP_HALF_MADE, desk.path)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    with pytest.raises(DeskBusy):
        OrderDesk(desk.path, busy_timeout=0).get("A1")
    process.kill()
    process.communicate()
    assert desk.list().matched == 40
    assert_books_balance(desk)


def test_killed_inside_a_transaction_nothing_happened(desk: OrderDesk) -> None:
    desk.get("A1")
    process = start(STOP_INSIDE, desk.path)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert desk.get("A1").status == "pending"
    assert desk.find_transaction("k") is None
    desk.cancel("A1", 1, "k")


WRITE_ON = """
import sys
from tools.worlds.order_desk import OrderDesk
desk = OrderDesk(sys.argv[1])
for n in range(10_000):
    print(desk.refund("D10", 1, "EUR", f"key-{n}").id, flush=True)
"""


@pytest.mark.parametrize("answers", [1, 7, 20, 61])
def test_killed_while_writing_every_answer_given_is_on_the_record(
    tmp_path: Path, answers: int
) -> None:
    desk = OrderDesk(tmp_path / "orders.db")
    process = start(WRITE_ON, desk.path)
    assert process.stdout is not None
    seen = [process.stdout.readline().strip() for _ in range(answers)]
    process.kill()
    out, _ = process.communicate()
    seen += [line for line in out.split("\n")[:-1] if line]
    recorded = [t.id for t in desk.history("D10")]
    assert recorded[: len(seen)] == seen
    assert len(recorded) <= len(seen) + 1  # one may be committed but not yet answered
    assert desk.get("D10").refunded == len(recorded)
    assert_books_balance(desk)
    last = len(recorded) - 1
    assert desk.refund("D10", 1, "EUR", f"key-{last}").id == recorded[last]  # the key still counts
    assert desk.get("D10").refunded == len(recorded)


DISK_FULL = """
import resource, signal, sys
from tools.worlds.order_desk import CommitUnknown, OrderDesk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
desk = OrderDesk(sys.argv[1])
desk.get("A1")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    desk.cancel("A1", 1, "k")
except CommitUnknown as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("unknown", error.key, desk.find_transaction("k"))
"""


def test_a_commit_that_the_disk_refuses_is_unknown_until_looked_up(desk: OrderDesk) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    desk.get("A1")
    keeps_the_log_open = sqlite3.connect(desk.path)
    keeps_the_log_open.execute("SELECT * FROM orders").fetchall()
    out, err = start(DISK_FULL, desk.path).communicate()
    keeps_the_log_open.close()
    assert (out, err) == ("unknown k None\n", "")
    assert desk.get("A1").status == "pending"


def test_a_commit_that_a_lock_refuses_changed_nothing(desk: OrderDesk) -> None:
    desk.get("A1")
    impatient = OrderDesk(desk.path, busy_timeout=0)
    impatient.get("A1")
    reader = sqlite3.connect(desk.path, isolation_level=None)
    # Without the write-ahead log a writer may begin beside a reader, and not commit.
    assert reader.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM orders").fetchall()
    with pytest.raises(DeskBusy, match="nothing was changed"):
        impatient.cancel("A1", 1, "k")
    reader.close()
    assert impatient.get("A1").status == "pending"
    assert impatient.find_transaction("k") is None


def test_the_switch_to_the_log_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    rival = sqlite3.connect(path, isolation_level=None)
    steps = iter(["BEGIN IMMEDIATE", "ROLLBACK"])  # as another process in the middle of its start

    def between(statement: str) -> None:
        if statement == "PRAGMA journal_mode":
            rival.execute(next(steps))

    def create(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE numbers (n)")
        db.set_trace_callback(between)

    with Database(path, 1, create, busy_timeout=5).reading() as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert list(steps) == []
    rival.close()


def test_a_second_desk_leaves_the_locks_of_the_first_alone(desk: OrderDesk) -> None:
    desk.get("A1")
    reader = sqlite3.connect(desk.path)
    reader.execute("SELECT * FROM orders").fetchall()
    OrderDesk(desk.path).get("A1")
    once = (
        "import sys; from tools.worlds.order_desk import OrderDesk; OrderDesk(sys.argv[1]).list()"
    )
    assert start(once, desk.path).communicate() == ("", "")
    # The last to close removes the log. That process was not the last.
    assert Path(f"{desk.path}-wal").exists()
    reader.close()


def test_what_is_read_together_is_one_state(tmp_path: Path) -> None:
    def create(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE numbers (n)")

    database = Database(tmp_path / "numbers.db", 1, create, busy_timeout=1)
    count = "SELECT count(*) FROM numbers"
    with database.reading() as db:
        assert db.execute(count).fetchone()[0] == 0
        with database.changing() as other:
            other.execute("INSERT INTO numbers VALUES (1)")
        assert db.execute(count).fetchone()[0] == 0
    with database.reading() as db:
        assert db.execute(count).fetchone()[0] == 1


def test_commit_unknown_names_the_key() -> None:
    assert "may have happened" in str(CommitUnknown("k-7", "disk I/O error"))
    assert "k-7" in str(CommitUnknown("k-7", "disk I/O error"))


def test_a_file_that_is_no_desk_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    path.write_text("my notes, not a database, and longer than a hundred bytes " * 4)
    before, descriptors = path.read_bytes(), set(os.listdir("/dev/fd"))
    with pytest.raises(DeskError, match="cannot be used") as caught:
        OrderDesk(path).get("A1")
    assert set(os.listdir("/dev/fd")) <= descriptors, f"left open while {caught.value!r} is kept"
    assert path.read_bytes() == before


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE songs (title)")
    before = path.read_bytes()
    with pytest.raises(DeskError, match=r"theirs\.db is the database of another program"):
        OrderDesk(path).get("A1")
    assert path.read_bytes() == before


def test_where_no_file_can_be_made_nothing_was_changed(tmp_path: Path) -> None:
    """Also of a write that is known, and not in doubt."""
    (tmp_path / "notes").write_text("a file, where a folder should be")
    for path in (tmp_path / "notes" / "orders.db", tmp_path / "notes" / "new" / "orders.db"):
        with pytest.raises(DeskError, match=r"cannot be used \(.+notes\S*\); nothing was changed"):
            OrderDesk(path).cancel("A1", 1, "k")


def test_a_newer_schema_is_refused(desk: OrderDesk) -> None:
    desk.get("A1")
    db = sqlite3.connect(desk.path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(DeskError, match="schema 99, this program knows 1"):
        OrderDesk(desk.path).get("A1")


def test_a_deleted_desk_is_not_quietly_made_anew(desk: OrderDesk) -> None:
    desk.cancel("A1", 1, "k")
    for file in desk.path.parent.iterdir():
        os.unlink(file)
    with pytest.raises(DeskError, match="cannot be used"):
        desk.get("A1")


def test_records_are_plain_json(desk: OrderDesk) -> None:
    transaction = desk.cancel("A1", 1, "k")
    assert transaction.request == {"order_id": "A1", "expected_revision": 1}
    assert json.loads(json.dumps(transaction.result)) == transaction.result
