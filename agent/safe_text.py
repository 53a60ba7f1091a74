"""Text of models and tools, made safe and honest for a terminal.

Two strengths, both total functions that keep ordinary writing of every script as it is:

- ``plain``: no control character survives, so nothing that a model or tool says can move the
  cursor, set a title, write the clipboard or reorder what was printed before it.
- ``strict``, for what a person decides on: everything without a shape of its own (zero-width
  and format characters, variation selectors, tags, spaces that are not the space) is named
  too, and letters that imitate ASCII are followed by their code point.

A character that is not printed as it is appears as a control picture (``␛``) or as
``⟨U+200B⟩``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_KEPT_CONTROLS = "\n\t"
_TAGS = range(0xE0000, 0xE0080)
# Bidirectional embeddings, overrides, isolates and marks: they reorder their neighbours.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Drawn as nothing or as a blank, although their category is "letter", "mark" or "symbol".
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
# Alphabets with letters that look like Latin ones; Latin beside them in one word is suspect.
_IMITATORS = frozenset(
    {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN", "LISU", "DESERET"}
)
# Letters that are drawn like an ASCII letter in common fonts (Unicode TR 39, the usual ones).
_DOUBLES = frozenset("аеорсухіјѕԁһӏԛԝүАВЕКМНОРСТУХІЈЅԌԚԜοαινρτυκχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսհցզՕՍ")
_JSON_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_WORD = re.compile(r"[^\W\d_]+")


def plain(text: str) -> str:
    """The text without anything that a terminal would obey; newlines and tabs stay.

    A carriage return before a newline is dropped (the line ends of other systems); every
    other one is shown, since it would overwrite the line.
    """
    return "".join(map(_plain_char, text.replace("\r\n", "\n")))


def strict(text: str) -> str:
    """The text with everything invisible or misleading named; newlines and tabs stay.

    Look-alike letters keep their shape and are followed by their code point:
    ``pа⟨U+0430⟩ypal``.
    """
    imitations = {finding.index for finding in look_alikes(text)}
    return "".join(
        char + code_point(char) if index in imitations else _strict_char(char)
        for index, char in enumerate(text)
    )


def one_line(text: str) -> str:
    """``strict`` for a value on one line: newlines and tabs are shown as ``␊`` and ``␉``."""
    return strict(text).replace("\n", "␊").replace("\t", "␉")


def shorten(text: str, width: int) -> str:
    """At most ``width`` characters, the cut marked with ``…``."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def exact_json(value: Any, *, indent: int | None = 2) -> str:
    """A JSON value as a person can read it, and as it is, character by character.

    Letters are printed as letters; whatever ``strict`` would name is a ``\\uXXXX`` escape
    instead, look-alikes included. So the text is still JSON for exactly this value: what is
    shown in an approval and what the editor starts from are the same.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    words = _JSON_ESCAPE.sub(lambda escape: " " * len(escape.group()), text)
    imitations = {finding.index for finding in look_alikes(words)}
    return "".join(
        _json_escape(char) if index in imitations or _hidden(char) else char
        for index, char in enumerate(text)
    )


@dataclass(frozen=True)
class LookAlike:
    """A letter that imitates another one.

    Args:
        index: Where it stands in the text.
        char: The letter.
        word: The word it stands in.
    """

    index: int
    char: str
    word: str

    def __str__(self) -> str:
        name = unicodedata.name(self.char, "unnamed").lower()
        return f"“{self.word}” holds {code_point(self.char)} {name}, a look-alike"


def look_alikes(text: str) -> list[LookAlike]:
    """Letters that a reader may take for others, in the order of the text.

    Three ways to imitate are found: another alphabet's letter in a word with Latin letters; a
    word wholly of letters that look Latin, where the text has no other word of that alphabet;
    and the styled or full-width forms of ASCII characters.
    """
    if text.isascii():
        return []
    found = list(_styled(text))
    lone: dict[str, list[re.Match[str]]] = {}
    genuine: set[str] = set()
    for match in _WORD.finditer(text):
        word = match.group()
        if word.isascii():
            continue
        scripts = {_script(char) for char in word}
        foreign = scripts & _IMITATORS
        if "LATIN" in scripts and foreign:
            found += _in_word(match, foreign)
        elif len(foreign) == 1:
            (script,) = foreign
            if set(word) <= _DOUBLES:
                lone.setdefault(script, []).append(match)
            else:
                genuine.add(script)
    for script, matches in lone.items():
        if script not in genuine:
            for match in matches:
                found += _in_word(match, {script})
    return sorted(found, key=lambda finding: finding.index)


def code_point(char: str) -> str:
    """``⟨U+0430⟩`` for a character."""
    return f"⟨U+{ord(char):04X}⟩"


def _in_word(match: re.Match[str], scripts: set[str] | frozenset[str]) -> Iterator[LookAlike]:
    for offset, char in enumerate(match.group()):
        if _script(char) in scripts:
            yield LookAlike(match.start() + offset, char, match.group())


def _styled(text: str) -> Iterator[LookAlike]:
    for index, char in enumerate(text):
        if ord(char) > 0x2000 and char.isalnum():
            ascii_form = unicodedata.normalize("NFKC", char)
            if len(ascii_form) == 1 and ascii_form.isascii():
                yield LookAlike(index, char, _around(text, index))


def _around(text: str, index: int) -> str:
    start = max(text.rfind(mark, 0, index) for mark in ' "\n') + 1
    ends = [end for mark in ' "\n' if (end := text.find(mark, index)) >= 0]
    return text[start : min(ends, default=len(text))]


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    return unicodedata.name(char, "?").split(" ", 1)[0]


@lru_cache(maxsize=4096)
def _plain_char(char: str) -> str:
    if char in _KEPT_CONTROLS:
        return char
    category = unicodedata.category(char)
    obeyed = category in ("Cc", "Cs", "Zl", "Zp") or char in _BIDI or ord(char) in _TAGS
    return _shown(char) if obeyed else char


@lru_cache(maxsize=4096)
def _strict_char(char: str) -> str:
    return char if char in _KEPT_CONTROLS or not _hidden(char) else _shown(char)


@lru_cache(maxsize=4096)
def _hidden(char: str) -> bool:
    """Whether the character has no shape of its own, or one that belongs to another."""
    if char in " \n\t":
        return False
    return (
        unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
        or char in _BLANKS
        or 0xFE00 <= ord(char) <= 0xFE0F
        or 0xE0100 <= ord(char) <= 0xE01EF
    )


def _shown(char: str) -> str:
    number = ord(char)
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else code_point(char)


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1] if ord(char) != 0x7F else "\\u007f"
