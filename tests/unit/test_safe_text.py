"""What a terminal would obey never comes out; what a person decides on hides nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safe_text import exact_json, look_alikes, one_line, plain, shorten, strict

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too
json_text = st.text(st.characters(exclude_categories=("Cs",)))
HOSTILE = st.lists(
    st.sampled_from(
        ["\x1b]0;t\x07", "\x1b[2J", "\x9b2J", "\x9d8;;u\x9c", "\r", "\b", "\x7f", "\0", "\u202e"]
    )
    | any_text
).map("".join)


def obeyed(text: str) -> list[str]:
    return [c for c in text if (ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) <= 0x9F]


@given(HOSTILE)
def test_no_control_character_ever_comes_out(text: str) -> None:
    for function in (plain, strict, one_line):
        shown = function(text)
        assert obeyed(shown) == []
        shown.encode("utf-8")  # surrogates would fail here, as they would at the terminal
    assert not set(one_line(text)) & {"\n", "\t"}


@given(any_text)
def test_showing_twice_changes_nothing(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | json_text,
        lambda inner: st.lists(inner) | st.dictionaries(json_text, inner),
    )
)
def test_the_shown_json_is_the_value(value: object) -> None:
    shown = exact_json(value)
    assert json.loads(shown) == value
    assert obeyed(shown) == []
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a␛[31mb"),
        ("bell\x07 back\b", "bell␇ back␈"),
        ("one\r\ntwo\rthree", "one\ntwo␍three"),
        ("del\x7f csi\x9b", "del␡ csi⟨U+009B⟩"),
        ("x\u202ecod", "x⟨U+202E⟩cod"),
        ("half \ud800", "half ⟨U+D800⟩"),
        ("tag \U000e0041", "tag ⟨U+E0041⟩"),
        ("naïve Привет 日本語 👩\u200d💻\n\tend", "naïve Привет 日本語 👩\u200d💻\n\tend"),
    ],
)
def test_plain(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("no\u00a0break", "no⟨U+00A0⟩break"),
        ("soft\u00adhyphen", "soft⟨U+00AD⟩hyphen"),
        ("vs\ufe0f \U000e0101", "vs⟨U+FE0F⟩ ⟨U+E0101⟩"),
        ("filler\u3164", "filler⟨U+3164⟩"),
        ("p\u0430ypal", "p\u0430⟨U+0430⟩ypal"),
        ("\uff41dmin", "\uff41⟨U+FF41⟩dmin"),
        ("\u0440\u0430\u0443", "\u0440⟨U+0440⟩\u0430⟨U+0430⟩\u0443⟨U+0443⟩"),
        ("Привет, \u0440\u0430\u0443", "Привет, \u0440\u0430\u0443"),
        ("line\none\ttab", "line\none\ttab"),
        ("5 µs naïve 日本語A", "5 µs naïve 日本語A"),
        ("send \u2212100", "send \u2212⟨U+2212⟩100"),
        ("a\u0336b", "a\u0336⟨U+0336⟩b"),
    ],
)
def test_strict(text: str, shown: str) -> None:
    assert strict(text) == shown


def test_one_line_shows_what_would_break_the_line() -> None:
    assert one_line("a\nb\tc\r\n") == "a␊b␉c␍␊"


def test_json_escapes_what_strict_would_name() -> None:
    shown = exact_json({"to": "p\u0430ypal", "note": "a\u200bb\x7f ü \\u0430"}, indent=None)
    assert shown == '{"to": "p\\u0430ypal", "note": "a\\u200bb\\u007f ü \\\\u0430"}'


def test_a_word_of_an_alphabet_makes_nothing_ordinary_in_another_string() -> None:
    fake = "\u0440\u0430\u0443"
    assert exact_json([f"{fake} Привет"], indent=None) == f'["{fake} Привет"]'
    for value in ({"to": fake, "note": "Привет"}, {"Привет": [fake]}, ['"Привет"\n\\', fake]):
        shown = exact_json(value, indent=None)
        assert '"\\u0440\\u0430\\u0443"' in shown
        assert "Привет" in shown


def test_the_letter_of_an_escape_is_no_part_of_a_word() -> None:
    assert exact_json("one\nПривет", indent=None) == '"one\\nПривет"'


def test_a_look_alike_names_its_word_and_letter() -> None:
    (finding,) = look_alikes("pay to p\u0430ypal now")
    assert str(finding) == ("“p\u0430ypal” holds ⟨U+0430⟩ cyrillic small letter a, a look-alike")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # letters of phonetics, of old alphabets, and styled ones
        *(("p\u0251ypal", "\u0251"), ("\u0261oogle", "\u0261"), ("e\ua730\u029f", "\ua730\u029f")),
        *(("\u017fecure", "\u017f"), ("\ufb01le", "\ufb01"), ("\U0001d6c2bc", "\U0001d6c2")),
        # a letter of a language that the text is not in
        *(("m\u0131crosoft", "\u0131"), ("e\u0263e", "\u0263"), ("g\u0d20gle", "\u0d20")),
        # whole words of another alphabet
        *(("\u13e2\u13aa\u13bd", "\u13e2\u13aa\u13bd"), ("\ua4d0\ua4ee", "\ua4d0\ua4ee")),
        *(("b\u2d4fx", "\u2d4f"), ("b\u16d6x", "\u16d6")),
        # signs
        *(("\u2212100", "\u2212"), ("a\u2044b\u2215c", "\u2044\u2215"), ("1\u2024000", "\u2024")),
        *(("A\u20111", "\u2011"), ("x\ua78fy", "\ua78f"), ("to: \u2013100", "\u2013")),
        *(("\u2228isa", "\u2228"), ("http\uff1a\uff0f\uff0fx", "\uff1a\uff0f\uff0f")),
        ("銀行 http\uff1a\uff0f\uff0fx\uff0ecom へ", "\uff1a\uff0f\uff0f\uff0e"),
        # stops and separators of other scripts, where those of ASCII would stand
        *((f"a{sign}b.com", sign) for sign in "。｡۔‧٫٬։܂"),
        *((f"1{sign}000", sign) for sign in "‚‧٫٬ꓸ"),
        *(("docs/ﾉx", "ﾉ"), ("銀行 a。com へ", "。"), ("مرحبا 1٬000", "٬"), ("to acc1։", "։")),
        # strokes over a letter
        *(("b\u0335\u0336\u0337\u0338", "\u0335\u0336\u0337\u0338"), ("o\u20d2", "\u20d2")),
        # digits
        *(("1\u06600", "\u0660"), ("g\u0966ogle", "\u0966"), ("مرحبا 1\u06600", "\u0660")),
    ],
)  # fmt: skip
def test_what_imitates_ascii_is_found(text: str, found: str) -> None:
    assert "".join(finding.char for finding in look_alikes(text)) == found
    assert all(f"\\u{ord(c):04x}" in exact_json(text) for c in found if ord(c) < 0x10000)


@pytest.mark.parametrize(
    "text",
    [
        "Grüße aus Österreich: Straße 5–7, „Fußball“ – 20 °C, Größe ½ m², §§ 3 ff. … 5 × 4 µm",
        "Ça va ? « Où êtes-vous, Noël ? » l’œuvre nº 5, 1ᵉʳ mai — naïf, 12–14 h, €50–100",
        "Işık kapıyı açtı; ağır yağmur. Ayşe Yılmaz, İzmir’de 3 kişi",
        "Zażółć gęślą jaźń, Łódź, „ósmy” źdźbło",
        "Nguyễn Văn Ăn rất đẹp, Tie\u0302\u0301ng Vie\u0323\u0302t, Năm 2024 – 2025",
        "Καλημέρα σας, τι κάνετε; ο κόσμος του «νέου»",
        "Привет, как дела? Это рау и он — «Москва», сорок 5–6",
        "Слава Україні, п’ять; Ђорђе",
        "日本語のA4ノートを2冊。iPhone（64GB）、10：30に、コーヒー！",
        "中文，价格是100元；微信WeChat：第3版（新）二〇二四年",
        "한국어 텍스트 2024년, K팝",
        "Příliš žluťoučký kůň, Ðað þing, paral·lel, õun, Čeština",
        "Ɛʋegbe: aʋa kple ɖeviwo",
        "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ, ᎠᏂᎯᏓ ᎢᏴᏫ",
        "שלום עולם, וGoogle",
        "مرحبا ١٢٣ iPhone ٤",
        "ไทย ใช้iPhone๑๕เครื่อง",
        "→ • … — “a” ‹b› it’s l'eau",
        "Er sagte ‚so‘ (‚ja‘)",
        "新しいiPhone。とても良い。マーク‧トウェイン",
        "یہ iPhone۔ اچھا",
        "Բարև, iPhone։",
    ],
)
def test_ordinary_text_of_any_language_is_left_as_it_is(text: str) -> None:
    assert look_alikes(text) == []
    assert strict(text) == text


def test_shorten_marks_the_cut() -> None:
    assert [shorten("abcdef", n) for n in (6, 4, 1)] == ["abcdef", "abc…", "…"]
