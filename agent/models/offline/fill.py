"""Arguments for a tool from what the user wrote, by the schema; never a value nobody gave."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from agent.models.offline import words
from agent.models.offline.catalog import Param, ToolCard
from agent.models.offline.entities import Entity, find_entities, mask
from agent.models.offline.request import Clause

Values = list[Any]

FULL = re.compile(
    r"\b(?:in full|full(?:y)?|whole|entire|everything|all of it|completely|remaining)\b", re.I
)
_RELATIVE_DATE = re.compile(
    r"\b(?:today|yesterday|tomorrow|(?:this|last|past|next) (?:day|week|month|year|monday|tuesday|"
    r"wednesday|thursday|friday|saturday|sunday)|\w+ (?:days|weeks|months) ago)\b",
    re.I,
)


@dataclass(frozen=True)
class Filling:
    """What could be filled.

    ``variants`` are the argument sets, one for each call to make; ``missing`` are required
    parameters that the user has to give; ``from_read`` those that a read returns.
    """

    variants: tuple[dict[str, Any], ...]
    missing: tuple[Param, ...]
    from_read: tuple[Param, ...]


@lru_cache(maxsize=1024)
def fill(card: ToolCard, clause: Clause) -> Filling:
    """Fill the parameters of a tool from a clause."""
    found: dict[str, Values] = {}
    missing: list[Param] = []
    from_read: list[Param] = []
    for param in card.params:
        values = _values(param, card, clause)
        if values:
            found[param.name] = [values] if param.many else values
        elif param.required and param.from_read:
            from_read.append(param)
        elif param.required or _needs_a_clock(param, clause):
            missing.append(param)
    return Filling(tuple(_variants(found)), tuple(missing), tuple(from_read))


def _variants(found: dict[str, Values]) -> list[dict[str, Any]]:
    """One argument set for each thing named: lists of equal length go together pairwise."""
    several = {name: values for name, values in found.items() if len(values) > 1}
    shared = {name: values[0] for name, values in found.items() if len(values) == 1}
    lengths = {len(values) for values in several.values()}
    together = len(lengths) == 1
    rows = zip(*several.values(), strict=True) if together else itertools.product(*several.values())
    return [shared | dict(zip(several, row, strict=True)) for row in rows]


def _values(param: Param, card: ToolCard, clause: Clause) -> Values:
    """All values for one parameter, in the order they were named, without repeats."""
    asked = next((text for name, text in clause.answers if name == param.name), None)
    values = _READERS.get(param.role, _text)(param, card, clause)
    if not values and asked is not None:
        values = _from_answer(param, asked)
    return list(dict.fromkeys(values))


def _from_answer(param: Param, answer: str) -> Values:
    """An answer to "which X?" may be the bare value."""
    text = re.sub(
        r"^(?:it's|it is|the|use|in|to|for|make it|please)\s+", "", answer.strip(), flags=re.I
    )
    text = text.rstrip(".!").strip("\"'“”`") if param.role != "content" else text.strip("\"'“”`")
    numbers = [e for e in find_entities(answer) if e.kind in ("number", "money")]
    if param.role == "amount" or param.type in ("integer", "number"):
        return [_amount(param, numbers[0].value.split()[0])] if numbers else []
    if param.enum:
        return [v for v in param.enum if str(v).lower() == text.lower()]
    if param.role in ("id", "url", "email", "path") and " " in text:
        return [numbers[0].value] if numbers and param.role == "id" else []
    if param.role in ("date", "date_from", "date_to", "currency"):
        return []
    return [text] if text else []


def _entities(*kinds: str) -> Callable[[Param, ToolCard, Clause], Values]:
    def read(param: Param, card: ToolCard, clause: Clause) -> Values:
        return [e.value for e in clause.values(*kinds)]

    return read


def _ids(param: Param, card: ToolCard, clause: Clause) -> Values:
    values = [e.value for e in clause.values("id")] or _numbered(card, clause)
    if not values and clause.referents:
        values = list(clause.referents)
    if param.upper:
        values = [v.upper() for v in values]
    return [int(v) for v in values if v.isdigit()] if param.type == "integer" else values


def _numbered(card: ToolCard, clause: Clause) -> list[str]:
    """Bare numbers that follow the name of the thing: "ticket 17", "tickets 17 and 18"."""
    about = card.things | words.concepts(card.noun)
    for text in clause.texts:
        for m in re.finditer(r"\b([A-Za-z]+)(?: (?:number|no\.?|nr\.?|id))?[ :]+(?=#?\d)", text):
            if words.concepts_of(m[1]) & about or m[1].lower() in ("number", "id"):
                run = re.match(r"#?\d+(?:(?:,| and|, and)? #?\d+(?!\s?[€$£%]))*", text[m.end() :])
                if run:
                    return re.findall(r"\d+", run[0])
    return []


def _paths(param: Param, card: ToolCard, clause: Clause) -> Values:
    values = [e.value for e in clause.values("path")]
    values = values or [v for v in clause.referents if re.search(r"[./]", v)]
    siblings = [p for p in card.params if p.role == "path"]
    if len(siblings) > 1 and len(values) > 1:
        return [values[min(siblings.index(param), len(values) - 1)]]
    return values


def _emails_or_names(param: Param, card: ToolCard, clause: Clause) -> Values:
    takes_mail = param.role == "email" or "mail" in param.description.lower()
    if takes_mail and (found := [e.value for e in clause.values("email")]):
        return found
    if param.role == "email":
        return []
    if quotes := [e.value for e in clause.values("quote")]:
        return quotes
    return [name for text in clause.texts if (name := _person(text))][:1]


_NAME = r"(?P<name>[A-ZÀ-Þ][\w'’-]*(?: [A-ZÀ-Þ][\w'’-]+){0,2})"
_PERSON = [
    re.compile(rf"\b{_NAME}(?:'s|’s)\s"),
    re.compile(
        rf"\b(?:of|by|from|for|customer|client|buyer|shopper|person|named|belong(?:s|ing)? to|"
        rf"placed by)\s+(?:customer |client )?{_NAME}"
    ),
    re.compile(rf"\b(?:has|did|does)\s+{_NAME}\b"),
]


def _person(text: str) -> str:
    plain = mask(text, find_entities(text))
    for pattern in _PERSON:
        for m in pattern.finditer(plain):
            name = re.sub(r"(?:'s|’s)$", "", m["name"])
            if name.split()[0].lower() not in words.STOP and not words.actions_of(name.split()[0]):
                return name
    return ""


def _amount(param: Param, plain: str) -> Any:
    if re.search(r"\b(?:cents|minor units?|pence)\b", param.description.lower()):
        return int(Decimal(plain) * 100)
    if param.type == "string":
        return plain
    number = Decimal(plain)
    return (
        int(number) if param.type == "integer" or number == number.to_integral() else float(number)
    )


def _amounts(param: Param, card: ToolCard, clause: Clause) -> Values:
    money = [e.value.split()[0] for e in clause.values("money")]
    taken = {str(v) for v in _numbered(card, clause)}
    plain = money or [e.value for e in clause.values("number") if e.value not in taken]
    return [_amount(param, p) for p in plain]


def _currencies(param: Param, card: ToolCard, clause: Clause) -> Values:
    newest = clause.values("money", "currency")
    return [e.value.split()[-1] for e in newest]


_LOWER = re.compile(
    r"\b(?P<w>since|after|from|starting|later than|newer than|between|on or after)\s+(?:the )?$",
    re.I,
)
_UPPER = re.compile(
    r"\b(?P<w>before|until|till|to|by|up to|through|older than|earlier than|"
    r"on or before)\s+(?:the )?$",
    re.I,
)


_GOES_ON = re.compile(r"\s*(?:to|until|till|through|on(?:ward)?s?|-|–)\b", re.I)


def _dates(param: Param, card: ToolCard, clause: Clause) -> Values:
    bounds = _bounds(clause)
    if param.role == "date":
        return [b for b in (bounds[0] or bounds[1],) if b]
    value = bounds[0] if param.role == "date_from" else bounds[1]
    if value is None:
        return []
    day, strict = value[:10], value.endswith("!")
    own = words.tokens(param.name)
    if strict and not {"after", "before"} & set(own):
        step = 1 if param.role == "date_from" else -1
        day = (date.fromisoformat(day) + timedelta(days=step)).isoformat()
    return [day]


def _bounds(clause: Clause) -> tuple[str | None, str | None]:
    """First and last day asked for; a ``!`` marks a bound that is not itself included."""
    low: str | None = None
    high: str | None = None
    for text in clause.texts:
        for e in (e for e in find_entities(text) if e.kind in ("date", "period")):
            first, last = [*e.value.split("/"), e.value][:2]
            before = text[: e.start]
            if m := _LOWER.search(before):
                strict = m["w"].lower() in ("after", "later than", "newer than")
                if (
                    e.kind == "period"
                    and m["w"].lower() == "from"
                    and not _GOES_ON.match(text[e.end :])
                ):
                    high = high or last  # "from October 2026" is that month
                low = low or (f"{last}!" if strict else first)
            elif re.search(r"\band\s+$", before) and low and not high:
                high = last
            elif m := _UPPER.search(before):
                strict = m["w"].lower() in ("before", "older than", "earlier than")
                high = high or (f"{first}!" if strict else last)
            else:
                low, high = low or first, high or last
        if low or high:
            break
    return low, high


def _needs_a_clock(param: Param, clause: Clause) -> bool:
    """ "Last week" needs to know today, which the model does not: it has to ask."""
    return param.role.startswith("date") and bool(_RELATIVE_DATE.search(clause.text))


def _expressions(param: Param, card: ToolCard, clause: Clause) -> Values:
    return [e.value for e in clause.values("expression")]


_SEARCH_LEAD = re.compile(
    r"^(?:(?:search|look|google|find|research|query)\s+(?:(?:the )?(?:web|internet|net|"
    r"online|sources|pages)\s+)?"
    r"(?:(?:for|up|out|about|information|info|on|me)\s+)*|(?:tell me|what do you know|"
    r"do you know)\s+(?:about\s+)?)",
    re.I,
)


def query_of(text: str) -> str:
    """A search query: the words that carry meaning, as written."""
    bare = _SEARCH_LEAD.sub("", text.strip())
    kept = [w for w in re.findall(r"[\w][\w'’.-]*\w|\w", bare) if w.lower() not in words.STOP]
    return " ".join(kept)


def _queries(param: Param, card: ToolCard, clause: Clause) -> Values:
    if quotes := [e.value for e in clause.values("quote")]:
        return quotes[:1]
    query = query_of(clause.texts[-1])
    return [query] if query else []


_CONTENT = [
    re.compile(
        r"\b(?:saying|that says|which says|that reads|containing|with the (?:text|content|"
        r"contents|words?|line)|with content)\s*:?\s+(?P<c>.+)$",
        re.I | re.S,
    ),
    re.compile(
        r"^\W*(?:please )?(?:write|save|put|add|append|store|note|jot|"
        r"insert)(?: down)?\s+(?P<c>.+?)\s+(?:to|in|into|as|at|"
        r"on)\s+(?:the )?(?:end of )?(?:the )?(?:new )?(?:file |document |note )?@",
        re.I | re.S,
    ),
    re.compile(r"@\s*(?::|with)\s*(?P<c>.+)$", re.I | re.S),
]


def _contents(param: Param, card: ToolCard, clause: Clause) -> Values:
    if quotes := [e.value for e in clause.values("quote")]:
        return quotes if len(quotes) == len(clause.values("path")) else quotes[:1]
    for pattern in _CONTENT:
        if m := pattern.search(_with_path_marked(clause.text)):
            content = m["c"].strip().rstrip(".")
            content = re.sub(r"\s+(?:to|in|into|as)\s+(?:the )?(?:file )?@.*$", "", content)
            if content and content.lower() not in ("a file", "file", "a note", "something", "it"):
                return [content]
    return []


def _with_path_marked(text: str) -> str:
    paths = [e for e in find_entities(text) if e.kind == "path"]
    for e in reversed(paths):
        text = text[: e.start] + "@" + text[e.end :]
    return text


_REPLACE = re.compile(
    r"\b(?:replace|change|swap|substitute|edit|update|correct|modify|turn|"
    r"set)\s+(?:the (?:word|text|line)\s+)?"
    r"(?P<old>.+?)\s+(?:with|by|to|into|for)\s+(?:the (?:word|text|line)\s+)?(?P<new>.+)$",
    re.I | re.S,
)


def replacement(clause: Clause) -> tuple[str, str] | None:
    """Old and new text of "replace X with Y"."""
    quotes = [e.value for e in clause.values("quote")]
    if len(quotes) >= 2:
        return quotes[0], quotes[1]
    marked = re.sub(
        r"[\s,]*\b(?:in|inside|within|of|from)\s+(?:the )?(?:file )?@\s*,?\s*",
        " ",
        _with_path_marked(clause.text),
    )
    m = _REPLACE.search(marked.strip(" ."))
    if not m:
        return None
    old, new = (m[g].strip(" .").strip("\"'“”`") for g in ("old", "new"))
    return old, new


def _old_texts(param: Param, card: ToolCard, clause: Clause) -> Values:
    pair = replacement(clause)
    return [pair[0]] if pair else []


def _new_texts(param: Param, card: ToolCard, clause: Clause) -> Values:
    pair = replacement(clause)
    return [pair[1]] if pair else []


def _enums(param: Param, card: ToolCard, clause: Clause) -> Values:
    """Values of the list that the text names; "not shipped" names none."""
    for text in clause.texts:
        plain = mask(text, find_entities(text)).lower()
        plain = re.sub(r"\b(?:not|non|except|without)[ -]+(?:\w+ )?\w+", " ", plain)
        said = [words.stem(t) for t in _described(plain, clause)]
        hits = []
        for value in param.enum:
            parts = [words.stem(t) for t in words.tokens(str(value))]
            if parts and all(p in said for p in parts):
                hits.append((said.index(parts[0]), value))
        if hits:
            return [value for _, value in sorted(hits, key=lambda h: h[0])]
    return []


def _described(plain: str, clause: Clause) -> list[str]:
    """The words of a text without its verb: "cancel" asks for nothing that is cancelled."""
    all_words = words.tokens(plain)
    if words.is_imperative(clause.lead) and clause.lead in all_words:
        all_words.remove(clause.lead)
    return all_words


_DIRECTIONS = {
    "newest": "newest latest recent desc descending", "oldest": "oldest earliest asc ascending",
    "high": "highest largest biggest expensive high top greatest costliest desc descending",
    "low": "lowest smallest cheapest low least asc ascending",
}  # fmt: skip
_IMPLIED = {"newest": "date", "oldest": "date", "high": "amount", "low": "amount"}


def _sorts(param: Param, card: ToolCard, clause: Clause) -> Values:
    said = words.tokens(" ".join(clause.texts))
    directions = {d for d, ws in _DIRECTIONS.items() if set(said) & set(ws.split())}
    by = re.search(r"\b(?:sort(?:ed)?|order(?:ed)?)\s+by\s+(.+)$", " ".join(clause.texts), re.I)
    if not directions and not by:
        return []
    wanted = words.concepts(by[1]) if by else frozenset(_IMPLIED[d] for d in directions)
    best = max(param.enum or ("",), key=lambda v: _sort_score(str(v), wanted, directions))
    return [best] if param.enum and _sort_score(str(best), wanted, directions) >= 2 else []


def _sort_score(value: str, wanted: frozenset[str], directions: set[str]) -> int:
    parts = words.tokens(value)
    score = 2 * bool(frozenset(c for p in parts for c in words.concepts_of(p)) & wanted)
    named = {d for d, ws in _DIRECTIONS.items() if set(parts) & set(ws.split())}
    descending = value.startswith("-") or bool(named & {"newest", "high"})
    if named & directions or (directions and descending == bool(directions & {"newest", "high"})):
        score += 1
    return score


def _flags(param: Param, card: ToolCard, clause: Clause) -> Values:
    own = [words.stem(t) for t in words.content_words(param.name)]
    said = {words.stem(w) for w in clause.words}
    return [True] if own and all(t in said for t in own) else []


def _number_after(pattern: str) -> Callable[[Param, ToolCard, Clause], Values]:
    compiled = re.compile(pattern, re.I)

    def read(param: Param, card: ToolCard, clause: Clause) -> Values:
        return [int(m[1]) for text in clause.texts if (m := compiled.search(text))][:1]

    return read


_SUPERLATIVE = (
    r"(?:first|top|last|latest|newest|oldest|earliest|largest|biggest|highest|cheapest|smallest|"
    r"lowest|most expensive|most recent)"
)
_COUNTED = r"(?P<n>\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty)"
_NUMBER_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "twelve": 12, "twenty": 20,
}  # fmt: skip
_LIMITS = [
    re.compile(rf"\b(?:{_SUPERLATIVE}|limit(?: of)?|only)\s+{_COUNTED}\b", re.I),
    re.compile(rf"\b{_COUNTED}\s+{_SUPERLATIVE}\b", re.I),
]


def _limits(param: Param, card: ToolCard, clause: Clause) -> Values:
    """ "The five newest orders"; "the cheapest order" is one."""
    text = " ".join(clause.texts)
    for pattern in _LIMITS:
        if m := pattern.search(text):
            return [int(m["n"]) if m["n"].isdigit() else _NUMBER_WORDS[m["n"].lower()]]
    m = re.search(rf"\b{_SUPERLATIVE}((?: \w+){{1,3}})", text, re.I)
    one = m and any(
        words.concepts_of(w) & card.things and not w.endswith("s") for w in words.tokens(m[1])
    )
    return [1] if one and card.param("sort") else []


def _numbers(param: Param, card: ToolCard, clause: Clause) -> Values:
    named = any(words.concepts_of(w) & param.meaning for w in clause.words)
    if not (param.required or named):
        return []
    taken = {str(v) for v in _numbered(card, clause)}
    plain = [e.value for e in clause.values("number") if e.value not in taken]
    if param.type == "integer":
        return [int(Decimal(p)) for p in plain[:1]]
    return [_amount(param, p) for p in plain[:1]]


def _reasons(param: Param, card: ToolCard, clause: Clause) -> Values:
    for text in clause.texts:
        if m := re.search(r"\b(?:because|reason:?(?: is)?|since)\s+(.+)$", text, re.I):
            return [m[1].strip(" .")]
    return [e.value for e in clause.values("quote")][:1]


_STATUS = re.compile(
    r"\b(?:status|state)\s+(?:is |of |to |= ?|: ?)?([a-z_]+)|\b(?:as|to)\s+([a-z_]+)\s*$", re.I
)


def _statuses(param: Param, card: ToolCard, clause: Clause) -> Values:
    """A free-text status: the word after "status", or the value set with "as" or "to"."""
    found = [m for text in clause.texts for m in _STATUS.finditer(text)]
    said = [m[1] or m[2] for m in found]
    return [word for word in said if word.lower() not in words.STOP][:1]


def _text(param: Param, card: ToolCard, clause: Clause) -> Values:
    """Free text: what follows the parameter's own word, or a quoted value."""
    own = "|".join(re.escape(t) for t in words.tokens(param.name) if t not in words.STOP)
    after = rf"\b(?:{own})\s*(?::|=| is)?\s+(\"[^\"]+\"|'[^']+'|[\w@.-]+)" if own else r"(?!)"
    for text in clause.texts:
        m = re.search(after, text, re.I)
        if m and m[1].lower() not in words.STOP:
            return [m[1].strip("\"'")]
    if param.required or any(words.concepts_of(w) & param.meaning for w in clause.words):
        return [e.value for e in clause.values("quote")][:1]
    return []


