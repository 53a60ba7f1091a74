"""What a person is shown of a server before it is started or reached, and no secret with it.

A text of the file is shown with the values of its variables put in where they cannot be a secret,
and as it is written where they may be: ``serve --in /home/ann/notes --token ${TOKEN}``. What
decides which program runs, or where requests go, is shown in any case.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit

from agent.config import mask_url
from agent.mcp.servers import Http, Stdio

_DECIDES = re.compile(
    r"PATH|(LD|DYLD)_.*|PYTHON.*|NODE_OPTIONS|NODE_PATH|NPM_CONFIG_.*|BASH_ENV|ENV|SHELL|IFS|"
    r"PERL5?(LIB|OPT|DB)?|RUBY(LIB|OPT)|(_|JDK_)?JAVA_(TOOL_)?OPTIONS|CLASSPATH|GIT_.*|HOME",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|AUTH(?!OR)|CREDENTIAL|API_?KEY|_(KEY|PASS)$", re.IGNORECASE
)
_REFERENCE = re.compile(r"\$\{[\w:./-]*\}")


def decides(variable: str) -> bool:
    """Whether a program is found, or made to load something, by this variable: it is part of the
    command. ``GIT_TOKEN`` is not, whatever it begins with."""
    return bool(_DECIDES.fullmatch(variable)) and not _SECRET.search(variable)


def may_be_shown(variable: str, value: str) -> bool:
    """Whether a value is no secret: nothing, something that is there on this machine, or what
    ``decides``."""
    return not value or decides(variable) or (os.path.isabs(value) and os.path.lexists(value))


def command_line(child: Stdio, args: Sequence[str]) -> str:
    """What would be started, for a person to confirm.

    Args:
        args: Its arguments, as they are shown.
    """
    variables = [
        f"{name}={shlex.quote(value) if decides(name) else '…'}"
        for name, value in child.env.items()
    ]
    folder = f"  (in {child.cwd})" if child.cwd else ""
    return " ".join([*variables, *map(_quoted, (child.command, *args))]) + folder


def address(remote: Http, url: str) -> str:
    """Where requests would go, for a person to confirm.

    Values of headers are hidden, and so are values in the address's query: keys stand there.

    Args:
        url: Its address, as it is shown. Where that does not tell the host, the host is added.
    """
    parts = urlsplit(remote.url)
    origin = f"{parts.scheme}://{parts.netloc}"
    tells = url.startswith(origin) and url[len(origin) :][:1] in ("", "/", "?", "#")
    kind = " (SSE)" if remote.sse else ""
    headers = "".join(f" {name}: …" for name in remote.headers)
    return f"{mask_url(url)}{kind}{headers}" + ("" if tells else f"  (at {origin})")


def _quoted(word: str) -> str:
    """A word as a shell would have it; variables that are left in it need no quotes."""
    rest = _REFERENCE.sub("x", word)
    return word if shlex.quote(rest) == rest else shlex.quote(word)
