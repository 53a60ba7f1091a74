"""Text of models and tools, made safe and honest for a terminal.

Two strengths, both total functions that keep ordinary writing of every script as it is:

- ``plain``: no control character survives, so nothing that a model or tool says can move the
  cursor, set a title, write the clipboard or reorder what was printed before it.
- ``strict``, for what a person decides on: everything without a shape of its own (zero-width
  and format characters, variation selectors, tags, spaces that are not the space) is named
  too, and what imitates ASCII is followed by its code point.

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

# What looks like ASCII, after the confusables of Unicode TR 39 as far as one character stands
# for one. Alphabets with such letters; Latin beside them in one word is suspect.
_IMITATORS = frozenset(
    {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN", "LISU", "DESERET"}
    | {"BAMUM", "CANADIAN", "CARIAN", "ELBASAN", "GOTHIC", "LYCIAN", "MIAO", "OLD", "OSAGE"}
    | {"OSMANYA", "RUNIC", "TIFINAGH", "VAI", "WARANG"}
)
# Letters of these that are drawn like one of ASCII in common fonts.
_DOUBLES = frozenset(
    "аеорсухіјѕԁһӏԛԝүѵѡАВЕКМНОРСТУХІЈЅԌԚԜҮѴӀοαινρτυκχϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿϜϺϒօոսհցզՕՍ"
    "ᎪᏏᏴꮯᏟᏧᎠᎬᏀᏳᏂᎻꭵᎥᎫᏦᏞᎷᏢꮁᎡᏒꮪᏕᏚᎢꮩᏙꮃᎳᏔᎩᎽꮓᏃꓮꓐꓚꓒꓓꓰꓝꓖꓧꓙꓗꓲꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ"
    "ᗅᑲᖯᗷᑯᗞᗪᖴᕼᒍᒪᗰᑭᖇᑌᐯ᙮ᕁᕽ᙭ⲥⲤⲎⲔⲒⳐⲘⲚⲟⲞⲣⲢⲅⲦⲬⲨ𐐽𐐕𐐛𐐬𐐄𐑈𐐠ⴹⵏⵔⵕⴸⵝ𐓪𐓂𐒴𐓶𐓎ᚲᛕᛁᛖᚷ"
    "𐌁𐌂𐌠𐌉𐌑𐌕𐌢𐌗𐊂𐊆𐊇𐊊𐊒𐊕𐊖𐊗𐊐𐊠𐊡𐊢𐊥𐋏𐊰𐊫𐊱𐊴𐊲𐔜𐔥𐔘𐔦𐔓𐔖𐔝𐔧𖽀𖼨𖼖𖼵𖼺𖼊𖽂𖼈𖽃"
    "𑣲𑣩𑢦𑢮𑣂𑢢𑣃𑢣𑢲𑣈𑣗𑣠𑢵𑣁𑢼𑣘𑢸𑣀𑢠𑣯𑣦𑣬𑣜𑢤𑣄𑢥𑢩"
)
# Latin letters of phonetics and of alphabets that nobody writes today.
_PHONETIC = frozenset("ɑƄꞴꬲꬵꞙꞘſẝɡᶃƍꞲƖǀᴑꬽꭇꭈƦƽꞟꭎꭒɯꞳᶌỿꭚꞁĸȷƧꞫȜƷꝪƼȢȣꝮ")
_SMALL_CAPITAL = "LATIN LETTER SMALL CAPITAL"
# Latin letters of some languages: ordinary where the text has others of those languages.
_AFRICAN = frozenset("ɛƐɔƆŋŊɖƉɗƊɓƁƒƘƙɲƝǝƎḍḥṛṣṭẓ")
_ORDINARY_BESIDE = {"ı": frozenset("ğĞşŞİəƏ"), "ɣ": _AFRICAN, "ɩ": _AFRICAN, "ʋ": _AFRICAN}
# Signs that are drawn like one of ASCII. Quotes and apostrophes are not among them: every
# language has its own.
_SIGNS = frozenset("−‐‑‒⁃˗⁄∕╱⟋⧸∖╲⟍⧵⧹․ꞏ⁎∗∶ː˸꞉⁚︰∣￨ǃ∼")
# A dash in the place of a minus sign.
_AS_MINUS = re.compile(r"(?<![\w)\]%.,–—―])[–—―](?=[.,]?\d)")
# Wide signs are ordinary in East Asian text, but not within an address, a path or a number.
_WIDE = re.compile(r"[\uff01-\uff5e\ufe50-\ufe6b]")
_WIDE_WITHIN = re.compile(r"(?<=[!-~])：?[．／＼＠＿－ノ丿丶〇ー一]+：?(?=[!-~])")
_BESIDE_ASCII = "(?<=[A-Za-z0-9])[{0}]+|[{0}]+(?=[A-Za-z0-9])"
_SIGN_AS_LETTER = re.compile(_BESIDE_ASCII.format("℮⍺⍳⍴∪⋃∨⋁⊤⟙⤫⤬⨯╳"))
# Stops, separators and strokes of other scripts, drawn like those of ASCII: suspect within an
# address, a path or a number, and beside ASCII in a text that has nothing else of their script.
# The low comma is a quote too, so it is one only between two words.
_FOREIGN_SIGNS = "。｡۔‧٫٬։ﾉꓸ܂"
_SIGN_WITHIN = re.compile(
    f"(?<=[!-~])[{_FOREIGN_SIGNS}]+(?=[!-~])|(?<=[A-Za-z0-9])‚(?=[A-Za-z0-9])"
)
_STRAY_SIGN = re.compile(_BESIDE_ASCII.format(_FOREIGN_SIGNS))
_EAST_ASIAN_SIGNS = frozenset("。｡‧ﾉ")
# Letters and marks of other scripts that are drawn like o, l or U; and digits of any.
_STRANGER = re.compile(_BESIDE_ASCII.format("וןסاهہھەߋߊഠംଠဝංംಂଂዐሀ"))
_OTHER_DIGIT = re.compile(_BESIDE_ASCII.format(r"^\D0-9"))
_OVERLAY = 1
"""The combining class of strokes that are drawn over a letter."""

_NEAR = 40
"""Characters on either side of a look-alike that are shown with it."""

_JSON_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_JSON_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_WORD = re.compile(r"[^\W\d_]+")


def plain(text: str) -> str:
    """The text without anything that a terminal would obey; newlines and tabs stay.

    A carriage return before a newline is dropped (the line ends of other systems); every
    other one is shown, since it would overwrite the line.
    """
    return "".join(map(_plain_char, text.replace("\r\n", "\n")))


def strict(text: str) -> str:
    """The text with everything invisible or misleading named; newlines and tabs stay.

    Look-alikes keep their shape and are followed by their code point: ``pа⟨U+0430⟩ypal``.
    """
    imitations = _imitations(text)
    return "".join(
        char + code_point(char) if index in imitations else _strict_char(char)
        for index, char in enumerate(text)
    )


def one_line(text: str) -> str:
    """``strict`` for a value on one line: newlines and tabs are shown as ``␊`` and ``␉``."""
    return strict(text).replace("\n", "␊").replace("\t", "␉")


def spelled(name: str) -> str:
    """A name of a stranger's choice: as it is when it is plain, else as its JSON string.

    So it is on one line, and none of it can pass for what stands around it.
    """
    return name if _PLAIN_NAME.fullmatch(name) else exact_json(name, indent=None)


def shorten(text: str, width: int) -> str:
    """At most ``width`` characters, the cut marked with ``…``."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def exact_json(value: Any, *, indent: int | None = 2) -> str:
    """A JSON value as a person can read it, and as it is, character by character.

    Letters are printed as letters; whatever ``strict`` would name is a ``\\uXXXX`` escape
    instead, look-alikes included (each string is judged by itself). So the text is still JSON
    for exactly this value: what is shown in an approval and what the editor starts from are the
    same.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    imitations = set(_imitations_in_json(text))
    return "".join(
        _json_escape(char) if index in imitations or _hidden(char) else char
        for index, char in enumerate(text)
    )


@dataclass(frozen=True)
class LookAlike:
    """A character that imitates another one.

    Args:
        index: Where it stands in the text.
        char: The character.
        word: The word it stands in.
    """

    index: int
    char: str
    word: str

    def __str__(self) -> str:
        name = unicodedata.name(self.char, "unnamed").lower()
        return f"“{self.word}” holds {code_point(self.char)} {name}, a look-alike"


def look_alikes(text: str) -> list[LookAlike]:
    """Characters that a reader may take for those of ASCII, in the order of the text.

    These ways to imitate are found:

    - the styled form of a letter or digit, a letter of phonetics, a sign that is drawn like one
      of ASCII, a stroke over a letter;
    - a dash before a number, a full-width sign in text that is not East Asian;
    - another alphabet's letter in a word with Latin letters, and a word wholly of letters that
      look Latin, where the text has no other word of that alphabet;
    - a letter of some language, or a digit or a sign of another script, beside ASCII, where the
      text has nothing else of it, and such a sign within ASCII.
    """
    found = sorted(_imitations(text))
    return [LookAlike(index, text[index], _around(text, index)) for index in found]


def code_point(char: str) -> str:
    """``⟨U+0430⟩`` for a character."""
    return f"⟨U+{ord(char):04X}⟩"


def _imitations(text: str) -> set[int]:
    """Where the look-alikes of a text stand."""
    if text.isascii():
        return set()
    return {*_alone(text), *_by_place(text), *_in_alphabets(text), *_strays(text)}


def _imitations_in_json(text: str) -> Iterator[int]:
    """The same in a JSON text: words of one string make nothing ordinary in another."""
    if text.isascii():
        return
    for string in _JSON_STRING.finditer(text):
        words = _JSON_ESCAPE.sub(lambda escape: " " * len(escape[0]), string[1])
        yield from (string.start(1) + index for index in _imitations(words))


def _alone(text: str) -> Iterator[int]:
    """What is suspect wherever it stands."""
    return (index for index, char in enumerate(text) if _imitates(char))


@lru_cache(maxsize=4096)
def _imitates(char: str) -> bool:
    if char.isascii():
        return False
    if char in _PHONETIC or char in _SIGNS or unicodedata.combining(char) == _OVERLAY:
        return True
    if ord(char) > 0x2000 and char.isalnum():
        unstyled = unicodedata.normalize("NFKC", char)
        is_letters = unstyled.isascii() and (len(unstyled) == 1 or char.isalpha())
        if is_letters or (unstyled != char and unstyled in _DOUBLES):
            return True
    return unicodedata.name(char, "").startswith(_SMALL_CAPITAL)


def _by_place(text: str) -> Iterator[int]:
    """Signs that are suspect where they stand."""
    wide = _WIDE_WITHIN if _is_east_asian(text) else _WIDE
    for sign in (_AS_MINUS, _SIGN_AS_LETTER, _SIGN_WITHIN, wide):
        for match in sign.finditer(text):
            yield from range(*match.span())


def _is_east_asian(text: str) -> bool:
    return any(char.isalpha() and unicodedata.east_asian_width(char) == "W" for char in text)


def _in_alphabets(text: str) -> Iterator[int]:
    """Letters of another alphabet among Latin ones, and words that only look Latin."""
    lone: dict[str, list[re.Match[str]]] = {}
    genuine: set[str] = set()
    for match in _WORD.finditer(text):
        word = match.group()
        if word.isascii():
            continue
        scripts = {_script(char) for char in word}
        foreign = scripts & _IMITATORS
        if "LATIN" in scripts and foreign:
            yield from _of_scripts(match, foreign)
        elif len(foreign) == 1:
            (script,) = foreign
            if set(word) <= _DOUBLES:
                lone.setdefault(script, []).append(match)
            else:
                genuine.add(script)
    for script, matches in lone.items():
        if script not in genuine:
            for match in matches:
                yield from _of_scripts(match, {script})


def _of_scripts(match: re.Match[str], scripts: set[str] | frozenset[str]) -> Iterator[int]:
    return (i for i in range(*match.span()) if _script(match.string[i]) in scripts)


def _strays(text: str) -> Iterator[int]:
    """Letters, digits and signs that are ordinary in some texts, and not in this one."""
    for char, beside in _ORDINARY_BESIDE.items():
        if char in text and beside.isdisjoint(text):
            yield from (index for index, other in enumerate(text) if other == char)
    scripts = _scripts(_STRANGER.sub("", text))
    for match in _STRANGER.finditer(text):
        if _script(match[0][0]) not in scripts:
            yield from range(*match.span())
    yield from _stray_signs(text)
    for match in _OTHER_DIGIT.finditer(text):
        in_a_number = text[match.start() - 1 : match.start()].isdecimal() or (
            text[match.end() : match.end() + 1].isdecimal()
        )
        if in_a_number or _script(match[0][0]) not in scripts:
            yield from range(*match.span())


def _stray_signs(text: str) -> Iterator[int]:
    found = [*_STRAY_SIGN.finditer(text)]
    if not found:
        return
    scripts, is_east_asian = _scripts(_STRAY_SIGN.sub("", text)), _is_east_asian(text)
    for match in found:
        at_home = is_east_asian and match[0][0] in _EAST_ASIAN_SIGNS
        if not at_home and _script(match[0][0]) not in scripts:
            yield from range(*match.span())


def _scripts(text: str) -> set[str]:
    return {_script(char) for char in text if char.isalpha()}


def _around(text: str, index: int) -> str:
    """The word at this place; of a long one, what is near."""
    first, last = max(index - _NEAR, 0), index + _NEAR
    start = max(first, *(text.rfind(mark, first, index) + 1 for mark in ' "\n'))
    ends = [end for mark in ' "\n' if (end := text.find(mark, index, last)) >= 0]
    return text[start : min(ends, default=last)]


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    name = unicodedata.name(char, "?").removeprefix("EXTENDED ")  # "EXTENDED ARABIC-INDIC DIGIT"
    return re.split("[ -]", name, maxsplit=1)[0]


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
