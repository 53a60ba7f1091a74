"""What a verdict costs: by the rules of a file, and by what the session has read.

Every second rule is about the tool that is called, so that its condition is looked at; the others
are about fifty other tools. First at 100 and at 10,000 rules: the call has an argument of 200 kB,
which every tenth of the conditions looks through. Then at 100 rules of which every tenth asks where
a value comes from, so that all results of the session are searched for five values: of 200 kB and
of 5 MB of them, and by how much of it was searched before: all (``warm``), all but the newest 20 kB
(``one result more``, the usual case), or nothing (``first time``: a session that is opened again).
Medians, by the clock, once the rules about the tool are known.

    python -m bench.policy [--rounds 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from statistics import median

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent.policy import Outcome, Policy, Proposed, Spent, decide, read_policy
from agent.provenance import trace
from agent.types import Authority
from bench.figures import Figure, as_json, table

SIZES = (100, 10_000)
VERDICT_MS = 2.0
"""What a verdict may take at 100 rules, and with 200 kB of results to search."""

TEXTS = {"200 kB": (200_000, VERDICT_MS), "5 MB": (5_000_000, 20.0)}
"""Characters of all results, and what a verdict may take when they were searched before."""

RESULT = 20_000
"""Characters of one result: what ``SAYSO_RESULT_LIMIT`` lets through."""


def page(rules: int, *, origins: bool = False) -> str:
    """A policy file with so many rules.

    Args:
        origins: Whether every tenth asks where a value comes from, and not for a text.
    """
    lines = ["version: 1", "rules:"]
    for number in range(rules):
        tool = "send" if number % 2 else f"other_{number % 100}"
        when = f"amount > {number + 1000} && 'untrusted' in labels"
        if number % 20 == 1:
            argument = ("to", "subject", "amount", "reference", "body")[number % 5]
            when = f"provenance.{argument} == 'untrusted' && amount > {number + 1000}"
            when = when if origins else f"args.body.contains('stop-{number}')"
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


def results(characters: int, seed: int) -> list[BaseMessage]:
    """A session with so many characters of results, no two alike."""
    draw, messages = random.Random(seed), [HumanMessage("Pay ann@example.com 12.50 for C-4711.")]
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(4000)]
    for number in range(characters // RESULT):
        said = [f"order {seed}-{number}-{n}: {draw.random():.6f} " for n in range(RESULT // 200)]
        said += draw.choices(words, k=RESULT // 6)
        draw.shuffle(said)
        call = {"name": "look", "args": {"page": number}, "id": f"c{number}", "type": "tool_call"}
        text = " ".join(said)[:RESULT]
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage(text, name="look", tool_call_id=f"c{number}"),
        ]
    return messages


def judge_by_origin(policy: Policy, messages: Sequence[BaseMessage]) -> Outcome:
    """One verdict on a call whose values are looked for in all that was read."""
    args = {
        "to": "ann@example.com",
        "amount": "12.50",
        "reference": "C-4711",
        "subject": "what nobody has said of it yet",
        "body": str(messages[-1].content)[-400:] + " and a few words of the model's own.",
    }
    origins = {source["path"]: source["origin"] for source in trace(args, messages, passages=False)}
    return decide(
        policy,
        Proposed(
            tool="send",
            args=args,
            effects=frozenset({"write:mail", "spend:eur"}),
            authority=Authority(("*",)),
            labels=("untrusted",),
            spent=Spent(),
            provenance=origins,
        ),
    )


def by_text(rounds: int, sizes: Sequence[str] = tuple(TEXTS)) -> list[Figure]:
    """The figures of verdicts that ask where values come from, by what was read; two rounds at
    least."""
    policy = Policy(organisation=read_policy(page(100, origins=True)))
    found = []
    for size in sizes:
        characters, bound = TEXTS[size]
        first, more, warm = [], [], []
        for number in range(rounds):  # each with texts that were never searched before
            known = results(characters, number)
            if number % 2 == 0:
                first.append(_milliseconds(policy, known))
            else:
                judge_by_origin(policy, known[:-2])
                more.append(_milliseconds(policy, known))
            warm += [_milliseconds(policy, known) for _ in range(5)]
        found += [
            Figure(f"a verdict by origin, {size} read, warm", median(warm), "ms", bound),
            Figure(f"a verdict by origin, {size} read, one result more", median(more), "ms"),
            Figure(f"a verdict by origin, {size} read, first time", median(first), "ms"),
        ]
    return found


def _milliseconds(policy: Policy, messages: Sequence[BaseMessage]) -> float:
    begun = time.perf_counter()
    judge_by_origin(policy, messages)
    return (time.perf_counter() - begun) * 1e3


def by_rules(rounds: int, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """The figures of each size of file: the time of a verdict, and of reading the file."""
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


def compare(rounds: int) -> list[Figure]:
    """All figures; those of long texts, which take seconds to make, with fewer rounds."""
    return [*by_rules(rounds), *by_text(max(rounds // 5, 2))]


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
