"""Tools of your own: copy this file, change it, start with ``SAYSO_TOOLS=my_tools.py``.

``tools`` is offered to the model. Docstrings and descriptions are all it knows of a tool: say
what comes back, in which form, when to use it and when not. What a contract leaves out is
assumed at its worst; ``docs/tools.md`` goes through its parts.
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pydantic import BaseModel, Field

from tools import contract
from tools.contract import Args, Call, Finding, Preview, ToolFailure, Unmet, make_tool

LIST = Path.home() / "shopping-list.db"
TABLE = "CREATE TABLE IF NOT EXISTS changes (id INTEGER PRIMARY KEY, key UNIQUE, item, quantity)"


class Nothing(BaseModel, extra="forbid"):
    """No arguments."""


class Item(BaseModel, extra="forbid"):
    item: str = Field(pattern=r"^[^A-Z\r\n]{1,60}$", description="One thing, such as: lemons")
    quantity: int = Field(ge=0, le=99, description="How many; 0 takes it off the list")


def opened() -> sqlite3.Connection:
    """The record: a row a change, with the key of its call. The last one of an item counts."""
    try:
        db = sqlite3.connect(LIST, isolation_level=None)
        try:
            db.execute(TABLE)
        except sqlite3.Error:
            db.close()
            raise
    except sqlite3.Error as error:  # ToolFailure: it is known that nothing changed
        raise ToolFailure(f"{LIST}: {error}. Ask the user where the list is.") from error
    return db


def quantities() -> dict[str, int]:
    with closing(opened()) as db:
        rows = db.execute("SELECT item, quantity, max(id) FROM changes GROUP BY item")
        return {item: quantity for item, quantity, _ in rows if quantity}


def read_shopping_list() -> str:
    """Read the shopping list: each thing on it with its quantity, as JSON."""
    return json.dumps([{"item": item, "quantity": n} for item, n in quantities().items()])


def change_shopping_list(item: str, quantity: int) -> str:
    """Set the quantity of one thing on the shopping list; 0 takes it off. Read the list first."""
    key = contract.current_call.get().idempotency_key
    with closing(opened()) as db:  # any other exception of a write counts as "may have happened"
        db.execute(
            "INSERT INTO changes (key, item, quantity) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (key, item, quantity),
        )
    return json.dumps({"item": item, "quantity": quantity})


def was_read(args: Args, evidence: Sequence[contract.Evidence]) -> Unmet | None:
    """Precondition: in this session the list was read since it was last changed."""
    read, ours = Call("read_shopping_list", {}), ("read_shopping_list", "change_shopping_list")
    last = [found.tool for found in evidence if found.tool in ours][-1:]
    if last != [read.tool]:
        return Unmet("The shopping list was not read since it last changed here.", read)
    return None


def change(args: Args) -> Preview:
    """Preview: what the call would replace, and nothing that other calls change."""
    before, after = str(quantities().get(args["item"], 0)), str(args["quantity"])
    return Preview(f"{args['item']}: {before} → {after}", before, after)


def on_record(args: Args, call: contract.CallInfo, result: object = None) -> Finding:
    """Postcondition and reconcile: what the list itself says, by the key of the call."""
    with closing(opened()) as db:
        query = "SELECT id, item, quantity FROM changes WHERE key = ?"
        row = db.execute(query, (call.idempotency_key,)).fetchone()
    if row is None:  # certain: SQLite has committed it by now, or never will
        return Finding(False, "The list has no such change.")
    record = {"item": row[1], "quantity": row[2]}
    return Finding(True, "The list has this change.", record, str(row[0]), json.dumps(record))


def back(done: contract.Committed) -> Call:
    """Undo: a write like any other, with its own precondition, preview and approval."""
    return Call("change_shopping_list", {"item": done.args["item"], "quantity": int(done.before)})


WRITES = contract.Contract(
    effects=frozenset({"write:shopping"}),  # no read: it waits for approval
    open_world=False,
    idempotency="key",
    precondition=was_read,
    preview=change,
    postcondition=on_record,
    reconcile=on_record,
    check=lambda args: Call("read_shopping_list", {}),
    conflict_key=lambda args: "shopping list",
    undo=contract.Undo("The quantity before can be set again.", back),
)
READS = contract.Contract(effects=frozenset({"read:shopping"}), open_world=False)
tools = [
    make_tool(read_shopping_list, args=Nothing, contract=READS),
    make_tool(change_shopping_list, args=Item, contract=WRITES),
]
