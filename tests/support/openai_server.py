"""An OpenAI-compatible model on a real loopback socket, scripted, able to fail in every HTTP way.

It speaks Chat Completions, streamed and not, and is as strict as OpenAI about the history it
is sent (``history_error``): a history that a provider would refuse is answered with 400 and
kept in ``ModelServer.refused``, so that a test of the whole agent proves its histories valid.

In a test::

    with ModelServer() as server:
        server.script(Reply(tool_calls=(Call("get_order", {"order_id": "A1"}),)), Reply("Done."))
        ...  # point OPENAI_BASE_URL at server.url
        assert server.requests[1].messages[-1]["role"] == "tool"

As a program, for tests that drive a real terminal; it prints its URL and serves until killed::

    python -m tests.support.openai_server --port 0 --script steps.json

The script is ``{"steps": [step, ...]}``. The step is chosen by the number of assistant
messages in the request, so one script works across resumes and processes; a step that is a
list is played one entry per attempt, the last one from then on (``step_from_json`` has the
fields). Plain asyncio rather than a web framework: resets, half-sent bodies and missing
headers are what it is for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

JsonObject = dict[str, Any]
Ending = Literal["reset", "close", "end", "hang", "alive", "error", "garbage"]


@dataclass(frozen=True)
class Call:
    """A tool call of a reply.

    Args:
        name: The tool's name, existing or not.
        arguments: JSON arguments, or a string sent as it is, malformed or not.
        id: The tool call id; by default unique in a conversation.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def raw(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Reply:
    """A whole answer of the model.

    Args:
        text: The content; empty is sent as ``null`` when there are tool calls.
        tool_calls: In order.
        finish_reason: By default ``tool_calls`` or ``stop``; also ``length``, ``content_filter``.
        usage: Input and output tokens; ``None``: this gateway does not count.
        chunk_size: Characters of text or arguments in one streamed piece.
        delay: Seconds to wait before each streamed piece.
        id: The completion's id; by default unique in a conversation.
    """

    text: str = ""
    tool_calls: Sequence[Call] = ()
    finish_reason: str | None = None
    usage: tuple[int, int] | None = (11, 7)
    chunk_size: int = 7
    delay: float = 0.0
    id: str | None = None


@dataclass(frozen=True)
class HttpError:
    """An answer with an error status; ``body`` is a whole JSON body, or OpenAI's message."""

    status: int
    body: JsonObject | str = "The server had an error."
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Any bytes with any content type: an HTML page, an empty body, half a JSON."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True)
class Reset:
    """The connection is reset before any header is sent."""


@dataclass(frozen=True)
class Hang:
    """Nothing is ever sent."""


@dataclass(frozen=True)
class Broken:
    """A reply that ends in the middle.

    Args:
        reply: What would have been said.
        after: Streamed pieces sent first (0: only the headers). Not streamed, half the body is.
        then: ``reset`` and ``close`` the connection; ``end`` the body as if it were complete,
            without a finish reason; ``hang``; keep it ``alive`` with comments for ever; send an
            ``error`` object; send ``garbage``.
    """

    reply: Reply
    after: int = 2
    then: Ending = "reset"


Step = Reply | HttpError | Raw | Reset | Hang | Broken
Script = Callable[[JsonObject], Step]


@dataclass(frozen=True)
class Request:
    """One request for a completion as it came. Header names are in lower case."""

    headers: Mapping[str, str]
    body: JsonObject

    @property
    def messages(self) -> list[JsonObject]:
        messages: list[JsonObject] = self.body["messages"]
        return messages

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were offered."""
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]


class ModelServer:
    """The server; a context manager, sync or async, that runs in a thread of its own.

    Args:
        port: 0 takes a free one.
        stream_options: ``reject`` answers requests that carry them with 400, as some gateways
            do; ``ignore`` accepts them and sends no usage.

    Attributes:
        requests: What was asked for, in order, refused requests included.
        refused: Why requests were refused as invalid; empty for a well-behaved client.
        errors: What a script function, or a request that is no completion's, raised.
    """

    def __init__(
        self, *, port: int = 0, stream_options: Literal["accept", "reject", "ignore"] = "accept"
    ) -> None:
        self.requests: list[Request] = []
        self.refused: list[str] = []
        self.errors: list[Exception] = []
        self._stream_options = stream_options
        self._script: Script = in_order(())
        self._arrived = threading.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)

    @property
    def url(self) -> str:
        """The base URL, such as ``http://127.0.0.1:40001/v1``."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def script(self, *steps: Step | Script) -> None:
        """What to answer: steps in order, or one function from the request's JSON to a step."""
        if len(steps) == 1 and callable(steps[0]):
            self._script = steps[0]
        else:
            self._script = in_order([step for step in steps if not callable(step)])

    def wait_for_requests(self, count: int, timeout: float = 30.0) -> None:
        """Block until that many requests have arrived.

        Raises:
            TimeoutError: They did not arrive in time.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived")

    def start(self) -> ModelServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Drop every connection, hanging ones included, and end the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> ModelServer:
        return self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _run(self) -> None:
        server = self._loop.run_until_complete(
            asyncio.start_server(self._track, sock=self._listener)
        )
        try:
            self._loop.run_forever()
        finally:
            server.close()
            self._loop.run_until_complete(self._drop_connections())
            self._loop.close()

    async def _drop_connections(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _track(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        wire = _Wire(writer)
        ended = (_ConnectionEndedError, ConnectionError, asyncio.IncompleteReadError)
        try:
            with contextlib.suppress(*ended):  # the client's right, and what some scripts ask for
                while (incoming := await _read_request(reader)) is not None:
                    await self._answer(*incoming, wire)
        except Exception as error:  # a request this server does not understand
            self.errors.append(error)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(
        self, line: str, headers: Mapping[str, str], body: bytes, wire: _Wire
    ) -> None:
        method, path, _ = line.split(" ", 2)
        if method == "POST" and path.endswith("/chat/completions"):
            request = Request(headers, json.loads(body))
            await _play(self._choose(request), request.body, wire)
        elif method == "GET" and path.endswith("/models"):
            models = {"object": "list", "data": [{"id": "test-model", "object": "model"}]}
            await wire.whole(200, _encode(models))
        else:
            await _play(HttpError(404, f"Invalid URL ({method} {path})"), {}, wire)

    def _choose(self, request: Request) -> Step:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        if "stream_options" in request.body and self._stream_options == "reject":
            return HttpError(400, "Unrecognized request argument supplied: stream_options")
        if problem := history_error(request.body):
            self.refused.append(problem)
            return HttpError(400, problem)
        if self._stream_options == "ignore":
            request.body.pop("stream_options", None)
        try:
            return self._script(request.body)
        except Exception as error:  # a test's own function: its failure belongs to the test
            self.errors.append(error)
            return HttpError(400, f"The script failed: {error!r}")


def in_order(steps: Sequence[Step]) -> Script:
    """A script that plays one step a request, whatever the request."""
    left = iter(steps)

    def choose(request: JsonObject) -> Step:
        step: Step | None = next(left, None)
        return step or HttpError(400, f"The script of {len(steps)} steps is used up.")

    return choose


def by_history(steps: Sequence[Step | Sequence[Step]]) -> Script:
    """A script that chooses its step by the number of assistant messages in the request.

    A step that is a sequence is played one entry per attempt, its last entry from then on.
    """
    attempts: Counter[int] = Counter()

    def choose(request: JsonObject) -> Step:
        number = sum(message["role"] == "assistant" for message in request["messages"])
        if number >= len(steps):
            return HttpError(400, f"The script of {len(steps)} steps has none for reply {number}.")
        step: Step | Sequence[Step] = steps[number]
        if not isinstance(step, Sequence):
            return step
        attempts[number] += 1
        return step[min(attempts[number], len(step)) - 1]

    return choose


def step_from_json(spec: Mapping[str, Any]) -> Step:
    """Read one step of a script file.

    ``{"text", "tool_calls": [{"name", "arguments", "id"}], "finish_reason", "usage": [in, out],
    "chunk_size", "delay", "id"}`` is a reply; with ``"break": ending`` and ``"after"`` it breaks
    there. ``{"status", "body", "headers"}`` is an HTTP error, ``{"raw", "content_type"}`` any
    body, ``{"reset": true}`` and ``{"hang": true}`` what they say.
    """
    fields: dict[str, Any] = dict(spec)
    if fields.get("reset"):
        return Reset()
    if fields.get("hang"):
        return Hang()
    if "raw" in fields:
        return Raw(fields.pop("raw").encode(), **fields)
    if "status" in fields:
        return HttpError(**fields)
    ending, after = fields.pop("break", None), fields.pop("after", 2)
    fields["tool_calls"] = tuple(Call(**call) for call in fields.get("tool_calls", ()))
    if fields.get("usage"):
        fields["usage"] = tuple(fields["usage"])
    reply = Reply(**fields)
    return Broken(reply, after, ending) if ending else reply


def refused_url() -> str:
    """A base URL on a port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


# What OpenAI refuses


_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_CALL_ID = 40


def history_error(body: JsonObject) -> str | None:
    """Why OpenAI would refuse the request, in its own words as far as known; else ``None``.

    Checked: every tool message answers a call of the preceding assistant message, once; every
    call is answered before the next other message; call ids are unique in their message, not
    empty and at most 40 characters long; arguments are JSON objects as strings (OpenAI itself
    lets other strings pass, vLLM and others do not); tool names are well formed and unique;
    ``stream_options`` come only with ``stream``.
    """
    if "stream_options" in body and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    problems = (*_tool_problems(body.get("tools", ())), *_message_problems(body["messages"]))
    return next(iter(problems), None)


def _tool_problems(tools: Sequence[JsonObject]) -> Iterator[str]:
    names = [tool["function"]["name"] for tool in tools]
    for index, name in enumerate(names):
        if not _TOOL_NAME.fullmatch(name):
            yield f"Invalid 'tools[{index}].function.name': {name!r} does not match the pattern."
    for name, count in Counter(names).items():
        if count > 1:
            yield f"Tool names must be unique: {name!r} occurs {count} times."


def _message_problems(messages: Sequence[JsonObject]) -> Iterator[str]:
    if not messages:
        yield "Invalid 'messages': empty array."
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        where, role = f"messages[{index}]", message.get("role")
        if role == "tool":
            answered = message.get("tool_call_id")
            if answered not in open_calls:
                yield (
                    f"Invalid parameter: {where} with role 'tool' must be a response to a "
                    f"preceding message with 'tool_calls' ({answered!r} is not open)."
                )
            open_calls.discard(str(answered))
        else:
            yield from _unanswered(open_calls)
            open_calls = set()
        if role == "assistant":
            yield from _assistant_problems(where, message)
            open_calls = {call.get("id", "") for call in message.get("tool_calls") or ()}
        elif role not in ("system", "developer", "user", "tool"):
            yield f"Invalid value: {role!r} at '{where}.role'."
        elif message.get("content") is None:
            yield f"Invalid value for 'content' at '{where}': expected a string, got null."
    yield from _unanswered(open_calls)


def _unanswered(open_calls: set[str]) -> Iterator[str]:
    if open_calls:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages "
            "responding to each 'tool_call_id'. The following tool_call_ids did not have "
            f"response messages: {', '.join(sorted(open_calls))}"
        )


