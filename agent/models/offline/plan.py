"""The next step for a request: calls to make, a question to ask, or the closing report.

A pure function of the request, the tools and what the tools answered so far. Every clause makes
its own progress; the calls of all clauses that can go on now form one step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.canonical import canonical_json
from agent.models.offline import answer, research, words
from agent.models.offline.catalog import Param, ToolCard
from agent.models.offline.choose import asked_actions, choose, forbids, searcher
from agent.models.offline.conditions import check, is_number
from agent.models.offline.evidence import (
    Observation,
    Record,
    fields,
    find_field,
    mark_of,
    record_id,
    records,
)
from agent.models.offline.fill import FULL, fill
from agent.models.offline.repair import advice
from agent.models.offline.request import Clause

MAX_FAN_OUT = 20
_ABOUT = re.compile(
    r"\b(?:look up|find out|who|what|how|why|where)\b|"
    r"\b(?:tell|know|read|inform\w*|info|news|facts?)\b.{0,20}\b(?:about|on|of)\b",
    re.I,
)
Args = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A call to make. ``key`` is what the user gave for it: it names the call across retries."""

    card: ToolCard
    args: Args
    key: str

    @property
    def mark(self) -> str:
        return mark_of(self.card.name, self.key)


@dataclass(frozen=True)
class Ask:
    """A question; ``clause`` is the index of the clause and ``param`` the value it is about."""

    question: str
    param: str
    clause: int = 0


@dataclass
class Progress:
    """What one clause needs or has: calls for this step, sentences for the report, a question."""

    calls: list[Call] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    ask: Ask | None = None

    def add(self, other: Progress) -> None:
        self.calls += other.calls
        self.lines += other.lines
        self.ask = self.ask or other.ask


@dataclass(frozen=True)
class World:
    """The tools, and what they answered since the request began.

    Failures before ``retry_from`` count as not tried; for reads, results before ``written_at``
    are out of date.
    """

    cards: tuple[ToolCard, ...]
    seen: Sequence[Observation]
    retry_from: int = 0
    written_at: int = -1

    def attempts(self, card: ToolCard, given: Args) -> list[Observation]:
        """Earlier calls of this tool with the arguments that the user gave."""
        mark = mark_of(card.name, canonical_json(given))
        return [
            o
            for o in self.seen
            if o.tool == card.name
            and (o.mark == mark or all(o.args.get(k) == v for k, v in given.items()))
            and not (o.outcome in ("error", "rejected", "not_run") and o.at < self.retry_from)
        ]

    def reader(self, card: ToolCard) -> tuple[ToolCard, Param] | None:
        """The read that returns the one record a write acts on."""
        target = card.target
        fitting = []
        for other in self.cards:
            key = other.target
            if other.writes or not target or not key or key.role != target.role:
                continue
            if [p.name for p in other.required] == [key.name]:
                shared = len(other.things & (card.things | words.concepts(card.noun)))
                same_key = bool(key.meaning & target.meaning)
                fitting.append((shared + same_key, other, key))
        best = max(fitting, key=lambda f: f[0], default=None)
        return (
            (best[1], best[2]) if best and (best[0] or (target and target.role != "id")) else None
        )

    def lister(self, card: ToolCard) -> ToolCard | None:
        """A read that lists the kind of record a write acts on."""
        about = card.things | words.concepts(card.noun)
        return next(
            (c for c in self.cards if not c.writes and not c.required and c.things & about), None
        )

    @property
    def known_values(self) -> frozenset[str]:
        """Stems of all values that the tools' enums name."""
        return frozenset(
            words.stem(t)
            for c in self.cards
            for p in c.params
            if p.role == "enum"
            for v in p.enum
            for t in words.tokens(str(v))
        )


def progress(index: int, clause: Clause, world: World) -> Progress:
    """How far one clause is."""
    if forbids(clause):
        return Progress(lines=["All right, I leave that as it is."])
    chosen = choose(clause, world.cards)
    if chosen is None:
        made = _other_ways(clause, world)
    elif chosen.card.writes:
        made = _write(clause, chosen.card, world)
    elif _is_research(chosen.card, clause, world):
        made = _research(clause, chosen.card, world)
    else:
        made = _read(clause, chosen.card, world)
    if made.ask:
        made.ask = Ask(made.ask.question, made.ask.param, index)
    return made


