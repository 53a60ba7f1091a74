"""Which tools a session has: bundled domains, a person's own, each by a name.

The bundled ones are those of ``DOMAINS``. ``path/to/tools.py`` and ``package:attribute`` are a
person's own; a path is loaded under a private module name, so that it can be called anything, and
with a digest (``…/tools.py@sha256:…``) only when it still has these contents.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from langchain_core.tools import BaseTool, Tool

from agent.errors import NotFound, UsageError
from agent.trust import ToolsFile, tools_files

SERVER = "mcp:"
"""Marks an MCP server among the tools of a session; its tools come from the MCP host."""

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Toolset:
    """The tools of a session.

    ``domains`` are the bundled ones among them; ``notices`` say what is left out, and why.
    """

    tools: tuple[BaseTool, ...]
    domains: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Places:
    """The folders that domain tools work in.

    Args:
        home: The state folder.
        workspace: The one folder of the file tools; ``None`` for no file tools.
        protected: Files that file tools never touch although they may be in the workspace:
            what this program reads as code or as its prompt, and its record. ``.env*``,
            ``.mcp.json`` and ``.git`` are among them anyway.
    """

    home: Path
    workspace: Path | None
    protected: tuple[Path, ...] = ()


def load_tools(names: Sequence[str], places: Places) -> Toolset:
    """Build the tools with these names; MCP servers among them are left to their host.

    The files among them are out of reach of the file tools: a model does not write its tools.

    Raises:
        NotFound: For a name that is neither bundled nor a file or ``package:attribute``.
        UntrustedFolder: For a file with other contents than its name is bound to.
        UsageError: For a file that cannot be loaded, or two tools of one name.
    """
    code = [file.path for file in tools_files(names)]
    places = replace(places, protected=(*places.protected, *code))
    tools: list[BaseTool] = []
    domains: list[str] = []
    notices: list[str] = []
    for name in (name for name in names if not name.startswith(SERVER)):
        if name == "files" and (reason := files_off(places)):
            notices.append(f"file tools are off: {reason}")
        elif builder := DOMAINS.get(name):
            tools += builder(places)
            domains.append(name)
        elif file := ToolsFile.of(name):
            tools += _tools_of(_module_at(file), str(file.path))
        else:
            tools += _own(name)
    _check_names(tools)
    return Toolset(tuple(tools), tuple(domains), tuple(notices))


def files_off(places: Places) -> str | None:
    """Why there are no file tools here, if there are none."""
    if places.workspace is None:
        return "no workspace was given (--workspace DIR)"
    workspace, home = places.workspace.resolve(), places.home.resolve()
    if workspace.is_relative_to(home) or home.is_relative_to(workspace):
        return f"the workspace {workspace} would overlap the state folder (--workspace DIR)"
    return None


def _orders(places: Places) -> list[BaseTool]:
    from tools.orders import order_tools
    from tools.worlds.order_desk import OrderDesk

    return order_tools(OrderDesk(places.home / "worlds" / "orders.db"))


def _research(places: Places) -> list[BaseTool]:
    from tools.research import research_tools

    return research_tools()


def _files(places: Places) -> list[BaseTool]:
    from tools.files import file_tools

    assert places.workspace is not None
    return file_tools(places.workspace, (places.home, *places.protected))


def _grocery(places: Places) -> list[BaseTool]:
    from tools.grocery import grocery_tools
    from tools.worlds.grocery import GroceryShop

    return grocery_tools(GroceryShop(places.home / "worlds" / "grocery.db"))


def _bank(places: Places) -> list[BaseTool]:
    from tools.bank import bank_tools
    from tools.worlds.bank import LocalBank

    return bank_tools(LocalBank(places.home / "worlds" / "bank.db"))


DOMAINS: dict[str, Callable[[Places], list[BaseTool]]] = {
    "orders": _orders,
    "research": _research,
    "files": _files,
    "grocery": _grocery,
    "bank": _bank,
}


# --- a person's own tools --------------------------------------------------------------------


def _own(name: str) -> list[BaseTool]:
    package, colon, attribute = name.partition(":")
    if not colon:
        raise NotFound(
            "tools",
            name,
            tuple(DOMAINS),
            "Or give a file (path/to/tools.py) or package:attribute.",
        )
    try:
        module = importlib.import_module(package)
        found = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise UsageError(f"Tools {name}: cannot be imported: {_in_words(error)}") from error
    return _as_tools(found, name)


def _module_at(file: ToolsFile) -> ModuleType:
    """The file as a module, made of the bytes that were checked and of no others.

    The import system would read the file again, or a compiled copy of it. As with any module,
    the same content is run once a process.
    """
    path, source = file.path, file.read()
    content = str(path).encode() + b"\0" + hashlib.sha256(source).digest()
    private = f"sayso_tools_{hashlib.sha256(content).hexdigest()[:12]}"
    if private in sys.modules:
        return sys.modules[private]
    spec = importlib.util.spec_from_file_location(private, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except Exception as error:
        del sys.modules[private]
        raise UsageError(f"Tools {path}: cannot be loaded: {_in_words(error)}") from error
    return module


def _tools_of(module: ModuleType, name: str) -> list[BaseTool]:
    """The attribute ``tools`` if there is one, else every tool the module defines."""
    if (declared := getattr(module, "tools", None)) is not None:
        return _as_tools(declared, name)
    return _as_tools(
        [value for value in vars(module).values() if isinstance(value, BaseTool)], name
    )


def _as_tools(found: Any, name: str) -> list[BaseTool]:
    if callable(found) and not isinstance(found, BaseTool):
        try:
            found = found()
        except Exception as error:
            raise UsageError(f"Tools {name}: {_in_words(error)}") from error
    tools = list(found) if isinstance(found, (list, tuple)) else [found]
    for tool in tools:
        if isinstance(tool, Tool) and tool.args_schema is None:
            raise UsageError(f"Tools {name}: {tool.name} has no schema; make it with @tool.")
    wrong = [type(tool).__name__ for tool in tools if not isinstance(tool, BaseTool)]
    if wrong or not tools:
        got = ", ".join(wrong) or "nothing"
        raise UsageError(
            f"Tools {name}: expected LangChain tools, found {got}. See tools/template.py"
        )
    return tools


def _check_names(tools: Sequence[BaseTool]) -> None:
    seen: set[str] = set()
    for tool in tools:
        if not _TOOL_NAME.fullmatch(tool.name):
            raise UsageError(
                f"Tool {tool.name!r}: providers accept 1 to 64 letters, digits, '_' and '-' only."
            )
        if tool.name in seen:
            raise UsageError(f"Two tools are named {tool.name!r}; rename one of them.")
        seen.add(tool.name)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
