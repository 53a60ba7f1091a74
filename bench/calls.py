"""What scoring a reply costs: reading the calls out of the text, and holding them against a case.

The bundled cases, each with the right calls as text and with one thing changed in every way that
it can be; and thirty parallel calls in the order in which giving them out takes longest.

    python -m bench.calls [--rounds 20] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from statistics import median

from agent.evals.calls.cases import Case, bundled_cases
from agent.evals.calls.changes import CHANGES
from agent.evals.calls.matching import Accepted, Function, Wanted
from agent.evals.calls.parsing import Called, rendered
from agent.evals.calls.scoring import Reply, score
from bench.figures import Figure, as_json, table

CASE_MS = 0.1
"""10,000 cases a second."""

MANY = 30


def replies() -> list[tuple[Case, Reply]]:
    """The bundled cases with right and with changed calls, as text."""
    found = []
    for case in bundled_cases():
        for change in CHANGES.values():
            calls = change(case, list(case.gold)) if case.gold else []
            if calls is not None:
                found.append((case, Reply(rendered(calls) if calls else "Which one?")))
    return found


def thirty() -> tuple[Case, Reply]:
    """Calls that each fit more of the wanted ones than the call after it."""
    function = Function("f", {"x": {"type": "integer"}}, frozenset({"x"}))
    wanted = tuple(Wanted("f", {"x": Accepted(tuple(range(at, MANY)))}) for at in range(MANY))
    calls = [Called("f", {"x": at}) for at in reversed(range(MANY))]
    return Case("thirty", "parallel", "", (function,), wanted), Reply(rendered(calls))


def compare(rounds: int) -> list[Figure]:
    """The figures."""
    pairs, (case, reply) = replies(), thirty()
    assert score(case, reply).right
    each = _median(rounds, lambda: [score(*pair) for pair in pairs]) / len(pairs)
    return [
        Figure("a case, read and scored", each, "ms", CASE_MS),
        Figure(f"{MANY} parallel calls", _median(rounds, lambda: score(case, reply)), "ms"),
    ]


def _median(rounds: int, run: Callable[[], object]) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) * 1e3)
    return median(times)


def report(figures: Sequence[Figure]) -> str:
    """A table."""
    return table("Scoring of calls", figures)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.calls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = compare(options.rounds)
    print(json.dumps(as_json(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
