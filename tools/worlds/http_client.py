"""Requests to a service of ``http_service``, and its answers as the errors of ``service``.

What may be said of a write follows from how its exchange ended:

=====================================================  ==========================
end                                                    raised
=====================================================  ==========================
no connection was made                                 ``Busy``: nothing was changed
429; a 5xx that says that nothing was changed          ``Busy``
a 4xx in the service's own form                        ``Refused``, ``NotFound`` …
time ran out, the connection was lost                  ``Unconfirmed``
any other status, an answer that cannot be read,       ``Unconfirmed``
the answer to another request
=====================================================  ==========================

A read that has no usable answer is ``Busy``. Nothing is ever sent twice here, no redirect is
followed, no proxy is taken from the environment, and each request has a connection of its own.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from tools.worlds.http_service import IDEMPOTENCY_KEY, REQUEST_ID, ErrorAnswer, Operation
from tools.worlds.service import (
    Busy,
    KeyReused,
    NotFound,
    Refused,
    ServiceError,
    Unconfirmed,
    is_key,
)

T = TypeVar("T")

MAX_ANSWER = 1024 * 1024  # bytes
MAX_MESSAGE = 500  # characters of an error's text that are passed on


class HttpService:
    """A caller of one service.

    Args:
        url: Where the service is, ``http`` or ``https``.
        token: Its bearer token.
        name: The service in words, for errors: ``"grocery shop"``.
        honours_keys: Whether it counts a request once a key; its answers must then repeat the key.
        timeout: Seconds for a connection, and as many for the answer.

    Raises:
        ValueError: The token cannot be a header.
    """

    def __init__(
        self, url: str, token: str, *, name: str, honours_keys: bool, timeout: float
    ) -> None:
        if not re.fullmatch("[!-~]+", token):
            raise ValueError("a token is visible ASCII")
        self._name, self._honours_keys, self._timeout = name, honours_keys, timeout
        self._url = url.rstrip("/")
        self._client = httpx.Client(
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # a compressed body has no bound
            },
            timeout=timeout,
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def read(self, operation: Operation[T], **arguments: Any) -> T:
        """The answer of a read.

        Raises:
            ServiceError, Busy: As their names say.
        """
        given = self._checked(operation, arguments)
        query = {name: str(value) for name, value in given.items() if value is not None}
        return self._call(operation, self._request(operation, params=query))

    def write(self, operation: Operation[T], key: str, **arguments: Any) -> T:
        """The answer of a write, which is sent once.

        Raises:
            ServiceError, Busy: Nothing was changed.
            Unconfirmed: It may have happened.
        """
        given = self._checked(operation, arguments)
        request = self._request(operation, json=given)
        if is_key(key):
            request.headers[IDEMPOTENCY_KEY] = key
        elif self._honours_keys:
            raise Refused("An idempotency key has 1 to 200 visible ASCII characters.")
        return self._call(operation, request)

    def _checked(self, operation: Operation[Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as JSON values; what does not fit is not sent."""
        try:
            return operation.arguments(**arguments).model_dump(mode="json", warnings="error")
        except ValueError as error:
            raise Refused(
                f"The {self._name} takes no such request, so it was not sent: {error}"
            ) from error

    def _request(self, operation: Operation[Any], **content: Any) -> httpx.Request:
        method = "POST" if operation.writes else "GET"
        request = self._client.build_request(method, f"{self._url}/{operation.name}", **content)
        request.headers[REQUEST_ID] = str(uuid.uuid4())
        return request

    def _call(self, operation: Operation[T], request: httpx.Request) -> T:
        with self._losses(operation):
            response, body = self._exchange(request)
        self._check_echo(operation, request, response)
        if response.status_code != HTTPStatus.OK:
            raise self._refusal(operation, response, body)
        try:
            return operation.answer.validate_json(body, strict=True)
        except ValidationError as error:
            raise self._lost(operation, "its answer cannot be read") from error

    def _exchange(self, request: httpx.Request) -> tuple[httpx.Response, bytes]:
        """Send it, and read the answer's body as far as its bounds allow."""
        body, give_up = bytearray(), time.monotonic() + 2 * self._timeout
        response = self._client.send(request, stream=True)
        try:
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise _TooMuch("its answer is too long")
                if time.monotonic() > give_up:
                    raise _TooMuch("its answer takes too long")
        finally:
            response.close()
        return response, bytes(body)

    @contextmanager
    def _losses(self, operation: Operation[Any]) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Busy(f"The {self._name} cannot be reached; nothing was changed.") from error
        except httpx.TimeoutException as error:
            raise self._lost(operation, "it did not answer in time") from error
        except _TooMuch as error:
            raise self._lost(operation, str(error)) from error
        except httpx.HTTPError as error:
            raise self._lost(operation, "the connection to it was lost") from error

    def _check_echo(
        self, operation: Operation[Any], request: httpx.Request, response: httpx.Response
    ) -> None:
        """Whose answer it is: a proxy, or the service, may have mixed up two of them."""
        names = [REQUEST_ID]
        if operation.writes and self._honours_keys:
            names.append(IDEMPOTENCY_KEY)
        for name in names:
            if response.headers.get(name) != request.headers[name]:
                raise self._lost(operation, "what it answered is not the answer to this request")

    def _refusal(
        self, operation: Operation[Any], response: httpx.Response, body: bytes
    ) -> Exception:
        """An answer that is no success; only the service's own form is taken at its word."""
        status = response.status_code
        try:
            error = ErrorAnswer.model_validate_json(body, strict=True).error
        except ValidationError:
            error = None
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Busy(
                f"The {self._name} takes no more requests now; nothing was changed.",
                _seconds(response),
            )
        if error is None or error.changed:
            return self._lost(operation, f"it answered with status {status}")
        text = error.message[:MAX_MESSAGE]
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.changed is False:
            return Busy(text, _seconds(response))
        if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return _REFUSALS.get(error.code, Refused)(text)
        return self._lost(operation, f"it answered with status {status}")

    def _lost(self, operation: Operation[Any], what: str) -> Exception:
        """No usable answer: harmless for a read, an open question for a write."""
        if operation.writes:
            return Unconfirmed(f"Of the {self._name}: {what}. It may have happened.")
        return Busy(f"Of the {self._name}: {what}. Nothing was changed.")


class _TooMuch(Exception):
    """The answer goes beyond its bounds."""


_REFUSALS: dict[str, type[ServiceError]] = {"not_found": NotFound, "key_reused": KeyReused}


def _seconds(response: httpx.Response) -> float | None:
    """How long to wait, where the answer says so in seconds."""
    value = response.headers.get("Retry-After", "")
    return float(value) if re.fullmatch("[0-9]{1,6}", value) else None