_READERS: dict[str, Callable[[Param, ToolCard, Clause], Values]] = {
    "id": _ids,
    "url": _entities("url"),
    "email": _emails_or_names,
    "person": _emails_or_names,
    "date_from": _dates,
    "date_to": _dates,
    "date": _dates,
    "currency": _currencies,
    "amount": _amounts,
    "path": _paths,
    "folder": _entities("folder"),
    "expression": _expressions,
    "query": _queries,
    "old_text": _old_texts,
    "new_text": _new_texts,
    "content": _contents,
    "enum": _enums,
    "sort": _sorts,
    "flag": _flags,
    "page": _number_after(r"\bpage (\d+)\b"),
    "limit": _limits,
    "revision": _number_after(r"\b(?:revision|version|rev)\s+(\d+)\b"),
    "number": _numbers,
    "reason": _reasons,
    "status": _statuses,
    "text": _text,
}


def accepts(card: ToolCard, entity: Entity) -> bool:
    """Whether some parameter of the tool can take a value of this kind."""
    roles = {p.role for p in card.params}
    takes: dict[str, set[str]] = {
        "url": {"url"},
        "email": {"email", "person"},
        "date": {"date", "date_from", "date_to"},
        "period": {"date", "date_from", "date_to"},
        "money": {"amount"},
        "currency": {"currency"},
        "expression": {"expression"},
        "path": {"path"},
        "folder": {"folder", "path"},
        "id": {"id"},
    }
    return entity.kind not in takes or bool(roles & takes[entity.kind])