def _other_ways(clause: Clause, world: World) -> Progress:
    """When no tool fits by its words: a free question is searched, an addition is written."""
    if appended := _append(clause, world):
        return appended
    search = searcher(world.cards)
    actions = asked_actions(clause)
    asks = clause.is_question or "search" in actions or _ABOUT.search(clause.text)
    if search and asks and len(clause.words) > 1:
        return _research(clause, search, world)
    return Progress(lines=[answer.cannot(clause.text, world.cards)])


# Reads -------------------------------------------------------------------------------------


def _read(clause: Clause, card: ToolCard, world: World) -> Progress:
    filling = fill(card, clause)
    given = filling.variants[0] if filling.variants else {}
    if filling.missing:
        return _asking(filling.missing[0], card, given)
    made = Progress()
    for args in filling.variants[:MAX_FAN_OUT]:
        made.add(_one_read(clause, card, args, world))
    return made


def _one_read(clause: Clause, card: ToolCard, args: Args, world: World) -> Progress:
    tries = [o for o in world.attempts(card, args) if o.at > world.written_at]
    if not tries:
        return Progress(calls=[Call(card, args, canonical_json(args))])
    last = tries[-1]
    if last.outcome == "ok":
        return Progress(lines=[answer.found(card, clause, last)])
    if last.outcome == "error" and (step := _repair(card, args, args, tries, world)):
        return step
    return Progress(lines=[answer.failed(card, last.args, last)])


def _asking(param: Param, card: ToolCard, args: Args) -> Progress:
    return Progress(ask=Ask(answer.question_for(param, card, args), param.name))


# Writes ------------------------------------------------------------------------------------


def _write(clause: Clause, card: ToolCard, world: World) -> Progress:
    filling = fill(card, clause)
    variants: Sequence[Args] = filling.variants
    missing = list(filling.missing)
    late = list(filling.from_read)
    if FULL.search(clause.text):
        from_record = [p for p in missing if p.role in ("amount", "currency")]
        missing = [p for p in missing if p not in from_record]
        late += from_record
    target = card.target
    if target in missing and target.role == "id" and (lister := world.lister(card)):
        listed = _listed(clause, card, lister, world)
        if isinstance(listed, Progress):
            return listed
        if listed:
            variants = [{**args, target.name: value} for args in variants for value in listed]
            missing.remove(target)
    if missing:
        return _asking(missing[0], card, variants[0] if len(variants) == 1 else {})
    made = Progress()
    for args in variants[:MAX_FAN_OUT]:
        made.add(_one_write(clause, card, args, late, world))
    if len(variants) > MAX_FAN_OUT:
        made.lines.append(f"Only the first {MAX_FAN_OUT} of {len(variants)} were worked on.")
    return made


def _listed(clause: Clause, card: ToolCard, lister: ToolCard, world: World) -> Progress | list[Any]:
    """The ids meant by "all pending orders": from a list, filtered as the clause says."""
    filling = fill(lister, clause)
    filters = [
        p for p in lister.params if any(p.name in v for v in filling.variants) and p.role != "limit"
    ]
    if not clause.is_universal and not filters:
        return []
    ids: list[Any] = []
    for args in filling.variants[:MAX_FAN_OUT]:
        tries = world.attempts(lister, args)
        if not tries:
            return Progress(calls=[Call(lister, args, canonical_json(args))])
        if tries[-1].outcome != "ok":
            return Progress(lines=[answer.failed(lister, args, tries[-1])])
        ids += [i for r in records(tries[-1].data) if (i := record_id(r))]
    ids = [i for i in ids if i not in clause.excluded]
    if not ids:
        return Progress(lines=[f"Nothing to {card.verb}: no {card.noun} matches."])
    return ids


def _one_write(
    clause: Clause, card: ToolCard, given: Args, late: Sequence[Param], world: World
) -> Progress:
    tries = world.attempts(card, given)
    if tries and tries[-1].outcome != "error":
        return _settled(card, given, tries[-1], world)
    since = tries[-1].at if tries else 0
    if tries and not _can_try_again(card, given, tries, world):
        return Progress(lines=[answer.failed(card, tries[-1].args, tries[-1])])
    if tries and (step := _repair(card, given, tries[-1].args, tries, world)):
        return step
    args = dict(given)
    if clause.condition or late or _wants_reading(card, world):
        needed = _record(card, given, world, since)
        if isinstance(needed, Progress):
            return needed
        if needed is not None:
            if clause.condition:
                finding = check(clause.condition, needed, world.known_values)
                if not finding.holds:
                    return _unmet(clause, card, given, finding.holds, finding.why)
            if unfit := _unfit(card, needed, world.known_values):
                return _unmet(clause, card, given, False, unfit)
            for param in late:
                if hit := _late_value(param, needed):
                    args[param.name] = hit
        elif clause.condition:
            return _unmet(clause, card, given, None, "no tool can read it")
    if unknown := [p for p in late if p.name not in args]:
        return _asking(unknown[0], card, given)
    if tries and canonical_json(args) == canonical_json(dict(tries[-1].args)):
        return Progress(lines=[answer.failed(card, tries[-1].args, tries[-1])])
    return Progress(calls=[Call(card, args, canonical_json(given))])


