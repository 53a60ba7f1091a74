"""What the trail does not keep: secrets, told by the name of their field, by their shape or by
their value.

By name, whole values of fields are masked, and the same values elsewhere in the entry
(``named_secrets``). By shape and by value, it is a part of a text, also within a key; the mark in
its place says what it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.canonical import canonical_json
from agent.store.named_secrets import (
    MASK,
    SHORTEST,
    NamedSecrets,
    encodings,
    free_name,
    masked_by_name,
    masked_fields,
    may_name_a_secret,
    names_a_secret,
)

Mask = Callable[[str], str]

OWN = "«masked: configured secret»"

OURS = frozenset(
    {"turn", "message", "call", "tool", "tool_version", "digest", "other_digest", "decided_digest"}
    | {"effects", "behavior", "rule", "approval", "kind", "attempt", "undoes", "status", "state"}
    | {"effect", "idempotency_key", "result_sha256", "sha256", "settled", "by", "decided_by", "at"}
    | {"from", "to", "server", "expires_at"}
)
"""Fields of an entry in which only the harness writes, such as ids and hashes. Whoever chooses an
argument must not be able to blank them by giving a secret-looking one the same value."""


@dataclass(frozen=True)
class Shape:
    """What a kind of secret looks like.

    ``start`` is a cheap look at the JSON of a whole entry: without a match, no such secret is in
    it. No pattern takes more than a time in proportion to the text: a repeat without a bound is
    possessive, and what it has read is not read again by an attempt that begins later.
    """

    mark: str
    start: re.Pattern[str]
    pattern: re.Pattern[str]
    becomes: str

    def masked(self, text: str) -> str:
        """The text with the mark in place of each secret of this kind."""
        return self.pattern.sub(self.becomes, text)


def _shape(kind: str, start: str, pattern: str, becomes: str = "{}") -> Shape:
    mark = f"«masked: {kind}»"
    return Shape(mark, re.compile(start), re.compile(pattern), becomes.format(mark))


def _token(kind: str, start: str, rest: str, *, after: str = "A-Za-z0-9") -> Shape:
    """A token that does not begin within a word.

    Its start stands first in the pattern, so that the search goes from one to the next.
    """
    return _shape(kind, start, f"{start}(?<![{after}]{start}){rest}")


# Words joined by hyphens are no key: there is a digit, a capital, or a long run of letters.
_KEY = r"(?=[a-z_-]{0,40}+[A-Z0-9]|[a-z]{20})[A-Za-z0-9_-]{16,}+"
_PRIVATE_KEY = r"(?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_USER = r"""[^\s/?#@:"'`<>\\«»]*+"""
_PASSWORD = r"""[^\s/?#@"'`<>\\«»]*+"""
_WORD = "[A-Za-z0-9_-]"

SHAPES = (
    _shape(
        "private key",
        "-----BEGIN ",
        # To its end; one that was cut off, as far as lines of base64 follow.
        f"-----BEGIN {_PRIVATE_KEY}"
        rf"(?:(?:[^-]++|-(?!----(?:BEGIN|END) ))*+-----END {_PRIVATE_KEY}"
        r"|(?:[\s\\nr]{0,8}[A-Za-z0-9+/=]{30,}+)*+)",
    ),
    _shape(
        "password",
        r'://[^\s/?#@:"]*+:[^\s/?#@"]*+@',
        rf"://{_USER}:(?:{_PASSWORD}@)++",
        "://{}@",
    ),
    _shape(
        "bearer token",
        "earer ",
        # Prose goes on with words: there is a digit, or it is longer than those.
        r"([Bb]earer {1,4})(?=[A-Za-z._~+/=-]{0,23}+[A-Za-z0-9._~+/=-])[A-Za-z0-9._~+/=-]{8,}+",
        r"\1{}",
    ),
    _token(
        "JSON web token",
        "eyJ",
        rf"{_WORD}{{5,}}+\.{_WORD}{{5,}}+\.{_WORD}*+(?:\.{_WORD}++\.{_WORD}++)?+",
        after="A-Za-z0-9_-",
    ),
    _token("GitHub token", "gh[pousr]_", r"[A-Za-z0-9_]{20,}+"),
    _token("GitHub token", "github_pat_", r"[A-Za-z0-9_]{20,}+"),
    _token("Slack token", "xox[a-z]-", r"[A-Za-z0-9-]{10,}+"),
    _token("AWS access key", "A[KS]IA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("Google API key", "AIza", r"[A-Za-z0-9_-]{30,}+"),
    _token("API key", "sk-", _KEY),
    _token("API key", "sk_(?:live|test)_", _KEY),
    _token("API key", "gsk_", _KEY),
    _token("API key", "lsv2_", _KEY),
)

MARKS = tuple(dict.fromkeys((MASK, OWN, *(shape.mark for shape in SHAPES))))


class Masks:
    """What one process masks. Masking twice is the same as masking once.

    Args:
        secrets: Values of its own that nobody may read in the trail, such as its API key; those
            below ``SHORTEST`` characters are left out.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = {secret for secret in secrets if len(secret) >= SHORTEST}
        encoded = {form for secret in values for form in encodings(secret)}
        own = sorted(values | encoded, key=len, reverse=True)
        self._spellings = [canonical_json(secret)[1:-1] for secret in own]
        # A mark is taken as a whole, lest a secret that is a word of it be found in there.
        self._own = re.compile("|".join(map(re.escape, [*own, *MARKS])))

    def json(self, data: Mapping[str, Any], about: Sequence[Any] = ()) -> str:
        """The canonical JSON of the data, masked.

        Args:
            about: JSON values that the data speaks of and does not hold, such as the arguments of
                its call: the secrets that they name are masked in it too.

        Raises:
            ValueError, TypeError: It is not JSON.
        """
        text = canonical_json(data)
        is_named = any(map(may_name_a_secret, (text, *map(canonical_json, about))))
        named = self._without_named(data, about) if is_named else data
        if is_named:
            text = canonical_json(named)
        found = [shape.masked for shape in SHAPES if shape.start.search(text)]
        if any(spelling in text for spelling in self._spellings):
            found.insert(0, self._without_own)
        if (is_named or found) and names_a_secret(text):
            found.append(masked_fields)
        return canonical_json(_masked_texts(named, found)) if found else text

    def _without_named(self, data: Mapping[str, Any], about: Sequence[Any]) -> dict[str, Any]:
        """A copy without the secrets that it names, and the same values wherever it says them."""
        named: dict[str, Any] = masked_by_name(data)
        secrets = NamedSecrets(data, *about)
        if not secrets:
            return named
        return {
            key: item if key in OURS else secrets.masked_in(item, self._own)
            for key, item in named.items()
        }

    def text(self, text: str) -> str:
        """The text with a mark in place of everything that has a secret's value, shape or name."""
        shapes = (shape.masked for shape in SHAPES)
        return _through([self._without_own, *shapes, masked_fields], text)

    def _without_own(self, text: str) -> str:
        return self._own.sub(lambda found: found[0] if found[0] in MARKS else OWN, text)


def _masked_texts(value: Any, masks: Sequence[Mask]) -> Any:
    """A copy with every text masked, keys too; what belongs to a masked key is ``MASK``."""
    if isinstance(value, str):
        return _through(masks, value)
    if isinstance(value, list | tuple):
        return [_masked_texts(item, masks) for item in value]
    if not isinstance(value, dict):
        return value
    result: dict[Any, Any] = {}
    for key, item in value.items():
        name = _through(masks, key) if isinstance(key, str) else key
        whole = name == key
        result[free_name(name, result)] = _masked_texts(item, masks) if whole else MASK
    return result


def _through(masks: Sequence[Mask], text: str) -> str:
    for mask in masks:
        text = mask(text)
    return text
