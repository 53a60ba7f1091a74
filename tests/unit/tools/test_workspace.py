"""The workspace: nothing outside it is reached, and a file is before or after, never between."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.worlds import workspace as module
from tools.worlds.workspace import (
    MAX_FILE_BYTES,
    NotThere,
    Workspace,
    WorkspaceError,
    WriteUnknown,
    normalise_path,
)

ROOT = Path(__file__).parents[3]
SECRET = "SECRET outside the workspace"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def workspace(tmp_path: Path, outside: Path) -> Workspace:
    root = tmp_path / "work"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "plan.md").write_text("one\ntwo\n")
    return Workspace(root)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def put(workspace: Workspace, path: str, text: str) -> None:
    """Write whatever is there now."""
    try:
        version = workspace.read(path).version
    except NotThere:
        version = None
    workspace.write(path, text, expected=version)


# Paths -------------------------------------------------------------------------------------

odd_parts = st.sampled_from(
    ["..", ".", "", "notes", "plan.md", "link", "secret.txt", "~", "...", ". .", "..\\", "a\0b"]
)
paths = st.one_of(
    st.lists(odd_parts, min_size=1, max_size=6).map("/".join),
    st.text(max_size=30),
    st.lists(odd_parts, max_size=4).map(lambda parts: "/" + "/".join(parts)),
)


@given(paths)
def test_a_normal_path_is_relative_and_stays_what_it_is(path: str) -> None:
    try:
        normal = normalise_path(path)
    except WorkspaceError:
        return
    assert normal == normalise_path(normal)
    assert not os.path.isabs(normal)
    assert not {"..", ".", ""} & set(normal.split("/"))
    assert os.path.normpath(normal) == normal


@given(path=paths)
def test_no_path_reads_or_writes_outside(
    path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("case")
    (base / "work").mkdir()
    (base / "secret.txt").write_text(SECRET)
    (base / "work" / "link").symlink_to(base)
    (base / "work" / "notes").symlink_to("..")
    workspace = Workspace(base / "work")
    with suppress(WorkspaceError):
        assert workspace.read(path).text != SECRET
    with suppress(WorkspaceError):
        workspace.write(path, "changed", expected=None)
    assert [entry.name for entry in sorted(base.iterdir())] == ["secret.txt", "work"]
    assert (base / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../outside/secret.txt", "leads out"),
        ("notes/../../outside/secret.txt", "leads out"),
        ("notes/..", "leads out"),
        ("/etc/passwd", "outside the workspace"),
        ("./~/secret.txt", "outside the workspace"),
        ("notes\\plan.md", "write / between folders"),
        ("notes/plan.md\0.txt", "control character"),
        ("notes/a\nb", "control character"),
        ("\ud800", "broken text"),
        ("notes/", "names a folder"),
        ("", "names a folder"),
        (".", "names a folder"),
        ("a" * 256, "longer than 255 bytes"),
        ("a/" * 40 + "b", "at most 32"),
    ],
)
def test_paths_that_are_refused(workspace: Workspace, path: str, words: str) -> None:
    with pytest.raises(WorkspaceError, match=words):
        workspace.read(path)
    with pytest.raises(WorkspaceError, match=words):
        workspace.write(path, "x", expected=None)


def test_a_path_has_one_spelling() -> None:
    assert normalise_path("./notes//./plan.md") == "notes/plan.md"
    assert normalise_path(".", folder=True) == normalise_path("", folder=True) == ""
    assert normalise_path("notes/", folder=True) == "notes"


# Links and special files -------------------------------------------------------------------


def test_links_are_refused_wherever_they_stand(workspace: Workspace, outside: Path) -> None:
    (workspace.root / "file").symlink_to(outside / "secret.txt")
    (workspace.root / "folder").symlink_to(outside)
    (workspace.root / "notes" / "up").symlink_to("../../outside")
    (workspace.root / "inner.md").symlink_to("notes/plan.md")
    (workspace.root / "dangling").symlink_to(outside / "new.txt")
    for path in (
        "file",
        "folder/secret.txt",
        "notes/up/secret.txt",
        "inner.md",
        "dangling",
        "folder/new/deep.txt",
    ):
        with pytest.raises(WorkspaceError, match="symbolic link"):
            workspace.read(path)
        with pytest.raises(WorkspaceError, match="symbolic link"):
            workspace.write(path, "changed", expected=None)
    with pytest.raises(WorkspaceError, match="symbolic link"):
        workspace.list("folder")
    assert contents(outside) == {"secret.txt": SECRET.encode()}
    listing = workspace.list()
    assert [entry.path for entry in listing.files] == ["notes/plan.md"]
    assert listing.skipped == 5


def test_a_workspace_may_itself_be_reached_over_a_link(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "alias").symlink_to(workspace.root)
    assert Workspace(tmp_path / "alias").read("notes/plan.md").text == "one\ntwo\n"


def test_special_files_are_refused_without_waiting(workspace: Workspace, tmp_path: Path) -> None:
    os.mkfifo(workspace.root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(workspace.root)  # a socket's path must be short
    listener.bind("socket")
    os.chdir(here)
    for path in ("pipe", "socket"):
        with pytest.raises(WorkspaceError, match="pipe, socket or device"):
            workspace.read(path)
        with pytest.raises(WorkspaceError, match="pipe, socket or device"):
            workspace.write(path, "x", expected=None)
    with pytest.raises(WorkspaceError, match="is a folder"):
        workspace.write("notes", "x", expected=None)
    with pytest.raises(WorkspaceError, match="a file, not a folder"):
        workspace.read("notes/plan.md/deeper")
    assert workspace.list().skipped == 2
    listener.close()


def swap_for_ever(real: Path, link: Path, stop: threading.Event) -> None:
    """Exchange a real folder or file and a link to the outside, again and again."""
    aside = real.with_name(real.name + ".aside")
    while not stop.is_set():
        os.rename(real, aside)
        move(link, real)
        os.rename(real, link)
        move(aside, real)


def move(source: Path, target: Path) -> None:
    """Rename, putting away what a write may have made at the target in the meantime."""
    while True:
        with suppress(OSError):
            if not os.path.lexists(target):
                os.rename(source, target)
                return
        with suppress(OSError):
            os.rename(target, target.with_name(secrets.token_hex(8)))


@pytest.mark.parametrize("swapped", ["folder", "file"])
def test_a_link_swapped_in_between_check_and_use_reaches_nothing(
    tmp_path: Path, outside: Path, swapped: str
) -> None:
    root = tmp_path / "work"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "secret.txt").write_text("inside")
    (outside / "sub").mkdir()
    before = contents(outside)
    if swapped == "folder":
        real, link = root / "folder", root / "link"
        link.symlink_to(outside)
    else:
        real, link = root / "folder" / "secret.txt", root / "folder" / "link"
        link.symlink_to(outside / "secret.txt")
    workspace, stop = Workspace(root), threading.Event()
    thread = threading.Thread(target=swap_for_ever, args=(real, link, stop))
    thread.start()
    refused = done = 0
    try:
        for n in range(600):
            try:
                if n % 2 and swapped == "folder":
                    workspace.write(f"folder/new-{n}.txt", "x", expected=None)
                else:
                    assert workspace.read("folder/secret.txt").text == "inside"
                done += 1
            except WorkspaceError:
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert done + refused == 600
    assert contents(outside) == before


def test_a_link_put_in_place_just_before_opening_is_refused(
    workspace: Workspace, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same race, at its worst instant and every time: after the check, before the open."""
    checked = Workspace._regular

    def check_then_swap(self: Workspace, folder: int, parts: tuple[str, ...]) -> object:
        info = checked(self, folder, parts)
        os.unlink(self.root / "notes" / "plan.md")
        (self.root / "notes" / "plan.md").symlink_to(outside / "secret.txt")
        return info

    monkeypatch.setattr(Workspace, "_regular", check_then_swap)
    with pytest.raises(WorkspaceError, match="cannot be used"):
        workspace.read("notes/plan.md")


