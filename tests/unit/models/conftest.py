"""A model over the real wire format, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from agent.models import build_chat_model
from tests.support.fixtures import model_server as model_server
from tests.support.openai_server import ModelServer

BuildModel = Callable[..., BaseChatModel]


@pytest.fixture
def build_model(model_server: ModelServer) -> BuildModel:
    """``build_chat_model`` pointed at the server; no retries unless asked for."""

    def build(name: str = "openai:test-model", **options: Any) -> BaseChatModel:
        settings: dict[str, Any] = {
            "openai_api_key": SecretStr("sk-test-0123456789"),
            "openai_base_url": model_server.url,
            "timeout": 30.0,
            "retries": 0,
        }
        return build_chat_model(name, **(settings | options))

    return build
