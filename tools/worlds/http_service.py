"""A sample service behind HTTP: its operations as paths, its errors as JSON.

A read is ``GET /name?argument=…``, a write ``POST /name`` with a JSON object and, where the
service honours it, an ``Idempotency-Key``. Every request needs the bearer token. An answer repeats
the request's ``Request-Id`` and the ``Idempotency-Key`` that it counted under, so that a caller can
tell whose answer it is. Errors::

    {"error": {"code": "refused", "message": "…", "changed": false}}

``changed`` is false where it is certain that nothing was changed, else null.

========================  ======  ===============================================
code                      status  means
========================  ======  ===============================================
invalid                   400     arguments that do not fit, a missing key
unauthorized              401     another token, or none
not_found                 404     no such record, or no such path
key_reused                409     the key belongs to another request
too_large                 413     a body of more than ``MAX_REQUEST`` bytes
refused                   422     the record's state, or a rule, does not permit it
failed                    500     the service failed
busy                      503     not now; ``Retry-After`` says when
========================  ======  ===============================================
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tools.worlds.service import (
    MAX_PAGE_SIZE,
    Busy,
    KeyReused,
    NotFound,
    Refused,
    ServiceError,
    Unconfirmed,
)

T = TypeVar("T")

REQUEST_ID = "Request-Id"
IDEMPOTENCY_KEY = "Idempotency-Key"
MAX_REQUEST = 64 * 1024  # bytes


class Arguments(BaseModel):
    """The arguments of an operation; a subclass an operation."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Id = Annotated[str, Field(max_length=100)]
Page = Annotated[int, Field(ge=1, le=10_000)]
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)]


class ByKey(Arguments):
    """Arguments of a look at what was recorded under a key."""

    key: Annotated[str, Field(max_length=200)]


@dataclass(frozen=True)
class Operation(Generic[T]):
    """A method of a service, as it is called over HTTP.

    Args:
        name: Of the method, and of the path.
        arguments: Of the method, but for a write's ``key``.
        answer: What it returns.
    """

    name: str
    arguments: type[Arguments]
    answer: TypeAdapter[T]
    writes: bool = False


class ErrorBody(BaseModel):
    """What went wrong; ``changed`` is ``False`` where it is certain that nothing was changed."""

    code: str
    message: str
    changed: bool | None = None


class ErrorAnswer(BaseModel):
    """The body of an answer that is none."""

    error: ErrorBody


def http_service(
    service: Any, operations: Sequence[Operation[Any]], token: str, *, honours_keys: bool
) -> ASGIApp:
    """The service over HTTP, for callers that know ``token``."""
    routes = [
        Route(
            f"/{operation.name}",
            _endpoint(operation, getattr(service, operation.name), token, honours_keys),
            methods=["POST" if operation.writes else "GET"],
        )
        for operation in operations
    ]
    application = Starlette(
        routes=routes,
        exception_handlers={_Problem: _answer_problem, HTTPException: _no_route, Exception: _broke},
    )
    return _Echo(application, [REQUEST_ID, *([IDEMPOTENCY_KEY] if honours_keys else [])])


class _Problem(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        changed: Literal[False] | None = False,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.body = ErrorAnswer(error=ErrorBody(code=code, message=message, changed=changed))


def _endpoint(
    operation: Operation[Any], act: Callable[..., Any], token: str, honours_keys: bool
) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        _authorise(request, token)
        arguments = await _arguments(operation, request)
        if operation.writes:
            arguments["key"] = _key(request, honours_keys)
        try:
            answer = await run_in_threadpool(act, **arguments)
        except (ServiceError, Unconfirmed) as error:
            raise _in_http(error) from error
        return Response(operation.answer.dump_json(answer), media_type="application/json")

    return endpoint


def _authorise(request: Request, token: str) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), token.encode()):
        raise _Problem(
            401,
            "unauthorized",
            "A bearer token of this service is needed.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _key(request: Request, honours_keys: bool) -> str:
    key = request.headers.get(IDEMPOTENCY_KEY, "")
    if honours_keys and not key:
        raise _Problem(400, "invalid", f"The header {IDEMPOTENCY_KEY} is needed.")
    return key


async def _arguments(operation: Operation[Any], request: Request) -> dict[str, Any]:
    model, query = operation.arguments, request.query_params.multi_items()
    try:
        if operation.writes:
            found = model.model_validate_json(await _body(request), strict=True)
        else:
            found = model.model_validate_strings(dict(query))
    except ValidationError as error:
        raise _Problem(400, "invalid", _complaints(error)) from error
    if len(dict(query)) != len(query) or (operation.writes and query):
        raise _Problem(400, "invalid", "Each argument is given once, and in its place.")
    return {name: getattr(found, name) for name in model.model_fields}


def _complaints(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, f['loc'])) or 'body'}: {f['msg']}" for f in faults[:5])


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_REQUEST:
            raise _Problem(413, "too_large", f"A body has at most {MAX_REQUEST} bytes.")
    return bytes(body)


def _in_http(error: ServiceError | Unconfirmed) -> _Problem:
    match error:
        case NotFound():
            return _Problem(404, "not_found", str(error))
        case KeyReused():
            return _Problem(409, "key_reused", str(error))
        case Refused():
            return _Problem(422, "refused", str(error))
        case Busy():
            return _Problem(503, "busy", str(error), headers={"Retry-After": "1"})
        case ServiceError():
            return _Problem(500, "failed", str(error))
    return _Problem(500, "failed", str(error), changed=None)


async def _answer_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, _Problem)
    return JSONResponse(error.body.model_dump(), error.status, error.headers)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "There is nothing at this path, or not with this method."
    problem = _Problem(error.status_code, "not_found", message)
    return await _answer_problem(request, problem)


async def _broke(request: Request, error: Exception) -> Response:
    """Anything unexpected; the server logs it, and the caller learns no details."""
    message = "The service failed; it may have happened or not."
    problem = _Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", message, changed=None)
    return await _answer_problem(request, problem)


class _Echo:
    """Repeats headers of the request in its answer, whatever the answer is."""

    def __init__(self, application: ASGIApp, names: Sequence[str]) -> None:
        self._application = application
        self._names = {name.lower().encode() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        echoed = [
            (name, value)
            for name, value in scope["headers"]
            if name in self._names and re.fullmatch(rb"[!-~]{1,200}", value)
        ]

        async def send_with_echo(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *echoed]}
            await send(message)

        await self._application(scope, receive, send_with_echo)
