"""Who may import whom. The table is the architecture; a new module must find its place in it.

What is held is what runs: imports inside functions count, those under ``if TYPE_CHECKING:``
do not, since a name in an annotation is no dependency at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "tools", "mcp_servers", "prompts")

# From the bottom up: a unit (a module or package directly in agent/) may import those on the
# lines above its own, and its neighbours as long as no circle comes of it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "types", "canonical", "safe_text", "deadlines", "threads", "schemas"),
    ("config", "trust"),
    ("forms", "events", "store", "leases", "checkpoints", "models", "policy", "provenance", "mcp"),
    ("checks", "toolset", "receipt", "inbox", "elicitation", "artifacts", "evidence", "settling"),
    ("branching", "repeats", "authority", "inventory"),
    ("middleware",),
    ("graph", "approvals", "streaming"),
    ("application", "session", "snapshots", "exported"),
    ("repl", "evals"),
    ("cli",),
    ("__main__",),
)

# Neighbours that never import each other.
APART: tuple[frozenset[str], ...] = (frozenset({"repl", "evals"}),)

# What of the project each package may import beside itself.
OUTSIDE: dict[str, frozenset[str]] = {
    "agent": frozenset({"tools", "prompts"}),
    "tools": frozenset(),
    "prompts": frozenset(),
    "mcp_servers": frozenset({"tools"}),
}

# Libraries, and names of the standard library, that only some modules may use.
RESERVED: dict[str, tuple[str, ...]] = {
    "langchain_mcp_adapters": ("agent.mcp",),
    "mcp": ("agent.mcp", "mcp_servers"),
    "os.environ": ("agent.config", "mcp_servers.config", "tools.worlds.serve"),
    "os.environb": ("agent.config", "mcp_servers.config"),
    "os.getenv": ("agent.config", "mcp_servers.config"),
    "os.putenv": (),
}


@dataclass(frozen=True)
class Import:
    """Module ``importer`` needs ``target`` (a module, or a name in one) at ``line``."""

    importer: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: {self.target}"


@dataclass(frozen=True)
class Module:
    name: str
    tree: ast.Module
    is_package: bool

    def imports(self) -> list[Import]:
        found = [
            Import(self.name, target, node.lineno)
            for node in running(self.tree)
            if isinstance(node, ast.stmt | ast.expr)
            for target in self.targets(node)
        ]
        return list(dict.fromkeys(found))

    def targets(self, node: ast.AST) -> list[str]:
        match node:
            case ast.Import(names=names):
                return [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                start = self.parent(level) if level else ""
                base = ".".join(part for part in (start, module) if part)
                return [f"{base}.{alias.name}" for alias in names]
            case ast.Attribute(value=ast.Name(id="os"), attr=attr):
                return [f"os.{attr}"]
        return []

    def parent(self, level: int) -> str:
        parts = self.name.split(".")
        return ".".join(parts[: len(parts) - level + self.is_package])


def running(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that can run: all but the bodies of ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from running(other)
        else:
            yield child
            yield from running(child)


def parse(name: str, source: str, *, is_package: bool = False) -> Module:
    return Module(name, ast.parse(source), is_package)


def modules() -> list[Module]:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found.append(parse(name, path.read_text("utf-8"), is_package=is_package))
    return found


MODULES = modules()
IMPORTS = [found for module in MODULES for found in module.imports()]


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def unit_of(name: str) -> str | None:
    """``agent.store.schema`` → ``store``; ``None`` outside ``agent`` and for ``agent`` itself."""
    parts = name.split(".")
    return parts[1] if parts[0] == "agent" and len(parts) > 1 else None


def height(unit: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if unit in layer)


KNOWN = {unit for layer in LAYERS for unit in layer}


def breaks_layers(found: Import) -> str | None:
    """Why an import is not allowed, or ``None``."""
    package = found.importer.split(".")[0]
    target = found.target.split(".")[0]
    if target not in PACKAGES:
        return None
    if target != package:
        allowed = OUTSIDE[package]
        return None if target in allowed else f"{package} may import {sorted(allowed) or 'none'}"
    importer, needed = unit_of(found.importer), unit_of(found.target)
    if package != "agent" or needed not in KNOWN or importer == needed:
        return None
    if importer is None:
        return "importing agent must not import its parts"
    if importer not in KNOWN:
        return f"{importer} has no layer yet"
    if height(needed) > height(importer):
        return f"{needed} stands above {importer}"
    if any({importer, needed} <= pair for pair in APART):
        return f"{importer} and {needed} stay apart"
    return None


def breaks_reserve(found: Import) -> str | None:
    for name, users in RESERVED.items():
        if within(found.target, name) and not any(within(found.importer, u) for u in users):
            return f"only {', '.join(users) or 'nobody'} may use {name}"
    return None


def faults(imports: list[Import]) -> list[str]:
    checks = (breaks_layers, breaks_reserve)
    return [f"{found}: {why}" for found in imports for check in checks if (why := check(found))]


def test_every_import_points_down() -> None:
    assert faults(IMPORTS) == []


def test_every_part_of_agent_has_a_layer() -> None:
    units = {unit for module in MODULES if (unit := unit_of(module.name))}
    assert units - KNOWN == set(), (
        "new in agent/: put it on the line of LAYERS in tests/unit/test_layers.py above "
        "everything that will import it, and below everything it imports"
    )


def test_neighbours_import_each_other_without_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for found in IMPORTS:
        importer, needed = unit_of(found.importer), unit_of(found.target)
        if importer and needed in KNOWN and importer != needed:
            graph.setdefault(importer, set()).add(needed)
    assert _circle(graph) == []


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """The parts along a circle of imports, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def middlewares(found: list[Module]) -> set[str]:
    """Modules that define a middleware, told by the base class's name."""
    return {
        module.name
        for module in found
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        and any("Middleware" in ast.unparse(base) for base in node.bases)
    }


