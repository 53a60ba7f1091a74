"""The ``openai:`` path over a real socket: replies, usage, calls, retries, every failure."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agent.errors import ModelUnavailable
from agent.models import as_model_error, ending
from agent.models.replies import parse_arguments
from tests.support.openai_server import (
    Broken,
    Call,
    Hang,
    HttpError,
    ModelServer,
    Raw,
    Reply,
    Request,
    Reset,
    Step,
    history_error,
    refused_url,
)
from tests.unit.models.conftest import BuildModel

KEY = "sk-test-0123456789"


async def failure_of(model: Any) -> str:
    """What a person reads when this model is asked."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception of any library
        await model.ainvoke("Hi")
    return str(as_model_error(raised.value))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, in seconds; none of them is really waited for."""
    seconds: list[float] = []

    async def sleep(delay: float) -> None:
        seconds.append(delay)

    monkeypatch.setattr("openai._base_client.anyio.sleep", sleep)
    return seconds


class TestReplies:
    async def test_pieces_arrive_in_order_while_the_reply_streams(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("Order A1 is pending.", chunk_size=6))

        pieces = [chunk.text async for chunk in build_model().astream("Hi")]

        assert [piece for piece in pieces if piece] == ["Order ", "A1 is ", "pendin", "g."]

    async def test_a_slow_reply_is_awaited_as_long_as_it_keeps_coming(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("abcdefgh", chunk_size=1, delay=0.15))

        answer = await build_model(timeout=1.0).ainvoke("Hi")

        assert answer.content == "abcdefgh"

    async def test_usage_is_counted(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("Hello.", usage=(120, 34)))

        answer = await build_model().ainvoke("Hi")

        assert answer.usage_metadata is not None
        assert answer.usage_metadata["input_tokens"] == 120
        assert answer.usage_metadata["output_tokens"] == 34

    async def test_a_gateway_may_send_no_usage(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("Hello.", usage=None))

        answer = await build_model().ainvoke("Hi")

        assert (answer.content, answer.usage_metadata) == ("Hello.", None)

    @pytest.mark.parametrize("status", [400, 422])
    async def test_a_gateway_may_refuse_stream_options(
        self, status: int, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        def gateway(request: dict[str, Any]) -> Step:
            if "stream_options" in request:
                return HttpError(status, "stream_options: Extra inputs are not permitted")
            return Reply("Hello.")

        model_server.script(gateway)
        model = build_model()

        answers = [(await model.ainvoke("Hi")).content, (await model.ainvoke("Hi")).content]

        assert answers == ["Hello.", "Hello."]
        asked = ["stream_options" in request.body for request in model_server.requests]
        assert asked == [True, False, False]  # refused once, and remembered

    async def test_other_refusals_are_not_taken_for_that(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(HttpError(400, "Unrecognized request argument: tools"))

        assert "Unrecognized request argument: tools" in await failure_of(build_model())
        assert len(model_server.requests) == 1

    async def test_message_ids_differ_where_completion_ids_do_not(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("One.", id="chatcmpl-1"), Reply("Two.", id="chatcmpl-1"))
        model = build_model()

        first, second = await model.ainvoke("Hi"), await model.ainvoke("Hi")

        assert first.id
        assert second.id
        assert first.id != second.id

    def test_a_model_works_in_one_event_loop_after_another(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("One."), Reply("Two."), Reply("Three."))
        model = build_model()

        assert asyncio.run(model.ainvoke("Hi")).content == "One."
        assert asyncio.run(model.ainvoke("Hi")).content == "Two."
        assert model.invoke("Hi").content == "Three."


class TestCalls:
    async def test_fragments_are_assembled(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        calls = (Call("get_order", {"order_id": "A1"}), Call("refund", {"amount": 12.5}))
        model_server.script(Reply("Looking.", calls, chunk_size=3))

        answer = await build_model().ainvoke("Hi")

        assert answer.content == "Looking."
        assert [(call["name"], call["args"]) for call in answer.tool_calls] == [
            ("get_order", {"order_id": "A1"}),
            ("refund", {"amount": 12.5}),
        ]
        assert ending(answer) == "complete"

    async def test_a_call_without_arguments_has_none(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply(tool_calls=(Call("list_orders", ""),)))

        answer = await build_model().ainvoke("Hi")

        assert [call["args"] for call in answer.tool_calls] == [{}]

    @pytest.mark.parametrize(
        "raw",
        [
            '{"amount": 12',
            '{"order_id": "A1',
            "{",
            '{"order_id": "A1"} and more',
            '{"order_id": "A1",}',
            '{"amount": NaN}',
            "[1]",
            '"A1"',
            "null",
        ],
    )
    @pytest.mark.parametrize("how", ["ainvoke", "invoke"])
    def test_arguments_that_are_no_json_object_are_invalid_and_kept_raw(
        self, raw: str, how: str, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply(tool_calls=(Call("a", {"x": 1}), Call("b", raw, id="call_b"))))
        model = build_model()

        answer = asyncio.run(model.ainvoke("Hi")) if how == "ainvoke" else model.invoke("Hi")

        assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("a", {"x": 1})]
        (invalid,) = answer.invalid_tool_calls
        assert (invalid["name"], invalid["args"], invalid["id"]) == ("b", raw, "call_b")
        assert "not a JSON object" in (invalid["error"] or "")
        assert "raw_tool_calls" not in answer.response_metadata

    async def test_a_call_cut_anywhere_by_the_token_limit_is_never_completed(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        whole = '{"order_id": "A1", "amounts": [1, 25], "note": "a \\"b\\""}'
        cuts = [whole[:length] for length in range(1, len(whole))]
        model_server.script(
            *(Reply(tool_calls=(Call("refund", cut),), finish_reason="length") for cut in cuts)
        )
        model = build_model()

        for cut in cuts:
            answer = await model.ainvoke("Hi")
            assert answer.tool_calls == []
            assert [call["args"] for call in answer.invalid_tool_calls] == [cut]
            assert ending(answer) == "cut_off"

    async def test_langchain_alone_would_complete_it(self, model_server: ModelServer) -> None:
        """Why there is a class of ours; when this fails, it may be time to drop it."""
        model_server.script(Reply(tool_calls=(Call("refund", '{"amount": 12'),)))
        plain = ChatOpenAI(
            model="test-model",
            api_key=SecretStr(KEY),
            base_url=model_server.url,
            streaming=True,
            default_headers={"Connection": "close"},
        )

        answer = await plain.ainvoke("Hi")

        assert [call["args"] for call in answer.tool_calls] == [{"amount": 12}]

    @pytest.mark.parametrize(
        ("reason", "expected"),
        [("length", "cut_off"), ("content_filter", "filtered"), ("stop", "complete")],
    )
    async def test_how_a_reply_ended_is_told(
        self, reason: str, expected: str, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("Half", finish_reason=reason))

        assert ending(await build_model().ainvoke("Hi")) == expected

    @pytest.mark.parametrize(
        "metadata", [{"stop_reason": "max_tokens"}, {"finish_reason": "MAX_TOKENS"}]
    )
    def test_other_providers_have_other_words_for_cut_off(self, metadata: dict[str, str]) -> None:
        assert ending(AIMessage("Half", response_metadata=metadata)) == "cut_off"

    def test_white_space_is_no_argument(self) -> None:
        assert parse_arguments(" \n") == {}


class TestRetries:
    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
    async def test_what_may_pass_is_tried_again(
        self, status: int, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        model_server.script(HttpError(status), HttpError(status), Reply("Hello."))

        answer = await build_model(retries=2).ainvoke("Hi")

        assert answer.content == "Hello."
        assert len(model_server.requests) == 3

    async def test_a_reset_connection_is_tried_again(
        self, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        model_server.script(Reset(), Reply("Hello."))

        assert (await build_model(retries=1).ainvoke("Hi")).content == "Hello."

    async def test_silence_is_tried_again(
        self, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        replies: Iterator[Step] = iter([Hang(), Hang()])
        model_server.script(lambda request: next(replies))

        assert "did not answer in time" in await failure_of(build_model(retries=1, timeout=0.2))
        assert len(model_server.requests) == 2

    async def test_it_gives_up_after_the_given_number(
        self, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        model_server.script(lambda request: HttpError(503, "Overloaded."))

        assert "The provider failed (HTTP 503): “Overloaded.”" in await failure_of(
            build_model(retries=3)
        )
        assert len(model_server.requests) == 4

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
    async def test_what_will_not_pass_is_not_tried_again(
        self, status: int, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        model_server.script(HttpError(status, "No."))

        assert "“No.”" in await failure_of(build_model(retries=3))
        assert len(model_server.requests) == 1

    async def test_pauses_grow_and_vary(
        self, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        model_server.script(lambda request: HttpError(503))

        await failure_of(build_model(retries=3))

        for pause, longest in zip(pauses, (0.5, 1.0, 2.0), strict=True):
            assert 0.75 * longest <= pause <= longest
        assert (
            len({pause / longest for pause, longest in zip(pauses, (0.5, 1.0, 2.0), strict=True)})
            > 1
        )

    async def test_retry_after_is_honoured(
        self, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        model_server.script(
            HttpError(429, headers={"Retry-After": "7"}),
            HttpError(503, headers={"Retry-After-Ms": "250"}),
            Reply("Hello."),
        )

        await build_model(retries=2).ainvoke("Hi")

        assert pauses == [7.0, 0.25]

    async def test_nobody_is_kept_waiting_for_an_hour(
        self, model_server: ModelServer, build_model: BuildModel, pauses: list[float]
    ) -> None:
        model_server.script(HttpError(429, headers={"Retry-After": "3600"}))

        assert "limits the rate" in await failure_of(build_model(retries=3))
        assert (len(model_server.requests), pauses) == (1, [])


class TestBrokenReplies:
    @pytest.mark.parametrize("after", [1, 2, 4])
    @pytest.mark.parametrize(
        ("then", "said"),
        [
            ("end", "broke before the answer was complete"),
            ("close", "broke before the answer was complete"),
            ("reset", "broke before the answer was complete"),
            ("error", "The engine is overloaded."),
            ("garbage", "could not be understood"),
        ],
    )
    async def test_half_a_reply_is_no_answer_and_is_not_tried_again(
        self, then: Any, said: str, after: int, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        reply = Reply("Hm.", (Call("cancel_order", {"order_id": "A1"}),))
        model_server.script(Broken(reply, after=after, then=then))

        message = await failure_of(build_model(retries=3))

        assert said in message
        assert "Nothing was lost; the turn can be repeated." in message
        assert len(model_server.requests) == 1

    @pytest.mark.parametrize("after", [0, 2])
    @pytest.mark.parametrize("then", ["hang", "alive"])
    async def test_a_reply_that_stops_coming_is_given_up(
        self, then: Any, after: int, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Broken(Reply("Hello."), after=after, then=then))

        assert "did not answer in time" in await failure_of(build_model(timeout=0.3))

    def test_the_sync_path_does_not_take_half_a_reply_either(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Broken(Reply("Hello there."), then="end"))

        with pytest.raises(ModelUnavailable, match="broke before the answer was complete"):
            build_model().invoke("Hi")


class TestMessages:
    """``as_model_error`` for each kind: what happened, and what to do next."""

    @pytest.mark.parametrize(
        ("step", "what", "then"),
        [
            (HttpError(401, "Bad key"), "refused the key (HTTP 401): “Bad key”", "OPENAI_API_KEY"),
            (HttpError(403), "may not use this model (HTTP 403)", "--model"),
            (HttpError(404, "No such model"), "does not have this model", "OPENAI_BASE_URL"),
            (HttpError(400, "Bad schema"), "refused the request (HTTP 400): “Bad", "--model"),
            (HttpError(418), "refused the request (HTTP 418)", "--model"),
            (HttpError(429, "Slow down"), "limits the rate of requests", "Wait a minute"),
            (
                HttpError(429, {"error": {"message": "Paid?", "code": "insufficient_quota"}}),
                "quota with the provider is used up (HTTP 429): “Paid?”",
                "billing",
            ),
            (HttpError(402), "quota with the provider is used up", "billing"),
            (
                HttpError(
                    400,
                    {"error": {"message": "Too many tokens", "code": "context_length_exceeded"}},
                ),
                "longer than the model can read (HTTP 400): “Too many",
                "new session",
            ),
            (
                HttpError(400, "This model's maximum context length is 8192 tokens."),
                "longer than the model can read",
                "new session",
            ),
            (HttpError(500), "The provider failed (HTTP 500)", "Wait a little"),
            (Raw(b"<h1>Bad gateway</h1>", "text/html", 502), "failed (HTTP 502). Noth", "Wait"),
            (HttpError(504), "did not answer in time (HTTP 504)", "SAYSO_MODEL_TIMEOUT"),
            (Raw(b"", status=302), "could not be understood (HTTP 302)", "/v1"),
            (Raw(b"<html>Log in</html>", "text/html"), "could not be understood", "/v1"),
            (Raw(b""), "could not be understood", "/v1"),
            (Raw(b"data: [1]\n\n", "text/event-stream"), "could not be understood", "/v1"),
            (Raw(b'{"choices": []}'), "could not be understood", "/v1"),
            (Reset(), "broke before the answer", "network"),
        ],
    )
    async def test_over_http(
        self, step: Step, what: str, then: str, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(step)

        message = await failure_of(build_model())

        assert what in message
        assert "Nothing was lost; the turn can be repeated." in message
        assert then in message.partition("can be repeated.")[2]

    async def test_nobody_listens(self, build_model: BuildModel) -> None:
        message = await failure_of(build_model(openai_base_url=refused_url()))

        assert "could not be reached: “[Errno" in message
        assert "is the server running?" in message

    def test_no_such_host(self) -> None:
        error = httpx.ConnectError("failed")
        error.__cause__ = socket.gaierror(-2, "Name or service not known")

        assert "could not be reached: “[Errno -2] Name or" in str(as_model_error(error))

    async def test_https_where_there_is_only_http(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        url = model_server.url.replace("http:", "https:")

        message = await failure_of(build_model(openai_base_url=url))

        assert "No secure connection" in message
        assert "Check https or http in OPENAI_BASE_URL" in message

    async def test_what_the_provider_says_is_shortened_made_visible_and_masked(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        key = "an-unusual-key-without-a-prefix"
        said = f"No {key}\nnor sk-other-0123456789 \x1b[31m\u202e" + "x" * 1000
        model_server.script(HttpError(401, said))

        message = await failure_of(build_model(openai_api_key=SecretStr(key)))

        assert "“No *** nor sk-*** " in message
        assert not any(secret in message for secret in (key, "0123456789", "\x1b", "\u202e", "\n"))
        assert "x…”" in message
        assert len(message) < 600

    @pytest.mark.parametrize(
        ("attribute", "status", "what"),
        [
            ("status_code", 401, "refused the key (HTTP 401)"),
            ("code", 429, "limits the rate"),
            ("http_status", 503, "The provider failed (HTTP 503)"),
        ],
    )
    def test_exceptions_of_any_package_are_told_by_their_status(
        self, attribute: str, status: int, what: str
    ) -> None:
        error = RuntimeError("Bearer abcdefgh said no")
        setattr(error, attribute, status)

        message = str(as_model_error(error))

        assert what in message
        assert "“Bearer *** said no”" in message

    def test_a_status_may_sit_on_the_response(self) -> None:
        request = httpx.Request("POST", "https://api.example/v1", headers={"x-api-key": "0123456"})
        response = httpx.Response(404, request=request)
        error = httpx.HTTPStatusError("not 0123456", request=request, response=response)

        message = str(as_model_error(error))

        assert "does not have this model, or not at this address (HTTP 404): “not ***”" in message

    def test_timeouts_of_other_packages(self) -> None:
        assert "in time" in str(as_model_error(httpx.ReadTimeout("slow")))
        assert "in time" in str(as_model_error(TimeoutError()))

    def test_anything_else_is_an_answer_that_was_not_understood(self) -> None:
        assert "understood: “KeyError: 'choices'”" in str(as_model_error(KeyError("choices")))

    def test_what_is_already_said_is_not_said_again(self) -> None:
        error = ModelUnavailable("The sky fell.")

        assert as_model_error(error) is error


class TestHistory:
    """What is sent is what OpenAI accepts, and the server can tell."""

    ASKED = AIMessage(
        "", tool_calls=[{"name": "get_order", "args": {"order_id": "A1"}, "id": "c1"}]
    )

    async def test_a_turn_with_a_tool_is_sent_as_it_was(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply("It is pending."))
        history = [HumanMessage("A1?"), self.ASKED, ToolMessage("pending", tool_call_id="c1")]

        await build_model().ainvoke(history)

        user, assistant, result = model_server.requests[0].messages
        assert user == {"role": "user", "content": "A1?"}
        assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"order_id": "A1"}
        assert result == {"role": "tool", "tool_call_id": "c1", "content": "pending"}

    async def test_an_invalid_history_is_refused(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        with pytest.raises(Exception, match="did not have response messages: c1"):
            await build_model().ainvoke([HumanMessage("A1?"), self.ASKED, HumanMessage("Well?")])

        assert len(model_server.refused) == 1
        model_server.refused.clear()

    @pytest.mark.parametrize(
        ("messages", "problem"),
        [
            ([], "empty array"),
            (["user", "tool:c1"], "must be a response to a preceding message"),
            (["user", "call:c1", "tool:c2", "tool:c1"], "'c2' is not open"),
            (["user", "call:c1", "tool:c1", "tool:c1"], "'c1' is not open"),
            (["user", "call:c1"], "did not have response messages: c1"),
            (["user", "call:c1,c2", "tool:c1", "user"], "did not have response messages: c2"),
            (["user", "call:c1", "user", "tool:c1"], "did not have response messages: c1"),
            (["user", "call:c1,c1", "tool:c1"], "Duplicate value for 'tool_call_id'"),
            (["user", "call:", "tool:"], "expected 1 to 40 characters"),
            (["user", "call:" + "c" * 41, "tool:" + "c" * 41], "expected 1 to 40 characters"),
            (["user", "bad"], "not a JSON object as a string"),
            (["system", "user", "call:c1,c2", "tool:c2", "tool:c1", "assistant", "user"], None),
            (["user", "call:c1", "tool:c1", "call:c1", "tool:c1"], None),
        ],
    )
    def test_what_openai_refuses(self, messages: list[str], problem: str | None) -> None:
        body = {"model": "m", "messages": [_message(spec) for spec in messages]}

        found = history_error(body)

        assert (found is None) if problem is None else (problem in (found or ""))


def _message(spec: str) -> dict[str, Any]:
    role, _, ids = spec.partition(":")
    if role == "tool":
        return {"role": "tool", "tool_call_id": ids, "content": "done"}
    if role == "call":
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [_call(i) for i in ids.split(",")],
        }
    if role == "bad":
        return {"role": "assistant", "content": None, "tool_calls": [_call("c1", '{"order')]}
    return {"role": role, "content": "text"}


def _call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "get_order", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


class TestServerAsProgram:
    def test_steps_follow_the_history(self, tmp_path: Path) -> None:
        script = tmp_path / "steps.json"
        steps = [
            [{"status": 503, "body": "busy"}, {"text": "First."}],
            {"tool_calls": [{"name": "get_order", "arguments": {"order_id": "A1"}}]},
        ]
        script.write_text(json.dumps({"steps": steps}))
        command = [sys.executable, "-m", "tests.support.openai_server", "--script", str(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                url = server.stdout.readline().strip()
                statuses = [_ask(url, 0).status_code, _ask(url, 0).status_code]
                second = _ask(url, 1).json()["choices"][0]
                again = _ask(url, 0).json()["choices"][0]
                beyond = _ask(url, 2)
            finally:
                server.terminate()

        assert statuses == [503, 200]
        assert second["finish_reason"] == "tool_calls"
        assert again["message"]["content"] == "First."
        assert (beyond.status_code, "none for reply 2" in beyond.text) == (400, True)


def _ask(url: str, replies: int) -> httpx.Response:
    messages = [{"role": "user", "content": "Hi"}]
    messages += [
        {"role": "assistant", "content": "So?"},
        {"role": "user", "content": "Go on"},
    ] * replies
    body = {"model": "m", "messages": messages}
    return httpx.post(f"{url}/chat/completions", json=body, trust_env=False)


def test_a_request_knows_its_tools() -> None:
    tools = [{"type": "function", "function": {"name": "get_order", "parameters": {}}}]

    assert Request({}, {"messages": [], "tools": tools}).tools == ["get_order"]


class TestInAGraph:
    """The same through ``create_agent``, which calls models by ``ainvoke`` with a listener."""

    @staticmethod
    def agent(model: BaseChatModel) -> Any:
        @tool
        def get_order(order_id: str) -> str:
            """Read one order."""
            return f"{order_id} is pending"

        return create_agent(model, [get_order])

    async def test_pieces_stream_and_the_second_request_carries_the_result(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(
            Reply(tool_calls=(Call("get_order", {"order_id": "A1"}, id="call_1"),)),
            Reply("It is pending.", chunk_size=5),
        )
        asked = {"messages": [("user", "A1?")]}

        stream = self.agent(build_model()).astream(asked, stream_mode="messages")
        pieces = [
            message.text async for message, _ in stream if isinstance(message, AIMessageChunk)
        ]

        assert [piece for piece in pieces if piece] == ["It is", " pend", "ing."]
        assert model_server.requests[1].messages[-1] == {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "A1 is pending",
        }

    async def test_malformed_arguments_run_no_tool(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Reply(tool_calls=(Call("get_order", '{"order_id": "A'),)))
        asked = {"messages": [("user", "A1?")]}

        states = [
            state
            async for mode, state in self.agent(build_model()).astream(
                asked, stream_mode=["messages", "values"]
            )
            if mode == "values"
        ]

        answer = states[-1]["messages"][-1]
        assert answer.tool_calls == []
        assert [call["args"] for call in answer.invalid_tool_calls] == ['{"order_id": "A']

    async def test_a_turn_cancelled_while_the_reply_streams_leaves_the_model_usable(
        self, model_server: ModelServer, build_model: BuildModel
    ) -> None:
        model_server.script(Broken(Reply("Hello."), then="hang"), Reply("Again."))
        model, began = build_model(), asyncio.Event()

        async def listen() -> None:
            async for _ in model.astream("Hi"):
                began.set()

        listening = asyncio.create_task(listen())
        await began.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening

        assert (await model.ainvoke("Hi")).content == "Again."
