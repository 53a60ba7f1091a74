"""Secrets told by the name of their field: the values of such fields, in JSON and in text, and
the same values wherever else they are said.

What goes into the record is often words about a call: an error that quotes an argument, a summary
that has it in a sentence, a log line. A value that stands under a secret-looking name is found
again there as it is, as JSON or Python spells it, encoded for an address, for HTML or in base64,
without the space around it, and cut short.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from string import ascii_letters, digits
from typing import Any
from urllib import parse

from agent.canonical import canonical_json

MASK = "«masked»"

SHORTEST = 8
"""Characters of a secret that is masked by value wherever it stands; shorter ones are words too."""

SHORTEST_ALONE = 6
"""Characters of one that is masked where it stands alone: not only letters, not within a word."""

MOST_ENCODED = 100
"""Secrets of one entry that are also looked for encoded: each takes ten times as long."""

_FEW = 64

# Matched against a name without case and separators. Counts of tokens are not secrets.
_SECRET = re.compile(
    r"password|passwd|passphrase|passcode|secret|credential|authorization|authentication"
    r"|cookie|bearer|apikey|accesskey|privatekey|signingkey|encryptionkey|connectionstring"
    r"|token(?!s|ize|izer|count|limit|usage|budget|type)|jwt$"
)
_SECRET_WHOLE = frozenset({"pwd", "pass", "auth", "pin", "otp", "cvv", "cvc", "xauth"})
# A field may also be an object, ``{"name": "Authorization", "value": …}``.
_NAMES = frozenset({"name", "key", "header", "field"})
_VALUES = frozenset({"value", "values", "val"})
_LONGEST_NAME = 64
_SEPARATORS = re.compile(r"[^a-z0-9]+")


@lru_cache(maxsize=1024)
def looks_secret(name: str) -> bool:
    """Whether a field of this name (any case, any separators) is taken to hold a secret."""
    plain = _squeezed(name)
    return plain in _SECRET_WHOLE or _SECRET.search(plain) is not None


def masked_by_name(value: Any) -> Any:
    """A copy of a JSON value in which the value of every secret-looking field is ``MASK``."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {
            key: MASK if is_secret else masked_by_name(item)
            for key, item, is_secret in _fields(value)
        }
    if isinstance(value, list | tuple):
        if _are_pairs(value):
            return [[name, MASK if _is_named(name) else masked_by_name(v)] for name, v in value]
        return [masked_by_name(item) for item in value]
    return value


def _fields(value: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, bool]]:
    """Each key and value of an object, and whether that is a secret by its name."""
    says_so = any(_is_one_of(_NAMES, key) and _is_named(item) for key, item in value.items())
    for key, item in value.items():
        yield key, item, _is_named(key) or (says_so and _is_one_of(_VALUES, key))


def _are_pairs(value: Sequence[Any]) -> bool:
    """Whether a list is one of fields, each ``[name, value]``."""
    return all(
        isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)
        for item in value
    )


def _is_one_of(names: frozenset[str], key: Any) -> bool:
    return isinstance(key, str) and key.lower() in names