def test_middlewares_never_import_each_other() -> None:
    own = middlewares([module for module in MODULES if within(module.name, "agent.middleware")])
    crossed = [
        str(found)
        for found in IMPORTS
        if within(found.importer, "agent.middleware")
        and any(within(found.target, name) for name in own - {found.importer})
    ]
    assert crossed == []


@pytest.mark.parametrize(
    ("importer", "source", "why"),
    [
        ("agent.policy.rules", "from agent.middleware import state", "stands above"),
        ("agent.store.schema", "import agent.cli.main", "stands above"),
        ("agent.store.schema", "def f():\n    from agent import graph", "stands above"),
        ("agent.store.schema", "from ..session import AgentSession", "stands above"),
        ("agent.repl.chat", "from agent.evals import metrics", "stay apart"),
        ("agent.session", "from agent.cli.chat import chat", "stands above"),
        ("tools.orders", "from agent.errors import SaysoError", "tools may import none"),
        ("prompts", "import tools.contract", "prompts may import none"),
        ("mcp_servers.orders", "import prompts", "mcp_servers may import ['tools']"),
        ("agent.mcp.host", "from mcp_servers import orders", "agent may import"),
        ("agent.toolset", "import langchain_mcp_adapters.client", "only agent.mcp"),
        ("agent.cli.chat", "import os\nos.environ['X'] = '1'", "only agent.config"),
        ("tools.files", "from os import getenv", "only agent.config"),
        (
            "agent.store.schema",
            "if TYPE_CHECKING:\n    pass\nelse:\n    import agent.cli",
            "stands above",
        ),
    ],
)
def test_what_the_table_forbids_is_found(importer: str, source: str, why: str) -> None:
    (fault,) = faults(parse(importer, source).imports())
    assert why in fault


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("agent.cli.chat", "from agent.repl import chat"),
        ("agent.__main__", "def main():\n    from agent.cli import app"),
        ("agent.mcp.host", "from langchain_mcp_adapters.client import MultiServerMCPClient"),
        ("agent.config", "import os\nos.environ.get('HOME')"),
        ("agent.store.schema", "if TYPE_CHECKING:\n    from agent.session import AgentSession"),
        ("mcp_servers.orders", "from tools.orders import make_tools"),
        ("tools.orders", "from tools.worlds import order_desk\nimport os\nos.getpid()"),
    ],
)
def test_what_the_table_allows_passes(importer: str, source: str) -> None:
    assert faults(parse(importer, source).imports()) == []


def test_middlewares_are_told_by_their_base_class() -> None:
    source = "class Approval(AgentMiddleware[State]): ...\nclass Helper: ..."
    assert middlewares([parse("a", source), parse("b", "class Helper: ...")]) == {"a"}
