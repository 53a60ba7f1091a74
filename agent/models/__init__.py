"""Chat models: building one from a name, reading its replies, explaining its failures.

- ``build``: ``build_chat_model("provider:name")``, ``configured_chat_model(settings)``,
  ``describe``, ``service_of``.
- ``errors``: ``as_model_error``, what a provider's failure means for a person.
- ``replies``: ``ending``, how a reply ended; strict tool call arguments.
- ``openai_chat``: Chat Completions without silently cut or completed replies.
- ``local``: models that run in this process: ``offline``, which needs no key, and ``scripted``.

Nothing of LangChain is imported before a model is built.
"""

from __future__ import annotations

from agent.models.build import build_chat_model, configured_chat_model, describe, service_of
from agent.models.errors import as_model_error
from agent.models.replies import ending

__all__ = [
    "as_model_error",
    "build_chat_model",
    "configured_chat_model",
    "describe",
    "ending",
    "service_of",
]
