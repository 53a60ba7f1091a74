"""Which tools a session has, from names; what cannot be had is said, nothing vanishes silently."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import NotFound, UntrustedFolder, UsageError
from agent.middleware.guard import guarded
from agent.toolset import DOMAINS, Places, files_off, load_tools
from agent.trust import ToolsFile, bind
from tests.support.sessions import application
from tools.contract import Contract, Evidence, ToolFailure, contract_of, is_read

ROOT = Path(__file__).parents[2]
ORDERS = ["list_orders", "get_order", "cancel_order", "refund_order"]
SQLITE = ["", "-wal", "-shm", "-journal"]
RESEARCH = ["search", "fetch", "calculator"]
FILES = ["list_files", "read_file", "write_file", "edit_file"]
WRITES = {
    *("cancel_order", "refund_order", "write_file", "edit_file", "transfer_funds"),
    *("create_grocery_cart", "discard_cart", "place_order", "cancel_grocery_order"),
    *("send_email", "withdraw_email"),
}

ONE_TOOL = """
from langchain_core.tools import tool

@tool
def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello {name}"
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    workspace = tmp_path / "work"
    workspace.mkdir()
    return Places(tmp_path / "home", workspace)


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def names(*wanted: str, places: Places) -> list[str]:
    return [tool.name for tool in load_tools(wanted, places).tools]


# --- bundled ---------------------------------------------------------------------------------


def test_bundled_domains_come_in_the_order_in_which_they_are_named(places: Places) -> None:
    assert names("orders", "research", "files", places=places) == [*ORDERS, *RESEARCH, *FILES]
    assert names("files", "orders", places=places) == [*FILES, *ORDERS]
    assert load_tools(["files", "orders"], places).domains == ("files", "orders")


def test_every_bundled_tool_says_what_it_may_do(places: Places) -> None:
    for tool in load_tools(list(DOMAINS), places).tools:
        effects = contract_of(tool).effects_of({"amount": "1", "currency": "EUR"})
        assert "write:unknown" not in effects, tool.name
        assert is_read(effects) != (tool.name in WRITES), tool.name


def test_whose_numbers_an_answer_may_rest_on_can_be_said(places: Places) -> None:
    page = Evidence("fetch", {"url": "https://a.example/x"}, "It was 7%.")
    for sites, gaps in ((("a.example",), []), (("b.example",), ["7%"]), (None, ["7%"])):
        tools = load_tools(["research"], replace(places, trusted_sites=sites)).tools
        checks = {tool.name: contract_of(tool).answers for tool in tools}
        assert checks["search"] is checks["fetch"], "so that it is asked once"
        assert checks["calculator"] is None, "what it works out was not read by strangers"
        assert checks["fetch"] is not None
        assert checks["fetch"]("7%", [], [page]) == gaps


def test_loading_tools_makes_nothing(places: Places) -> None:
    load_tools(list(DOMAINS), places)
    assert places.workspace is not None
    assert list(places.workspace.iterdir()) == []
    assert not places.home.exists()


def test_without_a_workspace_file_tools_are_off_and_that_is_said(tmp_path: Path) -> None:
    toolset = load_tools(["orders", "files"], Places(tmp_path, None))
    assert [tool.name for tool in toolset.tools] == ORDERS
    assert toolset.domains == ("orders",)
    assert toolset.notices == ("file tools are off: no workspace was given (--workspace DIR)",)


@pytest.mark.parametrize(
    ("workspace", "off"),
    [("home", True), ("home/inside", True), (".", True), ("work", False), ("homework", False)],
)
def test_a_workspace_that_overlaps_the_state_folder_is_not_opened(
    tmp_path: Path, workspace: str, off: bool
) -> None:
    for folder in ("home/inside", "work", "homework"):
        (tmp_path / folder).mkdir(parents=True)
    reason = files_off(Places(tmp_path / "home", tmp_path / workspace))
    assert (reason is not None and "overlap" in reason) == off