# Protected files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.local",
        ".ENV",
        ".e\u200bnv",
        "notes/.env",
        ".env/inner.txt",
        ".mcp.json",
        "notes/.MCP.json",
        ".git/config",
        "notes/.git/hooks/pre-commit",
        "policy.yaml",
        "./Policy.yaml",
        "state/anything/inside.txt",
    ],
)
def test_protected_files_are_neither_read_nor_written(workspace: Workspace, path: str) -> None:
    target = workspace.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(SECRET)
    guarded = Workspace(workspace.root, [Path("policy.yaml"), workspace.root / "state"])
    with pytest.raises(WorkspaceError, match="is protected"):
        guarded.read(path)
    with pytest.raises(WorkspaceError, match="is protected"):
        guarded.write(path, "x", expected=None)
    assert target.read_text() == SECRET
    assert [entry.path for entry in guarded.list().files] == ["notes/plan.md"]


def test_another_name_of_a_protected_file_is_refused(workspace: Workspace, outside: Path) -> None:
    (workspace.root / ".env").write_text(SECRET)
    os.link(workspace.root / ".env", workspace.root / "notes" / "innocent.txt")
    os.link(outside / "secret.txt", workspace.root / "notes" / "key.txt")
    guarded = Workspace(workspace.root, [outside / "secret.txt"])
    for path in ("notes/innocent.txt", "notes/key.txt"):
        with pytest.raises(WorkspaceError, match="another name of a protected file"):
            guarded.read(path)


