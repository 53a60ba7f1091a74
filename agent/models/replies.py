"""What can be said about a model's reply beyond its text: how it ended, what its calls say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NoReturn

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

Ending = Literal["complete", "cut_off", "filtered"]

# Where providers say why a reply ended, and their words for it.
_REASON_FIELDS = ("finish_reason", "stop_reason", "done_reason")
_CUT_OFF = {"length", "max_tokens", "model_length", "model_context_window_exceeded"}
_FILTERED = {"content_filter", "safety", "refusal", "prohibited_content", "recitation"}


def ending(message: AIMessage) -> Ending:
    """How a reply ended: by itself, at the token limit, or stopped by the provider's filter.

    A reply that was cut off may hold tool calls whose arguments look whole and are not, since
    LangChain completes partial JSON while it streams: none of its calls may be trusted.
    """
    reasons = {str(message.response_metadata.get(name)).lower() for name in _REASON_FIELDS}
    if reasons & _CUT_OFF:
        return "cut_off"
    return "filtered" if reasons & _FILTERED else "complete"


def parse_arguments(raw: str | None) -> dict[str, Any]:
    """Parse a tool call's arguments as strictly as JSON is; nothing at all means no arguments.

    Raises:
        ValueError: Not JSON, not an object, or with NaN or an infinity in it.
    """
    if not raw or not raw.strip():
        return {}
    arguments = json.loads(raw, parse_constant=_refuse_constant)
    if not isinstance(arguments, dict):
        raise ValueError(f"expected a JSON object, got {type(arguments).__name__}")
    return arguments


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
