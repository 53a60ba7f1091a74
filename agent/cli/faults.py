"""What goes wrong, in one sentence for the person and in full for the log."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

from agent.cli.output import say
from agent.errors import SaysoError

LOG = Path("logs") / "sayso.log"
"""Below the state folder."""


def told(error: Exception) -> int:
    """Say what went wrong on stderr, and return the exit code."""
    if isinstance(error, SaysoError):
        say(str(error))
        return error.exit_code
    kept = _keep(error)
    say(
        f"Something unexpected failed: {type(error).__name__}: {error}. What was recorded before "
        f"is kept. {kept}"
    )
    return 1


def _keep(error: Exception) -> str:
    """Write the details to the log; where they are, or why they are nowhere."""
    try:
        from agent.config import load_settings

        home = load_settings().ensure_home()
        with logged(home):
            logging.getLogger("sayso").error("unexpected", exc_info=error)
    except Exception as second:
        return f"The details could not be kept ({second})."
    return f"The details are in {home / LOG}"


@contextlib.contextmanager
def logged(home: Path) -> Iterator[None]:
    """Meanwhile what libraries log and warn about goes to the log, not to the terminal.

    Afterwards too what their threads still log while the process ends, such as LangSmith's about
    traces that it could not send. The file is made, readable by its owner only, when there is
    something to write.
    """
    root = logging.getLogger()
    handler = _PrivateFile(home / LOG, delay=True, encoding="utf-8", errors="backslashreplace")
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(name)s %(message)s"))
    root.addHandler(handler)
    with warnings.catch_warnings():
        logging.captureWarnings(True)
        try:
            yield
        finally:
            logging.captureWarnings(False)
            root.removeHandler(handler)
            handler.close()  # it opens the file again when there is more
            logging.lastResort = handler


class _PrivateFile(logging.FileHandler):
    """A log that its owner alone can read."""

    def _open(self):  # type: ignore[no-untyped-def]
        path = Path(self.baseFilename)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        return super()._open()
