"""The request that the latest user message makes, read from the whole conversation.

A message may begin something new, answer the model's question, add to what was asked before
("and A3 too"), refer back ("cancel it"), or say "continue".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agent.models.offline import words
from agent.models.offline.catalog import ToolCard
from agent.models.offline.choose import choose
from agent.models.offline.entities import find_entities, mask
from agent.models.offline.evidence import observe, record_id, records
from agent.models.offline.plan import Ask, Progress, World, progress
from agent.models.offline.request import Clause, Request, parse

_CONTINUE = re.compile(
    r"^\W*(?:please )?(?:continue|go on|carry on|proceed|resume|keep going|go ahead|yes|"
    r"yep|yeah|sure|ok(?:ay)?|do it|please do|confirm(?:ed)?)\b[\s,.!]*(?:please|go ahead|"
    r"do it|continue|then)?\W*$",
    re.I,
)
_AGAIN = re.compile(r"^\W*(?:please )?(?:try (?:it |that )?again|retry|again|once more)\W*$", re.I)
_NO = re.compile(
    r"^\W*(?:no|nope|never ?mind|forget it|stop|cancel that|don't|do not|"
    r"leave it)\b[\s\w,.]{0,30}$",
    re.I,
)
_MORE = re.compile(
    r"^\W*(?:(?:and|also|plus|now|then|what about|how about|the same (?:for|with)|"
    r"same (?:for|with)|do the same (?:for|with)|likewise|for)\b[\s,]*)+|[\s,]*\b(?:too|"
    r"as well|also|instead|please)\W*$",
    re.I,
)
_SINGULAR = re.compile(r"\b(?:it|its|that one|this one|(?:that|this) \w+)\b", re.I)
_BACK = re.compile(r"^\W*(?:and|so|also|but)\b", re.I)
_HARNESS_BLOCK = re.compile(r"\A\s*\[[^\]\n]*\](?:\n(?:.*\n)*?\[[^\]\n]*\])?[ \t]*(?:\n\s*|\Z)")
"""What the harness put before the user's words: a line in brackets, or lines between two such."""

_ATTACHED = re.compile(
    r"^\[untrusted content from .*\]\n(?:.*\n)*?\[end of untrusted content\][ \t]*$", re.M
)
"""What the user attached: it stands behind their words, and asks for nothing."""


@dataclass(frozen=True)
class Conversation:
    """``request`` is what to work on, ``text`` the latest message; ``declined`` after a "no"."""

    request: Request
    text: str
    declined: bool = False


def read(messages: Sequence[BaseMessage], cards: tuple[ToolCard, ...]) -> Conversation:
    """Fold the user's messages, oldest first, into the request that holds now."""
    current = Conversation(Request(), "")
    for index, message in enumerate(messages):
        if words := own_words(message):
            current = _next(current, words, index, messages, cards)
    return current


def own_words(message: BaseMessage) -> str:
    """What the user said in a message; empty when it is not theirs."""
    if not isinstance(message, HumanMessage):
        return ""
    return _HARNESS_BLOCK.sub("", _ATTACHED.sub("", message.text)).strip()


def world_of(
    request: Request, messages: Sequence[BaseMessage], cards: tuple[ToolCard, ...]
) -> World:
    """The tools and what they answered since the request began."""
    return World(cards, observe(messages, request.start), request.retry_from)


def work(request: Request, world: World) -> Progress:
    """The progress of all clauses; one that says "then" waits for those before it."""
    total = Progress()
    for index, clause in enumerate(request.clauses):
        if total.calls and (clause.waits or _touches(clause, request.clauses[:index])):
            break
        total.add(progress(index, clause, _as_of(index, request, world)))
    return total


def _as_of(index: int, request: Request, world: World) -> World:
    """The world for one clause: what an earlier clause changed has to be read again."""
    clause = request.clauses[index]
    if not _touches(clause, request.clauses[:index]):
        return world
    mine = set(_named(clause))
    writers = {c.name for c in world.cards if c.writes}
    written = [
        o.at for o in world.seen if o.tool in writers and mine & set(map(str, o.args.values()))
    ]
    return replace(world, written_at=max(written, default=-1))


