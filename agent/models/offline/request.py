"""What a user's text asks for: clauses, each with an action, values and perhaps a condition."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from agent.models.offline import words
from agent.models.offline.entities import Entity, find_entities, mask, spell_operators

_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|ok|okay|well|so|thanks|thank you|please|kindly|and|then|also|now|next|"
    r"first|finally|after that|afterwards|(?:can|could|would|will) you|(?:can|could|may) i|"
    r"i want (?:you )?to|i'd like (?:you )?to|i would like (?:you )?to|i need (?:you )?to|"
    r"i need|i want|let's|"
    r"just|go ahead and|help me|try to|you should|you can|we need to|i have to)\b[\s,!:.]*)+",
    re.I,
)
_IF = r"(?:but )?(?:not |only )?(?:unless|if|when|in case|provided|assuming|as long as)"
_LEADING_IF = re.compile(
    rf"^{_IF}(?: that)?\s+"
    r"(?P<cond>[^,]+?)(?:,\s*(?:then\s+)?|\s+then\s+)(?P<rest>.+)$",
    re.I | re.S,
)
_TRAILING_IF = re.compile(
    r"[\s,(]*\b(?:but )?(?P<word>(?:not |only )?(?:unless|if|when|in case|provided(?: that)?|"
    r"assuming(?: that)?|as long as))\s+"
    r"(?P<cond>.+)$",
    re.I | re.S,
)
_NEGATION = re.compile(
    r"\b(?:not|isn't|aren't|hasn't|haven't|wasn't|weren't|no longer|never)\b", re.I
)
_COMPARISONS = [
    (re.compile(r"\b(?:at least|no less than|not less than|minimum)\b|>=", re.I), ">="),
    (re.compile(r"\b(?:at most|no more than|not more than|up to|maximum)\b|<=", re.I), "<="),
    (
        re.compile(r"\b(?:less than|under|below|smaller than|cheaper than|fewer than)\b|<", re.I),
        "<",
    ),
    (
        re.compile(
            r"\b(?:more than|over|above|greater than|larger than|bigger than|exceeds?)\b|>", re.I
        ),
        ">",
    ),
]
_PRONOUN = re.compile(
    r"\b(?:it|its|them|their|they|those|these|both|that one|(?:that|this|the same) \w+)\b", re.I
)
_WH_WORDS = "what which who whom whose when where why how is are was were does do did has have can"
_WH = frozenset(_WH_WORDS.split())
_SPLIT = re.compile(
    r"(?<=[.!?;])\s+(?=\S)|;\s*|\n+|,?\s+(?:and\s+)?then\s+|,?\s+and\s+(?:also\s+)?(?=\w)|"
    r",\s+(?=\w)",
    re.I,
)
_EXCEPT = re.compile(
    r"\b(?:but not|except(?: for)?|excluding|other than|apart from|besides|not|leave|keep|"
    r"skip|spare)\s+(?=(?:\w+ )?#?\w*\d)",
    re.I,
)
_STATEMENT_WORDS = "i we my our it they this that there he she the because sorry"
_STATEMENT = frozenset(_STATEMENT_WORDS.split())
_OPENERS = frozenset({"if", "unless", "only", "don", "never", "leave", "keep", "skip", "spare"})
_OTHERWISE = re.compile(r"^(?:,?\s*)(?:otherwise|or else|else|if not)\b[\s,:]*", re.I)


@dataclass(frozen=True)
class Condition:
    """What must hold before a write: words to find in a field, or a comparison with a number."""

    text: str
    negated: bool = False
    comparison: str = ""
    number: float | None = None

    @property
    def wanted(self) -> list[str]:
        """The words that may be the wanted value ("pending"), most telling ones only."""
        return words.content_words(mask(self.text, find_entities(self.text)))


@dataclass(frozen=True)
class Clause:
    """One thing asked for.

    ``text`` is the clause without its condition; ``more`` are later texts that complete it
    (answers, "and A3 too"), newest first; ``answers`` maps the name of a parameter that was
    asked for to the answer; ``referents`` are ids that "it" or "them" stands for.
    """

    text: str
    condition: Condition | None = None
    more: tuple[str, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    referents: tuple[str, ...] = ()
    waits: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.more, self.text)

    @property
    def excluded(self) -> frozenset[str]:
        """The ids that the text takes out: "but not A2", "except B1 and B2"."""
        return frozenset(
            e.value
            for text in self.texts
            if (m := _EXCEPT.search(text))
            for e in find_entities(text)
            if e.kind == "id" and e.start >= m.end()
        )

    def values(self, *kinds: str) -> list[Entity]:
        """The values of these kinds from the newest text that has any."""
        for text in self.texts:
            found = [e for e in find_entities(text) if e.kind in kinds]
            if found := [e for e in found if e.kind != "id" or e.value not in self.excluded]:
                return found
        if self.condition:
            return [
                e for e in find_entities(self.condition.text) if e.kind in kinds and e.kind == "id"
            ]
        return []

    @property
    def bare(self) -> str:
        """All its texts without values, politeness and condition."""
        return " ".join(_POLITE.sub("", mask(t, find_entities(t)).strip()) for t in self.texts)

    @property
    def words(self) -> list[str]:
        return words.content_words(self.bare)

    @property
    def lead(self) -> str:
        """Its first word once politeness is gone: usually the verb or the question word."""
        bare = _POLITE.sub("", mask(self.text, find_entities(self.text)).strip())
        found = re.match(r"[A-Za-z]+(?:'s)?", bare)
        return found[0].lower().removesuffix("'s") if found else ""

    @property
    def is_statement(self) -> bool:
        """Whether it tells rather than asks: "I changed my mind about B1"."""
        return self.lead in _STATEMENT and not self.is_question

    @property
    def is_question(self) -> bool:
        return self.lead in _WH or self.text.rstrip().endswith("?")

    @property
    def is_universal(self) -> bool:
        return bool(re.search(r"\b(?:all|every|each|any)\b", self.text, re.I))

    @property
    def has_pronoun(self) -> bool:
        return bool(_PRONOUN.search(" ".join(self.texts)))

    def completed(self, text: str, answers_param: str = "") -> Clause:
        """The clause with a later text that answers a question or changes a value."""
        answers = ((answers_param, text), *self.answers) if answers_param else self.answers
        return replace(self, more=(text, *self.more), answers=answers)


@dataclass(frozen=True)
class Request:
    """What is being worked on: its clauses, and the message where its evidence begins."""

    clauses: tuple[Clause, ...] = ()
    start: int = 0
    retry_from: int = 0


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[Clause, ...]:
    """The clauses of a text, in order."""
    clauses: list[Clause] = []
    for raw, waits in _pieces(spell_operators(text.strip())):
        previous = clauses[-1] if clauses else None
        if previous and previous.condition and (m := _OTHERWISE.match(raw)):
            flipped = replace(previous.condition, negated=not previous.condition.negated)
            referents = tuple(e.value for e in previous.values("id", "path")) or previous.referents
            clauses.append(Clause(raw[m.end() :], flipped, referents=referents))
            continue
        clause = replace(_conditional(raw), waits=waits)
        if previous and clause.condition and not clause.text.strip(" .,"):
            clauses[-1] = replace(previous, condition=clause.condition)
        elif clause.text.strip(" .,!?"):
            clauses.append(clause)
    return tuple(clauses)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Cut where a new command or question begins; values are never cut.

    Returns:
        Each piece, and whether it has to wait for the ones before it ("then").
    """
    hidden = _hide(text)
    cuts, waits = [0], [False]
    for m in _SPLIT.finditer(hidden):
        rest = hidden[m.end() :].lstrip()
        stripped = _POLITE.sub("", rest)
        head = re.match(r"[A-Za-z]+", stripped)
        ends_sentence = hidden[: m.start()].rstrip()[-1:] in (".", "!", "?", ";") or "\n" in m[0]
        then = bool(re.search(r"then\s+$", m[0], re.I)) or bool(
            re.match(r"(?:then|after)", rest, re.I)
        )
        starts = head is not None and (
            words.is_imperative(head[0])
            or (head[0].lower() in _WH and "," not in m[0])
            or head[0].lower() in ("otherwise", "else")
        )
        open_if = re.match(r"(?:only )?(?:if|unless|when)\b", hidden[cuts[-1] :].lstrip(), re.I)
        before = _POLITE.sub("", hidden[cuts[-1] : m.start()].strip())
        opening = re.match(r"[A-Za-z]+", before)
        # "In notes.md, replace …": what has no verb of its own belongs to what follows.
        incomplete = opening is None or not (
            words.is_imperative(opening[0]) or opening[0].lower() in _WH | _OPENERS
        )
        starts = starts and not (incomplete and "and" not in m[0].lower())
        inside_if = open_if and not ends_sentence and "," in m[0] and "and" not in m[0].lower()
        if (starts and not inside_if) or ends_sentence or ";" in m[0]:
            cuts.append(m.end())
            waits.append(then)
    pieces = [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]
    cleaned = [re.sub(r"(?:,|;|\band\b|\bthen\b|\s)+$", "", p, flags=re.I).strip() for p in pieces]
    return [(p, w) for p, w in zip(cleaned, waits, strict=True) if p.strip(" .,;")]


