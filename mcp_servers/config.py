"""What the servers read from their environment; nothing else in this package reads it.

A server is started by somebody's MCP host, which names what it gets: no ``SAYSO_*`` variable
and no ``.env`` file counts here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import platformdirs
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    DirectoryPath,
    Field,
    HttpUrl,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


def _usable_token(secret: SecretStr) -> SecretStr:
    """Refuse what could be guessed, or would break the header it travels in (a line's end)."""
    value = secret.get_secret_value()
    if len(value) < 16 or not all("!" <= character <= "~" for character in value):
        raise ValueError("at least 16 visible ASCII characters, without white space")
    return secret


def _safe_for_a_token(url: HttpUrl) -> HttpUrl:
    if url.scheme != "https" and url.host not in ("127.0.0.1", "localhost", "[::1]"):
        raise ValueError("https, unless it is this machine: a token goes with every request")
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("scheme, host, port and path, and nothing more")
    return url


def _home_expanded(value: object) -> object:
    """An MCP host's configuration is no shell: nobody else knows what ``~`` means."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("a path, or no such variable at all")
    try:
        return Path(value).expanduser()
    except RuntimeError:  # pathlib's word for a ~name that is nobody's
        raise ValueError("a path whose ~ or ~name is a home folder on this machine") from None


def _words(value: object) -> object:
    return value.split() if isinstance(value, str) else value


def _scopes(reading: str) -> Any:
    return Field(
        default=frozenset({reading}),
        validation_alias="AGENT_TOKEN_SCOPES",
        description="What AGENT_TOKEN permits, with spaces between; by default to read.",
    )


Token = Annotated[SecretStr, AfterValidator(_usable_token)]
File = Annotated[Path, BeforeValidator(_home_expanded)]
Folder = Annotated[DirectoryPath, BeforeValidator(_home_expanded)]


class CallerSettings(BaseSettings):
    """What the MCP servers share: who may call over HTTP. Over stdio none of it is used."""

    model_config = SettingsConfigDict(env_file=None, extra="ignore", hide_input_in_errors=True)

    agent_token: Token | None = Field(
        default=None,
        validation_alias="AGENT_TOKEN",
        description="What a caller shows to the server; needed for HTTP.",
    )
    """``AGENT_TOKEN``"""
    agent_scopes: frozenset[str] = frozenset()
    """``AGENT_TOKEN_SCOPES``"""
    agent_expires: AwareDatetime | None = Field(
        default=None,
        validation_alias="AGENT_TOKEN_EXPIRES",
        description="Until when AGENT_TOKEN holds, such as 2027-01-31T12:00:00Z.",
    )
    """``AGENT_TOKEN_EXPIRES``"""
    requests_per_minute: int = Field(
        default=600,
        ge=1,
        validation_alias="MAX_REQUESTS_PER_MINUTE",
        description="How many requests a client may send at once, and again in each minute.",
    )
    """``MAX_REQUESTS_PER_MINUTE``"""


class OrdersSettings(CallerSettings):
    """Settings of ``mcp_servers.orders``."""

    database: File = Field(
        default_factory=lambda: platformdirs.user_state_path("sayso") / "worlds" / "orders.db",
        validation_alias="ORDER_DESK_DB",
        description="The order desk's database; made with sample orders when missing. By "
        "default the one that sayso's own order tools use.",
    )
    """``ORDER_DESK_DB``"""
    agent_scopes: Annotated[
        frozenset[Literal["orders:read", "orders:write"]], NoDecode, BeforeValidator(_words)
    ] = _scopes("orders:read")
    """``AGENT_TOKEN_SCOPES``"""


class ResearchSettings(CallerSettings):
    """Settings of ``mcp_servers.research``."""

    corpus: Folder | None = Field(
        default=None,
        validation_alias="RESEARCH_CORPUS",
        description="A folder of pages; by default the bundled ones.",
    )
    """``RESEARCH_CORPUS``"""
    agent_scopes: Annotated[
        frozenset[Literal["research:read"]], NoDecode, BeforeValidator(_words)
    ] = _scopes("research:read")
    """``AGENT_TOKEN_SCOPES``"""


class LmsSettings(BaseSettings):
    """Settings of ``mcp_servers.courses.lms``, the course service."""

    model_config = SettingsConfigDict(env_file=None, extra="ignore", hide_input_in_errors=True)

    database: File = Field(
        default_factory=lambda: platformdirs.user_state_path("sayso") / "worlds" / "courses.db",
        validation_alias="LMS_DB",
        description="The gradebook; made with sample courses when missing.",
    )
    """``LMS_DB``"""
    token: Token = Field(
        validation_alias="LMS_TOKEN", description="The bearer token that every request must carry."
    )
    """``LMS_TOKEN``"""


class CoursesSettings(CallerSettings):
    """Settings of ``mcp_servers.courses``, the MCP server over the course service."""

    lms_url: Annotated[HttpUrl, AfterValidator(_safe_for_a_token)] = Field(
        default=HttpUrl("http://127.0.0.1:8765"),
        validation_alias="LMS_URL",
        description="Where the course service is.",
    )
    """``LMS_URL``"""
    lms_token: Token = Field(
        validation_alias="LMS_TOKEN", description="What this server shows to the course service."
    )
    """``LMS_TOKEN``"""
    agent_scopes: Annotated[
        frozenset[Literal["courses:read", "courses:write"]], NoDecode, BeforeValidator(_words)
    ] = _scopes("courses:read")
    """``AGENT_TOKEN_SCOPES``"""

    @model_validator(mode="after")
    def _tokens_differ(self) -> Self:
        if self.agent_token == self.lms_token:
            raise ValueError("AGENT_TOKEN and LMS_TOKEN must differ: one must not open both doors")
        return self


S = TypeVar("S", bound=BaseSettings)


def read_settings(kind: type[S]) -> S:
    """Settings from the environment; exits with status 2 and a line a fault, never a value."""
    try:
        return kind()
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            name = ".".join(map(str, fault["loc"]))
            sys.stderr.write(f"{name}: {fault['msg']}\n" if name else f"{fault['msg']}\n")
        raise SystemExit(2) from None


def shut_out_fastmcp_settings() -> None:
    """Keep FastMCP from settings of its own, which it reads when it is imported.

    It would take them from ``FASTMCP_*`` and from the ``.env`` of whatever folder the server is
    started in: tracebacks in answers (``DEBUG``), other checks of arguments, and an end with a
    traceback where it does not understand one.
    """
    for name in [name for name in os.environ if name.upper().startswith("FASTMCP_")]:
        del os.environ[name]
    os.environ["FASTMCP_ENV_FILE"] = os.devnull
