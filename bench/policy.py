"""What a verdict costs, and reading a policy file, at 100 and at 10,000 rules.

Every second rule is about the tool that is called, so that its condition is looked at; the others
are about fifty other tools. The call has an argument of 200 kB, which every tenth of the
conditions looks through. Medians, by the clock, once the rules about the tool are known.

    python -m bench.policy [--rounds 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from statistics import median

from agent.policy import Outcome, Policy, Proposed, Spent, decide, read_policy
from agent.types import Authority
from bench.figures import Figure, as_json, table

SIZES = (100, 10_000)
VERDICT_MS = 2.0
"""What a verdict may take at 100 rules."""


def page(rules: int) -> str:
    """A policy file with so many rules."""
    lines = ["version: 1", "rules:"]
    for number in range(rules):
        tool = "send" if number % 2 else f"other_{number % 100}"
        when = (
            f"args.body.contains('stop-{number}')"
            if number % 20 == 1
            else f"amount > {number + 1000} && 'untrusted' in labels"
        )
        lines += [
            f"  - name: rule {number}",
            f"    tools: {tool}",
            f"    when: {when}",
            "    verdict: deny",
        ]
    return "\n".join(lines) + "\n"


def judge(policy: Policy) -> Outcome:
    """One verdict on a call with much in it."""
    return decide(
        policy,
        Proposed(
            tool="send",
            args={"to": "ann@example.com", "amount": "12.50", "body": "word " * 40_000},
            effects=frozenset({"write:mail", "spend:eur"}),
            authority=Authority(("*",)),
            labels=("untrusted",),
            spent=Spent(),
            provenance={},
        ),
    )


def compare(rounds: int, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """The figures: of each size the time of a verdict, and of reading the file."""
    found = []
    read_policy(page(2))  # imports the library of conditions
    for rules in sizes:
        text = page(rules)
        begun = time.perf_counter()
        policy = Policy(organisation=read_policy(text))
        loaded = (time.perf_counter() - begun) * 1e3
        judge(policy)  # finds the rules about the tool
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            judge(policy)
            times.append((time.perf_counter() - begun) * 1e3)
        bound = VERDICT_MS if rules <= 100 else None
        found += [
            Figure(f"a verdict, {rules:,} rules", median(times), "ms", bound),
            Figure(f"reading {rules:,} rules", loaded, "ms"),
        ]
    return found


def report(figures: Sequence[Figure]) -> str:
    """A table."""
    return table("Policy", figures)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.policy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = compare(options.rounds)
    print(json.dumps(as_json(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