def _touches(clause: Clause, earlier: Sequence[Clause]) -> bool:
    """Whether an earlier clause is about the same thing: then the order matters."""
    mine = {e.value for e in clause.values("id", "path")} | set(clause.referents)
    return any(
        mine & ({e.value for e in c.values("id", "path")} | set(c.referents)) for c in earlier
    )


def _next(
    before: Conversation,
    text: str,
    index: int,
    messages: Sequence[BaseMessage],
    cards: tuple[ToolCard, ...],
) -> Conversation:
    request = before.request
    asked = _question_before(messages, index)
    if request.clauses:
        if _AGAIN.match(text):
            return Conversation(replace(request, retry_from=index), text)
        if asked and _NO.match(text):
            return Conversation(Request(), text, declined=True)
        answers = asked and not _stands_alone(text, cards)
        if answers and (ask := _open_question(request, messages[:index], cards)):
            return Conversation(_answered(request, ask, text), text)
        if _CONTINUE.match(text):
            return Conversation(request, text)
        if (more := _addition(text)) and not _stands_alone(more, cards):
            last = request.clauses[-1].completed(more)
            return Conversation(Request((replace(last, answers=()),), index), text)
    clauses = _linked(parse(text), text, request, messages[:index])
    return Conversation(Request(clauses, index), text)


def _question_before(messages: Sequence[BaseMessage], index: int) -> bool:
    """Whether the model's last words before this message were a question."""
    for message in reversed(messages[:index]):
        if isinstance(message, AIMessage) and not message.tool_calls:
            return message.text.rstrip().endswith("?")
        if own_words(message):
            return False
    return False


def _open_question(
    request: Request, messages: Sequence[BaseMessage], cards: tuple[ToolCard, ...]
) -> Ask | None:
    return work(request, world_of(request, messages, cards)).ask


def _answered(request: Request, ask: Ask, text: str) -> Request:
    clauses = list(request.clauses)
    clauses[ask.clause] = clauses[ask.clause].completed(text, ask.param)
    return replace(request, clauses=tuple(clauses))


def _stands_alone(text: str, cards: tuple[ToolCard, ...]) -> bool:
    """Whether a text is a request of its own: it begins with a verb or a question word."""
    for clause in parse(text):
        verb = words.is_imperative(clause.lead) or (clause.is_question and len(clause.words) > 0)
        if verb and choose(clause, cards):
            return True
    return False


def _addition(text: str) -> str:
    """What a text such as "and A3 too" adds, or an empty string when it is something else."""
    bare = _MORE.sub("", _MORE.sub("", text)).strip(" .!?")
    entities = find_entities(bare)
    rest = words.content_words(mask(bare, entities))
    if entities and len(rest) <= 2 and not any(words.is_imperative(w) for w in rest):
        return bare
    if (
        bare != text.strip(" .!?")
        and 0 < len(rest) <= 2
        and not any(words.actions_of(w) for w in rest)
    ):
        return bare
    return ""


def _linked(
    clauses: Sequence[Clause], text: str, before: Request, messages: Sequence[BaseMessage]
) -> tuple[Clause, ...]:
    """Clauses with what their pronouns stand for: in the same text first, then earlier on."""
    linked: list[Clause] = []
    background = {c for c in clauses if c.is_statement} if len(clauses) > 1 else set()
    for position, clause in enumerate(clauses):
        goes_back = clause.has_pronoun or (position == 0 and bool(_BACK.match(text)))
        if clause.values("id", "path") or clause.referents or not goes_back:
            linked.append(clause)
            continue
        known = [v for c in reversed(linked) for v in _named(c)] or [
            v for c in reversed(before.clauses) for v in _named(c)
        ]
        known = known or _listed(before, messages)
        if (
            len(set(known)) > 1
            and _SINGULAR.search(clause.text)
            and not re.search(r"\bthe[my]\b", clause.text)
        ):
            known = []
        linked.append(replace(clause, referents=tuple(dict.fromkeys(known))))
    asked = [c for c, raw in zip(linked, clauses, strict=True) if raw not in background]
    return tuple(asked or linked)


def _named(clause: Clause) -> list[str]:
    return [e.value for e in clause.values("id", "path")] or list(clause.referents)


def _listed(before: Request, messages: Sequence[BaseMessage]) -> list[str]:
    """The ids in the results of the request before."""
    seen = observe(messages, before.start) if before.clauses else []
    return [i for o in seen if o.outcome == "ok" for r in records(o.data) if (i := record_id(r))]
