"""Building a model from a name, and what is said when that cannot be done."""

from __future__ import annotations

import subprocess
import sys

import pytest
from langchain_core.tools import tool
from pydantic import SecretStr

from agent.errors import UsageError
from agent.models import build_chat_model, describe
from tests.support.openai_server import ModelServer, Reply
from tests.unit.models.conftest import BuildModel

NOTHING = {"openai_api_key": None, "openai_base_url": None, "timeout": 5.0, "retries": 0}
KEY = "sk-secret-0123456789"


@tool
def get_order(order_id: str) -> str:
    """Read one order."""
    return order_id


def test_offline_needs_nothing() -> None:
    model = build_chat_model("offline", **NOTHING)

    assert type(model).__name__ == "OfflineChatModel"
    assert describe(model) == "offline"


def test_description_is_the_whole_name_of_provider_and_model() -> None:
    model = build_chat_model(" OpenAI:llama3.2:1b ", **NOTHING | {"openai_api_key": SecretStr(KEY)})

    assert describe(model) == "openai:llama3.2:1b"


@pytest.mark.parametrize("name", ["", "gpt-5-mini", "openai:", ":gpt-5-mini", "openai"])
def test_a_name_without_provider_or_model_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="Write provider:name, such as openai:"):
        build_chat_model(name, **NOTHING)


def test_an_unknown_provider_is_told_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"acme:large.*openai.*ollama"):
        build_chat_model("acme:large", **NOTHING)


def test_a_missing_package_is_told_with_how_to_install_it() -> None:
    with pytest.raises(UsageError, match="pip install langchain-mistralai"):
        build_chat_model("mistralai:large", **NOTHING)


@pytest.mark.parametrize("key", [None, SecretStr(""), SecretStr("  ")])
def test_neither_key_nor_base_url_says_what_to_set(key: SecretStr | None) -> None:
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY.*OPENAI_BASE_URL.*offline"):
        build_chat_model("openai:gpt-5-mini", **NOTHING | {"openai_api_key": key})


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-smart“quote”", "sk one"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as refusal:
        build_chat_model("openai:gpt-5-mini", **NOTHING | {"openai_api_key": SecretStr(key)})

    assert key not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["localhost:11434/v1", "ftp://host/v1", "http://", "http://[::1/v1"]
)
def test_a_base_url_that_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"OPENAI_BASE_URL is .*http"):
        build_chat_model("openai:gpt-5-mini", **NOTHING | {"openai_base_url": url})


async def test_a_base_url_without_key_sends_a_placeholder(
    model_server: ModelServer, build_model: BuildModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model_server.script(Reply("Hello."))

    await build_model(openai_api_key=None).ainvoke("Hi")

    assert model_server.requests[0].headers["authorization"] == "Bearer no-key-needed"


def test_the_key_shows_up_nowhere(build_model: BuildModel) -> None:
    model = build_model(openai_api_key=SecretStr(KEY))

    shown = f"{model!r} {model} {model.bind_tools([get_order])!r} {model.model_dump()}"
    assert KEY not in shown


async def test_only_the_arguments_decide_where_requests_go(
    model_server: ModelServer, build_model: BuildModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer() as elsewhere:
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_PROXY", "LANGSMITH_GATEWAY"):
            monkeypatch.setenv(name, elsewhere.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
        monkeypatch.setenv("LC_OUTPUT_VERSION", "v1")
        model_server.script(Reply("Hello."))

        answer = await build_model().ainvoke("Hi")

        assert answer.content == "Hello."
        assert model_server.requests[0].headers["authorization"] == "Bearer sk-test-0123456789"
        assert elsewhere.requests == []


def test_openai_itself_is_the_default_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "LANGSMITH_GATEWAY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")

    model = build_chat_model("openai:gpt-5", **NOTHING | {"openai_api_key": SecretStr(KEY)})

    assert str(model.root_async_client.base_url) == "https://api.openai.com/v1/"


@pytest.mark.parametrize("name", ["gpt-5-pro", "codex-mini", "gpt-6-astra", "o3"])
async def test_every_model_is_asked_over_chat_completions(
    name: str, model_server: ModelServer, build_model: BuildModel
) -> None:
    model_server.script(Reply("Hello."))

    answer = await build_model(f"openai:{name}").bind_tools([get_order]).ainvoke("Hi")

    assert answer.content == "Hello."
    assert model_server.requests[0].body["model"] == name
    assert model_server.requests[0].tools == ["get_order"]


async def test_settings_reach_the_request_and_absent_ones_do_not(
    model_server: ModelServer, build_model: BuildModel
) -> None:
    model_server.script(Reply("One."), Reply("Two."))

    await build_model(max_tokens=50, temperature=0.5).ainvoke("Hi")
    await build_model().ainvoke("Hi")

    with_settings, without = (request.body for request in model_server.requests)
    assert (with_settings["max_completion_tokens"], with_settings["temperature"]) == (50, 0.5)
    assert not {"max_completion_tokens", "max_tokens", "temperature"} & without.keys()


def test_importing_the_package_imports_no_langchain() -> None:
    program = (
        "import sys, agent.models; "
        "print([m for m in sys.modules if m.startswith(('langchain', 'openai', 'httpx'))])"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"
