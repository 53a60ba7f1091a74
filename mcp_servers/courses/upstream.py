"""Requests to the course service, and its answers as ours.

**Out** goes what the operation documents: method, path, query, body, and four headers that are
built here (``Authorization`` with ``LMS_TOKEN``, ``Accept``, ``Content-Type``,
``Idempotency-Key``). No header of an inbound request, no cookie, no proxy or ``.netrc`` of the
environment; redirects are not followed.

**In** comes a success that fits the document's schema, or an error in our words: the sentence
that *our copy of the document* has for the status, with the integers that the problem's schema
names. No text of an error's body is passed on.

Whether something changed is said by the exceptions of ``tools.contract``: a connection that
was never made, a 4xx and a 503 changed nothing; a write whose answer is lost or cannot be read
has an unknown outcome, and its message says how to settle it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Self

import httpx
from pydantic import SecretStr

from mcp_servers import strict_json
from mcp_servers.courses.document import KEY_HEADER, Operation, complaints
from tools.contract import OutcomeUnknown, ToolFailure, TransientFailure

MAX_ANSWER = 1024 * 1024  # bytes

_log = logging.getLogger(__name__)


class Upstream:
    """A connection to the service, open inside ``async with``.

    Args:
        url: Where the service is.
        token: ``LMS_TOKEN``.
        timeout: Seconds for one request, from beginning to end; half of them for connecting.
    """

    def __init__(self, url: str, token: SecretStr, *, timeout: float = 10.0) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        connecting = self._timeout / 2
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=connecting, pool=connecting),
            trust_env=False,
            follow_redirects=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def call(
        self, operation: Operation, arguments: Mapping[str, Any], key: str | None = None
    ) -> dict[str, Any]:
        """Send one operation once; ``key`` is its idempotency key, where it takes one.

        Raises:
            ToolFailure: Nothing was changed.
            TransientFailure: Nothing was changed, and trying again may help.
            OutcomeUnknown: The write may have happened.
        """
        try:
            async with asyncio.timeout(self._timeout):
                status, body = await self._exchange(self._request(operation, arguments, key))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            _log.warning("%s: %s", operation.id, type(error).__name__)
            raise TransientFailure(
                "The course service cannot be reached; nothing was changed. Try again later."
            ) from None
        except _TooLong:
            sentence = "The course service's answer is too large: ask for less at once."
            raise _lost(operation, sentence) from None
        except (httpx.HTTPError, TimeoutError) as error:
            _log.warning("%s: %s", operation.id, type(error).__name__)
            raise _lost(operation, "The course service's answer was lost.") from None
        if status == operation.success:
            return self._result(operation, body)
        raise _refusal(operation, status, body)

    def _request(
        self, operation: Operation, arguments: Mapping[str, Any], key: str | None
    ) -> httpx.Request:
        query = {name: arguments[name] for name in sorted(operation.query & arguments.keys())}
        headers = {
            "Authorization": f"Bearer {self._token.get_secret_value()}",
            "Accept": "application/json, application/problem+json",
        }
        content = None
        if not operation.reads:
            body = {name: arguments[name] for name in arguments if name not in operation.query}
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if operation.takes_key and key is not None:
            headers[KEY_HEADER] = key
        return httpx.Request(
            operation.method,
            f"{self._url}{operation.path}",
            params=query or None,
            headers=headers,
            content=content,
        )

    async def _exchange(self, request: httpx.Request) -> tuple[int, bytes]:
        assert self._client is not None, "the connection is opened by `async with`"
        response = await self._client.send(request, stream=True)
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise _TooLong
            return response.status_code, bytes(body)
        finally:
            await response.aclose()

    def _result(self, operation: Operation, body: bytes) -> dict[str, Any]:
        """The body of a success, if it is what the document says and holds no secret of ours."""
        result = _parsed(body)
        if wrong := complaints(operation.result, result):
            _log.warning("%s: its answer is not as documented, %s", operation.id, len(wrong))
            raise _lost(operation, "The course service answered in an unexpected form.")
        assert isinstance(result, dict)
        if self._token.get_secret_value() in json.dumps(result, ensure_ascii=False):
            _log.warning("%s: its answer held this server's credentials", operation.id)
            raise _lost(operation, "The course service's answer cannot be passed on.")
        return result


class _TooLong(Exception):
    """The answer exceeds ``MAX_ANSWER``."""


def _refusal(operation: Operation, status: int, body: bytes) -> Exception:
    """An answer that is no success, in our words."""
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return ToolFailure(
            "The course service did not accept this server; nothing was changed. Whoever runs "
            "this server must look at its settings; other arguments will not help."
        )
    problem = operation.problems.get(status)
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        sentence = problem.description if problem else "The course service is busy."
        return TransientFailure(f"{sentence} Nothing was changed.")
    if 300 <= status < 500:
        sentence = problem.description if problem else f"The course service refused ({status})."
        facts = _facts(problem.facts, body) if problem else ""
        return ToolFailure(f"{sentence}{facts} Nothing was changed.")
    return _lost(operation, f"The course service failed ({status}).")


def _facts(names: tuple[str, ...], body: bytes) -> str:
    """The integers of a problem that its schema names; text of the service never gets here."""
    members = _parsed(body)
    if not isinstance(members, dict):
        return ""
    return "".join(f" {n} is {members[n]}." for n in names if type(members.get(n)) is int)


def _lost(operation: Operation, sentence: str) -> Exception:
    """No usable answer: harmless for a read, an open question for a write."""
    if operation.reads:
        return TransientFailure(f"{sentence} Nothing was changed. The same call may work later.")
    return OutcomeUnknown(
        f"{sentence} {operation.id} may have been recorded or not. Read the present state before "
        "anything else."
    )


def _parsed(body: bytes) -> Any:
    try:
        return strict_json.parse(body)
    except ValueError:
        return None