def _wants_reading(card: ToolCard, world: World) -> bool:
    """Whether the description of a write names the read that should come before it."""
    reader = world.reader(card)
    return bool(reader and reader[0].name in card.mentions)


def _record(card: ToolCard, given: Args, world: World, since: int) -> Record | Progress | None:
    """The record a write acts on, read after message ``since``; or the call that reads it."""
    found = world.reader(card)
    target = card.target
    if found is None or target is None:
        return None
    reader, key = found
    args = {key.name: given[target.name]}
    tries = [o for o in world.attempts(reader, args) if o.at > since]
    if not tries:
        return Progress(calls=[Call(reader, args, canonical_json(args))])
    last = tries[-1]
    if last.outcome != "ok":
        if step := _repair(reader, args, args, tries, world):
            return step
        reason = answer.sentence(answer.short(last.reason))
        return Progress(lines=[f"Not done: {answer.action(card, given)}. {reason}"])
    rows = records(last.data)
    return rows[0] if len(rows) == 1 else {}


def _late_value(param: Param, record: Record) -> Any:
    """A value from the record: the key named in the parameter's description, or of its meaning."""
    if param.role == "amount":
        for key, value in fields(record):
            if re.search(rf"\b{re.escape(key)}\b", param.description) and is_number(value):
                return value
    meaning = param.meaning or words.concepts(param.name)
    hit = find_field(record, meaning)
    return hit[1] if hit else None


def _unfit(card: ToolCard, record: Record, known: frozenset[str]) -> str:
    """Why the record is not of the kind the tool says it is for ("Cancel one pending order")."""
    pattern = rf"((?:\w+,? (?:or |and )?){{1,4}}){re.escape(card.noun)}\b"
    m = re.search(pattern, card.summary, re.I) if card.noun else None
    named = words.tokens(m[1]) if m else []
    admitted = [t for t in named if words.stem(t) in known and not words.is_imperative(t)]
    field = find_field(record, words.concepts("status"))
    if not admitted or field is None or words.stem(str(field[1])) not in known:
        return ""
    if words.stem(str(field[1])) in {words.stem(t) for t in admitted}:
        return ""
    return f"its {field[0]} is {field[1]}, and `{card.name}` is for {' or '.join(admitted)} ones"


def _unmet(clause: Clause, card: ToolCard, given: Args, holds: bool | None, why: str) -> Progress:
    condition = clause.condition.text if clause.condition else ""
    what = answer.action(card, given)
    if holds is None:
        return Progress(
            lines=[f"Not done: {what}. I could not check the condition “{condition}”: {why}."]
        )
    return Progress(lines=[f"Not done: {what}, because {why}."])


def _settled(card: ToolCard, given: Args, last: Observation, world: World) -> Progress:
    """A write that needs no further try: done, refused, not run, or unknown (then look)."""
    if last.outcome == "ok":
        return Progress(lines=[answer.done(card, last)])
    if last.outcome != "unknown":
        return Progress(lines=[answer.failed(card, last.args, last)])
    unknown = f"Unknown: whether “{answer.action(card, last.args)}” happened."
    found = world.reader(card)
    if found is None or card.target is None or card.target.name not in last.args:
        return Progress(lines=[f"{unknown} I did not repeat it, and no tool can check it."])
    reader, key = found
    args = {key.name: last.args[card.target.name]}
    checks = [o for o in world.attempts(reader, args) if o.at > last.at]
    if not checks:
        return Progress(calls=[Call(reader, args, canonical_json(args))])
    if checks[-1].outcome != "ok":
        return Progress(
            lines=[
                f"{unknown} I did not repeat it. Checking failed: {answer.short(checks[-1].reason)}"
            ]
        )
    now = answer.found(reader, Clause(""), checks[-1])
    return Progress(lines=[f"{unknown} I did not repeat it; I read the record instead. {now}"])