def test_protected_may_be_asked_anew_at_every_operation(workspace: Workspace) -> None:
    protected: list[Path] = []
    guarded = Workspace(workspace.root, lambda: protected)
    assert guarded.read("notes/plan.md").text
    protected.append(workspace.root / "notes")
    with pytest.raises(WorkspaceError, match="protected"):
        guarded.read("notes/plan.md")
    with pytest.raises(WorkspaceError, match="protected"):
        guarded.list("notes")


def test_a_workspace_inside_a_protected_folder_is_closed(workspace: Workspace) -> None:
    closed = Workspace(workspace.root, [workspace.root.parent])
    with pytest.raises(WorkspaceError, match="protected"):
        closed.read("notes/plan.md")
    with pytest.raises(WorkspaceError, match="The workspace is protected"):
        closed.list()


# Reading and listing -----------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0", b"caf\xe9", b"text\0text"])
def test_binary_files_are_refused(workspace: Workspace, data: bytes) -> None:
    (workspace.root / "file.bin").write_bytes(data)
    with pytest.raises(WorkspaceError, match=f"not UTF-8 text .{len(data)} bytes"):
        workspace.read("file.bin")


def test_large_files_are_refused(workspace: Workspace) -> None:
    (workspace.root / "large.txt").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(WorkspaceError, match=f"{MAX_FILE_BYTES + 1} bytes; at most"):
        workspace.read("large.txt")
    with pytest.raises(WorkspaceError, match="Split it"):
        workspace.write("new.txt", "x" * (MAX_FILE_BYTES + 1), expected=None)
    assert not (workspace.root / "new.txt").exists()


def test_a_missing_file_names_near_ones_but_no_protected_one(workspace: Workspace) -> None:
    (workspace.root / "notes" / ".env.plam").write_text("")
    with pytest.raises(NotThere, match=r"no file notes/plam\.md\. Near it: notes/plan\.md\. List"):
        workspace.read("notes/plam.md")
    with pytest.raises(NotThere, match="no folder note"):
        workspace.read("note/plan.md")


def test_line_ends_are_seen(workspace: Workspace) -> None:
    for name, data, crlf in (
        ("unix", b"a\nb\n", False),
        ("dos", b"a\r\nb\r\n", True),
        ("mixed", b"a\r\nb\n", False),
        ("none", b"a", False),
    ):
        (workspace.root / name).write_bytes(data)
        assert workspace.read(name).crlf is crlf
        assert workspace.read(name).text.encode() == data


def test_listing_goes_down_and_takes_patterns(workspace: Workspace) -> None:
    for path in ("a.txt", "notes/2026/b.md", "notes/2026/c.txt", "other/d.md"):
        put(workspace, path, "x")

    def listed(*args: str) -> list[str]:
        return [entry.path for entry in workspace.list(*args).files]

    assert listed() == [
        "a.txt",
        "notes/2026/b.md",
        "notes/2026/c.txt",
        "notes/plan.md",
        "other/d.md",
    ]
    assert listed("notes") == ["notes/2026/b.md", "notes/2026/c.txt", "notes/plan.md"]
    assert listed("", "*.md") == listed("", "**/*.md")
    assert listed("", "*.md") == ["notes/2026/b.md", "notes/plan.md", "other/d.md"]
    assert listed("notes", "2026/*.txt") == ["notes/2026/c.txt"]
    assert listed("", "*.png") == []
    with pytest.raises(NotThere, match="no folder missing"):
        workspace.list("missing")


