"""The service's OpenAPI document, read as operations.

The service checks requests against it and the MCP server makes tools of it, so the two cannot
drift apart. What this reader does not know (path parameters, cookies, other headers, other
content types, remote references) it refuses, rather than to pass over a part of the contract.

Two things the document says beside OpenAPI:

* ``x-open-world`` of an operation: whether its results hold text written by strangers. Missing
  means yes.
* Integers in a problem's schema, other than ``status``, are facts that its reader may be told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from mcp_servers.idempotency import KEY_ARGUMENT, KEY_HINT

Schema = Mapping[str, Any]
Method = Literal["GET", "PUT", "POST", "DELETE"]

KEY_HEADER = "Idempotency-Key"

_METHODS: dict[str, Method] = {"get": "GET", "put": "PUT", "post": "POST", "delete": "DELETE"}
_MAX_COMPLAINT = 200  # characters of one complaint; it may quote the value


@dataclass(frozen=True)
class Problem:
    """An error that an operation documents.

    Args:
        description: What it means and what to do, in the document's words.
        facts: Names of integers in its body that may be told.
    """

    description: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """One operation of the service.

    Args:
        id: Its ``operationId``; the tool's name.
        query: Names of the arguments that travel in the query.
        takes_key: Whether it wants an idempotency key.
        arguments: The JSON Schema of all arguments together: those of the query, the members
            of the body, and ``idempotency_key``.
        success: The status of a success.
        result: The JSON Schema of its body.
        problems: The documented errors by status.
        open_world: Whether results hold text written by strangers.
    """

    id: str
    method: Method
    path: str
    description: str
    query: frozenset[str]
    takes_key: bool
    arguments: Schema
    success: int
    result: Schema
    problems: Mapping[int, Problem]
    open_world: bool

    @property
    def reads(self) -> bool:
        """Whether it only reads: HTTP calls GET safe (RFC 9110, 9.2.1)."""
        return self.method == "GET"

    @property
    def idempotent(self) -> bool:
        """Whether the same request twice is the same as once, without a key (9.2.2)."""
        return self.method != "POST"


@cache
def document_text() -> str:
    """The document as it is served."""
    return files(__package__).joinpath("openapi.json").read_text("utf-8")


def load_operations(document: Mapping[str, Any] | None = None) -> dict[str, Operation]:
    """The operations of a document by their ids; by default those of ours.

    Raises:
        ValueError: The document uses something that this reader does not know.
    """
    document = json.loads(document_text()) if document is None else document
    operations = [
        _operation(document, method, path, node)
        for path, item in document["paths"].items()
        for method, node in item.items()
    ]
    by_id = {operation.id: operation for operation in operations}
    if len(by_id) < len(operations):
        raise ValueError("an operationId occurs twice")
    return by_id


def complaints(schema: Schema, value: Any) -> list[str]:
    """What does not fit, each as ``where: why``; empty when the value fits."""
    found = sorted(_Validator(schema).iter_errors(value), key=lambda e: list(map(str, e.path)))
    return [
        f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {_shortened(error.message)}"
        for error in found
    ]


def _matches(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    """A pattern's ``$`` is the very end, as in JSON Schema; Python's is also before a newline."""
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern}")


# An integer is written as one: 5.0 would travel on as it is, and be refused in a query.
_Validator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {"pattern": _matches},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    ),
)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_COMPLAINT else text[:_MAX_COMPLAINT] + "…"


def _operation(
    document: Mapping[str, Any], method: str, path: str, node: Mapping[str, Any]
) -> Operation:
    if method not in _METHODS:
        raise ValueError(f"{method} {path}: not a method that can be served")
    if "{" in path:
        raise ValueError(f"{path}: path parameters are not supported")
    node = _resolved(document, node)
    query = [p for p in node.get("parameters", ()) if p["in"] == "query"]
    headers = [p for p in node.get("parameters", ()) if p["in"] != "query"]
    if any((p["in"], p["name"]) != ("header", KEY_HEADER) for p in headers):
        raise ValueError(f"{path}: of the headers only {KEY_HEADER} can be an argument")
    (success,) = (int(status) for status in node["responses"] if status.startswith("2"))
    return Operation(
        id=node["operationId"],
        method=_METHODS[method],
        path=path,
        description=f"{node['summary']}\n\n{node['description']}",
        query=frozenset(p["name"] for p in query),
        takes_key=bool(headers),
        arguments=_arguments(query, headers, _json_schema(node.get("requestBody"))),
        success=success,
        result=_json_schema(node["responses"][str(success)]),
        problems={
            int(status): _problem(response)
            for status, response in node["responses"].items()
            if not status.startswith("2")
        },
        open_world=node.get("x-open-world", True),
    )


def _arguments(
    query: list[dict[str, Any]], headers: list[dict[str, Any]], body: dict[str, Any]
) -> Schema:
    """One flat object of everything a caller gives; nothing else is accepted."""
    properties = {p["name"]: _described(p) for p in query}
    required = [p["name"] for p in query if p.get("required")]
    if set(properties) & set(body.get("properties", ())):
        raise ValueError("an argument occurs both in the query and in the body")
    properties |= body.get("properties", {})
    required += body.get("required", [])
    if headers:
        described = _described(headers[0])
        properties[KEY_ARGUMENT] = {
            **described,
            "description": f"{described['description']} {KEY_HINT}",
        }
    return {
        "type": "object",
        "properties": properties,
        "required": required,  # never the key: whoever sends the request has one
        "additionalProperties": False,
    }


def _described(parameter: Mapping[str, Any]) -> dict[str, Any]:
    return {**parameter["schema"], "description": parameter["description"]}


def _problem(response: Mapping[str, Any]) -> Problem:
    members = _json_schema(response).get("properties", {})
    facts = (name for name, schema in members.items() if schema.get("type") == "integer")
    return Problem(response["description"], tuple(name for name in facts if name != "status"))


def _json_schema(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """The schema of a request or response; empty when it has no body."""
    if node is None or "content" not in node:
        return {}
    ((kind, content),) = node["content"].items()
    if kind not in ("application/json", "application/problem+json"):
        raise ValueError(f"{kind}: only JSON can be read")
    schema: dict[str, Any] = content["schema"]
    return schema


def _resolved(document: Mapping[str, Any], node: Any) -> Any:
    """The node with every reference replaced by what it names; its neighbours win over it."""
    if isinstance(node, list):
        return [_resolved(document, item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _resolved(document, value) for key, value in node.items() if key != "$ref"}
    if "$ref" not in node:
        return plain
    start, *names = node["$ref"].split("/")
    if start != "#":
        raise ValueError(f"{node['$ref']}: only references inside the document are followed")
    target: Any = document
    for name in names:
        target = target[name]
    return {**_resolved(document, target), **plain}
