"""The file tools as a model, a reviewer and the harness meet them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool
from pydantic import ValidationError

from tools.contract import (
    Call,
    CallInfo,
    Committed,
    OutcomeUnknown,
    ToolFailure,
    contract_of,
)
from tools.files import MAX_LISTED, MAX_SHOWN, file_tools
from tools.worlds import workspace as workspace_module
from tools.worlds.workspace import NotThere


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "plan.md").write_text("one\ntwo\nthree\n")
    return folder


@pytest.fixture
def tools(root: Path) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in file_tools(root, [root / "policy.yaml"])}


def preview(tool: BaseTool, **args: Any) -> Any:
    make = contract_of(tool).preview
    assert make is not None
    return make(args)


def scope(tool: BaseTool, path: str) -> Any:
    always = contract_of(tool).always
    assert always is not None
    return always({"path": path})


# Contracts ---------------------------------------------------------------------------------


def test_contracts(tools: dict[str, BaseTool]) -> None:
    facts = {
        name: (c.effects, c.open_world, c.private, c.idempotency)
        for name, tool in tools.items()
        if (c := contract_of(tool))
    }
    assert facts == {
        "list_files": ({"read:files"}, True, True, "none"),
        "read_file": ({"read:files"}, True, True, "none"),
        "write_file": ({"write:files"}, False, True, "natural"),
        "edit_file": ({"write:files"}, False, True, "none"),
    }


def test_calls_on_one_file_share_a_conflict_key(tools: dict[str, BaseTool]) -> None:
    keys = {
        key({"path": path})
        for name in ("read_file", "write_file", "edit_file")
        for path in ("notes/plan.md", "./notes//plan.md", "Notes/PLAN.md")
        if (key := contract_of(tools[name]).conflict_key)
    }
    assert keys == {"file:notes/plan.md"}
    key = contract_of(tools["write_file"]).conflict_key
    assert key is not None
    assert key({"path": "../x"}) is None


def test_always_covers_the_folder_and_says_so(tools: dict[str, BaseTool]) -> None:
    under = scope(tools["write_file"], "notes/2026/plan.md")
    assert under.text == "write_file under notes/2026/"
    assert under.args == {"path": {"under": "notes/2026"}}
    whole = scope(tools["edit_file"], "plan.md")
    assert whole.text == "edit_file anywhere in the whole workspace"
    assert whole.args == {"path": {"under": "."}}
    assert scope(tools["write_file"], "../plan.md") is None


def test_schemas_are_closed_and_described(tools: dict[str, BaseTool]) -> None:
    for tool in tools.values():
        schema = tool.tool_call_schema.model_json_schema()  # type: ignore[union-attr]
        assert schema["additionalProperties"] is False
        assert all(field["description"] for field in schema["properties"].values())


def test_the_schema_tells_the_model_every_bound(tools: dict[str, BaseTool]) -> None:
    schemas = {n: t.tool_call_schema.model_json_schema() for n, t in tools.items()}  # type: ignore[union-attr]
    for name, field in (
        ("list_files", "folder"),
        ("write_file", "path"),
        ("write_file", "content"),
        ("edit_file", "new_text"),
    ):
        assert schemas[name]["properties"][field]["maxLength"] >= 1_000


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a\\b", "notes/", "", "~/x"])
@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file"])
def test_bad_paths_are_bad_arguments(tools: dict[str, BaseTool], name: str, path: str) -> None:
    with pytest.raises(ValidationError):
        tools[name].invoke({"path": path, "content": "x", "old_text": "a", "new_text": "b"})
    with pytest.raises(ValidationError, match=r"path"):
        tools[name].args_schema(path=path)  # type: ignore[operator, misc]


def test_a_path_is_normalised_before_anybody_sees_it(tools: dict[str, BaseTool]) -> None:
    schema: Any = tools["write_file"].args_schema
    assert schema(path="./notes//a.md", content="").path == "notes/a.md"


# Reading -----------------------------------------------------------------------------------


def test_read_file_shows_the_text_under_a_head(tools: dict[str, BaseTool]) -> None:
    text = tools["read_file"].invoke({"path": "notes/plan.md"})
    assert text == "notes/plan.md (lines 1-3 of 3)\none\ntwo\nthree"


def test_read_file_says_where_it_was_cut(tools: dict[str, BaseTool], root: Path) -> None:
    cut = tools["read_file"].invoke({"path": "notes/plan.md", "start_line": 2, "max_lines": 1})
    assert cut == ("notes/plan.md (lines 2-2 of 3)\ntwo\n[cut: 1 more lines; next: start_line=3]")
    with pytest.raises(ToolFailure, match="has 3 lines; there is no line 4"):
        tools["read_file"].invoke({"path": "notes/plan.md", "start_line": 4})
    (root / "empty").write_text("")
    assert tools["read_file"].invoke({"path": "empty"}) == "empty (empty)"


def test_a_long_line_is_cut_with_a_mark(tools: dict[str, BaseTool], root: Path) -> None:
    (root / "long.txt").write_text("z" * (MAX_SHOWN + 7) + "\nlast\n")
    text = tools["read_file"].invoke({"path": "long.txt"})
    assert text.endswith("\n[cut: line 1 has 7 more characters; 1 more lines; next: start_line=2]")
    assert text.count("z") == MAX_SHOWN


@given(lines=st.lists(st.text("ab\u2028 ", max_size=9_000), max_size=9), size=st.integers(1, 5))
def test_reading_on_gives_every_line_once(
    lines: list[str], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("work")
    (root / "f").write_text("".join(f"{line}\n" for line in lines))
    read = file_tools(root)[1]
    seen: list[str] = []
    while len(seen) < len(lines):
        text = read.invoke({"path": "f", "start_line": len(seen) + 1, "max_lines": size})
        body = text.split("\n")[1:]
        seen += body[:-1] if body[-1].startswith("[cut: ") else body
        assert len(text) < MAX_SHOWN + 200
    assert seen == lines


def test_list_files(tools: dict[str, BaseTool], root: Path) -> None:
    found = json.loads(tools["list_files"].invoke({}))
    (entry,) = found["files"]
    assert (entry["path"], entry["bytes"]) == ("notes/plan.md", 14)
    assert entry["modified"].endswith("Z")
    assert (found["matched"], found["note"]) == (1, "All of them.")
    none = json.loads(tools["list_files"].invoke({"pattern": "*.png"}))
    assert none["note"] == "No file matches '*.png'; try without a pattern."
    (root / "link").symlink_to("notes")
    assert "1 links or special files" in json.loads(tools["list_files"].invoke({}))["note"]


def test_a_long_listing_is_cut_with_a_mark(tools: dict[str, BaseTool], root: Path) -> None:
    for n in range(MAX_LISTED + 5):
        (root / "notes" / f"{n:04}.txt").write_text("")
    found = json.loads(tools["list_files"].invoke({"folder": "notes/"}))
    assert (len(found["files"]), found["matched"]) == (MAX_LISTED, MAX_LISTED + 6)
    assert found["note"].startswith(f"The first {MAX_LISTED} of {MAX_LISTED + 6}")


# Writing -----------------------------------------------------------------------------------


def test_write_file_creates_then_replaces(tools: dict[str, BaseTool], root: Path) -> None:
    made = tools["write_file"].invoke({"path": "new/a.txt", "content": "é\n"})
    assert json.loads(made) == {
        "done": "new/a.txt created",
        "path": "new/a.txt",
        "bytes": 3,
        "lines": 1,
        "created": True,
    }
    again = json.loads(tools["write_file"].invoke({"path": "new/a.txt", "content": ""}))
    assert (again["done"], again["lines"], again["created"]) == ("new/a.txt replaced", 0, False)
    assert (root / "new" / "a.txt").read_bytes() == b""


def test_nothing_is_replaced_that_an_approval_could_not_show(
    tools: dict[str, BaseTool], root: Path
) -> None:
    (root / "picture").write_bytes(b"\x89PNG\0")
    with pytest.raises(ToolFailure, match="not UTF-8 text"):
        tools["write_file"].invoke({"path": "picture", "content": "x"})
    assert (root / "picture").read_bytes() == b"\x89PNG\0"


def test_protected_files_stay_closed(tools: dict[str, BaseTool], root: Path) -> None:
    (root / ".env").write_text("KEY=1")
    for name, args in (
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old_text": "1", "new_text": "2"}),
    ):
        for path in (".env", "policy.yaml"):
            with pytest.raises(ToolFailure, match="protected"):
                tools[name].invoke({"path": path, **args})
    assert "protected" in preview(tools["write_file"], path=".env", content="x").summary
    assert "KEY" not in repr(preview(tools["write_file"], path=".env", content="x"))


def test_edit_file_replaces_the_one_passage(tools: dict[str, BaseTool], root: Path) -> None:
    result = tools["edit_file"].invoke(
        {"path": "notes/plan.md", "old_text": "two\n", "new_text": "2\n2b\n"}
    )
    assert json.loads(result) == {
        "done": "notes/plan.md edited",
        "path": "notes/plan.md",
        "line": 2,
        "bytes": 15,
    }
    assert (root / "notes" / "plan.md").read_text() == "one\n2\n2b\nthree\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        ("one two", "three", "x", "does not contain old_text.*Read the file again"),
        ("if a:\n    b\n", "if a:\n  b", "x", "other white space"),
        ("one\ntwo\none\n", "one", "x", r"more than once in f \(lines 1 and 3\)"),
        ("aaa", "aa", "x", "more than once"),
        ("one", "one", "one", "are the same"),
    ],
)
def test_an_edit_that_does_not_fit_teaches_and_changes_nothing(
    tools: dict[str, BaseTool], root: Path, text: str, old: str, new: str, words: str
) -> None:
    (root / "f").write_text(text)
    with pytest.raises(ToolFailure, match=words):
        tools["edit_file"].invoke({"path": "f", "old_text": old, "new_text": new})
    assert "would fail" in preview(tools["edit_file"], path="f", old_text=old, new_text=new).summary
    assert (root / "f").read_text() == text


def test_an_edit_of_a_missing_file_fails(tools: dict[str, BaseTool], root: Path) -> None:
    args = {"path": "notes/new.md", "old_text": "a", "new_text": "b"}
    with pytest.raises(ToolFailure, match="There is no file"):
        tools["edit_file"].invoke(args)
    assert "would fail" in preview(tools["edit_file"], **args).summary
    assert not (root / "notes" / "new.md").exists()


def test_crlf_files_are_edited_as_they_were_shown(tools: dict[str, BaseTool], root: Path) -> None:
    (root / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    shown = tools["read_file"].invoke({"path": "dos.txt"})
    assert shown == "dos.txt (lines 1-3 of 3, lines end in CRLF)\none\ntwo\nthree"
    tools["edit_file"].invoke({"path": "dos.txt", "old_text": "one\ntwo", "new_text": "1\n2"})
    assert (root / "dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


@given(
    before=st.text("ab\n\r\u2028", max_size=30),
    start=st.integers(0, 30),
    length=st.integers(1, 8),
    new=st.text("ab\n", max_size=8),
)
def test_an_edit_does_what_its_preview_showed(
    before: str, start: int, length: int, new: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old = before[start : start + length]
    if not old:
        return
    root = tmp_path_factory.mktemp("work")
    (root / "f").write_bytes(before.encode())
    edit = file_tools(root)[3]
    shown = preview(edit, path="f", old_text=old, new_text=new)
    try:
        edit.invoke({"path": "f", "old_text": old, "new_text": new})
    except ToolFailure:
        assert "would fail" in shown.summary
        assert (root / "f").read_bytes() == before.encode()
    else:
        assert (shown.before, shown.after) == (before, (root / "f").read_bytes().decode())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("one\ntwo\nthree\n", "one\n2\nthree\n"),
        ("one\ntwo", "one\ntwo\n"),
        ("one\n", "one"),
        (None, "new\nfile\n"),
        (None, "no newline"),
        ("a\u2028b\x0cc\n", "a\u2028b\x0cd\n"),
        ("-- x\n", "++ y\n"),
    ],
)
def test_the_diff_shown_is_one_that_patch_can_apply(
    tools: dict[str, BaseTool], root: Path, before: str | None, after: str
) -> None:
    target = root / "notes" / "diffed.md"
    if before is not None:
        target.write_text(before)
    shown = preview(tools["write_file"], path="notes/diffed.md", content=after)
    subprocess.run(
        ["git", "apply", "--unsafe-paths", "-"],
        input=shown.diff,
        text=True,
        cwd=root,
        check=True,
        capture_output=True,
    )
    assert target.read_text() == after == shown.after


def test_previews_say_what_kind_of_change_it_is(tools: dict[str, BaseTool], root: Path) -> None:
    write = tools["write_file"]
    assert preview(write, path="a.md", content="x\ny\n").summary == "a.md: new file, 2 lines"
    change = preview(write, path="notes/plan.md", content="one\n2\nthree\nfour\n")
    assert change.summary == "notes/plan.md: +2 -1 lines"
    same = preview(write, path="notes/plan.md", content="one\ntwo\nthree\n")
    assert (same.summary, same.diff) == ("notes/plan.md: no difference", "")
    assert not (root / "a.md").exists()


def test_a_write_of_unknown_outcome_is_said_to_be(
    tools: dict[str, BaseTool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(workspace_module.os, "rename", broken)
    with pytest.raises(OutcomeUnknown, match="Read it to see"):
        tools["write_file"].invoke({"path": "notes/plan.md", "content": "x"})


async def test_the_tools_run_from_async_code(tools: dict[str, BaseTool]) -> None:
    await tools["write_file"].ainvoke({"path": "a.md", "content": "x"})
    assert "x" in await tools["read_file"].ainvoke({"path": "a.md"})


# The record, and undoing ---------------------------------------------------------------------


def verified(tool: BaseTool, args: dict[str, Any], result: Any) -> Any:
    check = contract_of(tool).postcondition
    assert check is not None
    return check(args, CallInfo(), result)


def found(tool: BaseTool, args: dict[str, Any], before: str = "") -> Any:
    look = contract_of(tool).reconcile
    assert look is not None
    return look(args, CallInfo(before=before))


def undone(tool: BaseTool, write: Committed) -> Call | None:
    undo = contract_of(tool).undo
    assert undo is not None
    assert undo.call is not None
    return undo.call(write)


def test_both_writes_name_the_read_that_shows_them(tools: dict[str, BaseTool]) -> None:
    for name in ("write_file", "edit_file"):
        check = contract_of(tools[name]).check
        assert check is not None
        assert check({"path": "a.md"}) == Call("read_file", {"path": "a.md"})
        assert tools["read_file"].invoke({"path": "notes/plan.md"}).startswith("notes/plan.md")


@pytest.mark.parametrize(
    ("now", "happened"),
    [("one\n", True), ("two\n", None), ("one", None), ("", None), (None, None)],
    ids=["this text", "another", "almost", "nothing", "no file"],
)
def test_only_exactly_this_text_shows_a_write(
    tools: dict[str, BaseTool], root: Path, now: str | None, happened: bool | None
) -> None:
    """Another text proves nothing: somebody may have written it since."""
    if now is not None:
        (root / "a.md").write_text(now)
    args = {"path": "a.md", "content": "one\n"}
    tool = tools["write_file"]
    assert found(tool, args).happened is happened
    assert verified(tool, args, {"done": "a.md created"}).happened is happened


EDITS: dict[str, tuple[str, str, str, bool | None]] = {
    "before it": ("milk", "bread", "buy milk\n", False),
    "after it": ("milk", "bread", "buy bread\n", True),
    "neither is there": ("milk", "bread", "buy beer\n", None),
    "both are there": ("milk", "bread", "buy milk and bread\n", None),
    "a longer passage, before it": ("milk", "oat milk", "buy milk\n", False),
    "a longer passage, after it": ("milk", "oat milk", "buy oat milk\n", None),
    "a shorter passage, before it": ("buy milk", "milk", "buy milk\n", None),
    "a shorter passage, after it": ("buy milk", "milk", "milk\n", True),
    "a removal, before it": ("milk", "", "buy milk\n", None),
    "a removal, after it": ("milk", "", "buy \n", True),
    "a removal that made the passage anew": ("ab", "", "ab", None),
    "other line ends, before it": ("a\n", "b\n", "a\r\n", False),
    "other line ends, after it": ("a\n", "b\r\n", "b\n", True),
}


@pytest.mark.parametrize(("old", "new", "now", "happened"), EDITS.values(), ids=EDITS)
def test_what_a_file_says_of_an_edit_that_may_have_happened(
    tools: dict[str, BaseTool], root: Path, old: str, new: str, now: str, happened: bool | None
) -> None:
    (root / "a.md").write_text(now)
    args = {"path": "a.md", "old_text": old, "new_text": new}
    assert found(tools["edit_file"], args).happened is happened
    kept = found(tools["edit_file"], args).record
    assert (kept["path"], kept["bytes"], len(kept["sha256"])) == ("a.md", len(now), 64)


def test_a_file_that_is_not_there_says_nothing_of_an_edit(
    tools: dict[str, BaseTool],
) -> None:
    args = {"path": "gone.md", "old_text": "a", "new_text": "b"}
    with pytest.raises(NotThere, match="gone"):
        found(tools["edit_file"], args)


@given(data=st.data())
def test_a_write_that_was_done_is_shown_by_its_record_and_one_that_was_not_is_not(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("work")
    tools = {tool.name: tool for tool in file_tools(root)}
    letters = st.text("ab\r\n", max_size=6)
    before = data.draw(letters)
    (root / "a.md").write_bytes(before.encode())
    old, new = data.draw(letters.filter(bool)), data.draw(letters)
    args = {"path": "a.md", "old_text": old, "new_text": new}
    not_yet = found(tools["edit_file"], args).happened
    try:
        result = json.loads(tools["edit_file"].invoke(args))
    except ToolFailure:
        return
    assert not_yet in (False, None)
    assert verified(tools["edit_file"], args, result).happened is True
    assert found(tools["edit_file"], args).happened in (True, None)
    assert found(tools["edit_file"], args, before).happened is True
    (root / "a.md").write_bytes(before.encode())
    assert found(tools["edit_file"], args, before).happened is False

    content = data.draw(letters)
    whole = {"path": "a.md", "content": content}
    result = json.loads(tools["write_file"].invoke(whole))
    assert verified(tools["write_file"], whole, result).happened is True


def test_an_edit_that_was_answered_and_did_not_happen_is_not_verified(
    tools: dict[str, BaseTool], root: Path
) -> None:
    args = {"path": "a.md", "old_text": "buy milk", "new_text": "milk"}
    (root / "a.md").write_text("buy milk\n")
    answer = json.loads(tools["edit_file"].invoke(args))
    assert verified(tools["edit_file"], args, answer).happened is True
    (root / "a.md").write_text("buy milk\n")
    for result in (answer, "done", None, {"bytes": "9"}):
        assert verified(tools["edit_file"], args, result).happened is None


def test_a_write_is_undone_with_what_was_there_and_a_new_file_by_hand(
    tools: dict[str, BaseTool],
) -> None:
    args = {"path": "a.md", "content": "new"}
    back = undone(tools["write_file"], Committed(args, {}, "former"))
    assert back == Call("write_file", {"path": "a.md", "content": "former"})
    assert undone(tools["write_file"], Committed(args, {}, "")) is None


def test_an_edit_is_undone_by_its_reverse_and_a_removal_by_hand(
    tools: dict[str, BaseTool],
) -> None:
    args = {"path": "a.md", "old_text": "a", "new_text": "b"}
    back = undone(tools["edit_file"], Committed(args, {}, "former"))
    assert back == Call("edit_file", {"path": "a.md", "old_text": "b", "new_text": "a"})
    assert undone(tools["edit_file"], Committed(args | {"new_text": ""}, {}, "former")) is None
