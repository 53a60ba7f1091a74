"""What conditions may look at, of one call: its arguments, its money, the session so far.

Whatever could not be compared exactly, or is not known here, is left out and says why: a rule that
names it then counts as one that could not be checked, and can only restrict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from agent.policy.language import Reference
from agent.policy.lookup import Facts
from tools.contract import Effects

AMOUNTS = ("amount", "total", "expected_total")
"""Arguments that hold the money of a call with a ``spend:*`` effect; the first one counts."""

_DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,10})?")
_LONGEST_INT = 2**63
_RANKS = ("user", "trusted", "reviewer", "record", "model", "untrusted")
"""Origins from the best known to the worst."""

_INEXACT = "is a number that cannot be compared exactly"


@dataclass(frozen=True)
class Spent:
    """What a session has done so far: writes that were committed or are in doubt, and those of the
    same reply that were let through already.

    Args:
        counts: How often each tool ran.
        sums: What was spent, by effect, such as ``spend:eur``.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, Decimal] = field(default_factory=dict)


class Money(NamedTuple):
    """The amount of a call, exactly, and its currency; ``why`` not, where it cannot be said."""

    amount: Decimal | None = None
    currency: str | None = None
    effect: str | None = None
    why: str = ""


def money_of(args: Mapping[str, Any], effects: Effects) -> Money:
    """The money of a call by its one ``spend:*`` effect: ``spend:refund-eur`` is in ``EUR``.

    Of a call that spends nothing there is none.
    """
    spending = sorted(effect for effect in effects if effect.startswith("spend:"))
    if not spending:
        return Money()
    if len(spending) > 1:
        return Money(why="is not one sum")
    currency = re.split(r"[:-]", spending[0])[-1].upper()
    given = next((args[name] for name in AMOUNTS if name in args), None)
    amount = _decimal(given)
    if amount is None:
        return Money(None, currency, spending[0], "cannot be read from the arguments")
    if amount < 0:  # it would make room for others under a sum
        return Money(None, currency, spending[0], "is below 0")
    if str(args.get("currency") or currency).upper() != currency:
        return Money(None, currency, spending[0], "is in another currency than its effect says")
    return Money(amount, currency, spending[0])


def facts_of(
    *,
    tool: str,
    args: Mapping[str, Any],
    effects: Effects,
    labels: Collection[str] = (),
    user: str = "",
    spent: Spent | None = None,
    provenance: Mapping[str, str] | None = None,
    mentioned: Iterable[Reference] = (),
) -> Facts:
    """The facts of a call.

    Args:
        spent: ``None``: not known here.
        provenance: Origin by the path of an argument value, as ``agent.provenance.trace`` says
            it; ``None``: not known here.
        mentioned: What conditions may name: a tool that never ran has the count 0.
    """
    bad: dict[tuple[str, ...], str] = {}
    named = tuple(mentioned)
    values: dict[str, Any] = {
        "tool": tool,
        "effects": sorted(effects),
        "labels": sorted(labels),
        "user": user,
        "args": dict(_arguments(args, bad)),
    }
    money = money_of(args, effects)
    values["amount"], values["currency"] = _number(money.amount, ("amount",), bad), money.currency
    if money.why:
        bad[("amount",)] = bad[("total",)] = money.why
    values["session"] = _session(spent, named, bad)
    values["total"] = _total(money, spent, bad)
    values["provenance"] = _provenance(provenance, args, named, bad)
    return Facts(values, bad)


def _arguments(
    args: Mapping[str, Any], bad: dict[tuple[str, ...], str]
) -> Iterator[tuple[str, Any]]:
    for name, value in args.items():
        faults: list[str] = []
        try:
            yield name, _comparable(value, faults)
        except RecursionError:
            faults.append("is nested too deeply")
        if faults:
            bad[("args", name)] = faults[0]


