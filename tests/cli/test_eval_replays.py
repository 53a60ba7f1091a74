"""``sayso eval tau2`` and ``sayso eval multi-turn`` where the benchmarks are not installed."""

from __future__ import annotations

import sys

import pytest

from tests.cli.program import Invoke


@pytest.mark.parametrize("command", ["tau2", "multi-turn"])
def test_without_the_packages_it_is_said_how_to_get_them(
    sayso: Invoke, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for package in ("tau2", "bfcl_eval"):
        monkeypatch.setitem(sys.modules, package, None)
    found = sayso("eval", command, "--jobs", "1")
    assert found.code == 2
    assert "is not installed here. `make evals`" in found.err


@pytest.mark.parametrize(
    ("command", "option"), [("tau2", "--domain"), ("multi-turn", "--category")]
)
def test_a_part_that_is_not_there_is_named(sayso: Invoke, command: str, option: str) -> None:
    found = sayso("eval", command, option, "hotel")
    assert found.code == 2
    assert "'hotel' is no part of it; there are " in found.err