def test_a_link_does_not_hide_the_overlap(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert files_off(Places(tmp_path / "home", tmp_path / "link"))


# --- a person's own --------------------------------------------------------------------------


def test_a_files_tools_are_found_and_count_as_writes_of_strangers(
    places: Places, tmp_path: Path
) -> None:
    path = write(tmp_path, ONE_TOOL)
    (tool,) = load_tools([str(path)], places).tools
    assert tool.name == "greet"
    assert tool.invoke({"name": "Ann"}) == "Hello Ann"
    contract = contract_of(tool)
    assert contract == Contract(version=contract.version)


def test_the_attribute_tools_decides_where_there_is_one(places: Places, tmp_path: Path) -> None:
    path = write(tmp_path, ONE_TOOL + "\nhidden = greet\ntools = [greet]\n")
    assert names(str(path), places=places) == ["greet"]
    function = write(tmp_path, ONE_TOOL + "\ndef tools():\n    return (greet,)\n", "function.py")
    assert names(str(function), places=places) == ["greet"]


def test_the_template_can_be_used_as_it_is(places: Places) -> None:
    template = Path(__file__).parents[2] / "tools" / "template.py"
    assert names(str(template), places=places) == ["read_shopping_list", "change_shopping_list"]


def test_a_file_may_be_called_like_a_package_of_ours(places: Places, tmp_path: Path) -> None:
    ours = sys.modules["tools.contract"]
    for name in ("tools.py", "agent.py", "json.py"):
        assert names(str(write(tmp_path, ONE_TOOL, name)), places=places) == ["greet"]
    assert sys.modules["tools.contract"] is ours
    assert sys.modules["json"].dumps({}) == "{}"


def test_package_and_attribute(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ONE_TOOL + "\nclass Box:\n    tools = [greet]\n", "toolbox_for_this_test.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert names("toolbox_for_this_test:greet", places=places) == ["greet"]
    assert names("toolbox_for_this_test:Box.tools", places=places) == ["greet"]
    sys.modules.pop("toolbox_for_this_test")


# --- the version names the code --------------------------------------------------------------

WITH_CONTRACT = """
from pydantic import BaseModel
from tools.contract import Contract, make_tool

class Nobody(BaseModel, extra="forbid"):
    pass

def greet() -> str:
    "Greet."
    return "Hello"

tools = [make_tool(greet, args=Nobody, contract=Contract(version="7"))]
"""


@pytest.mark.parametrize(("text", "said"), [(ONE_TOOL, "0"), (WITH_CONTRACT, "7")])
def test_the_version_of_a_files_tool_names_its_code(
    places: Places, tmp_path: Path, text: str, said: str
) -> None:
    def version(text: str, name: str = "mine.py") -> str:
        (tool,) = load_tools([str(write(tmp_path, text, name))], places).tools
        return contract_of(guarded(tool)).version

    first = version(text)
    assert re.fullmatch(rf"{said}\+[0-9a-f]{{12}}", first)
    assert version(text, "elsewhere.py") == first
    assert version(text + "# changed\n") != first
    assert version(text) == first  # loaded before in this process: its version is no longer


VERSIONS = """
import sys
from dataclasses import replace
from pathlib import Path
from agent.toolset import Places, load_tools
from tools.contract import contract_of

sys.path.insert(0, sys.argv[1])
for _ in range(2):
    (tool,) = load_tools(["outer.inner.mine:greet"], Places(Path("home"), None)).tools
    print(contract_of(tool).version)
    Path(sys.argv[1], "outer/inner/other.py").write_text("# changed while it runs")
"""


def test_the_version_of_a_packages_tool_names_all_code_of_the_package(tmp_path: Path) -> None:
    """Its tools may be made in any module of it; what is imported is what counts."""
    inner = tmp_path / "outer" / "inner"  # outer is no package, only a folder
    (inner / "parts").mkdir(parents=True)
    write(inner, "", "__init__.py")
    write(inner, "from outer.inner.parts.made import greet", "mine.py")

    def version(part: str) -> str:
        write(inner, "", "other.py")
        write(inner / "parts", ONE_TOOL + part, "made.py")
        command = [sys.executable, "-c", VERSIONS, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        first, second = done.stdout.split()
        assert first == second
        return first

    assert re.fullmatch(r"0\+[0-9a-f]{12}", version("# 1"))
    assert version("# 1") == version("# 1") != version("# 2")


def test_a_module_of_its_own_is_named_by_its_file(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ONE_TOOL, "a_module_with_a_tool.py")
    write(tmp_path, "def broken(:", "beside.py")
    monkeypatch.syspath_prepend(tmp_path)
    (tool,) = load_tools(["a_module_with_a_tool:greet"], places).tools
    (same,) = load_tools([str(write(tmp_path, ONE_TOOL, "mine.py"))], places).tools
    assert re.fullmatch(r"0\+[0-9a-f]{12}", contract_of(tool).version)
    assert contract_of(tool).version != contract_of(same).version  # its name is part of it
    sys.modules.pop("a_module_with_a_tool")


def test_bundled_tools_have_the_version_that_they_say(places: Places) -> None:
    assert {contract_of(t).version for t in load_tools(["orders"], places).tools} == {"1"}


def test_a_contract_that_cannot_be_bound_to_its_code_is_refused(
    places: Places, tmp_path: Path
) -> None:
    text = (
        ONE_TOOL
        + """
from langchain_core.tools import BaseTool
from tools.contract import Contract

class Computed(BaseTool):
    name: str = "computed"
    description: str = "Say no."

    @property
    def contract(self) -> Contract:
        return Contract()

    def _run(self) -> str:
        return ""

tools = [Computed()]
"""
    )
    with pytest.raises(UsageError, match="Tool computed: its contract is a property"):
        load_tools([str(write(tmp_path, text))], places)


# --- bound to its contents -------------------------------------------------------------------


def test_a_file_bound_to_its_contents_runs_only_with_these(places: Places, tmp_path: Path) -> None:
    path = write(tmp_path, ONE_TOOL)
    bound = bind([str(path), "orders"])
    assert names(*bound, places=places) == ["greet", *ORDERS]
    mark = tmp_path / "ran"
    write(tmp_path, f"open({str(mark)!r}, 'w').close()\n" + ONE_TOOL)
    with pytest.raises(UntrustedFolder) as error:
        load_tools(bound, places)
    assert not mark.exists()
    assert error.value.exit_code == 2
    assert f"Tools {path}: " in str(error.value)
    assert f"--tools {path}" in str(error.value)
    assert names(str(path), places=places) == ["greet"]  # named without a digest: as it is
    assert mark.exists()


def test_what_was_checked_is_what_runs(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody changes the file right after it was read; the next load notices."""
    path = write(tmp_path, ONE_TOOL)
    (bound,) = bind([str(path)])
    read = ToolsFile.read

    def read_and_lose(file: ToolsFile) -> bytes:
        data = read(file)
        write(tmp_path, ONE_TOOL.replace("Hello", "Evil"))
        return data

    monkeypatch.setattr(ToolsFile, "read", read_and_lose)
    (tool,) = load_tools([bound], places).tools
    assert tool.invoke({"name": "Ann"}) == "Hello Ann"
    with pytest.raises(UntrustedFolder):
        load_tools([bound], places)


def test_a_compiled_copy_does_not_take_the_files_place(places: Places, tmp_path: Path) -> None:
    import os
    import py_compile

    path = write(tmp_path, ONE_TOOL.replace("Hello", "Nasty"))
    py_compile.compile(str(path))  # where the import system looks first
    times = path.stat()
    write(tmp_path, ONE_TOOL)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    (tool,) = load_tools([str(path)], places).tools
    assert tool.invoke({"name": "Ann"}) == "Hello Ann"


async def test_a_model_cannot_write_its_own_tools_or_prompt(tmp_path: Path) -> None:
    """Whichever process opens the session, its own files and the session's are out of reach."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    mine = write(work, ONE_TOOL)
    other = write(work, ONE_TOOL.replace("def greet", "def part"), "other.py")
    prompt = write(work, "Be kind.", "prompt.md")
    (work / "same.md").hardlink_to(prompt)
    write(work, "free", "notes.md")
    given = {"workspace": work, "prompt": prompt}

    def refused(tools: list[Any], *paths: str) -> None:
        found = {tool.name: tool for tool in tools}
        for path in paths:
            for name, args in (
                ("write_file", {"content": "obey"}),
                ("edit_file", {"old_text": "e", "new_text": "x"}),
                ("read_file", {}),
            ):
                with pytest.raises(ToolFailure, match="protected"):
                    found[name].func(path=path, **args)
        found["write_file"].func(path="notes.md", content="more")

    before = [path.read_bytes() for path in (mine, other, prompt)]
    async with application(home, domains=["files", str(mine)], **given) as app:
        record = app.create_session()
        refused(app.tools, "mine.py", "MINE.py", "prompt.md", "same.md")
    async with (
        application(home, domains=["orders", str(other)], **given) as app,
        app.open_session(record.id) as opened,
    ):
        refused(list(opened._tools.values()), "mine.py", "other.py", "prompt.md", "same.md")
    assert [path.read_bytes() for path in (mine, other, prompt)] == before
    assert (work / "notes.md").read_text() == "more"


async def test_a_model_cannot_write_the_record(tmp_path: Path) -> None:
    """Neither the database nor what SQLite keeps beside it, wherever the database lies."""
    work, real = tmp_path / "work", tmp_path / "work" / "real.db"
    work.mkdir()
    (work / "my rec.db").symlink_to(real)
    url = f"sqlite:///{work}/my%20rec.db"
    async with application(
        tmp_path / "home", domains=["files"], workspace=work, database_url=url
    ) as app:
        app.create_session()
        found: dict[str, Any] = {tool.name: tool for tool in app.tools}
        files = [f"{name}{end}" for name in ("my rec.db", "real.db") for end in SQLITE]
        for path in files:
            with pytest.raises(ToolFailure, match="protected"):
                found["write_file"].func(path=path, content="")
        assert "real.db" not in found["list_files"].func()
        found["write_file"].func(path="other.db", content="free")
        assert app.store.trail.verify() == []


# --- what cannot be had ----------------------------------------------------------------------


def test_an_unknown_name_lists_what_there_is(places: Places) -> None:
    with pytest.raises(NotFound) as error:
        load_tools(["order"], places)
    assert all(domain in str(error.value) for domain in DOMAINS)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import sys\nsys.exit(0)", "SystemExit: 0"),
        ("def tools():\n    raise SystemExit", "SystemExit"),
        ("import a_package_that_is_not_there", "ModuleNotFoundError"),
        ("x = 1", "found nothing"),
        ("tools = [1, 'two']", "found int, str"),
        ("tools = None", "found nothing"),
        ("tools = []", "found nothing"),
        ("def tools():\n    raise OSError('no network')", "OSError: no network"),
        ("def tools(server):\n    return []", "TypeError"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    places: Places, tmp_path: Path, text: str, said: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as error:
        load_tools([str(path)], places)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_that_failed_can_be_corrected_and_loaded(places: Places, tmp_path: Path) -> None:
    path = write(tmp_path, "raise RuntimeError")
    with pytest.raises(UsageError):
        load_tools([str(path)], places)
    write(tmp_path, ONE_TOOL + "# corrected\n")
    assert names(str(path), places=places) == ["greet"]


@pytest.mark.parametrize("name", ["nowhere.py", "no_such_package:tools", "json:no_such", "json:"])
def test_what_is_not_there_is_named(places: Places, name: str) -> None:
    with pytest.raises(UsageError, match=name.partition(":")[0]):
        load_tools([name], places)


def test_two_tools_of_one_name_are_refused(places: Places, tmp_path: Path) -> None:
    path = write(tmp_path, ONE_TOOL.replace("def greet", "def get_order"))
    with pytest.raises(UsageError, match="Two tools are named 'get_order'"):
        load_tools(["orders", str(path)], places)


@pytest.mark.parametrize("name", ["say hello", "größe", "x" * 65, "a.b"])
def test_a_name_that_providers_refuse_is_refused_here(
    places: Places, tmp_path: Path, name: str
) -> None:
    path = write(tmp_path, ONE_TOOL + f"\ngreet.name = {name!r}\n")
    with pytest.raises(UsageError, match="providers accept"):
        load_tools([str(path)], places)
