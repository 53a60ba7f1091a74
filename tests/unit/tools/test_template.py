"""The template for a person's own tools works as it is, copied anywhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import tools.template
from tools.contract import ToolFailure, contract_of, is_read


def test_a_copy_offers_one_read_and_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "my_tools.py"
    copy.write_text(Path(tools.template.__file__).read_text())
    monkeypatch.setenv("HOME", str(tmp_path))
    spec = importlib.util.spec_from_file_location("my_tools", copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    read, write = module.tools
    assert is_read(contract_of(read).effects_of({}))
    assert not is_read(contract_of(write).effects_of({}))
    assert read.invoke({}) == "The list is empty."
    assert write.invoke({"item": "2 lemons"}) == "Added: 2 lemons"
    assert read.invoke({}) == "2 lemons\n"
    assert (tmp_path / "shopping-list.txt").read_text() == "2 lemons\n"


def test_its_failure_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.template, "LIST", tmp_path / "missing" / "list.txt")
    with pytest.raises(ToolFailure, match="Ask the user"):
        tools.template.tools[1].invoke({"item": "salt"})
