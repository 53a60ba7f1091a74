"""What other hosts write beside how a server is reached, and what becomes of it here.

Looked at were Claude Desktop, Claude Code, Cursor, VS Code, Copilot, Windsurf, Cline, Roo Code,
Zed, Gemini CLI and Codex. A key is obeyed, or it is named and has no effect, since nothing that
its writer relies on is lost; or it costs its server, since something is. ``sayso mcp import``
takes such a server without the key, once a person has been told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_OTHER_NAMES = {
    "serverUrl": "url",  # Windsurf
    "httpUrl": "url",  # Gemini CLI
    "transport": "type",
    "transportType": "type",
}
"""What means the same as a key of ours."""

SWITCHES = ("disabled", "enabled")

WITHOUT_EFFECT = (
    # Which calls are asked about: every write is.
    *("autoApprove", "alwaysAllow", "trust", "default_tools_approval_mode"),
    # How long is waited: in seconds for some hosts, in milliseconds for others.
    *("timeout", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"),
    # How it is signed in to: sayso mcp login finds that out.
    *("oauth", "oauth_resource", "auth", "scopes"),
    # When it is started, and whether its calls may overlap.
    *("alwaysLoad", "required", "supports_parallel_tool_calls", "dev", "watchPaths"),
    # What it is called and where it came from.
    *("name", "title", "description", "icon", "gallery", "version", "source", "remoteConfigured"),
)
"""Keys that change neither which server it is nor what it may do here."""

_ALL_TOOLS = "tools of it would be offered that it leaves out"
_HEADERS = "requests would be sent without what it adds; write headers"
_COSTLY = {
    "sandbox": "the server would run without one",
    "sandboxEnabled": "the server would run without a sandbox",
    **dict.fromkeys(("includeTools", "enabledTools", "enabled_tools", "tools"), _ALL_TOOLS),
    **dict.fromkeys(("excludeTools", "disabledTools", "disabled_tools"), _ALL_TOOLS),
    **dict.fromkeys(("headersHelper", "authProviderType", "bearer_token_env_var"), _HEADERS),
    **dict.fromkeys(("http_headers", "env_http_headers"), _HEADERS),
    "env_vars": "the server would lack these variables; name them in env",
}
"""Keys that change what their writer expects, and what would be different without each."""

_SAYS_NOTHING: dict[str, tuple[Any, ...]] = {
    "sandboxEnabled": (False,),
    **dict.fromkeys(("includeTools", "enabledTools", "enabled_tools", "tools"), (["*"],)),
    **dict.fromkeys(("excludeTools", "disabledTools", "disabled_tools"), ([],)),
}
"""Values of theirs that leave everything as it is; some hosts write them into every entry."""


def with_our_names(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry in which what means the same as a key of ours is called so.

    Where the key of ours is there too, the other one stays as it is: it is not known.
    """
    own = {}
    for key, value in entry.items():
        ours = _OTHER_NAMES.get(key, key)
        own[key if ours in entry or ours in own else ours] = value
    return own


def is_switched_off(entry: Mapping[str, Any]) -> bool:
    """Whether an entry says that its server is not to be used."""
    return entry.get("disabled") is True or entry.get("enabled") is False


def idle_keys(entry: Mapping[str, Any]) -> list[str]:
    """The keys of an entry that have no effect here, and need none."""
    return [
        key
        for key, value in entry.items()
        if key in WITHOUT_EFFECT or any(value == idle for idle in _SAYS_NOTHING.get(key, ()))
    ]


def why_costly(key: str) -> str | None:
    """What would be different without a key, as a clause; ``None`` for one that nobody knows."""
    return _COSTLY.get(key)


def left_out(entry: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[str]:
    """What an entry loses when only its ``known`` keys are kept, in clauses."""
    idle = idle_keys(entry)
    if idle:
        yield f"without {', '.join(idle)}: no effect here, writes wait"
    for key in with_our_names(entry):
        if key not in known and key not in idle:
            why = why_costly(key) or "not known here; look at what its writer meant by it"
            yield f"without {key[:100]}: {why}"
