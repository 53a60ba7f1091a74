"""Tools of your own: copy this file, change it, start with ``SAYSO_TOOLS=my_tools.py``.

``tools`` is offered to the model. Docstrings and descriptions are all it knows of a tool: say
what comes back, in which form, when to use it and when not. What a contract leaves out is
assumed at its worst.
"""

from pathlib import Path

from pydantic import BaseModel, Field

from tools.contract import Contract, ToolFailure, make_tool

LIST = Path.home() / "shopping-list.txt"


class Nothing(BaseModel, extra="forbid"):
    """No arguments."""


class Item(BaseModel, extra="forbid"):
    item: str = Field(pattern=r"^[^\r\n]{1,80}$", description="One thing, such as: 2 lemons")


def read_shopping_list() -> str:
    """Read the shopping list, one thing a line, in the order they were added."""
    return LIST.read_text() if LIST.exists() else "The list is empty."


def add_to_shopping_list(item: str) -> str:
    """Add one thing to the shopping list. Read the list first: it may be there already."""
    if not LIST.parent.is_dir():  # ToolFailure: it is known that nothing changed
        raise ToolFailure(f"{LIST.parent} is missing. Ask the user where the list is.")
    with LIST.open("a") as file:  # any other exception of a write counts as "may have happened"
        file.write(f"{item}\n")
    return f"Added: {item}"


READS = Contract(effects=frozenset({"read:shopping"}), open_world=False)
WRITES = Contract(effects=frozenset({"write:shopping"}))  # waits for approval, never repeated
tools = [
    make_tool(read_shopping_list, args=Nothing, contract=READS),
    make_tool(add_to_shopping_list, args=Item, contract=WRITES),
]
