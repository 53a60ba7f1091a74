"""What a provider's failure means for the person at the keyboard.

Providers raise hundreds of exceptions. ``as_model_error`` sorts them into a dozen kinds: by
LangChain's own classes where an integration uses them, else by HTTP status, else by what went
wrong below (TLS, time, connection). Text of the provider is quoted short, with control and
look-alike characters made visible and keys masked.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from enum import Enum
from typing import Any

from agent.errors import ModelUnavailable
from agent.safe_text import one_line, shorten


class Failure(Enum):
    """A kind of failure: what happened, and what to do next."""

    KEY = (
        "The model provider refused the key",
        "Check the key (OPENAI_API_KEY for openai: models) and start again.",
    )
    FORBIDDEN = (
        "The key may not use this model",
        "Check what the key is allowed to do, or choose another model with --model.",
    )
    NO_MODEL = (
        "The provider does not have this model, or not at this address",
        "Check the model's name and OPENAI_BASE_URL (it usually ends in /v1).",
    )
    TOO_LONG = (
        "The conversation is longer than the model can read",
        "Start a new session, or choose a model with a larger context.",
    )
    REQUEST = (
        "The provider refused the request",
        "If repeating it does not help, choose another model with --model.",
    )
    RATE = (
        "The provider limits the rate of requests",
        "Wait a minute before repeating it.",
    )
    QUOTA = (
        "The account's quota with the provider is used up",
        "Check plan and billing with the provider.",
    )
    SERVER = (
        "The provider failed",
        "Wait a little before repeating it, or choose another model with --model.",
    )
    TIMEOUT = (
        "The provider did not answer in time",
        "If it needs longer, raise SAYSO_MODEL_TIMEOUT.",
    )
    UNREACHABLE = (
        "The provider could not be reached",
        "Check the network, any proxy, and OPENAI_BASE_URL; is the server running?",
    )
    TLS = (
        "No secure connection to the provider could be made",
        "Check https or http in OPENAI_BASE_URL, and the certificates.",
    )
    BROKEN = (
        "The connection broke before the answer was complete, so none of it was used",
        "If it happens often, check the network or the gateway.",
    )
    MALFORMED = (
        "The provider's answer could not be understood",
        "Check that OPENAI_BASE_URL is an OpenAI-compatible API (it usually ends in /v1).",
    )


_SAFE = "Nothing was lost; the turn can be repeated."
_MAX_DETAIL = 300
_TOO_LONG = re.compile(
    r"context_length_exceeded|context window|maximum context|context length|prompt is too long"
    r"|input tokens exceed|exceeds? the available context",
    re.IGNORECASE,
)
_NO_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)


def as_model_error(error: Exception) -> ModelUnavailable:
    """Turn whatever a chat model raised into an error with a message for a person.

    Raise the result ``from None`` where tracebacks may be shown or logged: the original's own
    text is neither shortened nor masked.
    """
    if isinstance(error, ModelUnavailable):
        return error
    failure = _sort(error)
    return _explain(failure, _status(error), _detail(error, failure))


def broken_reply(*, begun: bool) -> ModelUnavailable:
    """The error for a stream that ended before the reply did, or in which no reply ever began."""
    if begun:
        return _explain(Failure.BROKEN)
    return _explain(Failure.MALFORMED, detail="not one event of a stream in it")


def _explain(failure: Failure, status: int | None = None, detail: str = "") -> ModelUnavailable:
    what, then = failure.value
    code = f" (HTTP {status})" if status else ""
    quoted = f": “{detail}”." if detail else "."
    return ModelUnavailable(f"{what}{code}{quoted} {_SAFE} {then}")


def _sort(error: Exception) -> Failure:
    said = f"{error} {getattr(error, 'code', '')} {getattr(error, 'body', '')}"
    status = _status(error)
    if status in (None, 400, 413, 422) and _TOO_LONG.search(said):
        return Failure.TOO_LONG
    if status == 402 or (status == 429 and _NO_QUOTA.search(said)):
        return Failure.QUOTA
    return _by_status(status) or _by_class(error) or _by_cause(error)


def _by_class(error: Exception) -> Failure | None:
    from langchain_core import exceptions as lc

    kinds = {
        lc.ContextOverflowError: Failure.TOO_LONG,
        lc.ModelAuthenticationError: Failure.KEY,
        lc.ModelPermissionDeniedError: Failure.FORBIDDEN,
        lc.ModelNotFoundError: Failure.NO_MODEL,
        lc.ModelInvalidRequestError: Failure.REQUEST,
        lc.ModelRateLimitError: Failure.RATE,
        lc.ModelAPIError: Failure.SERVER,
        lc.ModelTimeoutError: Failure.TIMEOUT,
    }
    return next((failure for kind, failure in kinds.items() if isinstance(error, kind)), None)


def _by_status(status: int | None) -> Failure | None:
    if status is None:
        return None
    known = {401: Failure.KEY, 403: Failure.FORBIDDEN, 404: Failure.NO_MODEL, 429: Failure.RATE}
    if status in known:
        return known[status]
    if status in (408, 504):
        return Failure.TIMEOUT
    if status >= 500:
        return Failure.SERVER
    return Failure.REQUEST if status >= 400 else Failure.MALFORMED


def _by_cause(error: Exception) -> Failure:
    """Sort by the exceptions below; HTTP libraries are told by the names of their classes."""
    causes = list(_causes(error))
    names = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    if any("Timeout" in name for name in names):
        return Failure.TIMEOUT
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return Failure.TLS
    if names & {"ConnectError", "ConnectionRefusedError", "gaierror", "UnsupportedProtocol"}:
        return Failure.UNREACHABLE
    if names & {"TransportError", "ConnectionError", "APIConnectionError", "ModelConnectionError"}:
        return Failure.BROKEN
    return Failure.SERVER if "APIError" in names else Failure.MALFORMED


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, outermost first.

    HTTP libraries raise ``from None``, so the context counts even where it is not shown.
    """
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _status(error: Exception) -> int | None:
    """The HTTP status that an exception of any provider's package carries."""
    holders = (error, getattr(error, "response", None))
    for name in ("status_code", "http_status", "status", "code"):
        for holder in holders:
            value = getattr(holder, name, None)
            if isinstance(value, int) and 100 <= value <= 599:
                return int(value)
    return None


