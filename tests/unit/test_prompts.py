"""What the model reads: the prompts, the tools as they are sent, the words of the harness.

Snapshots, so that a change of any of it is seen in a review. After a change that is meant:

    pytest tests/unit/test_prompts.py -p no:xdist --inline-snapshot=fix
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import Any

import pytest
from inline_snapshot import external_file
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

import prompts
from agent.evals.driving import converse
from agent.evals.reviewers import approves
from agent.models.scripted import ScriptedChatModel
from agent.toolset import DOMAINS, Places, load_tools
from tests.support.sessions import session

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bundled(tmp_path: Path) -> tuple[BaseTool, ...]:
    """Every bundled tool, over empty worlds."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    return load_tools(list(DOMAINS), Places(tmp_path / "home", workspace)).tools


def test_the_system_prompt_of_all_domains() -> None:
    assert prompts.system_prompt(DOMAINS) == external_file(
        "snapshots/system_prompt.md", format=".txt"
    )


def test_the_tools_as_the_model_sees_them(bundled: tuple[BaseTool, ...]) -> None:
    shown = {tool.name: convert_to_openai_tool(tool)["function"] for tool in bundled}
    assert shown == external_file("snapshots/tools.json")


def test_every_tool_says_what_each_argument_is_and_takes_no_others(
    bundled: tuple[BaseTool, ...],
) -> None:
    assert len(bundled) == 28
    for tool in bundled:
        function = convert_to_openai_tool(tool)["function"]
        schema = function["parameters"]
        assert len(function["description"]) > 60, tool.name
        assert schema["additionalProperties"] is False, tool.name
        for name, argument in schema["properties"].items():
            assert argument.get("description"), f"{tool.name}.{name}"


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_domains_guidance_comes_with_its_tools_alone(domain: str) -> None:
    alone = prompts.system_prompt([domain])
    frame = prompts.system_prompt([])
    assert alone.startswith(frame)
    others = [prompts.system_prompt([other]) for other in DOMAINS if other != domain]
    assert all(alone[len(frame) :] not in other for other in others)


def test_a_domain_without_a_page_adds_nothing() -> None:
    assert prompts.system_prompt(["weather"]) == prompts.system_prompt([])


@pytest.mark.parametrize("domain", ["../system", "messages.toml", "/etc/passwd", ""])
def test_only_pages_of_the_prompts_are_read(domain: str) -> None:
    assert prompts.system_prompt([domain]) == prompts.system_prompt([])


def test_the_prompts_name_only_tools_that_exist(bundled: tuple[BaseTool, ...]) -> None:
    arguments = {name for tool in bundled for name in tool.args}
    known = {tool.name for tool in bundled} | arguments
    text = prompts.system_prompt(DOMAINS)
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    assert named
    assert named <= known


# --- a person's own prompt -------------------------------------------------------------------


async def test_a_persons_own_prompt_takes_the_frames_place_and_keeps_the_domains(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own.md"
    own.write_text("You speak like a pirate. Ärrr.\n", encoding="utf-8")
    seen: list[str] = []

    class Listening(ScriptedChatModel):
        def reply(self, messages: Any, tools: Any = ()) -> Any:
            seen.append(str(messages[0].content))
            return super().reply(messages, tools)

    async with session(tmp_path / "home", Listening(steps=["Arr."]), prompt=own) as (_, opened):
        await converse(opened, "hello", approves)

    (prompt,) = seen
    assert prompt.startswith("You speak like a pirate. Ärrr.\n\n# Orders")
    assert "You are sayso" not in prompt


def test_an_empty_prompt_is_a_choice_too() -> None:
    assert prompts.system_prompt(["orders"], "").strip().startswith("# Orders")
    assert prompts.system_prompt([], "") == ""


# --- the words of the harness ----------------------------------------------------------------


def test_the_words_of_the_harness() -> None:
    texts = {key: template.template for key, template in prompts._messages().items()}
    assert texts == external_file("snapshots/messages.json")


def test_every_word_is_used_and_every_used_word_is_there() -> None:
    sources = [path.read_text() for path in (ROOT / "agent").rglob("*.py")]
    quoted = {key for source in sources for key in re.findall(r"""["']([a-z_]+)["']""", source)}
    used = quoted & set(prompts._messages())
    called = {
        key
        for source in sources
        for key in re.findall(r"""prompts\.message\(\s*["']([a-z_]+)["']""", source)
    }
    assert called <= used
    assert used == set(prompts._messages())


@pytest.mark.parametrize("key", prompts._messages())
def test_a_word_needs_exactly_its_placeholders(key: str) -> None:
    template: Template = prompts._messages()[key]
    names = template.get_identifiers()
    text = prompts.message(key, **{name: f"<{name}>" for name in names})
    assert all(f"<{name}>" in text for name in names)
    assert "$" not in text
    if names:
        with pytest.raises(KeyError):
            prompts.message(key)


def test_a_value_is_put_in_as_it_is() -> None:
    assert "$name ${x} $$" in prompts.message("failed", error="$name ${x} $$")


def test_an_unknown_word_is_a_fault_of_the_caller() -> None:
    with pytest.raises(KeyError):
        prompts.message("nonsense")
