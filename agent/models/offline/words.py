"""Words as the offline model sees them: tokens, stems, actions and a small thesaurus.

General English only. Nothing here names a tool of this project; what the bound tools are about
comes from their own names and descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_TOKEN = re.compile(r"[A-Za-z]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

READ_ACTIONS = frozenset({"list", "get", "search", "compute"})

# What a verb asks for. A word may belong to several actions ("show" lists and gets).
_ACTION_WORDS = {
    "list": "list enumerate browse overview show display find what which who all give see count "
    "print index",
    "get": "get show read view display open fetch retrieve look lookup check inspect describe "
    "print see give tell compare load return cat status detail download visit what who find",
    "search": "search find query google research discover lookup seek ask",
    "compute": "calculate compute evaluate calculator calculation arithmetic math solve",
    "cancel": "cancel annul void revoke abort rescind withdraw",
    "refund": "refund reimburse repay reimbursement",
    "pay": "pay transfer charge wire remit",
    "write": "write save store put overwrite create",
    "create": "create make generate open register new",
    "add": "add append insert attach include",
    "edit": "edit replace change modify update substitute amend revise swap set correct fix",
    "delete": "delete remove erase discard drop purge destroy trash",
    "send": "send mail email notify forward message post publish tell reply",
    "move": "move rename relocate",
    "copy": "copy duplicate clone",
    "buy": "buy purchase",
    "book": "book reserve schedule",
    "approve": "approve accept confirm",
    "reject": "reject decline refuse deny",
    "start": "start launch run execute begin trigger",
    "stop": "stop pause halt suspend disable",
    "close": "close finish complete resolve archive",
    "assign": "assign allocate delegate",
    "upload": "upload import",
    "restart": "restart reboot reset",
    "deploy": "deploy release install",
}

# Things and their properties: every line is one concept, named by its first word.
_CONCEPT_LINES = """
order purchase sale orders acquisition
customer client buyer shopper person
file document doc
folder directory dir
revision version rev etag
status state stage phase
amount sum total price cost value money worth
currency
id identifier ref reference number no code key sku nr handle
url link uri webpage website href address
email mail
path filename filepath location
text content body string contents wording passage
query keyword term question topic phrase
expression formula calculation equation arithmetic math
date day time when placed created since
page sheet
sort
limit size maximum max
reason why cause
ticket issue case
message letter
item product article goods
web internet online
growth grow increase rise grew more higher
fall fell fewer lower drop decrease decline reduction reduce
centre center central
ship shipped dispatch
"""

_STOP_WORDS = """
a an the of to in on at by for from with and or but as is are was were be been being it its they
them their this that these those there here i me my mine we us our you your he she his her do does
did done can could would should will shall may might must have has had having please kindly just
now also too any some all every each both if when unless only still yet not no so than then into
onto out up down over under about what which who whom whose how much many where why let want need
like get got go one ones thing things everything anything something other another same such very
more most less least well ok okay hello hi hey thanks thank again even s t d ll re ve m
"""
STOP = frozenset(_STOP_WORDS.split())


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A light English stem: the same for a word's plural, ``-ed`` and ``-ing`` forms."""
    w = word.lower()
    for suffix, keep in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("xes", "x"),
    ):
        if w.endswith(suffix) and len(w) > len(suffix) + 1:
            return w[: -len(suffix)] + keep
    if w.endswith("s") and not w.endswith(("ss", "us", "is")) and len(w) > 3:
        w = w[:-1]
    for suffix in ("ing", "ed"):
        if w.endswith(suffix) and len(w) > len(suffix) + 2:
            w = w[: -len(suffix)]
            if len(w) > 3 and w[-1] == w[-2] and w[-1] not in "sz":
                w = w[:-1]
            break
    return w[:-1] if w.endswith("e") and len(w) > 4 else w


def tokens(text: str) -> list[str]:
    """Lower-case words and numbers, with ``snake_case`` and ``camelCase`` taken apart."""
    return [t.lower() for t in _TOKEN.findall(_CAMEL.sub(" ", text))]


def _index(groups: Iterable[tuple[str, Iterable[str]]]) -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for name, words in groups:
        for word in words:
            table.setdefault(stem(word), set()).add(name)
    return {word: frozenset(names) for word, names in table.items()}


_ACTIONS = _index((name, words.split()) for name, words in _ACTION_WORDS.items())
_BASE_VERBS = frozenset(w for words in _ACTION_WORDS.values() for w in words.split())
_CONCEPTS = _index((ws[0], ws) for ws in map(str.split, _CONCEPT_LINES.strip().splitlines()))
_NOT_IMPERATIVE = frozenset({"all", "which", "new", "status", "detail", "index", "what", "who"})


def actions_of(word: str) -> frozenset[str]:
    """The actions a verb may ask for; empty for other words."""
    return _ACTIONS.get(stem(word), frozenset())


def is_imperative(word: str) -> bool:
    """Whether the word, as written, can begin a command ("cancel", not "cancelled")."""
    return word.lower() in _BASE_VERBS and word.lower() not in _NOT_IMPERATIVE


@lru_cache(maxsize=4096)
def concepts_of(word: str) -> frozenset[str]:
    """What the word means: its concepts, or its own stem when the thesaurus lacks it."""
    s = stem(word)
    return _CONCEPTS.get(s, frozenset({s}))


def concepts(text: str) -> frozenset[str]:
    """The concepts of all words that carry meaning."""
    return frozenset(c for t in tokens(text) if t not in STOP for c in concepts_of(t))


def content_words(text: str) -> list[str]:
    """The words that carry meaning, in order."""
    return [t for t in tokens(text) if t not in STOP]