def _comparable(value: Any, faults: list[str]) -> Any:
    """A JSON value as the library takes it; what it would change without a word is a fault."""
    if isinstance(value, Mapping):
        return {str(key): _comparable(inner, faults) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(inner, faults) for inner in value]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            faults.append("is no valid text")
            return ""
        return value
    if value is None or isinstance(value, bool):
        return value
    number = _exact(value)
    if number is None:
        faults.append(_INEXACT)
    return number


def _exact(value: Any) -> int | float | None:
    """A number that compares as it is written; ``None`` where it would not.

    A binary fraction stands for the shortest decimal that it prints as (``0.1``), and two decimals
    of up to 15 digits are ordered as their fractions are (IEEE 754, binary64).
    """
    if isinstance(value, int):
        return value if -_LONGEST_INT <= value < _LONGEST_INT else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal) and value.is_finite():
        near = float(value)
        return near if math.isfinite(near) and Decimal(repr(near)) == value else None
    return None


def _number(
    value: Decimal | None, name: tuple[str, ...], bad: dict[tuple[str, ...], str]
) -> int | float | None:
    if value is None:
        return None
    number = _exact(value)
    if number is None:
        bad[name] = _INEXACT
    return number


def _decimal(value: Any) -> Decimal | None:
    """An amount as it is written; a binary fraction as it prints."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    text = repr(value) if isinstance(value, float) else str(value)
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def _session(
    spent: Spent | None, named: Collection[Reference], bad: dict[tuple[str, ...], str]
) -> dict[str, dict[str, Any]]:
    if spent is None:
        bad[("session",)] = "is not known here"
    so_far = spent or Spent()
    counts = {str(r.keys[1]): 0 for r in named if r.root == "session" and r.keys[0] == "counts"}
    sums: dict[str, Any] = {
        str(r.keys[1]): 0 for r in named if r.root == "session" and r.keys[0] == "sums"
    }
    for effect, amount in so_far.sums.items():
        sums[effect] = _number(amount, ("session", "sums", effect), bad)
    return {"counts": counts | dict(so_far.counts), "sums": sums}


def _total(
    money: Money, spent: Spent | None, bad: dict[tuple[str, ...], str]
) -> int | float | None:
    if money.amount is None or money.effect is None:
        return None
    if spent is None:
        bad[("total",)] = "is not known here"
        return None
    return _number(money.amount + spent.sums.get(money.effect, Decimal(0)), ("total",), bad)


def _provenance(
    known: Mapping[str, str] | None,
    args: Mapping[str, Any],
    named: Collection[Reference],
    bad: dict[tuple[str, ...], str],
) -> dict[str, str]:
    """The origin of each value, and of each whole that has values in it: the worst of theirs."""
    if known is None:
        bad[("provenance",)] = "is not known here"
        return {}
    found: dict[str, str] = {}
    for path, origin in known.items():
        for name in _wholes(path):
            found[name] = max(found.get(name, origin), origin, key=_rank)
    for reference in named:
        if reference.root != "provenance" or not reference.keys:
            continue
        path = str(reference.keys[0])
        if path in found:
            continue
        if _occurs_everywhere(args, path):
            found[path] = "none"
        else:
            bad[("provenance", path)] = "is not known"
    return found


def _wholes(path: str) -> Iterator[str]:
    """``items[0].id`` → itself, ``items[0]``, ``items``."""
    yield path
    for cut in reversed([match.start() for match in re.finditer(r"[.\[]", path)]):
        yield path[:cut]


def _rank(origin: str) -> int:
    return _RANKS.index(origin) if origin in _RANKS else len(_RANKS)


def _occurs_everywhere(args: Mapping[str, Any], path: str) -> bool:
    """Whether the value is missing, empty or a boolean: of such a one nobody says an origin."""
    top = re.split(r"[.\[]", path)[0]
    value = args.get(top)
    if top != path:
        return value is None
    return value in (None, "", [], {}) or isinstance(value, bool)
