"""The reader of YAML: places, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.policy.document import FaultyText, Fields, Items, Place, Scalar, parse


def fault(text: str) -> tuple[int, int, str]:
    with pytest.raises(FaultyText) as caught:
        parse(text)
    found = caught.value.fault
    return found.place.line, found.place.column, found.text


def test_every_node_knows_its_place_and_no_word_becomes_something_else() -> None:
    root = parse("a: no\nb:\n  - on\n  - 'yes'\n  - 0123\n")

    assert isinstance(root, Fields)
    (a, no), (b, items) = root.entries
    assert (a.text, a.place, no) == ("a", Place(1, 1), Scalar(Place(1, 4), "no", quoted=False))
    assert (b.text, b.place) == ("b", Place(2, 1))
    assert isinstance(items, Items)
    assert items.nodes == (
        Scalar(Place(3, 5), "on", quoted=False),
        Scalar(Place(4, 5), "yes", quoted=True),
        Scalar(Place(5, 5), "0123", quoted=False),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n...\n"])
def test_a_text_without_content_has_no_fields(text: str) -> None:
    found = parse(text)
    assert found is None or (isinstance(found, Scalar) and not found.text)


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("a: &x 1", 1, 4, "anchors"),
        ("a: &x [1]\nb: *x", 1, 4, "anchors"),
        ("a: *x", 1, 4, "anchors"),
        ("a: !!python/object:os.system x", 1, 4, "tags"),
        ("a: !x {}", 1, 4, "tags"),
        ("a: 1\n---\nb: 2", 2, 1, "second document"),
        ("a: 1\nb: 2\na: 3", 3, 1, "'a' was given already, in line 1"),
        ("? [a]\n: b", 1, 3, "name of a field"),
        ("a:\n\t- b", 2, 1, "a tab"),
        ("a: [1", 2, 1, "not YAML"),
        ("a: b: c", 1, 5, "not YAML"),
        ("a: \x07", 1, 4, "control character"),
        ("a: 1\nb: x\x1b[2J", 2, 5, "control character"),
        ('when: "untrusted" in labels', 1, 19, "goes between quotes as a whole"),
    ],
)
def test_what_is_refused_is_named_with_its_place(
    text: str, line: int, column: int, said: str
) -> None:
    found = fault(text)
    assert found[:2] == (line, column)
    assert said in found[2]


@pytest.mark.parametrize("depth", [13, 1_000, 100_000])
@pytest.mark.parametrize("form", ["[", "{a: ", "- "])
def test_nesting_has_an_end(form: str, depth: int) -> None:
    assert "too deeply" in fault(form * depth)[2] or depth == 13


def test_a_bomb_of_aliases_is_refused_at_its_first_anchor() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]

    assert fault("\n".join(lines))[0] == 1


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#,?% \n\t\x00\ud800é", max_size=60))
def test_any_text_is_a_document_or_a_fault_with_a_place(text: str) -> None:
    place = Place(1, 1)
    try:
        parse(text)
    except FaultyText as error:
        place = error.fault.place
    assert place >= Place(1, 1)
