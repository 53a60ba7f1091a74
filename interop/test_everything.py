"""``server-everything``, which has all that the protocol has: what our host makes of each part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import ApprovalAsked, CallProgress, Done
from agent.mcp.errors import RefusedError
from agent.mcp.servers import ServerConfig
from agent.models.scripted import call, step
from agent.types import Attachment, Decision
from interop.others import configured, everything, everything_over_http, npm_server
from interop.sessions import talk

URL = "https://sign-in.example/page"
FORM = {"name": "Ana", "integer": 7, "titledSingleSelectEnum": "hero-2"}


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerConfig]:
    """The server over each transport; its annotations are believed."""
    if request.param == "stdio":
        yield everything(tmp_path, trusted=True)
        return
    with everything_over_http() as running:
        yield running.config(tmp_path, trusted=True)


async def test_content_of_every_kind(server: ServerConfig, sayso_home: Path) -> None:
    steps = [
        step(
            call("everything__get-tiny-image"),
            call("everything__get-resource-links", count=2),
            call("everything__get-resource-reference", resourceType="Text", resourceId=2),
            call("everything__get-resource-reference", resourceType="Blob", resourceId=1),
            call("everything__get-structured-content", location="Chicago"),
        ),
        "Seen.",
    ]
    async with talk(sayso_home, steps, server) as talking:
        texts = await talking.say("show me")
        assert len(texts) == 5
        said = "\n".join(texts)
        assert "[image, image/png, 4033 bytes; kept, not shown]" in said
        assert "[link to demo://resource/dynamic/text/2: Text Resource 2]" in said
        assert "[resource demo://resource/dynamic/text/2]\nResource 2: This is a plain" in said
        assert "[resource demo://resource/dynamic/blob/1, text/plain, " in said
        assert '"conditions":"Light rain / drizzle"' in said
        artifacts = await talking.artifacts()
        kept = sorted(content[:8] for content in await talking.files())
        assert kept == [b"Resource", b"\x89PNG\r\n\x1a\n"]
        structured = [a["structured_content"] for a in artifacts if a and "structured_content" in a]
        assert [one["temperature"] for one in structured] == [36]


async def test_sound(tmp_path: Path, sayso_home: Path) -> None:
    """Of a server that has it."""
    (tmp_path / "a.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    entry = npm_server("filesystem", str(tmp_path)) | {"sayso": {"trusted": True}}
    steps = [step(call("files__read_media_file", path=str(tmp_path / "a.wav"))), "Heard."]
    async with talk(sayso_home, steps, configured("files", entry, tmp_path)) as talking:
        (text,) = await talking.say("play it")
        assert "[audio, audio/wav, 16 bytes; kept, not shown]" in text
        (kept,) = await talking.files()
        assert kept.startswith(b"RIFF")


async def test_sound_that_comes_twice_is_kept_once(tmp_path: Path, sayso_home: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    entry = npm_server("filesystem", str(tmp_path)) | {"sayso": {"trusted": True}}
    steps = [step(call("files__read_media_file", path=str(tmp_path / "a.wav"))), "Heard."]
    async with talk(sayso_home, steps, configured("files", entry, tmp_path)) as talking:
        await talking.say("play it")
        assert "UklGR" not in json.dumps(await talking.artifacts())


async def test_resources_and_prompts(server: ServerConfig, sayso_home: Path) -> None:
    steps = [lambda messages: step(f"I read: {messages[-1].text}")]
    async with talk(sayso_home, steps, server) as talking:
        host = talking.app.servers
        found = {one.uri: one.template for one in await host.resources("everything")}
        assert found["demo://resource/static/document/features.md"] is False
        assert found["demo://resource/dynamic/text/{resourceId}"] is True
        uri = "demo://resource/dynamic/text/3"
        text = await host.read("everything", uri)
        assert text.startswith("Resource 3: This is a plaintext resource")
        assert "cannot be shown" in await host.read("everything", "demo://resource/dynamic/blob/3")
        with pytest.raises(RefusedError, match="not found"):
            await host.read("everything", "demo://nowhere")

        prompts = {one.name: one for one in await host.prompts("everything")}
        assert prompts["args-prompt"].required == ("city",)
        assert prompts["args-prompt"].optional == ("state",)
        asked = await host.prompt("everything", "args-prompt", ["city=Rome"])
        assert asked == "What's weather in Rome?"
        words = ["resourceType=Text", "resourceId=1"]
        assert "Resource 1: This is" in await host.prompt("everything", "resource-prompt", words)

        attached = [Attachment(f"{uri} of everything", text)]
        events = [event async for event in talking.session.run("what is it?", attached=attached)]
        done = events[-1]
        assert isinstance(done, Done)
        assert f"[untrusted content from {uri} of everything" in done.answer


async def test_progress(server: ServerConfig, sayso_home: Path) -> None:
    long = call("everything__trigger-long-running-operation", duration=0.4, steps=4)
    async with talk(sayso_home, [step(long), "Done."], server) as talking:
        await talking.say("wait")
        told = [(e.done, e.total) for e in talking.events if isinstance(e, CallProgress)]
        assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


async def test_logging_goes_to_the_trail(server: ServerConfig, sayso_home: Path) -> None:
    """It logs once at the beginning, at a level of its own choice."""
    logging = call("everything__toggle-simulated-logging")
    long = call("everything__trigger-long-running-operation", duration=0.4, steps=4)
    async with talk(sayso_home, [step(logging), step(long), "Done."], server) as talking:
        await talking.say("log something")
        await talking.approve()
        entries = talking.app.store.trail.entries(talking.session.id, kind="mcp.log")
        assert [entry.data["server"] for entry in entries] == ["everything"]
        assert "essage" in entries[0].data["data"]


async def test_a_question_to_the_person(server: ServerConfig, sayso_home: Path) -> None:
    steps = [step(call("everything__trigger-elicitation-request")), "Done."]
    async with talk(sayso_home, steps, server) as talking:
        talking.answer = lambda approval: Decision("respond", message=json.dumps(FORM))
        await talking.say("ask me")
        (text,) = await talking.approve()
        (asked,) = [e.approval for e in talking.events if isinstance(e, ApprovalAsked)][1:]
        fields = asked.args["schema"]["properties"]
        assert set(FORM) <= set(fields)
        defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
        raw = json.loads(text.partition("Raw result: ")[2].partition("\n[end of")[0])
        assert raw == {"action": "accept", "content": {**defaults, **FORM}}


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision("respond", message="done"), "User completed the URL elicitation flow"),
        (Decision("reject"), "User declined to open the URL"),
    ],
)
async def test_an_address_for_the_person(
    server: ServerConfig, sayso_home: Path, decision: Decision, words: str
) -> None:
    steps = [step(call("everything__trigger-url-elicitation", url=URL)), "Done."]
    async with talk(sayso_home, steps, server) as talking:
        talking.answer = lambda approval: decision
        await talking.say("sign me in")
        (text,) = await talking.approve()
        assert words in text
        (asked,) = [e.approval for e in talking.events if isinstance(e, ApprovalAsked)][1:]
        assert asked.args["url"] == URL


async def test_an_address_that_comes_as_an_error(server: ServerConfig, sayso_home: Path) -> None:
    """Code -32042: the call waits for what the person does there, so nothing has happened."""
    wanted = call("everything__trigger-url-elicitation", url=URL, errorPath=True)
    async with talk(sayso_home, [step(wanted), "So."], server) as talking:
        await talking.say("sign me in")
        await talking.approve()
        assert [effect.state for effect in talking.effects] == ["failed"]
        assert talking.session.pending() == []


async def test_what_is_not_offered_is_not_asked_for(server: ServerConfig, sayso_home: Path) -> None:
    """The server has tools that ask the host for a model's answer, its folders or a task; it
    offers them to hosts that say they can."""
    async with talk(sayso_home, [], server) as talking:
        link = talking.app.servers.server("everything").connection.link
        assert link is not None
        assert {"echo", "trigger-elicitation-request"} <= set(link.tools)
        unheard = {"get-roots-list", "trigger-sampling-request", "trigger-sampling-request-async"}
        assert unheard.isdisjoint(link.tools)


async def test_a_tool_that_runs_as_a_task_alone(server: ServerConfig, sayso_home: Path) -> None:
    """Tasks are not spoken: the tool is named as left out at the start, and cannot be called."""
    wanted = call("everything__simulate-research-query", topic="tides")
    async with talk(sayso_home, [step(wanted), "It cannot."], server) as talking:
        (text,) = await talking.say("look it up")
        assert "There is no tool named 'everything__simulate-research-query'" in text
        assert talking.effects == []
