from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import load_settings
from agent.errors import UntrustedFolder, UsageError
from agent.trust import (
    SIZE_LIMIT,
    FolderItems,
    ToolsFile,
    as_given,
    bind,
    changed_files,
    find_items,
    is_trusted,
    remember,
)

KEY = "sk-proj-0123456789abcdefWXYZ"
SERVERS = {"mcpServers": {"orders": {"command": "python"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def write(folder: Path, env: str | None = None, mcp: object = None) -> FolderItems:
    if env is not None:
        (folder / ".env").write_text(env, encoding="utf-8")
    if mcp is not None:
        (folder / ".mcp.json").write_text(json.dumps(mcp), encoding="utf-8")
    return find_items(folder)


# --- what is shown --------------------------------------------------------------------------


def test_a_plain_folder_brings_nothing(folder: Path, home: Path) -> None:
    items = find_items(folder)
    assert not items
    assert items.refused == ()
    assert is_trusted(folder, items, home)
    assert not home.exists()


def test_an_env_is_shown_by_names_and_targets(folder: Path) -> None:
    items = write(
        folder,
        f"OPENAI_API_KEY={KEY}\n"
        "OPENAI_BASE_URL=https://me:hunter2@evil.example/v1\n"
        "SAYSO_TOOLS=orders\n"
        "SAYSO_HOME=/elsewhere\n"
        "AWS_SECRET=swordfish\n",
    )
    assert items.describe() == [
        ".env",
        "  OPENAI_API_KEY=…WXYZ",
        "  OPENAI_BASE_URL=https://…@evil.example/v1",
        "  SAYSO_TOOLS=orders",
        "  ignored, a folder cannot set it: SAYSO_HOME",
        "  not used: AWS_SECRET=…",
    ]


def test_what_is_said_of_servers_stands_below_their_file(folder: Path) -> None:
    items = write(folder, "SAYSO_MAX_STEPS=1\n", SERVERS)
    assert items.describe(["orders: runs x", "  takes A"]) == [
        ".env",
        "  SAYSO_MAX_STEPS=1",
        ".mcp.json",
        "  orders: runs x",
        "    takes A",
    ]
    assert items.describe()[-1] == "  no servers"


def test_a_policy_is_one_of_them_and_what_it_allows_is_shown(folder: Path, home: Path) -> None:
    (folder / "policy.yaml").write_text("\ufeffversion: 1\n")
    items = find_items(folder)
    assert items.texts == {"policy.yaml": "version: 1\n"}
    assert items.entries == ["policy.yaml"]
    assert items.describe() == ["policy.yaml", "  1 lines"]
    assert items.describe(policy=["allows x"]) == ["policy.yaml", "  allows x"]
    remember(folder, items, home)
    (folder / "policy.yaml").write_text("version: 1\nrules: []\n")
    assert is_trusted(folder, find_items(folder), home).reason == (
        "Changed since it was confirmed: policy.yaml."
    )


def test_a_file_that_cannot_be_used_after_all_is_refused(folder: Path) -> None:
    items = write(folder, "SAYSO_MAX_STEPS=1\n", SERVERS).without(".mcp.json", "It is odd.")
    assert items.entries == [".env"]
    assert items.refused == ("It is odd.",)
    assert items.variables == {"SAYSO_MAX_STEPS": "1"}


def test_nothing_shown_can_move_the_cursor_or_hide(folder: Path) -> None:
    evil = "x\x1b[2J\u202e\u200b\n"
    items = write(
        folder, f"SAYSO_TOOLS='{evil}.py'\n{evil}=1\n", {"mcpServers": {evil: {"command": evil}}}
    )
    text = "".join(items.describe())
    assert not set(text) & set(evil[1:2] + evil[5:])


# --- what is refused ------------------------------------------------------------------------


def test_a_symbolic_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("SAYSO_MAX_STEPS=1\n")
    (folder / ".env").symlink_to(tmp_path / "real")
    items = find_items(folder)
    assert not items
    assert items.refused == (
        f"{folder}/.env is not used: it is a symbolic link; put the file itself there.",
    )


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (".env", b"#" * (SIZE_LIMIT + 1), "larger than 256 KiB"),
        (".env", b"A=\xff\n", "not UTF-8 text (byte 2)"),
        (".env", b"A=1\nB='open\n", "Line 2 is not NAME=value"),
        (".mcp.json", b" " * (SIZE_LIMIT + 1), "larger than 256 KiB"),
        (".mcp.json", b"{\xff", "not UTF-8 text (byte 1)"),
    ],
)
def test_what_cannot_be_read_is_refused(folder: Path, name: str, content: bytes, why: str) -> None:
    (folder / name).write_bytes(content)
    items = find_items(folder)
    assert not items
    assert items.variables == {}
    (sentence,) = items.refused
    assert sentence.startswith(f"{folder}/{name} is not used: ")
    assert why in sentence


def test_a_pipe_is_refused_without_waiting_for_it(folder: Path) -> None:
    os.mkfifo(folder / ".env")
    assert "not a regular file" in find_items(folder).refused[0]


def test_what_cannot_be_opened_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(".env")
        assert ".env is not used: it cannot be read (" in find_items(folder).refused[0]


def test_a_virtual_environment_called_dot_env_is_none_of_it(folder: Path) -> None:
    (folder / ".env").mkdir()
    assert find_items(folder) == FolderItems()


def test_one_refused_file_leaves_the_other(folder: Path) -> None:
    items = write(folder, "A='open\n", SERVERS)
    assert list(items.texts) == [".mcp.json"]
    assert len(items.refused) == 1


# --- what is trusted ------------------------------------------------------------------------


def test_a_confirmation_holds_for_these_contents_in_this_folder(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    items = write(folder, "SAYSO_MAX_STEPS=1\n", SERVERS)
    before = is_trusted(folder, items, home)
    assert not before
    assert before.reason == "Not confirmed yet: .env, .mcp.json."
    remember(folder, items, home)
    assert is_trusted(folder, find_items(folder), home)
    (tmp_path / "link").symlink_to(folder)
    assert is_trusted(tmp_path / "link", items, home)
    assert not is_trusted(tmp_path, items, home)


@given(position=st.integers(0, 17), byte=st.integers(1, 255))
def test_one_changed_byte_asks_again(
    tmp_path_factory: pytest.TempPathFactory, position: int, byte: int
) -> None:
    folder, home = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("home")
    items = write(folder, "SAYSO_MAX_STEPS=1\n")
    remember(folder, items, home)
    changed = bytearray(items.texts[".env"].encode())
    changed[position] ^= byte
    (folder / ".env").write_bytes(changed)
    after = find_items(folder)
    assert after.refused or is_trusted(folder, after, home).reason == (
        "Changed since it was confirmed: .env."
    )


def test_a_file_that_comes_later_asks_again_and_one_that_goes_does_not(
    folder: Path, home: Path
) -> None:
    remember(folder, write(folder, "SAYSO_MAX_STEPS=1\n"), home)
    items = write(folder, mcp=SERVERS)
    assert is_trusted(folder, items, home).reason == "Not confirmed yet: .mcp.json."
    remember(folder, items, home)
    (folder / ".env").unlink()
    assert is_trusted(folder, find_items(folder), home)


def test_what_was_confirmed_is_what_is_used(folder: Path, home: Path) -> None:
    items = write(folder, "SAYSO_MAX_STEPS=7\n")
    (folder / ".env").write_text("SAYSO_MAX_STEPS=8\n")  # between the look and the answer
    remember(folder, items, home)
    assert load_settings(env_file=items.variables, environ={}).max_steps == 7
    assert not is_trusted(folder, find_items(folder), home)


def test_code_and_prompt_that_an_env_names_are_confirmed_with_it(folder: Path, home: Path) -> None:
    (folder / "mine.py").write_text("TOOLS = []\n")
    (folder / "prompt.md").write_text("Be kind.\nBe brief.\n")
    items = write(folder, "SAYSO_TOOLS=orders, mine.py,gone.py\nSAYSO_PROMPT=prompt.md\n")
    assert items.texts["mine.py"] == "TOOLS = []\n"
    assert items.describe()[-4:] == [
        "prompt.md",
        "  named in .env; 2 lines",
        "mine.py",
        "  named in .env; 1 lines",
    ]
    remember(folder, items, home)
    (folder / "mine.py").write_text("import os; TOOLS = []\n")
    assert is_trusted(folder, find_items(folder), home).reason == (
        "Changed since it was confirmed: mine.py."
    )


def test_a_tilde_that_is_nobodys_home_is_a_file_like_any_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "~0").mkdir()
    (folder / "~0/mine.py").write_text("TOOLS = []\n")
    monkeypatch.chdir(folder)
    items = write(folder, "SAYSO_TOOLS=~0/mine.py\nSAYSO_PROMPT=~0/gone.md\n")
    assert items.texts["~0/mine.py"] == "TOOLS = []\n"
    digest = hashlib.sha256(b"TOOLS = []\n").hexdigest()
    assert items.bind(["~0/mine.py"]) == (f"{folder}/~0/mine.py@sha256:{digest}",)


def test_an_env_that_names_an_unusable_file_is_not_used(folder: Path) -> None:
    (folder / "mine.py").symlink_to("/etc/hosts")
    items = write(folder, "SAYSO_TOOLS=mine.py\n")
    assert not items
    assert items.variables == {}
    assert "it names mine.py, and it is a symbolic link" in items.refused[0]


# --- code by its contents -------------------------------------------------------------------


def test_a_file_of_tools_is_named_by_real_path_and_digest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mine.py").write_bytes(b"\xef\xbb\xbftools = []\n")
    (folder / "link.py").symlink_to("mine.py")
    monkeypatch.chdir(folder)
    digest = hashlib.sha256((folder / "mine.py").read_bytes()).hexdigest()
    name = f"{folder}/mine.py@sha256:{digest}"
    assert bind(["orders", "./mine.py", "link.py", "a.b:c"]) == ["orders", name, name, "a.b:c"]
    assert bind([name]) == [name]
    assert ToolsFile.of(name) == ToolsFile(folder / "mine.py", digest)
    assert ToolsFile.of("orders") is ToolsFile.of("mcp:desk.py:x") is None


def test_a_byte_order_mark_is_passed_over(folder: Path) -> None:
    (folder / ".mcp.json").write_text('\ufeff{"mcpServers": {}}', encoding="utf-8")
    items = write(folder, "\ufeffA=1\n")
    assert items.texts == {".env": "A=1\n", ".mcp.json": '{"mcpServers": {}}'}
    assert items.refused == ()


def test_confirmed_tools_are_bound_to_what_was_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "mine.py").write_bytes(b"\xef\xbb\xbftools = []\n")
    (folder / "other.py").write_text("tools = []\n")
    items = write(folder, "\ufeffSAYSO_TOOLS=./mine.py,orders\n")
    names = bind(["./mine.py"])
    assert items.bind(("./mine.py", "orders", "other.py")) == (*names, "orders", "other.py")
    (folder / "mine.py").write_text("evil\n")  # between the look and the load
    (bound,) = items.bind(("./mine.py",))
    with pytest.raises(UntrustedFolder):
        ToolsFile.of(bound).read()