def _assistant_problems(where: str, message: JsonObject) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls is not None and not calls:
        yield f"Invalid '{where}.tool_calls': empty array."
    if message.get("content") is None and not calls:
        yield f"Invalid '{where}': neither 'content' nor 'tool_calls'."
    for index, call in enumerate(calls or ()):
        at = f"{where}.tool_calls[{index}]"
        call_id, function = call.get("id", ""), call.get("function", {})
        if not 0 < len(call_id) <= _MAX_CALL_ID:
            yield f"Invalid '{at}.id': expected 1 to {_MAX_CALL_ID} characters, got {call_id!r}."
        if not _TOOL_NAME.fullmatch(function.get("name", "")):
            yield f"Invalid '{at}.function.name': {function.get('name')!r}."
        if not _is_json_object(function.get("arguments")):
            yield f"Invalid '{at}.function.arguments': not a JSON object as a string."
    ids = Counter(call.get("id") for call in calls or ())
    for call_id, count in ids.items():
        if count > 1:
            yield f"Duplicate value for 'tool_call_id' of {call_id!r} in '{where}'."


def _is_json_object(value: object) -> bool:
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except ValueError:
        return False


# The wire


_TLS_HANDSHAKE = b"\x16"


class _ConnectionEndedError(Exception):
    """The step ended the connection."""