def _detail(error: Exception, failure: Failure) -> str:
    """What the provider, or else the network, said about it; empty when that adds nothing."""
    if failure is Failure.TIMEOUT:
        return ""
    if failure is Failure.MALFORMED and _status(error) is None:
        said = f"{type(error).__name__}: {error}"
    else:
        said = _provider_message(error) or _network_message(error)
    return quote(said, secrets=_secrets_of(error))


def _provider_message(error: Exception) -> str:
    """The message in the body of an error response; a body that is not JSON is not quoted."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        return str(inner.get("message") or "") if isinstance(inner, dict) else str(inner)
    if body is None and _status(error) is not None:
        return str(getattr(error, "message", None) or error)
    return ""


def _network_message(error: Exception) -> str:
    """What the operating system said, which names the address; the innermost error has it."""
    texts = [str(cause) for cause in _causes(error) if isinstance(cause, OSError)]
    return texts[-1] if texts else ""


def quote(text: str, *, secrets: frozenset[str] = frozenset()) -> str:
    """Make foreign text fit to show: one line, at most 300 characters, keys masked."""
    for secret in secrets:
        text = text.replace(secret, "***")
    for pattern, mask in _KEY_PATTERNS:
        text = pattern.sub(mask, text)
    return shorten(one_line(" ".join(text.split())), _MAX_DETAIL)


_KEY_PATTERNS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=*-]+"), r"\1 ***"),
    (re.compile(r"\b(sk|pk|rk|gsk|xai|hf|lsv2|nvapi|pplx)[-_][\w*.-]{4,}"), r"\1-***"),
    (re.compile(r"\bAIza[\w-]{10,}"), "AIza***"),
    (re.compile(r"(?<=://)[^/@\s]+@"), "***@"),
    (re.compile(r"(?i)([?&](?:api[-_]?key|key|token)=)[^&\s]+"), r"\1***"),
)
_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_SHORTEST_SECRET = 6  # masking shorter ones would blank out words


def _secrets_of(error: Exception) -> frozenset[str]:
    """The keys that the failed request carried: some servers repeat them in their errors."""
    headers: Any = {}
    for cause in _causes(error):
        try:
            headers = cause.request.headers  # type: ignore[attr-defined]
            break
        except (AttributeError, RuntimeError):  # httpx raises when there is no request
            continue
    values = (str(headers.get(name, "")).rpartition(" ")[2] for name in _KEY_HEADERS)
    return frozenset(value for value in values if len(value) >= _SHORTEST_SECRET)
