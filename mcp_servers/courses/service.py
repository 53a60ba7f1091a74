"""The course service: the document's routes over a gradebook.

``openapi.json`` is served at ``/openapi.json`` and describes all that is here. Requests are
checked against it: a bearer token (``LMS_TOKEN``), known arguments of the right shape, at most
64 KiB of JSON that arrive in time. Errors are problem details (RFC 9457); their ``type`` is
``urn:courses:<slug>``, and a 4xx or 503 changed nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_servers import strict_json
from mcp_servers.courses.document import (
    KEY_HEADER,
    Operation,
    complaints,
    document_text,
    load_operations,
)
from mcp_servers.courses.gradebook import (
    Busy,
    Gradebook,
    GradebookError,
    KeyReused,
    StaleRevision,
    TooManyPoints,
    UnknownRecord,
)
from mcp_servers.idempotency import KEY_ARGUMENT
from mcp_servers.local_http import PATIENCE

MAX_BODY = 64 * 1024  # bytes

Act = Callable[..., dict[str, Any]]


class ProblemDetails(Exception):
    """An answer of ``application/problem+json``.

    Args:
        slug: What kind of problem, in words with hyphens.
        facts: More members, for programs.
        headers: Headers that go with it.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        facts: Mapping[str, int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers
        self.body = {
            "type": f"urn:courses:{slug}",
            "title": slug.replace("-", " ").capitalize(),
            "status": status,
            "detail": detail,
            **(facts or {}),
        }


def build_service(gradebook: Gradebook, token: SecretStr, patience: float = PATIENCE) -> Starlette:
    """The service over a gradebook, for callers that know ``token``.

    Args:
        patience: Seconds in which a body must arrive.
    """
    operations = load_operations()

    def route(path: str, method: str, act: Act) -> Route:
        (operation,) = (o for o in operations.values() if (o.path, o.method) == (path, method))
        return Route(path, _endpoint(operation, act, token, patience), methods=[method])

    return Starlette(
        routes=[
            Route("/openapi.json", _document),
            route("/assignments", "GET", gradebook.list_assignments),
            route("/submissions", "GET", gradebook.get_submissions),
            route("/grades", "POST", gradebook.post_grade),
        ],
        exception_handlers={
            ProblemDetails: _problem,
            HTTPException: _http_problem,
            ClientDisconnect: _gone,
            Exception: _broke,
        },
    )


def _endpoint(
    operation: Operation, act: Act, token: SecretStr, patience: float
) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        _authorise(request, token)
        arguments = await _arguments(operation, request, patience)
        if wrong := complaints(operation.arguments, arguments):
            raise ProblemDetails(400, "wrong-arguments", "; ".join(wrong))
        try:
            answer = await run_in_threadpool(act, **arguments)
        except GradebookError as error:
            raise _in_http(error) from error
        return JSONResponse(answer, operation.success)

    return endpoint


async def _document(request: Request) -> Response:
    return Response(document_text(), media_type="application/json")


def _authorise(request: Request, token: SecretStr) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    wanted = token.get_secret_value().encode()
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), wanted):
        raise ProblemDetails(
            401,
            "unauthorized",
            "A bearer token of this service is needed.",
            headers={"WWW-Authenticate": "Bearer"},
        )


async def _arguments(operation: Operation, request: Request, patience: float) -> dict[str, Any]:
    """What the request gives: query, body and key as one object, as the document has it."""
    arguments: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name in arguments or name not in operation.query:
            raise ProblemDetails(400, "wrong-arguments", f"{name!r}: unknown here, or given twice")
        arguments[name] = _typed(operation.arguments["properties"][name], text)
    if not operation.reads:
        arguments |= _object(await _body(request, patience))
    if operation.takes_key:
        keys = request.headers.getlist(KEY_HEADER)
        if KEY_ARGUMENT in arguments or len(keys) != 1:
            raise ProblemDetails(400, "key-missing", f"One header {KEY_HEADER} is needed.")
        arguments[KEY_ARGUMENT] = keys[0]
    return arguments


def _typed(schema: Mapping[str, Any], text: str) -> str | int:
    """A query's text as its schema has it; what is no number is left for the schema to refuse."""
    number = schema["type"] == "integer" and re.fullmatch("[0-9]{1,9}", text)
    return int(text) if number else text


async def _body(request: Request, patience: float) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ProblemDetails(415, "not-json", "The body must be application/json.")
    body = bytearray()
    try:
        async with asyncio.timeout(patience):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    raise ProblemDetails(413, "too-large", f"A body has at most {MAX_BODY} bytes.")
    except TimeoutError:
        raise ProblemDetails(408, "too-slow", "The body did not arrive.") from None
    return bytes(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = strict_json.parse(body)
    except ValueError:
        raise ProblemDetails(400, "wrong-arguments", "The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise ProblemDetails(400, "wrong-arguments", "The body must be a JSON object.")
    return value


def _in_http(error: GradebookError) -> ProblemDetails:
    match error:
        case UnknownRecord():
            return ProblemDetails(404, "unknown-record", str(error))
        case KeyReused():
            return ProblemDetails(409, "key-reused", str(error))
        case StaleRevision(current_revision=current):
            return ProblemDetails(412, "stale-revision", str(error), {"current_revision": current})
        case TooManyPoints(max_points=points):
            return ProblemDetails(422, "too-many-points", str(error), {"max_points": points})
        case Busy():
            return ProblemDetails(503, "busy", str(error), headers={"Retry-After": "1"})
    raise error  # one that nobody told this function of: a 500, and the log has it


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemDetails)
    return JSONResponse(
        error.body, error.status, error.headers, media_type="application/problem+json"
    )


async def _http_problem(request: Request, error: Exception) -> Response:
    """No such path, or not with this method: the framework's errors in our form."""
    assert isinstance(error, HTTPException)
    detail = "There is nothing at this path, or not with this method; see /openapi.json."
    problem = ProblemDetails(error.status_code, "no-route", detail, headers=error.headers)
    return await _problem(request, problem)


async def _gone(request: Request, error: Exception) -> Response:
    """Nobody is there to read it; half a request was not carried out."""
    return Response(status_code=400)


async def _broke(request: Request, error: Exception) -> Response:
    """Anything unexpected; the server logs it, and the caller learns no details."""
    return await _problem(request, ProblemDetails(500, "failed", "The service failed."))