# Errors ------------------------------------------------------------------------------------


def _can_try_again(card: ToolCard, given: Args, tries: Sequence[Observation], world: World) -> bool:
    """One more try, and only where the error says that something else would work."""
    fix = advice(tries[-1].text, {c.name for c in world.cards if not c.writes})
    return len(tries) == 1 and (fix.again or fix.reread or (bool(fix.tools) and bool(given)))


def _repair(
    card: ToolCard, given: Args, args: Args, tries: Sequence[Observation], world: World
) -> Progress | None:
    """The step that an error's text asks for, once; ``None`` when there is none."""
    if len(tries) != 1:
        return None
    last = tries[-1]
    fix = advice(last.text, {c.name for c in world.cards if not c.writes})
    if fix.again and not fix.reread:
        return Progress(calls=[Call(card, args, canonical_json(given))])
    path = next((p for p in card.params if p.role == "path" and p.name in args), None)
    if path and not card.writes:
        return _near_path(card, args, path, last, world)
    return None


def _near_path(
    card: ToolCard, args: Args, path: Param, last: Observation, world: World
) -> Progress | None:
    """A file that was not found under its name: look at what is there, take an exact base name."""
    lister = world.lister(card)
    if lister is None:
        return None
    looked = [o for o in world.attempts(lister, {}) if o.at > last.at]
    if not looked:
        return Progress(calls=[Call(lister, {}, canonical_json({}))])
    wanted = str(args[path.name]).rsplit("/", 1)[-1].lower()
    names = re.findall(r"[\w./-]+", looked[-1].text)
    near = [n for n in dict.fromkeys(names) if n.rsplit("/", 1)[-1].lower() == wanted]
    if len(near) != 1 or near[0] == args[path.name]:
        return None
    again = {**args, path.name: near[0]}
    tries = world.attempts(card, again)
    if not tries:
        return Progress(calls=[Call(card, again, canonical_json(again))])
    first = f"There is no {args[path.name]}; I took {near[0]}."
    if tries[-1].outcome == "ok":
        return Progress(lines=[f"{first}\n{answer.found(card, Clause(''), tries[-1])}"])
    return None


# Additions to a text, and research ---------------------------------------------------------


def _append(clause: Clause, world: World) -> Progress | None:
    """ "Add X to FILE" with tools that only read and write whole files."""
    if "add" not in asked_actions(clause) or not clause.values("path"):
        return None
    card = next(
        (c for c in world.cards if c.writes and c.param("content") and c.param("path")), None
    )
    found = world.reader(card) if card else None
    if card is None or found is None:
        return None
    content, path = card.param("content"), card.param("path")
    filling = fill(card, clause)
    if content is None or path is None or filling.missing:
        return _asking(filling.missing[0], card, {}) if filling.missing else None
    reader, key = found
    given = filling.variants[0]
    tries = world.attempts(card, {path.name: given[path.name]})
    if tries:
        if tries[-1].outcome == "error":
            return Progress(lines=[answer.failed(card, given, tries[-1])])
        return _settled(card, given, tries[-1], world)
    args = {key.name: given[path.name]}
    reads = world.attempts(reader, args)
    if not reads:
        return Progress(calls=[Call(reader, args, canonical_json(args))])
    if reads[-1].outcome != "ok":
        return Progress(lines=[answer.failed(reader, args, reads[-1])])
    old = research.page_text(reads[-1]).rstrip("\n")
    if re.search(r"\[(?:cut|truncated)\b|\bnext: ", old):
        name = args[key.name]
        return Progress(lines=[f"Not done: I cannot add to {name}: it is too long to read whole."])
    head, _, rest = old.partition("\n")
    if str(args[key.name]) in head and re.search(r"\blines?\b", head):
        old = rest.lstrip("\n")  # a head line that names the file is not part of it
    whole = {
        **given,
        content.name: f"{old}\n{given[content.name]}\n" if old else given[content.name],
    }
    return Progress(calls=[Call(card, whole, canonical_json(given))])


def _is_research(card: ToolCard, clause: Clause, world: World) -> bool:
    search = searcher(world.cards)
    return bool(search and card.name == search.name and research.fetcher(world.cards, search))


def _research(clause: Clause, search: ToolCard, world: World) -> Progress:
    step = research.next_step(clause, search, world.cards, world.attempts)
    return Progress(calls=[Call(c, a, canonical_json(a)) for c, a in step.calls], lines=step.lines)
