"""Twenty tasks that the offline model must do over the bundled tools, and a loop that drives it.

A task says what the user writes, which calls must run (step by step, calls of one step in any
order), what must be true of the world at the end and what the answer must say. ``renamed``
gives the same tools other names, parameters and words.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from prompts import message
from tools.contract import ToolFailure
from tools.files import file_tools
from tools.orders import order_tools
from tools.research import research_tools
from tools.worlds.order_desk import OrderDesk

Args = dict[str, Any]
REASON = "the customer called and wants to keep it"


class Worlds:
    """An order desk, a corpus and a workspace of their own, under one folder."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "desk.db"
        self.desk = OrderDesk(self.database)
        self.workspace = folder / "workspace"
        (self.workspace / "notes").mkdir(parents=True)
        self.write("notes/todo.md", "buy milk\ncall Ann\n")
        self.write("readme.md", "Hello\n")

    def tools(self) -> list[BaseTool]:
        return order_tools(self.desk) + research_tools() + file_tools(self.workspace)

    def write(self, path: str, text: str) -> None:
        (self.workspace / path).write_text(text)

    def text(self, path: str) -> str:
        return (self.workspace / path).read_text()

    def status(self, order_id: str) -> str:
        return self.desk.get(order_id).status

    def touch(self, order_id: str) -> None:
        """Somebody else changes the order: its revision moves on."""
        with sqlite3.connect(self.database) as db:
            db.execute("UPDATE orders SET revision = revision + 1 WHERE id = ?", (order_id,))
        db.close()


@dataclass(frozen=True)
class Call:
    """One call, in the bundled tools' own words."""

    tool: str
    args: Args

    @property
    def key(self) -> str:
        return f"{self.tool} {json.dumps(self.args, sort_keys=True)}"


def call(tool: str, **args: Any) -> Call:
    """A call as a task writes it."""
    return Call(tool, args)


# What happens around a call: ``None`` runs it, a text is the error the model gets instead.
Intervene = Callable[[Worlds, Call, int], str | None]


@dataclass(frozen=True)
class Task:
    """``steps`` is every call of the whole conversation; ``says`` and ``never`` are regular
    expressions for the last answer; ``world`` is checked at the end."""

    name: str
    texts: tuple[str, ...]
    steps: tuple[tuple[Call, ...], ...]
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    world: Callable[[Worlds], bool] = lambda w: True
    before: Intervene | None = None
    after: Intervene | None = None