def _is_named(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and looks_secret(name)


def without_secrets(value: Any, *about: Any) -> Any:
    """A copy of a JSON value without the secrets that it names, or that ``about`` names."""
    return NamedSecrets(value, *about).masked_in(masked_by_name(value))


def free_name(name: Any, taken: Mapping[Any, Any]) -> Any:
    """The name, with a number when it is taken already: masked, two can become the same."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


# --- by value -------------------------------------------------------------------------------

MARK = re.compile(r"«masked(?:: [^«»]{1,40}+)?»")
"""What stands in place of a secret, of this kind or of another."""

_CUT = re.compile(
    r"(?:…|\.\.\.|\\u2026)|\s{0,2}[\[(<{][ .…+\d]{0,20}"
    r"(?:[.…]|truncated|cut|snip|shortened|omitted|more|char|byte)",
    re.IGNORECASE,
)
"""What may stand where a text was cut short."""


class NamedSecrets:
    """The values of the secret-looking fields of some JSON values; empty when there are none.

    Too short ones are left out, such as ``true`` and most words: they occur everywhere.
    """

    def __init__(self, *values: Any) -> None:
        secrets = dict.fromkeys(secret for value in values for secret in _secrets(value))
        found = {
            form
            for number, secret in enumerate(secrets)
            for form in _forms(secret, encoded=number < MOST_ENCODED)
        }
        self._found = frozenset(found)
        self._forms = sorted(found, key=len, reverse=True)
        self._heads: dict[str, list[str]] = {}
        for form in self._forms:
            self._heads.setdefault(form[:SHORTEST_ALONE], []).append(form)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def masked(self, text: str, whole: re.Pattern[str] = MARK) -> str:
        """The text with ``MASK`` in place of each of them, also of the beginning of one that was
        cut off.

        Args:
            whole: What is left as it is, so that no part of it is taken for a secret.
        """
        if not self._forms:
            return text
        parts, done = [], 0
        for kept in whole.finditer(text):
            parts += [self._masked(text[done : kept.start()]), kept[0]]
            done = kept.end()
        return "".join([*parts, self._masked(text[done:])])

    def masked_in(self, value: Any, whole: re.Pattern[str] = MARK) -> Any:
        """A copy of a JSON value with ``masked`` texts, names too. A name can look like a
        secret's by the mark that is now in it; then its value is ``MASK``."""
        if isinstance(value, str):
            return self.masked(value, whole)
        if isinstance(value, list | tuple):
            return [self.masked_in(item, whole) for item in value]
        if isinstance(value, dict):
            result: dict[Any, Any] = {}
            for key, item in value.items():
                name = self.masked(key, whole) if isinstance(key, str) else key
                named = name != key and _is_named(name)
                result[free_name(name, result)] = MASK if named else self.masked_in(item, whole)
            return result
        return MASK if _is_number(value) and repr(value) in self._found else value

    def _masked(self, text: str) -> str:
        forms = self._begun_in(text)
        for form in forms:
            if form not in text:
                continue
            if len(form) >= SHORTEST:
                text = text.replace(form, MASK)
            else:
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])", MASK, text)
        for form in forms:
            text = _without_beginnings(form, text)
        return text

    def _begun_in(self, text: str) -> list[str]:
        """The forms whose beginning stands in a text, the longest first.

        Many are found in one pass over the text, a few sooner one after the other.
        """
        if len(self._forms) <= _FEW:
            return self._forms
        length = SHORTEST_ALONE
        parts = {text[at : at + length] for at in range(len(text) - length + 1)}
        begun = [form for head in parts & self._heads.keys() for form in self._heads[head]]
        return sorted(begun, key=len, reverse=True)


def _secrets(value: Any) -> Iterator[str]:
    """The texts and numbers that stand under secret-looking names, at any depth, also in a text
    that is JSON."""
    waiting = [(value, False)]
    while waiting:
        inner, is_secret = waiting.pop()
        match inner:
            case Mapping():
                waiting += [(item, is_secret or named) for _, item, named in _fields(inner)]
            case list() | tuple() if not is_secret and _are_pairs(inner):
                waiting += [(item, _is_named(name)) for name, item in inner]
            case list() | tuple():
                waiting += [(item, is_secret) for item in inner]
            case str() if is_secret:
                yield inner
            case _ if is_secret and _is_number(inner):
                yield repr(inner)
            case str():
                waiting.append((_within(inner), False))


