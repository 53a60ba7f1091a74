"""A chat model from a name: ``offline``, ``openai:…``, or any provider LangChain knows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError

from agent.errors import UsageError
from agent.models.errors import quote

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from agent.config import Settings

OFFLINE = "offline"
_OPENAI_URL = "https://api.openai.com/v1"
_NO_KEY = "no-key-needed"  # local servers want the header and do not look at it
_CONNECT_SECONDS = 10.0


def configured_chat_model(settings: Settings, name: str | None = None) -> BaseChatModel:
    """The chat model of the settings, or one of another name with the same access and patience.

    Raises:
        UsageError: As ``build_chat_model``.
    """
    return build_chat_model(
        name or settings.model,
        openai_api_key=settings.openai_api_key,
        openai_base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
        retries=settings.model_retries,
    )


def build_chat_model(
    name: str,
    *,
    openai_api_key: SecretStr | None,
    openai_base_url: str | None,
    timeout: float,
    retries: int,
    max_tokens: int | None = None,
    temperature: float | None = None,
) -> BaseChatModel:
    """Build the chat model called ``name``.

    Args:
        name: ``offline`` or ``provider:model``, such as ``openai:gpt-5-mini``.
        openai_api_key: For ``openai:``; may be missing when there is a base URL.
        openai_base_url: An OpenAI-compatible API (a gateway, Ollama, vLLM, llama.cpp);
            ``None`` is OpenAI itself.
        timeout: Seconds without a sign of life after which a request is given up.
        retries: How often a request is repeated after 408, 409, 429, 5xx, a timeout or a failed
            connection, with growing, jittered pauses and as ``Retry-After`` says. A reply that
            breaks off while it streams is not repeated.
        max_tokens: Upper bound of a reply; ``None`` is the provider's.
        temperature: ``None`` is the provider's.

    Raises:
        UsageError: The name, the provider's package or its settings are not usable; it says
            what to set or install.
    """
    if name == OFFLINE:
        from agent.models.offline import OfflineChatModel

        model: BaseChatModel = OfflineChatModel()
    else:
        provider, model_name = _split(name)
        wanted = {"max_tokens": max_tokens, "temperature": temperature}
        options = {key: value for key, value in wanted.items() if value is not None}
        options["max_retries"] = retries
        if provider == "openai":
            key, url = _openai_access(openai_api_key, openai_base_url)
            model = _build_openai(model_name, key, url, timeout, options)
        else:
            model = _build_other(provider, model_name, {"timeout": timeout, **options})
        name = f"{provider}:{model_name}"
    model.name = name
    return model


def service_of(name: str, openai_base_url: str | None) -> str | None:
    """Host and port that the requests of a model go to, such as ``api.openai.com``.

    ``None`` where the settings do not say it: ``offline``, and providers other than OpenAI.
    """
    if name.partition(":")[0].strip().lower() != "openai":
        return None
    parts = urlsplit(openai_base_url or _OPENAI_URL)
    return parts.netloc.rpartition("@")[2].lower()


def describe(model: BaseChatModel) -> str:
    """The short name shown in the banner and kept with a session, such as ``openai:gpt-5-mini``."""
    return model.get_name()


def _split(name: str) -> tuple[str, str]:
    provider, colon, model = (part.strip() for part in name.partition(":"))
    if not (provider and colon and model):
        raise UsageError(
            f"Model {quote(name)!r} is not understood. Write provider:name, such as "
            f"openai:gpt-5-mini, or {OFFLINE}, which needs no key."
        )
    return provider.lower().replace("-", "_"), model


def _openai_access(key: SecretStr | None, url: str | None) -> tuple[SecretStr, str]:
    """The key and the base URL to use, checked."""
    secret = key.get_secret_value().strip() if key else ""
    url = (url or "").strip()
    if not secret and not url:
        raise UsageError(
            "No key for openai: models. Set OPENAI_API_KEY; or, for a server that needs none "
            "(Ollama, vLLM, llama.cpp), OPENAI_BASE_URL, such as http://localhost:11434/v1. "
            f"Without either, use the model {OFFLINE}."
        )
    if not all("!" <= character <= "~" for character in secret):
        raise UsageError(
            "OPENAI_API_KEY holds spaces, line ends or characters outside ASCII, which no key "
            "has. Copy it anew."
        )
    if url and not _is_http(url):
        raise UsageError(
            f"OPENAI_BASE_URL is {quote(url)!r}, not an http or https address. Write it whole, "
            "such as http://localhost:11434/v1."
        )
    return SecretStr(secret or _NO_KEY), url or _OPENAI_URL


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _build_openai(
    name: str, key: SecretStr, url: str, timeout: float, options: dict[str, Any]
) -> BaseChatModel:
    """Chat Completions, since that is what compatible servers have.

    What ``langchain-openai`` would read from the environment (other base URLs, a proxy of its
    own, another message format) is passed explicitly, so that only settings decide where
    requests go. No connection outlives its request: an idle one belongs to the event loop that
    opened it and fails in the next, and nobody would close it. A ``Timeout`` object keeps the
    process-wide cache of HTTP clients out of the way, for the same reason.
    """
    import openai

    from agent.models.openai_chat import OpenAIChat

    return OpenAIChat(
        model=name,
        api_key=key,
        base_url=url,
        openai_proxy=None,
        timeout=openai.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
        content_timeout=timeout,
        default_headers={"Connection": "close"},
        use_responses_api=False,
        output_version="v0",
        streaming=True,
        stream_usage=True,
        **options,
    )


def _build_other(provider: str, name: str, options: dict[str, Any]) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    whole = quote(f"{provider}:{name}")
    try:
        model: BaseChatModel = init_chat_model(name, model_provider=provider, **options)
        # While streaming, LangChain completes arguments that are cut off into valid ones.
        model.disable_streaming = "tool_calling"
    except ImportError as error:
        package = _missing_package(error)
        raise UsageError(
            f"Model {whole!r} needs the package {package}, which is not installed. Install it "
            f"beside sayso: pip install {package}"
        ) from error
    except ValidationError as error:
        problems = "; ".join(problem["msg"] for problem in error.errors())
        raise UsageError(f"Model {whole!r} cannot be used: {quote(problems)}") from None
    except Exception as error:
        _, unknown, known = str(error).partition("Supported model providers are: ")
        if unknown:
            raise UsageError(
                f"Model {whole!r} names no provider that is known. There is: {known}."
            ) from None
        raise UsageError(f"Model {whole!r} cannot be used: {quote(str(error))}") from None
    return model


def _missing_package(error: ImportError) -> str:
    found = re.search(r"requires the (\S+) package", str(error))
    return found[1] if found else str(error.name)
