"""Where sign-ins to MCP servers are kept: a file each in ``mcp-tokens`` of the state folder.

A file's name is made of the file that names the server, the name it has there and its address:
a token is never sent to another address than the one it was made for.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.canonical import canonical_json
from agent.errors import McpError, UsageError
from agent.mcp.servers import Http, ServerConfig
from agent.trust import read_small, write_private

TOKENS_FOLDER = "mcp-tokens"

_MAX_FILE = 4 * 1024 * 1024
_LONGEST = 10 * 365 * 24 * 3600
_SENDABLE = re.compile(r"[\x21-\x7e]+")
_BETWEEN_TRIES = 0.02


class SignIn(BaseModel):
    """What a sign-in brought; what is secret of it is not in ``repr``.

    Args:
        server: The server's name, for whoever looks into the folder.
        issuer: The sign-in server, as it was shown.
        tokens: For the server.
        expires_at: Seconds since 1970; ``None`` when that was not said.
        client: What the sign-in server knows this program as.
        metadata: The sign-in server's endpoints; ``None`` for one that publishes none.
        resource: What the server said of itself.
    """

    model_config = ConfigDict(frozen=True)

    server: str
    issuer: str
    tokens: OAuthToken = Field(repr=False)
    expires_at: float | None = None
    client: OAuthClientInformationFull = Field(repr=False)
    metadata: OAuthMetadata | None = Field(default=None, repr=False)
    resource: ProtectedResourceMetadata | None = Field(default=None, repr=False)

    @property
    def has_expired(self) -> bool:
        """Whether the time that the token was given is over."""
        return self.expires_at is not None and time.time() >= self.expires_at

    def renewed(self, tokens: OAuthToken) -> SignIn:
        """The same sign-in with new tokens. A refresh token that did not come anew stays."""
        kept = tokens.refresh_token or self.tokens.refresh_token
        tokens = tokens.model_copy(update={"refresh_token": kept})
        return self.model_copy(update={"tokens": tokens, "expires_at": expiry(tokens)})


def expiry(tokens: OAuthToken) -> float | None:
    """When tokens that came just now expire, in seconds since 1970.

    Raises:
        McpError: The token cannot be sent in a header.
    """
    if not _SENDABLE.fullmatch(tokens.access_token):
        raise McpError("the token that came is none that can be sent")
    seconds = tokens.expires_in
    return None if seconds is None else time.time() + min(seconds, _LONGEST)


def has_own_authorization(remote: Http) -> bool:
    """Whether a server's configuration signs its requests, so that no sign-in is used."""
    return any(name.lower() == "authorization" for name in remote.headers)


class TokenFile:
    """The sign-in to one server at one address."""

    def __init__(self, home: Path, server: ServerConfig, remote: Http) -> None:
        self.path = home / TOKENS_FOLDER / f"{_key(server)}-{_digest(remote.url)}.json"

    def read(self) -> SignIn | None:
        """What is kept; ``None`` where there is nothing, or nothing that can be used."""
        try:
            text = read_small(self.path, _MAX_FILE)
            return None if text is None else SignIn.model_validate_json(text)
        except (UsageError, ValidationError):
            return None

    def write(self, kept: SignIn) -> None:
        """Keep a sign-in instead of what was there, readable by its owner only.

        Raises:
            UsageError: It cannot be written; what was there is still there.
        """
        try:
            folder = self.path.parent
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            write_private(self.path, kept.model_dump_json(exclude_none=True))
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror}.") from error

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the file against other processes; whoever changes it does so within.

        Where there is none, nothing is held.
        """
        handle = await _locked(self.path)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)


async def delete_all(home: Path, server: ServerConfig) -> int:
    """Delete the sign-ins to a server, whatever addresses it had.

    Returns:
        How many there were.

    Raises:
        UsageError: One cannot be deleted.
    """
    paths = list(_paths(home, server))
    for path in paths:
        handle = await _locked(path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{path} cannot be deleted: {error.strerror}.") from error
        finally:
            if handle is not None:
                os.close(handle)
    return len(paths)


def _paths(home: Path, server: ServerConfig) -> Iterator[Path]:
    return (home / TOKENS_FOLDER).glob(f"{_key(server)}-*.json")


async def _locked(path: Path) -> int | None:
    """A descriptor that holds the file that is there now; ``None`` where there is none.

    A file is replaced by another when it is written, so one that is held may not be there any
    more. Tries again and again: waiting for a lock could not be cancelled.
    """
    while True:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with suppress(BlockingIOError, FileNotFoundError):  # held, or replaced: try again
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        os.close(handle)
        await asyncio.sleep(_BETWEEN_TRIES)


def _key(server: ServerConfig) -> str:
    """The file and the name in it; one file has one name, whatever links lead to its folder."""
    source = server.source.parent.resolve() / server.source.name
    return _digest(canonical_json([str(source), server.name]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