def test_listing_stops_in_a_very_large_folder(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        (workspace.root / f"{n:02}.txt").write_text("")
    monkeypatch.setattr(module, "MAX_SCANNED", 20)
    listing = workspace.list()
    assert (len(listing.files), listing.complete) == (20, False)


def test_names_that_cannot_be_asked_for_are_not_listed(workspace: Workspace) -> None:
    for name in (b"new\nline", b"caf\xe9", b"back\\slash", b".00.sayso-tmp"):
        with open(os.path.join(os.fsencode(workspace.root), name), "wb"):
            pass
    assert [entry.path for entry in workspace.list().files] == ["notes/plan.md"]


def test_a_missing_workspace_says_so(tmp_path: Path) -> None:
    for operation in (lambda w: w.list(), lambda w: w.read("a"), lambda w: put(w, "a", "x")):
        with pytest.raises(WorkspaceError, match=r"cannot be opened \(No such file"):
            operation(Workspace(tmp_path / "missing"))
    assert not (tmp_path / "missing").exists()


# Writing -----------------------------------------------------------------------------------


def test_a_write_makes_folders_and_leaves_no_litter(workspace: Workspace) -> None:
    workspace.write("new/deep/file.txt", "text", expected=None)
    assert contents(workspace.root) == {
        "new/deep/file.txt": b"text",
        "notes/plan.md": b"one\ntwo\n",
    }


def test_a_write_keeps_the_mode_and_a_new_file_has_the_usual_one(workspace: Workspace) -> None:
    plan = workspace.root / "notes" / "plan.md"
    plan.chmod(0o750)
    put(workspace, "notes/plan.md", "new")
    assert stat.S_IMODE(plan.stat().st_mode) == 0o750
    umask = os.umask(0o027)
    try:
        put(workspace, "fresh.txt", "x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((workspace.root / "fresh.txt").stat().st_mode) == 0o640


def test_a_read_only_file_is_left_alone(workspace: Workspace) -> None:
    (workspace.root / "notes" / "plan.md").chmod(0o444)
    with pytest.raises(WorkspaceError, match="read-only"):
        put(workspace, "notes/plan.md", "new")
    assert workspace.read("notes/plan.md").text == "one\ntwo\n"


def test_a_file_that_changed_since_it_was_read_is_left_alone(workspace: Workspace) -> None:
    version = workspace.read("notes/plan.md").version
    (workspace.root / "notes" / "plan.md").write_text("somebody else's\n")
    for expected in (version, None):
        with pytest.raises(WorkspaceError, match="changed by somebody else"):
            workspace.write("notes/plan.md", "mine", expected=expected)
    with pytest.raises(WorkspaceError, match="changed by somebody else"):
        workspace.write("gone.txt", "mine", expected=version)
    assert contents(workspace.root) == {"notes/plan.md": b"somebody else's\n"}


def test_a_failed_write_takes_its_folders_with_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", no_space)
    with pytest.raises(WorkspaceError, match=r"No space left on device.*nothing was changed"):
        workspace.write("new/deep/file.txt", "text", expected=None)
    assert [entry.name for entry in workspace.root.iterdir()] == ["notes"]


def test_a_failed_rename_is_unknown(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(module.os, "rename", broken)
    with pytest.raises(WriteUnknown, match="may or may not"):
        put(workspace, "notes/plan.md", "new")
    assert contents(workspace.root) == {"notes/plan.md": b"one\ntwo\n"}


DISK_LIMIT = """
import resource, signal, sys
from pathlib import Path
from tools.worlds.workspace import Workspace, WorkspaceError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
workspace = Workspace(sys.argv[1])
version = workspace.read("notes/plan.md").version
try:
    workspace.write("notes/plan.md", "x" * 300_000, expected=version)
except WorkspaceError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_file_as_it_was(workspace: Workspace) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DISK_LIMIT, str(workspace.root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "notes/plan.md cannot be used (File too large); nothing was changed.\n"
    assert contents(workspace.root) == {"notes/plan.md": b"one\ntwo\n"}


WRITE_ON = """
import sys
from tools.worlds.workspace import Workspace
workspace = Workspace(sys.argv[1])
for n in range(100_000):
    text = f"{n:06}\\n" * 20_000
    workspace.write("notes/plan.md", text, expected=workspace.read("notes/plan.md").version)
    print(n, flush=True)
"""


@pytest.mark.parametrize("answers", [1, 3, 8, 20])
def test_killed_while_writing_the_file_is_before_or_after(
    workspace: Workspace, answers: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_ON, str(workspace.root)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for _ in range(answers):
        process.stdout.readline()
    process.kill()
    rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    last = answers - 1 + rest.count("\n")
    lines = workspace.read("notes/plan.md").text.splitlines()
    assert len(lines) == 20_000
    assert len(set(lines)) == 1
    assert int(lines[0]) in (last, last + 1)  # answered, or done and not yet answered
    assert [entry.path for entry in workspace.list().files] == ["notes/plan.md"]


def test_a_reader_never_sees_half_a_write(workspace: Workspace) -> None:
    texts = {letter * 200_000 for letter in "ab"}
    put(workspace, "shared.txt", "a" * 200_000)
    stop = threading.Event()

    def write_on() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            put(workspace, "shared.txt", "ab"[n % 2] * 200_000)

    thread = threading.Thread(target=write_on)
    thread.start()
    try:
        seen = {workspace.read("shared.txt").text for _ in range(200)}
    finally:
        stop.set()
        thread.join()
    assert seen <= texts
