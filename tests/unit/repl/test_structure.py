"""The parts of the chat form no circle, imports for annotations included."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import agent.repl

PACKAGE = "agent.repl."


def parts_needed(path):
    """The other parts of the chat that a file imports, wherever in it."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {
        node.module.removeprefix(PACKAGE)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
    }


def test_no_circle():
    files = Path(agent.repl.__file__).parent.glob("*.py")
    needed = {path.stem: parts_needed(path) for path in files}
    assert needed["app"] >= {"talk", "commands"}
    order = list(TopologicalSorter(needed).static_order())  # CycleError names the circle
    assert order.index("talk") < order.index("commands") < order.index("app")