def _within(text: str) -> Any:
    """The value of a text that is the JSON of an object or a list, and may name a secret."""
    if text.lstrip()[:1] not in ("{", "[") or not names_a_secret(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _forms(secret: str, *, encoded: bool) -> Iterator[str]:
    """How a value may be spelled in a text: as it is, as JSON or Python spells it, once or twice,
    and ``encoded``."""
    plain, forms = {secret, secret.strip()}, set()
    if encoded:
        forms = {form for text in plain if _is_long_enough(text) for form in encodings(text)}
    for _ in range(2):
        plain |= {spelled for form in plain for spelled in _spellings(form)}
    forms |= plain
    return (form for form in forms if _is_long_enough(form))


def _spellings(text: str) -> tuple[str, ...]:
    return (
        canonical_json(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
    )


# What the encoders of browsers and of several languages leave as it is.
_UNQUOTED = ("", "/", "!*'()", ";,/?:@&=+$!*'()#")


def encodings(text: str) -> set[str]:
    """A text as it stands in an address, in HTML, and within anything in base64."""
    found = {html.escape(text), html.escape(text, quote=False)}
    found.add(html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"))
    data = text.encode("utf-8", "surrogatepass")
    quoted = {parse.quote_plus(data), *(parse.quote(data, safe=signs) for signs in _UNQUOTED)}
    for form in quoted:
        found |= {form, re.sub("%[0-9A-F]{2}", lambda hexed: hexed[0].lower(), form)}
    return {*found, *_in_base64(data)} - {text}


def _in_base64(data: bytes) -> Iterator[str]:
    """The part of it that is the same whatever stands before and after, as in ``user:password``."""
    for before in range(3):
        whole = b64encode(bytes(before) + data).decode()
        own = whole[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        yield from (own, own.translate(_AS_IN_ADDRESSES))


_AS_IN_ADDRESSES = str.maketrans("+/", "-_")


def _is_long_enough(form: str) -> bool:
    return len(form) >= SHORTEST or (len(form) >= SHORTEST_ALONE and not form.isalpha())


def _without_beginnings(form: str, text: str) -> str:
    """The text with ``MASK`` where the beginning of a value stands before a mark of a cut, or
    before the end."""
    parts, done, head = [], 0, form[:SHORTEST_ALONE]
    at = text.find(head)
    while at >= 0:
        end = _common_end(form, text, at)
        is_cut = end - at < len(form) and (end == len(text) or _CUT.match(text, end))
        if is_cut:
            parts += [text[done:at], MASK]
            done = end
        at = text.find(head, max(at + 1, end - SHORTEST_ALONE + 1))
    return "".join([*parts, text[done:]])


def _common_end(form: str, text: str, at: int) -> int:
    """Where what the text has at this place stops being the beginning of the value."""
    length, most = SHORTEST_ALONE, min(len(form), len(text) - at)
    while length < most and text[at + length] == form[length]:
        length += 1
    return at + length


# --- in text --------------------------------------------------------------------------------

# The beginning of each kind of secret-looking name; without any of them a text has no such name.
_KINDS = re.compile(
    "pass|pwd|secret|credential|auth|cookie|bearer|key|connection|token|jwt|pin|otp|cvv|cvc"
)
# From there on: the rest of the name, perhaps of two words and in quotes, and the sign before a
# value.
REST = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]{0,64}+(?: [A-Za-z0-9_.-]{1,64}+)?+)(?P<quoted>\\{0,8}+[\"'])?+"
    r"[ \t\n]{0,4}+(?P<sign>=>|:=|[:=])[ \t\n]{0,4}+"
)
_IN_NAMES = f"{ascii_letters}{digits}_.-"
OPENING = re.compile(r"[BbRrUu]{0,2}+(\\{0,8}+)([\"'])")
CLOSING = {quote: re.compile(rf"(?<!\\)(\\*+){quote}") for quote in "\"'"}
SCHEME = re.compile(r"(?:basic|bearer|digest|negotiate|token)[ ]{1,4}+", re.IGNORECASE)
_PLAIN = r"\s\"'`,;&<>(){}\[\]\\|«»"
BARE = re.compile(rf"[^{_PLAIN}]{{4,}}+")
NO_PROSE = re.compile(rf"(?=[^{_PLAIN}\d]{{0,40}}+\d)[^{_PLAIN}]{{6,}}+")
BRACKETS = re.compile(r"\"(?:[^\"\\]++|\\.)*+\"?|'(?:[^'\\]++|\\.)*+'?|[{}\[\]]", re.DOTALL)
_NO_VALUES = frozenset({"true", "false", "null", "none", "undefined"})


# What every secret-looking name has in it, without case and separators.
_CORE = re.compile(
    "pass|pwd|secret|credential|auth|cookie|bearer|apikey|accesskey|privatekey|signingkey"
    "|encryptionkey|connectionstring|token|jwt|pin|otp|cvv|cvc"
)


def may_name_a_secret(json_text: str) -> bool:
    """A look at canonical JSON that is sure where it says no: no name in it looks secret, in no
    text of it either. An escape may hide a letter."""
    return "\\" in json_text or _CORE.search(_squeezed(json_text)) is not None


def _squeezed(text: str) -> str:
    return _SEPARATORS.sub("", text.lower())


def names_a_secret(text: str) -> bool:
    """A cheap look: whether a secret-looking name may stand in a text, or in its JSON."""
    return _KINDS.search(_lowered(text)) is not None


def masked_fields(text: str) -> str:
    """The text with ``MASK`` in place of what looks like the value of a secret-looking field: in
    JSON, whole or broken, in what Python shows, and after ``name=`` or ``name:``.

    After ``name:`` a word without quotes may be prose, so it is one only with a digit in it.
    """
    parts, done = [], 0
    for kind in _KINDS.finditer(_lowered(text)):
        rest = REST.match(text, kind.end()) if kind.start() >= done else None
        if rest is None or not _is_name(text, kind.start(), rest.end("name")):
            continue
        start, end = _value_span(text, rest)
        if start < end and not MARK.fullmatch(text, start, end):
            parts += [text[done:start], MASK]
            done = end
    return "".join([*parts, text[done:]])


def _lowered(text: str) -> str:
    """In small letters, and of the same length."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else re.sub("[A-Z]+", _in_small, text)


def _in_small(found: re.Match[str]) -> str:
    return found[0].lower()


def _is_name(text: str, kind: int, end: int) -> bool:
    """Whether a secret-looking name ends here; ``kind`` is where the beginning of it was found."""
    before = text[max(kind - 64, 0) : kind]
    words = before.rstrip(_IN_NAMES)
    if words.endswith(" "):  # the name may have begun with the word before
        words = words[:-1].rstrip(_IN_NAMES)
    name = before[len(words) :] + text[kind:end]
    return any(map(looks_secret, (name, *name.split(" "))))


def _value_span(text: str, rest: re.Match[str]) -> tuple[int, int]:
    """Where the value of a field stands, without its quotes; empty when there is none."""
    at = rest.end()
    if (opening := OPENING.match(text, at)) is not None:
        return opening.end(), _closing_quote(text, opening)
    if text.startswith(("{", "["), at):
        return at, _closing_bracket(text, at)
    scheme = SCHEME.match(text, at)
    is_data = scheme or rest["quoted"] or rest["sign"] != ":"
    bare = (BARE if is_data else NO_PROSE).match(text, scheme.end() if scheme else at)
    if bare is None or bare[0].lower() in _NO_VALUES:
        return at, at
    return bare.span()


def _closing_quote(text: str, opening: re.Match[str]) -> int:
    """Where a quoted text ends; one that was cut off ends with the text.

    Within a JSON text in a JSON text the quotes have backslashes, as many as the opening one.
    """
    level = len(opening[1])
    for quote in CLOSING[opening[2]].finditer(text, opening.end()):
        slashes = len(quote[1])
        if level == 0 and slashes % 2 == 0:
            return quote.end() - 1
        if slashes <= level and level:
            return quote.start()
    return len(text)


def _closing_bracket(text: str, at: int) -> int:
    """Where an object or array ends; one that was cut off ends with the text."""
    depth = 0
    for token in BRACKETS.finditer(text, at):
        if token[0] in ("{", "["):
            depth += 1
        elif token[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
    return len(text)