@dataclass
class Run:
    """What happened: the calls of each step, the answer to each text, the whole history."""

    steps: list[list[Call]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    history: list[BaseMessage] = field(default_factory=list)


def _reject_b1(worlds: Worlds, made: Call, count: int) -> str | None:
    if made.tool == "cancel_order" and made.args["order_id"] == "B1":
        return message("rejected", reason=REASON)
    return None


def _lose_the_answer(worlds: Worlds, made: Call, count: int) -> str | None:
    if made.tool == "cancel_order":
        return message("unknown_outcome", error="the connection broke.", check="Look it up.")
    return None


def _somebody_else_changes_a1(worlds: Worlds, made: Call, count: int) -> str | None:
    if made.tool == "get_order" and count == 1:
        worlds.touch("A1")
    return None


def _read(order_id: str) -> Call:
    return call("get_order", order_id=order_id)


def _cancel(order_id: str, revision: int = 1) -> Call:
    return call("cancel_order", order_id=order_id, expected_revision=revision)


_REFUND = call("refund_order", order_id="C1", amount="20", currency="EUR")

TASKS: tuple[Task, ...] = (
    Task(
        "cancel if still pending",
        ("Cancel orders A1 and A2 if they are still pending",),
        ((_read("A1"), _read("A2")), (_cancel("A1"),)),
        says=(r"Done: .*A1", r"Not done: .*A2.*shipped"),
        world=lambda w: (w.status("A1"), w.status("A2")) == ("cancelled", "shipped"),
    ),
    Task(
        "list with a filter",
        ("Show me all pending orders",),
        ((call("list_orders", status="pending"),),),
        says=(r"11 found", r"A1", r"B1"),
        never=(r"\bA2\b",),
    ),
    Task(
        "status of one order",
        ("What is the status of order B1?",),
        ((_read("B1"),),),
        says=(r"B1", r"pending"),
    ),
    Task(
        "refund",
        ("Please refund 20 EUR for order C1",),
        ((_read("C1"),), (_REFUND,)),
        says=(r"Done: .*C1", r"20"),
        world=lambda w: w.desk.get("C1").refunded == 2000,
    ),
    Task(
        "refund without a currency",
        ("Refund 20 for order C1",),
        (),
        says=(r"currency.*\?",),
        world=lambda w: w.desk.get("C1").refunded == 0,
    ),
    Task(
        "unknown order",
        ("Cancel order Z9",),
        ((_read("Z9"),),),
        says=(r"Not done", r"no order 'Z9'"),
    ),
    Task(
        "arithmetic",
        ("What is 17 * (23 + 4)?",),
        ((call("calculator", expression="17 * (23 + 4)"),),),
        says=(r"\b459\b",),
    ),
    Task(
        "research",
        ("How much did monthly bike-share use in Larkford grow from 2023 to 2024?",),
        (
            (call("search", query="monthly bike-share use Larkford grow 2023 2024"),),
            (call("fetch", url="https://larkford.gov/transport/bike-share-review-2024"),),
            (call("calculator", expression="(2100000 / 12) / (1300000 / 10) - 1"),),
        ),
        says=(r"34\.6%", r"130,000", r"175,000", r"larkford\.gov", r"2025-02-10", r"10 months"),
    ),
    Task(
        "write a file",
        ("write 'buy milk' to notes/shopping.md",),
        ((call("write_file", path="notes/shopping.md", content="buy milk"),),),
        says=(r"Done: .*notes/shopping\.md",),
        world=lambda w: w.text("notes/shopping.md") == "buy milk",
    ),
    Task(
        "what is there, and read it",
        ("what files are there?", "read notes/todo.md"),
        ((call("list_files"),), (call("read_file", path="notes/todo.md"),)),
        says=(r"buy milk\ncall Ann",),
    ),
    Task(
        "edit a file",
        ("replace milk with bread in notes/todo.md",),
        (
            (call("read_file", path="notes/todo.md"),),
            (call("edit_file", path="notes/todo.md", old_text="milk", new_text="bread"),),
        ),
        says=(r"Done: .*notes/todo\.md",),
        world=lambda w: w.text("notes/todo.md") == "buy bread\ncall Ann\n",
    ),
    Task(
        "two independent reads",
        ("Show order B2 and read notes/todo.md",),
        ((_read("B2"), call("read_file", path="notes/todo.md")),),
        says=(r"delivered", r"call Ann"),
    ),
    Task(
        "filter by e-mail address",
        ("Which orders did jonas.weber@mail.example place?",),
        ((call("list_orders", customer="jonas.weber@mail.example"),),),
        says=(r"B1", r"Jonas Weber"),
        never=(r"Mara",),
    ),
    Task(
        "filter by date",
        ("List orders placed between 2026-11-01 and 3 November 2026",),
        ((call("list_orders", placed_from="2026-11-01", placed_to="2026-11-03"),),),
        says=(r"5 found", r"A1", r"B1"),
        never=(r"\bA4\b",),
    ),
    Task(
        "small talk",
        ("Hello, what can you do?",),
        (),
        says=(r"rule-based", r"one (?:order|purchase)", r"arithmetic"),
    ),
    Task(
        "impossible request",
        ("Book me a flight to Paris",),
        (),
        says=(r"cannot", r"rule-based"),
    ),
    Task(
        "answers to its questions",
        ("Refund order C1", "20", "EUR"),
        ((_read("C1"),), (_REFUND,)),
        says=(r"Done: .*C1", r"20"),
        world=lambda w: w.desk.get("C1").refunded == 2000,
    ),
    Task(
        "rejected write",
        ("Cancel A1 and B1",),
        ((_read("A1"), _read("B1")), (_cancel("A1"), _cancel("B1"))),
        says=(r"Done: .*A1", rf"Not done: .*B1.*{REASON}"),
        world=lambda w: (w.status("A1"), w.status("B1")) == ("cancelled", "pending"),
        before=_reject_b1,
    ),
    Task(
        "write in doubt",
        ("Cancel order A1",),
        ((_read("A1"),), (_cancel("A1"),), (_read("A1"),)),
        says=(r"Unknown", r"did not repeat", r"status: cancelled"),
        world=lambda w: len(w.desk.history("A1")) == 1,
        after=_lose_the_answer,
    ),
    Task(
        "error, then recovery",
        ("Cancel order A1 if it is pending",),
        ((_read("A1"),), (_cancel("A1"),), (_read("A1"),), (_cancel("A1", 2),)),
        says=(r"Done: .*A1",),
        world=lambda w: w.status("A1") == "cancelled",
        after=_somebody_else_changes_a1,
    ),
)


# Other names for everything ----------------------------------------------------------------

NAMES: dict[str, tuple[str, dict[str, str]]] = {
    "list_orders": (
        "browse_purchases",
        {
            "status": "state", "customer": "buyer", "placed_from": "earliest_day",
            "placed_to": "latest_day", "sort": "sort_by", "page": "page_number",
            "page_size": "per_page", "response_format": "verbosity",
        },
    ),
    "get_order": ("fetch_purchase", {"order_id": "purchase_ref"}),
    "cancel_order": (
        "void_purchase",
        {"order_id": "purchase_ref", "expected_revision": "known_version"},
    ),
    "refund_order": (
        "reimburse_purchase",
        {"order_id": "purchase_ref", "amount": "sum", "currency": "currency_code"},
    ),
    "search": ("find_pages", {"query": "keywords"}),
    "fetch": ("open_page", {"url": "link", "part": "section"}),
    "calculator": ("evaluate_arithmetic", {"expression": "formula"}),
    "list_files": ("enumerate_documents", {"folder": "directory", "pattern": "name_pattern"}),
    "read_file": (
        "show_document",
        {"path": "document_path", "start_line": "first_line", "max_lines": "line_limit"},
    ),
    "write_file": ("save_document", {"path": "document_path", "content": "body"}),
    "edit_file": (
        "amend_document",
        {
            "path": "document_path", "old_text": "existing_passage",
            "new_text": "replacement_passage",
        },
    ),
}  # fmt: skip
_WORDS = {
    "order": "purchase", "orders": "purchases", "customer": "buyer", "cancel": "void",
    "refund": "reimburse", "file": "document", "files": "documents", "folder": "directory",
    "folders": "directories", "revision": "version", "url": "link", "expression": "formula",
    "amount": "sum",
}  # fmt: skip


def _reworded(text: str) -> str:
    everything = {old: new for old, (new, _) in NAMES.items()}
    for _, params in NAMES.values():
        everything |= {old: new for old, new in params.items() if "_" in old}
    everything |= _WORDS

    def swap(match: re.Match[str]) -> str:
        word = match[0]
        new = everything.get(word) or everything.get(word.lower())
        if new is None:
            return word
        return new.capitalize() if word[0].isupper() else new

    return re.sub(r"[A-Za-z_]+", swap, text)


def renamed(tools: Sequence[BaseTool]) -> list[BaseTool]:
    """The same tools under other names, with other parameters and other words."""
    return [_renamed(t) for t in tools]


def _renamed(tool: BaseTool) -> BaseTool:
    name, params = NAMES[tool.name]
    spec = convert_to_openai_tool(tool)["function"]
    schema = spec["parameters"]
    properties = {
        params[key]: value | {"description": _reworded(value.get("description", ""))}
        for key, value in schema["properties"].items()
    }
    required = [params[key] for key in schema.get("required", ())]
    back = {new: old for old, new in params.items()}

    async def run(**args: Any) -> Any:
        return await tool.ainvoke({back[key]: value for key, value in args.items()})

    return StructuredTool(
        name=name,
        description=_reworded(spec["description"]),
        args_schema={"type": "object", "properties": properties, "required": required},
        coroutine=run,
    )


def original(name: str, args: Args) -> Call:
    """A call of a renamed tool in the bundled tools' own words; others stay as they are."""
    for old, (new, params) in NAMES.items():
        if new == name:
            back = {p_new: p_old for p_old, p_new in params.items()}
            return Call(old, {back[k]: v for k, v in args.items()})
    return Call(name, args)


# The loop ----------------------------------------------------------------------------------


async def drive(
    model: BaseChatModel,
    tools: Sequence[BaseTool],
    worlds: Worlds,
    task: Task,
    max_steps: int = 12,
) -> Run:
    """Model, tools, model … until it answers, for each text of the task."""
    bound = model.bind_tools(list(tools))
    by_name = {t.name: t for t in tools}
    run, seen = Run(), dict[str, int]()
    for text in task.texts:
        run.history.append(HumanMessage(text))
        for _ in range(max_steps):
            reply = await bound.ainvoke(run.history)
            assert isinstance(reply, AIMessage)
            run.history.append(reply)
            if not reply.tool_calls:
                run.answers.append(reply.text)
                break
            made = [original(c["name"], c["args"]) for c in reply.tool_calls]
            run.steps.append(made)
            for mine, sent in zip(made, reply.tool_calls, strict=True):
                seen[mine.tool] = seen.get(mine.tool, 0) + 1
                content, status = await _result(
                    by_name[sent["name"]], sent["args"], worlds, task, mine, seen[mine.tool]
                )
                run.history.append(
                    ToolMessage(content, tool_call_id=sent["id"], name=sent["name"], status=status)
                )
        else:
            raise AssertionError(f"no answer after {max_steps} steps: {run.steps}")
    return run


async def _result(
    tool: BaseTool, args: Args, worlds: Worlds, task: Task, made: Call, count: int
) -> tuple[str, str]:
    """What the harness would say: the result, or an error in its words."""
    if task.before and (refusal := task.before(worlds, made, count)):
        return refusal, "error"
    try:
        content = str(await tool.ainvoke(args))
    except ToolFailure as error:
        return message("failed", error=error), "error"
    if task.after and (lost := task.after(worlds, made, count)):
        return lost, "error"
    return content, "success"
