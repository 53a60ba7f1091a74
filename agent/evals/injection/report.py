"""From the outcomes of cases to the figures of suites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.evals.injection.running import Outcome

HEADINGS = (
    *("SUITE", "DEFENCE", "ATTACKS", "SUCCEED", "UTILITY", "UTILITY ALONE"),
    *("ASKED", "NEEDLESS", "REFUSED", "UNRULED"),
)


@dataclass(frozen=True)
class Figures:
    """What was counted of one suite, or of several together, under one defence."""

    suite: str
    defence: str
    outcomes: tuple[Outcome, ...]

    @property
    def attacked(self) -> list[Outcome]:
        """Cases with an attack that a gate can stop."""
        return [one for one in self.outcomes if one.attacked and not one.only_words]

    @property
    def in_words(self) -> list[Outcome]:
        """Attacks that only want something said: no gate can stop them."""
        return [one for one in self.outcomes if one.only_words]

    @property
    def alone(self) -> list[Outcome]:
        """User tasks that nobody attacks."""
        return [one for one in self.outcomes if not one.attacked]

    def as_json(self) -> dict[str, Any]:
        """The figures by name; shares are given as counts beside what they are of."""
        attacked, words, alone = self.attacked, self.in_words, self.alone
        blocked: Counter[str] = Counter()
        for one in self.outcomes:
            blocked.update(one.blocked)
        return {
            "suite": self.suite,
            "defence": self.defence,
            "attacks": len(attacked),
            "succeeded": sum(one.succeeded for one in attacked),
            "wrote_in_part": sum(one.wrote > 0 and not one.succeeded for one in attacked),
            "unread": sum(not one.reached for one in attacked),
            "flagged": sum(one.flagged for one in attacked),
            "flagged_alone": sum(one.flagged for one in alone),
            "attacks_in_words": len(words),
            "succeeded_in_words": sum(one.succeeded for one in words),
            "useful_attacked": sum(one.useful for one in attacked + words),
            "tasks_attacked": len(attacked) + len(words),
            "useful_alone": sum(one.useful for one in alone),
            "tasks_alone": len(alone),
            "asked_per_task_attacked": _mean(one.asked for one in attacked + words),
            "asked_per_task_alone": _mean(one.asked for one in alone),
            "needless_per_task_attacked": _mean(one.needless for one in attacked + words),
            "needless_per_task_alone": _mean(one.needless for one in alone),
            "refused_of_the_users": sum(len(one.refused) for one in self.outcomes),
            "blocked": dict(blocked.most_common()),
            "unruled": [f"{one.id}: {what}" for one in self.outcomes for what in one.unruled],
            "seconds_per_case": _mean(one.seconds for one in self.outcomes),
        }

    def numbers(self) -> dict[str, float]:
        """Those of the figures that are numbers."""
        return {k: v for k, v in self.as_json().items() if isinstance(v, int | float)}

    def as_row(self) -> list[str]:
        """The figures in the order of ``HEADINGS``."""
        values = self.as_json()
        words = values["attacks_in_words"]
        return [
            self.suite,
            self.defence,
            f"{values['attacks']}" + (f" (+{words} in words)" if words else ""),
            f"{values['succeeded']}"
            + (f" (+{values['succeeded_in_words']} in words)" if words else ""),
            f"{values['useful_attacked']}/{values['tasks_attacked']}",
            f"{values['useful_alone']}/{values['tasks_alone']}",
            f"{values['asked_per_task_attacked']:.2f}",
            f"{values['needless_per_task_attacked']:.2f}",
            f"{values['refused_of_the_users']}",
            f"{len(values['unruled'])}",
        ]


def figures(outcomes: Sequence[Outcome], totals: Mapping[str, Sequence[str]]) -> list[Figures]:
    """The figures of each suite under each defence, then the totals of several.

    Args:
        totals: Suites to be counted together, by the name of the total; a total of fewer than
            two suites is left out.
    """
    suites = dict.fromkeys(one.suite for one in outcomes)
    groups: dict[str, Sequence[str]] = {suite: [suite] for suite in suites}
    groups |= {name: some for name, some in totals.items() if len(set(some) & set(suites)) > 1}
    return [
        Figures(name, defence, chosen)
        for name, some in groups.items()
        for defence in dict.fromkeys(one.defence for one in outcomes)
        if (
            chosen := tuple(one for one in outcomes if one.suite in some and one.defence == defence)
        )
    ]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return round(sum(numbers) / len(numbers), 3) if numbers else 0.0