class _Wire:
    """Writes HTTP/1.1 answers, whole or in pieces, and breaks them off."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def whole(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        send: int | None = None,
    ) -> None:
        """Send an answer; with ``send``, only that many bytes of the promised body."""
        await self._head(status, content_type, {**(headers or {}), "Content-Length": len(body)})
        await self.raw(body[:send])

    async def begin_stream(self) -> None:
        await self._head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})

    async def event(self, data: str) -> None:
        await self.chunk(f"data: {data}\n\n".encode())

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        await self.raw(b"0\r\n\r\n")

    def close(self) -> None:
        raise _ConnectionEndedError

    def reset(self) -> None:
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        raise _ConnectionEndedError

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _head(self, status: int, content_type: str, headers: Mapping[str, object]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.raw(("\r\n".join(lines) + "\r\n\r\n").encode())


async def _read_request(
    reader: asyncio.StreamReader,
) -> tuple[str, dict[str, str], bytes] | None:
    """Request line, headers and body; ``None`` when the client has gone.

    A client that speaks TLS gets an answer without TLS, as from any plain HTTP server.
    """
    first = await reader.read(1)
    if not first:
        return None
    if first == _TLS_HANDSHAKE:
        return "GET /tls HTTP/1.1", {}, b""
    head = first + await reader.readuntil(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    return line, headers, await reader.readexactly(int(headers.get("content-length", 0)))


async def _play(step: Step, request: JsonObject, wire: _Wire) -> None:
    match step:
        case Reply():
            await _send_reply(step, request, wire)
        case HttpError(status, body, headers):
            shape = body if isinstance(body, dict) else _openai_error(body, status)
            await wire.whole(status, _encode(shape), headers=headers)
        case Raw(data, content_type, status):
            await wire.whole(status, data, content_type)
        case Reset():
            wire.reset()
        case Hang():
            await asyncio.Event().wait()
        case Broken():
            await _send_broken(step, request, wire)


async def _send_reply(reply: Reply, request: JsonObject, wire: _Wire) -> None:
    if not request.get("stream"):
        await wire.whole(200, _encode(_completion(reply, request)))
        return
    await wire.begin_stream()
    async for piece in _paced(reply, request):
        await wire.event(json.dumps(piece))
    await wire.event("[DONE]")
    await wire.end_stream()


async def _send_broken(step: Broken, request: JsonObject, wire: _Wire) -> None:
    if request.get("stream"):
        await wire.begin_stream()
        sent = 0
        async for piece in _paced(step.reply, request):
            if sent == step.after:
                break
            await wire.event(json.dumps(piece))
            sent += 1
    else:
        body = _encode(_completion(step.reply, request))
        await wire.whole(200, body, send=len(body) // 2)
    match step.then:
        case "reset":
            wire.reset()
        case "close":
            wire.close()
        case "hang":
            await asyncio.Event().wait()
        case "alive":
            while True:
                await wire.chunk(b": processing\n\n")
                await asyncio.sleep(0.05)
        case "error":
            await wire.event(json.dumps(_openai_error("The engine is overloaded.", 500)))
        case "garbage":
            await wire.event('{"choices": [{"delta": ')
    await wire.end_stream()


async def _paced(reply: Reply, request: JsonObject) -> AsyncIterator[JsonObject]:
    for piece in _pieces(reply, request):
        await asyncio.sleep(reply.delay)
        yield piece


def _pieces(reply: Reply, request: JsonObject) -> Iterator[JsonObject]:
    """The chunks of a streamed completion: role, text, calls, finish reason, usage."""
    base = _envelope(reply, request, "chat.completion.chunk")

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for text in _cut(reply.text, reply.chunk_size):
        yield chunk({"content": text})
    for index, call in enumerate(_calls(reply, request)):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{**call, "index": index, "function": function}]})
        for part in _cut(call["function"]["arguments"], reply.chunk_size):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, _finish_reason(reply))
    if reply.usage and (request.get("stream_options") or {}).get("include_usage"):
        yield {**base, "choices": [], "usage": _usage(reply.usage)}


def _completion(reply: Reply, request: JsonObject) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": reply.text or None}
    if reply.tool_calls:
        message["tool_calls"] = _calls(reply, request)
    else:
        message["content"] = reply.text
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    usage = {"usage": _usage(reply.usage)} if reply.usage else {}
    return {**_envelope(reply, request, "chat.completion"), "choices": [choice], **usage}


def _envelope(reply: Reply, request: JsonObject, kind: str) -> JsonObject:
    return {
        "id": reply.id or f"chatcmpl-{len(request['messages'])}",
        "object": kind,
        "created": 1_700_000_000,
        "model": request["model"],
    }


def _calls(reply: Reply, request: JsonObject) -> list[JsonObject]:
    return [
        {
            "id": f"call_{len(request['messages'])}_{index}" if call.id is None else call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.raw},
        }
        for index, call in enumerate(reply.tool_calls)
    ]


def _finish_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def _usage(tokens: tuple[int, int]) -> JsonObject:
    prompt, completion = tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _openai_error(message: str, status: int) -> JsonObject:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _cut(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _encode(value: JsonObject) -> bytes:
    return json.dumps(value).encode()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve a script file and print the base URL; ends with the process."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible server.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument(
        "--stream-options", choices=["accept", "reject", "ignore"], default="accept"
    )
    options = parser.parse_args(argv)
    steps = [
        [step_from_json(attempt) for attempt in step]
        if isinstance(step, list)
        else step_from_json(step)
        for step in json.loads(options.script.read_text())["steps"]
    ]
    server = ModelServer(port=options.port, stream_options=options.stream_options)
    server.script(by_history(steps))
    with server, contextlib.suppress(KeyboardInterrupt):
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
