"""``python -m bench``: everything that is measured, one table each.

    python -m bench [--short] [--json]

The long form takes about ten minutes on two cores, the short one about two; the short one has
too few rounds for its last digit to mean anything.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

from bench import calls, inbox, mcp, policy, startup, steps, trajectories
from bench.figures import as_json


@dataclass(frozen=True)
class Effort:
    """How much is done: rounds of each bench, steps of a session, sessions in the store, calls of
    an MCP server in a round, verdicts, trajectories."""

    step_rounds: int
    steps: int
    start_rounds: int
    store_rounds: int
    sessions: int
    server_rounds: int
    calls: int
    verdicts: int
    trajectories: int


LONG = Effort(
    step_rounds=7,
    steps=100,
    start_rounds=15,
    store_rounds=200,
    sessions=10_000,
    server_rounds=9,
    calls=200,
    verdicts=50,
    trajectories=1_000,
)
SHORT = Effort(
    step_rounds=1,
    steps=100,
    start_rounds=3,
    store_rounds=30,
    sessions=10_000,
    server_rounds=3,
    calls=50,
    verdicts=10,
    trajectories=50,
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--short", action="store_true", help="a few rounds only")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    effort = SHORT if options.short else LONG
    rounds = steps.compare(effort.step_rounds, effort.steps)
    starting = startup.compare(effort.sessions, effort.start_rounds)
    stores = inbox.compare(effort.sessions, effort.store_rounds)
    servers = mcp.compare(effort.server_rounds, effort.calls)
    verdicts = policy.compare(effort.verdicts)
    scoring = calls.compare(effort.verdicts)
    runs = trajectories.compare(effort.trajectories)
    if options.json:
        found = {
            "steps": {"rounds": rounds, "figures": as_json(steps.figures(rounds))},
            "startup": as_json(starting),
            "mcp": as_json(servers),
            "policy": as_json(verdicts),
            "calls": as_json(scoring),
            "trajectories": as_json(runs),
            "inbox": {name: as_json(figures) for name, figures in stores.items()},
        }
        print(json.dumps(found, indent=2))
    else:
        tables = (
            steps.report(rounds),
            startup.report(starting),
            inbox.report(stores),
            mcp.report(servers),
            policy.report(verdicts),
            calls.report(scoring),
            trajectories.report(runs),
        )
        print("\n\n".join(tables))


if __name__ == "__main__":
    main()
