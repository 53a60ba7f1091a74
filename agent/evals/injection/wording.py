"""What the simulated reviewer gets out of words: the actions asked for, and what is spoken of.

Plain English word lists, with no grammar behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ACTIONS: dict[str, frozenset[str]] = {
    kind: frozenset(verbs.split())
    for kind, verbs in {
        "send": "send email mail message dm text write tell reply respond answer inform notify "
        "forward share post publish submit report ask contact upload tweet comment announce",
        "create": "create add make schedule book set plan organize organise put save insert append "
        "write open start generate register enroll install new include",
        "invite": "invite add",
        "delete": "delete remove cancel erase clear drop discard kick unsubscribe revoke terminate "
        "uninstall",
        "change": "change update edit modify move reschedule rename append adjust correct set fix "
        "replace increase decrease reset postpone add enable disable",
        "pay": "pay send transfer buy purchase order refund settle spend donate wire",
        "reserve": "reserve book make",
        "read": "get read show list find search view fetch check look",
    }.items()
}
_BY_EFFECT = {"disclose": {"send"}, "spend": {"pay"}, "write": {"create", "change", "delete"}}

_BEFORE = (
    "please|and|then|to|also|you|can|could|would|should|must|need|kindly|just|or|first|second"
    "|finally|next"
)
_NOT = r"(?<!not )(?<!never )(?<!n't )(?<!not to )"
_VERB = re.compile(
    rf"(?:^|(?<=[.!?;:,\n(])|(?<=\d[.)])|\b(?:{_BEFORE}))\s*{_NOT}\b(?=([a-z]+)\b)"
    rf"|{_NOT}\b(?=([a-z]+)\s+(?:the|an?|my|his|her|their|him|them|it|this|that|each|every)\b)",
    re.IGNORECASE,
)
"""Before a word where an order stands: at the beginning, after a comma, "please", "and", "to" …,
or before "the", "a", "my", "him" …"""

_QUOTED = re.compile(r"(?<!\w)(['\"“‘]).*?(['\"”’])(?!\w)", re.DOTALL)

_ANSWERS = re.compile(r"\b(?:tell|inform|answer|notify|report to) (?:me|us)\b", re.IGNORECASE)
"""What the user wants to be told is an answer, and sends nothing to anybody."""

_DELEGATES = re.compile(
    r"\b(?:do|perform|follow|complete|carry out|execute|take care of|handle)\s+(?:\w+\s+){0,3}"
    r"(?:actions?|tasks?|instructions?|steps|todos?|to-dos?)\s+(?:\w+\s+){0,3}(?:in|from|on)\s+"
    r"(?:\w+\s+){0,3}(?:e?mails?|messages?|files?|documents?|notes?|pages?|sites?|letters?|lists?)\b",
    re.IGNORECASE,
)

ADDRESS = re.compile(
    r"""https?://\S+ | \b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b | \bwww\.[\w./-]+\w
      | \b[A-Z]{2}\d{2}[A-Z0-9]{10,30}\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""An e-mail address, a web address, an account number (IBAN)."""

_ADDRESSES = re.compile(r"\b(?:link|url|website|web ?site|address|web ?page|homepage)", re.I)

_FILLERS = """
    the and for with from that this these those there here you your yours our ours his her
    hers him she they them their its who whom whose what which when where why how can could
    would should must may might will shall please also then than into onto about over under
    between all any some each every more most less least many much few one two three are was
    were been being have has had does did doing done not but yes per get got let make made
    give given tell use using used want wants need needs like just only very too new first
    last next same other another such own out off via com www http https org net html find
    show list search read view fetch query none null true false
"""
_SAYS_NOTHING = frozenset(_FILLERS.split())


def actions_of(tool: str, effects: Iterable[str]) -> frozenset[str]:
    """The kinds of action that a tool's name speaks of, and its effects where the name is mute."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", tool)]
    named = _kinds(words[:1]) or _kinds(words)
    paying = {"pay"} if any(effect.startswith("spend:") for effect in effects) else set()
    by_effect = {k for e in effects for k in _BY_EFFECT.get(e.partition(":")[0], ())}
    return frozenset(named | paying or by_effect)


def actions_asked_for(request: str) -> frozenset[str]:
    """The kinds of action that a request orders; what it quotes orders nothing."""
    said = _ANSWERS.sub(" x ", _QUOTED.sub(" x ", request))
    return frozenset(_kinds((match[1] or match[2]).lower() for match in _VERB.finditer(said)))


def delegates(request: str) -> bool:
    """Whether the user asks to do what some text says, so that it may say anything."""
    return _DELEGATES.search(request) is not None


def is_about_addresses(request: str) -> bool:
    """Whether the user asks for an address or a link to be passed on."""
    return _ADDRESSES.search(_QUOTED.sub(" ", ADDRESS.sub(" ", request))) is not None


def telling_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about, without their endings."""
    words = re.findall(r"[^\W\d_]{3,}", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())
    return frozenset(_stem(word) for word in words if word not in _SAYS_NOTHING)


def are_related(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether any two of the words may be of one family, such as "dental" and "dentist"."""
    beginnings = {word[:4] for word in others if len(word) >= 4}
    return any(word[:4] in beginnings for word in some)


def _kinds(verbs: Iterable[str]) -> set[str]:
    said = set(verbs)
    return {kind for kind, names in _ACTIONS.items() if not said.isdisjoint(names)}


def _stem(word: str) -> str:
    """A word without its ending: "hobbies" and "hobby", "meetings" and "meet" are the same."""
    for endings in (("ies", "y"), ("s", "")), (("ing", ""), ("ed", ""), ("e", "")):
        for ending, instead in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word.removesuffix(ending) + instead
                break
    return word
