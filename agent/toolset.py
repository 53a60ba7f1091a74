"""Which tools a session has: bundled domains, a person's own, each by a name.

The bundled ones are those of ``DOMAINS``. ``path/to/tools.py`` and ``package:attribute`` are a
person's own; a path is loaded under a private module name, so that it can be called anything, and
with a digest (``…/tools.py@sha256:…``) only when it still has these contents.

The version of a person's own tool names the code that it came with, beside what its contract
says (``1+3f2a9c0d81b4``): what was approved for other code does not run.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from langchain_core.tools import BaseTool, Tool
from pydantic import SecretStr

from agent.config import Settings
from agent.errors import NotFound, UsageError
from agent.trust import ToolsFile, tools_files
from tools.calling import EndedOddly, contained
from tools.contract import contract_of

SERVER = "mcp:"
"""Marks an MCP server among the tools of a session; its tools come from the MCP host."""

SHORT = 12
"""Hex digits of a hash that names code."""

_CODE = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)
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
    """The folders that domain tools work in, the sites that they believe, and how mail leaves.

    Args:
        home: The state folder.
        workspace: The one folder of the file tools; ``None`` for no file tools.
        protected: Files that file tools never touch although they may be in the workspace:
            what this program reads as code or as its prompt, and its record. ``.env*``,
            ``.mcp.json`` and ``.git`` are among them anyway.
        trusted_sites: Hosts whose pages an answer may rest on; ``None``: those of the domain.
        mail_from: The address that mails come from; ``None``: that of the sample mailbox.
        smtp_url: The server that sends them; ``None``: they stay in the outbox.
    """

    home: Path
    workspace: Path | None
    protected: tuple[Path, ...] = ()
    trusted_sites: tuple[str, ...] | None = None
    mail_from: str | None = None
    smtp_url: SecretStr | None = None

    @classmethod
    def of(
        cls, settings: Settings, workspace: Path | None, protected: tuple[Path, ...] = ()
    ) -> Places:
        """Those of the settings.

        Raises:
            UsageError: The state folder cannot be used.
        """
        return cls(
            settings.ensure_home(),
            workspace,
            protected,
            settings.trusted_sites,
            settings.mail_from,
            settings.smtp_url,
        )


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
        elif name == "web" and (reason := web_off()):
            notices.append(f"web tools are off: {reason}")
        elif builder := DOMAINS.get(name):
            tools += builder(places)
            domains.append(name)
        elif file := ToolsFile.of(name):
            tools += _of_file(file)
        else:
            tools += _of_package(name)
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


def web_off() -> str | None:
    """Why there are no web tools here, if there are none."""
    from tools.web import missing

    return missing()


def _orders(places: Places) -> list[BaseTool]:
    from tools.orders import order_tools
    from tools.worlds.order_desk import OrderDesk

    return order_tools(OrderDesk(places.home / "worlds" / "orders.db"))


def _research(places: Places) -> list[BaseTool]:
    from tools.research import TRUSTED_SITES, research_tools

    sites = places.trusted_sites
    return research_tools(trusted_sites=TRUSTED_SITES if sites is None else sites)


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


def _web(places: Places) -> list[BaseTool]:
    from tools.web import web_tools

    return web_tools()


def _mail(places: Places) -> list[BaseTool]:
    from tools.mail import mail_tools
    from tools.worlds.mailbox import LocalMailbox
    from tools.worlds.sample_mail import OWNER
    from tools.worlds.smtp import Smtp, SmtpServer

    url = places.smtp_url
    smtp = Smtp(SmtpServer.of(url.get_secret_value())) if url else None
    mailbox = LocalMailbox(places.home / "worlds" / "mail.db")
    return mail_tools(mailbox, places.mail_from or OWNER, smtp)


DOMAINS: dict[str, Callable[[Places], list[BaseTool]]] = {
    "orders": _orders,
    "research": _research,
    "files": _files,
    "grocery": _grocery,
    "bank": _bank,
    "web": _web,
    "mail": _mail,
}


def every_bundled_tool(home: Path) -> list[BaseTool]:
    """The tools of all domains, whether or not a session can have them: what a policy may name.

    They are looked at and not called; no folder is given to the file tools but the state folder.
    """
    places = Places(home, home)
    return [tool for build in DOMAINS.values() for tool in build(places)]


# --- a person's own tools --------------------------------------------------------------------


def _of_package(name: str) -> list[BaseTool]:
    package, colon, attribute = name.partition(":")
    if not colon:
        raise NotFound(
            "tools",
            name,
            tuple(DOMAINS),
            "Or give a file (path/to/tools.py) or package:attribute.",
        )
    try:
        found = contained(_imported, package, attribute)
    except Exception as error:
        raise UsageError(f"Tools {name}: cannot be imported: {_in_words(error)}") from error
    return [_with_code(tool, _code_of(package)) for tool in _as_tools(found, name)]


def _imported(package: str, attribute: str) -> Any:
    found = importlib.import_module(package)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def _of_file(file: ToolsFile) -> list[BaseTool]:
    source = file.read()
    module = _module_at(file.path, source)
    return [_with_code(tool, _short(source)) for tool in _tools_of(module, str(file.path))]


def _module_at(path: Path, source: bytes) -> ModuleType:
    """The file as a module, made of the bytes that were checked and of no others.

    The import system would read the file again, or a compiled copy of it. As with any module,
    the same content is run once a process.
    """
    content = str(path).encode() + b"\0" + hashlib.sha256(source).digest()
    private = f"sayso_tools_{_short(content)}"
    if private in sys.modules:
        return sys.modules[private]
    spec = importlib.util.spec_from_file_location(private, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module
    try:
        contained(exec, compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except Exception as error:
        del sys.modules[private]
        raise UsageError(f"Tools {path}: cannot be loaded: {_in_words(error)}") from error
    return module


@cache  # the code that is imported stays what it was at first, whatever becomes of its files
def _code_of(package: str) -> str:
    """A hash of the whole package that a module is in: its tools may be made anywhere in it.

    Empty where there are no files to read, as in an archive.
    """
    whole = hashlib.sha256()
    try:
        for path in _files_of(package):
            whole.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return ""
    return whole.hexdigest()[:SHORT]


def _files_of(package: str) -> list[Path]:
    """The code of the outermost package around a module; parts that are only folders hold none."""
    parts = package.split(".")
    modules = (sys.modules[".".join(parts[:depth])] for depth in range(1, len(parts) + 1))
    module = next((module for module in modules if getattr(module, "__file__", None)), None)
    if module is None or module.__file__ is None:
        return []
    file = Path(module.__file__)
    if not hasattr(module, "__path__"):
        return [file]
    return sorted(path for path in file.parent.rglob("*") if path.name.endswith(_CODE))


def _with_code(tool: BaseTool, code: str) -> BaseTool:
    """The tool with a version that names its code; the one that was loaded stays as it is."""
    contract, copy = contract_of(tool), tool.model_copy()
    version = f"{contract.version}+{code}" if code else contract.version
    try:
        object.__setattr__(copy, "contract", replace(contract, version=version))
    except AttributeError as error:
        raise UsageError(
            f"Tool {tool.name}: its contract is a property; make it a field of the tool."
        ) from error
    return copy


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:SHORT]


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
            found = contained(found)
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
    return str(error) if isinstance(error, EndedOddly) else f"{type(error).__name__}: {error}"
