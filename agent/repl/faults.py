"""What goes wrong in the chat: in one sentence for the person, in full for the log."""

from __future__ import annotations

import logging

from agent.errors import SaysoError

log = logging.getLogger("sayso")


class FatalError(Exception):
    """An error that ends the chat, after it was shown."""

    def __init__(self, error: SaysoError) -> None:
        super().__init__(str(error))
        self.error = error


def for_person(error: Exception) -> SaysoError:
    """The error as the person is told it; the details of a fault of ours go to the log."""
    if isinstance(error, SaysoError):
        return error
    log.error("the chat failed", exc_info=error)
    return SaysoError(
        f"Something unexpected failed: {type(error).__name__}: {error}. What was recorded before "
        "is kept. The details are in logs/sayso.log of the state folder (sayso doctor names it)."
    )
