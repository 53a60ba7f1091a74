"""What a caller learns of a request that gave no result. A write depends on the difference."""

from __future__ import annotations

from agent.errors import McpError


class NotSentError(McpError):
    """The request never left, or was turned away unread: nothing happened.

    ``again`` says whether trying again may help.
    """

    def __init__(self, message: str, *, again: bool = True) -> None:
        self.again = again
        super().__init__(message)


class RefusedError(McpError):
    """The server answered with a JSON-RPC error: its ``code`` and its text."""

    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(f"{text} (code {code})")


class NoAnswerError(McpError):
    """The request may have arrived, and no answer that can be read came back."""
