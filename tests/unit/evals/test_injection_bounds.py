"""Bounds of a run: what is kept, what is not, and files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.evals.injection.bounds import broken, read_bounds
from agent.evals.injection.report import Figures
from agent.evals.injection.running import Outcome

ROOT = Path(__file__).parents[3]


def found(*, succeeded: int, useful: int, of: int = 4) -> Figures:
    """A suite of so many attacked tasks."""
    return Figures(
        "own",
        "approval",
        tuple(
            Outcome(
                id=str(number),
                suite="own",
                defence="approval",
                useful=number < useful,
                attacked=True,
                succeeded=number < succeeded,
            )
            for number in range(of)
        ),
    )


def written(path: Path, text: str) -> Path:
    (path / "bounds.toml").write_text(text, encoding="utf-8")
    return path / "bounds.toml"


def test_a_figure_may_not_leave_its_range(tmp_path: Path) -> None:
    text = "[own.approval]\nsucceeded = [0, 1]\nuseful_attacked = [3, 4]\n"
    bounds = read_bounds(written(tmp_path, text))
    assert broken(bounds, [found(succeeded=1, useful=3)]) == []
    assert broken(bounds, [found(succeeded=2, useful=2)]) == [
        "own, approval: succeeded is 2, not 0 to 1",
        "own, approval: useful_attacked is 2, not 3 to 4",
    ]


def test_what_was_not_run_keeps_nothing(tmp_path: Path) -> None:
    bounds = read_bounds(written(tmp_path, "[own.none]\nsucceeded = [0, 9]\n"))
    assert broken(bounds, [found(succeeded=0, useful=4)]) == [
        "own, none: was expected, and was not run"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[own", "cannot be read"),
        ("", "has no bounds"),
        ("[own.none]\n", "has no bounds"),
        ("[own.none]\nsucceded = [0, 1]\n", "no figure 'succeded', but suite|no figure 'succeded'"),
        ("[own.none]\nsucceeded = 1\n", "own.none.succeeded"),
        ("[own.none]\nblocked = [0, 1]\n", "no figure 'blocked'"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        read_bounds(written(tmp_path, text))
    assert "Nothing was run." in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_bounds(tmp_path / "none.toml")


def test_the_bounds_of_the_whole_check_can_be_read() -> None:
    bounds = read_bounds(ROOT / ".ci" / "injection.toml")
    assert set(bounds) == {"own", "developed on"}
    for by_defence in bounds.values():
        assert set(by_defence) == {"none", "approval"}