def _hide(text: str) -> str:
    chars = list(text)
    for e in find_entities(text):
        chars[e.start : e.end] = "x" * (e.end - e.start)
    return "".join(chars)


def _conditional(text: str) -> Clause:
    hidden = _hide(text)
    bare_start = len(text) - len(text.lstrip())
    if _asks(hidden):
        return Clause(text)
    lead = re.match(rf"\s*{_IF}\b", hidden, re.I)
    if lead:
        m = _LEADING_IF.match(hidden[bare_start:])
        if m is None:
            return Clause("", _condition(text[lead.end() :], lead[0]))
        body = text[bare_start:]
        return Clause(
            body[m.start("rest") :], _condition(body[m.start("cond") : m.end("cond")], lead[0])
        )
    if (m := _TRAILING_IF.search(hidden)) and m.start() > 0:
        return Clause(
            text[: m.start()], _condition(text[m.start("cond") : m.end("cond")], m["word"])
        )
    return Clause(text)


def _asks(text: str) -> bool:
    """Whether "if" or "when" belongs to a question: "check if …", "when was …?"."""
    bare = _POLITE.sub("", text.strip())
    first = re.match(r"[A-Za-z]+", bare)
    return bool(first and words.actions_of(first[0]) & words.READ_ACTIONS) or bool(
        re.match(r"when (?:was|is|did|does|do|will|were|are|has|have|can)\b", bare, re.I)
    )


def _condition(text: str, word: str) -> Condition:
    turned = re.search(r"\bunless$|\bnot if$|\bnot when$", word.strip(), re.I) is not None
    negated = bool(_NEGATION.search(text)) != turned
    for pattern, sign in _COMPARISONS:
        numbers = [e for e in find_entities(text) if e.kind in ("number", "money")]
        if numbers and pattern.search(text):
            return Condition(text, negated, sign, float(numbers[0].value.split()[0]))
    return Condition(text.strip(" .!?"), negated)
