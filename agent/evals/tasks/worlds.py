"""Worlds: the tools of a task file over services of their own, with or without their checks.

Where the policy is in the **tools**, they are as they are bundled (preconditions, and a service
that refuses), and the rules file beside the tasks holds what they do not. Where it is in the
**prompt**, the written policy is part of the system prompt, and nothing else holds it: the tools
have no preconditions, the order desk refuses nothing, and there are no rules. All else is the same
in both: arguments are validated, writes wait for the reviewer, ledger and trail are kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import prompts
from agent.errors import InvalidFile
from agent.evals.tasks.courses import Courses
from agent.evals.tasks.obedient import ObedientDesk
from agent.evals.tasks.state import State, read_state
from agent.evals.tasks.task import TaskFile
from agent.store import Store
from agent.toolset import DOMAINS, Places
from tools.contract import Args, Preview, ToolFailure
from tools.langchain_tools import ContractTool
from tools.orders import order_tools
from tools.web import web_tools
from tools.web.addresses import WebUrl
from tools.web.fetching import Answer, Web
from tools.web.searching import Hit

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent.mcp.servers import ServerConfig

Holder = Literal["prompt", "tools"]
"""What holds the policy."""

HOLDERS: tuple[Holder, ...] = ("prompt", "tools")
PROMPT = "prompt.md"


@dataclass(frozen=True)
class World:
    """A world of a task file; each ``reset`` makes a fresh one.

    Args:
        template: A folder of its own, in which a fresh home is kept to be copied.
    """

    file: TaskFile
    holder: Holder
    template: Path

    def reset(self, home: Path) -> None:
        """Make a home, which must not be there: an empty store, the prompt, and the sample data.

        Raises:
            InvalidFile: The world cannot be set up.
        """
        shutil.copytree(self._fresh, home)
        if self._courses is not None:
            self._courses.put_back(self._fresh / "worlds")

    @property
    def servers(self) -> tuple[ServerConfig, ...]:
        """The MCP servers that belong to it."""
        return (self._courses.config,) if self._courses is not None else ()

    def close(self) -> None:
        """End what was started for it."""
        if (courses := self.__dict__.get("_courses")) is not None:
            courses.close()

    @cached_property
    def _courses(self) -> Courses | None:
        if "courses" not in self.file.world.domains:
            return None
        folder = self.template / f"{self.file.name}-{self.holder}-courses"
        folder.mkdir(parents=True)
        return Courses(folder)

    @cached_property
    def _fresh(self) -> Path:
        home = self.template / f"{self.file.name}-{self.holder}"
        try:
            home.mkdir(mode=0o700, parents=True)
            (home / "worlds").mkdir(mode=0o700)
            Store.open(f"sqlite:///{home / 'sayso.db'}").close()
            (home / PROMPT).write_text(self.prompt, encoding="utf-8")
            for name in self.file.world.domains:
                _make_data(name, home)
            self.state(home)  # what it leaves out is there
        except Exception as error:
            shutil.rmtree(home, ignore_errors=True)
            at = self.file.written.at("world")
            what = f"{type(error).__name__}: {error}"
            raise InvalidFile(
                [f"{at}: the world {self.file.name} cannot be set up ({what})"]
            ) from error
        return home

    @property
    def prompt(self) -> str:
        """The system prompt: that of the domains, and the policy where it is to hold it."""
        domains = prompts.system_prompt(self.file.world.domains)
        return f"{domains}\n\n{self.file.policy}" if self.holder == "prompt" else domains

    @property
    def rules(self) -> str | None:
        """The text of the policy file in force, if there is one."""
        return self.file.rules if self.holder == "tools" else None

    def tools(self, home: Path) -> list[BaseTool]:
        """The tools over the services in a home; those of MCP servers come from there."""
        made = [tool for name in self.file.world.domains for tool in _tools(name, home, self.file)]
        if self.holder == "tools":
            return made
        desk = ObedientDesk(home / "worlds" / "orders.db")
        previews = {"cancel_order": desk.preview_cancel, "refund_order": desk.preview_refund}
        if "orders" in self.file.world.domains:
            obedient = {tool.name: tool for tool in order_tools(desk)}
            made = [obedient.get(tool.name, tool) for tool in made]
        return [_unchecked(tool, previews) for tool in made]

    def state(self, home: Path) -> State:
        """The state that is there."""
        if self._courses is not None:
            self._courses.keep(home / "worlds")
        return read_state(home / "worlds", self.file.world.state)


def _unchecked(tool: BaseTool, previews: Mapping[str, Callable[[Args], Preview]]) -> BaseTool:
    """The tool without its precondition, and with the preview of its name, where there is one."""
    assert isinstance(tool, ContractTool)
    contract = replace(tool.contract, precondition=None)
    if tool.name in previews:
        contract = replace(contract, preview=previews[tool.name])
    return tool.model_copy(update={"contract": contract})


def _tools(domain: str, home: Path, file: TaskFile) -> list[BaseTool]:
    if domain == "courses":
        return []
    if domain == "web":
        pages = Pages(file.world.pages)
        return web_tools(pages, pages.search)
    return DOMAINS[domain](Places(home, None))


def _make_data(domain: str, home: Path) -> None:
    """Sample data appears at the first operation of a service: this one."""
    from tools.worlds.bank import LocalBank
    from tools.worlds.grocery import GroceryShop
    from tools.worlds.mailbox import LocalMailbox
    from tools.worlds.order_desk import OrderDesk

    worlds = home / "worlds"
    match domain:
        case "orders":
            OrderDesk(worlds / "orders.db").list()
        case "grocery":
            GroceryShop(worlds / "grocery.db").carts(None, 1, 1)
        case "bank":
            LocalBank(worlds / "bank.db").accounts()
        case "mail":
            LocalMailbox(worlds / "mail.db").emails(None, "", 0, 1)


class Pages(Web):
    """The pages of a task file in place of the web; a search finds those with one of its words."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        super().__init__()
        self._pages = pages

    async def get(self, url: WebUrl) -> Answer:
        """One of the pages.

        Raises:
            ToolFailure: There is no such page.
        """
        text = self._pages.get(str(url))
        if text is None:
            raise ToolFailure(f"There is no page {url} (HTTP 404). Search for it.")
        return Answer(url, "text/plain", "utf-8", text.encode(), True)

    def search(self, query: str) -> list[Hit]:
        """The pages that have a word of the query, in the order of the file."""
        words = {word for word in query.casefold().split() if len(word) > 2}
        return [
            Hit(text.strip().splitlines()[0], url, text.strip()[:200])
            for url, text in self._pages.items()
            if any(word in text.casefold() for word in words)
        ]