def test_a_session_gets_other_contents_only_from_a_process_that_was_given_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    path = folder / "mine.py"
    path.write_text("tools = []\n")
    recorded = ["orders", *bind(["mine.py"])]
    assert as_given(recorded, ["mine.py"]) == ["orders", str(path)]
    assert changed_files(recorded, ["mine.py"]) == []
    path.write_text("tools = [1]\n")
    assert as_given(recorded, ["orders", "other.py"]) == recorded
    assert changed_files(recorded, ["orders"]) == []
    assert changed_files(recorded, ["mine.py"]) == [path]
    confirmed = bind(["mine.py"])
    assert as_given(recorded, confirmed) == ["orders", *confirmed]
    assert changed_files(recorded, confirmed) == [path]


def test_a_recorded_file_without_a_digest_is_loaded_only_where_it_was_given(folder: Path) -> None:
    path = folder / "mine.py"
    path.write_text("tools = []\n")
    (name,) = as_given([str(path)], ["orders"])
    with pytest.raises(UntrustedFolder, match=str(path)):
        ToolsFile.of(name).read()
    assert as_given([str(path)], [str(path)]) == [str(path)]


# --- how it is kept -------------------------------------------------------------------------


def test_confirmations_are_kept_for_their_owner_only(folder: Path, home: Path) -> None:
    items = write(folder, "SAYSO_MAX_STEPS=1\n")
    remember(folder, items, home)
    remember(folder.parent, items, home)
    assert is_trusted(folder, items, home)
    assert is_trusted(folder.parent, items, home)
    assert [path.name for path in home.iterdir()] == ["trust.json"]
    assert (home / "trust.json").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert KEY not in (home / "trust.json").read_text()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b'{"folders": 3}', b'{"folders": {"/x": 1}}', b"[" * 200_000],
)
def test_a_damaged_record_means_no_trust_and_says_so(
    folder: Path, home: Path, content: bytes
) -> None:
    items = write(folder, "SAYSO_MAX_STEPS=1\n")
    home.mkdir()
    (home / "trust.json").write_bytes(content)
    trust = is_trusted(folder, items, home)
    assert not trust
    assert "trust.json is damaged, so no folder counts as confirmed" in trust.reason
    remember(folder, items, home)
    assert is_trusted(folder, items, home)


def test_a_confirmation_that_cannot_be_kept_says_so(folder: Path, home: Path) -> None:
    home.touch()
    items = write(folder, "SAYSO_MAX_STEPS=1\n")
    with pytest.raises(UsageError, match="not recorded; you will be asked again"):
        remember(folder, items, home)


REMEMBER = """
import sys
from pathlib import Path
from agent.trust import FolderItems, remember
for number in range(25):
    folder = Path(sys.argv[2], str(number))
    remember(folder, FolderItems({".env": "A=1"}), Path(sys.argv[1]))
"""


def test_processes_that_confirm_at_once_lose_nothing(home: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", REMEMBER, str(home), name])
        for name in ("/a", "/b", "/c")
    ]
    assert [process.wait(timeout=100) for process in started] == [0, 0, 0]
    assert len(json.loads((home / "trust.json").read_text())["folders"]) == 75


def test_a_failed_write_leaves_the_record_as_it_was(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = write(folder, "SAYSO_MAX_STEPS=1\n")
    remember(folder, items, home)
    before = (home / "trust.json").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        remember(folder.parent, items, home)
    assert (home / "trust.json").read_bytes() == before
    assert [path.name for path in home.iterdir()] == ["trust.json"]
