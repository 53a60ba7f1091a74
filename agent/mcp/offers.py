"""What servers offer beside tools: resources, which a person reads and attaches, and prompts,
which a person puts into their own message. A model gets at neither by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import types
from pydantic import AnyUrl, ValidationError

from agent.errors import McpError
from agent.mcp.connection import Connection
from agent.mcp.definitions import ListingError, list_all
from agent.mcp.errors import RefusedError


@dataclass(frozen=True)
class Resource:
    """Something that can be read; of a template, ``uri`` has places to fill in (``{city}``)."""

    uri: str
    name: str
    description: str = ""
    template: bool = False


@dataclass(frozen=True)
class Prompt:
    """A text of a server's that takes arguments; ``arguments`` are names, required ones first."""

    name: str
    description: str = ""
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


async def list_resources(connection: Connection) -> list[Resource]:
    """The resources of a server and its templates; none when it says that it has none.

    Raises:
        McpError: It cannot be reached, or its list cannot be used.
    """
    capabilities = (await connection.open()).greeting.capabilities
    if capabilities.resources is None:
        return []
    found = await _list(connection, types.ListResourcesRequest, "resources")
    try:
        request = types.ListResourceTemplatesRequest
        templates = await _list(connection, request, "resourceTemplates")
    except RefusedError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        templates = []  # the capability covers both, and many servers have no templates
    return [_resource(one, "uri") for one in found] + [
        _resource(one, "uriTemplate") for one in templates
    ]


async def read_resource(connection: Connection, uri: str) -> str:
    """The text of a resource; of what is no text, a line about it.

    Raises:
        McpError: There is no such resource, or the server cannot be reached.
    """
    try:
        params = types.ReadResourceRequestParams(uri=AnyUrl(uri))
    except ValidationError as error:
        raise McpError(f"{uri!r} is no URI of a resource; nothing was read") from error
    request = types.ClientRequest(types.ReadResourceRequest(params=params))
    members = (await connection.request(request, types.Result)).model_extra or {}
    return "\n".join(_contents(one) for one in _objects(members.get("contents")))


async def list_prompts(connection: Connection) -> list[Prompt]:
    """The prompts of a server; none when it says that it has none.

    Raises:
        McpError: It cannot be reached, or its list cannot be used.
    """
    if (await connection.open()).greeting.capabilities.prompts is None:
        return []
    return [_prompt(one) for one in await _list(connection, types.ListPromptsRequest, "prompts")]


async def get_prompt(connection: Connection, name: str, arguments: Mapping[str, str]) -> str:
    """The text of a prompt with its arguments filled in: that of all its messages.

    Raises:
        McpError: There is no such prompt, an argument is missing, or it cannot be reached.
    """
    params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
    request = types.ClientRequest(types.GetPromptRequest(params=params))
    members = (await connection.request(request, types.Result)).model_extra or {}
    return "\n\n".join(_said(one) for one in _objects(members.get("messages")))


async def _list(connection: Connection, kind: Any, member: str) -> list[dict[str, Any]]:
    async def page(cursor: str | None) -> types.Result:
        params = types.PaginatedRequestParams(cursor=cursor)
        return await connection.request(types.ClientRequest(kind(params=params)), types.Result)

    try:
        return _objects(await list_all(page, member))
    except ListingError as error:
        raise McpError(str(error)) from error


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _resource(one: Mapping[str, Any], key: str) -> Resource:
    described = _text(one.get("description"))
    return Resource(_text(one.get(key)), _text(one.get("name")), described, key != "uri")


def _prompt(one: Mapping[str, Any]) -> Prompt:
    arguments = _objects(one.get("arguments"))
    required = [_text(a.get("name")) for a in arguments if a.get("required") is True]
    optional = [_text(a.get("name")) for a in arguments if a.get("required") is not True]
    described = _text(one.get("description"))
    return Prompt(_text(one.get("name")), described, tuple(required), tuple(optional))


def _contents(one: Mapping[str, Any]) -> str:
    if isinstance(text := one.get("text"), str):
        return text
    return f"[{_text(one.get('mimeType')) or 'no text'}; it cannot be shown]"


def _said(message: Mapping[str, Any]) -> str:
    match message.get("content"):
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": dict(resource)}:
            return _contents(resource)
        case {"type": str(kind)}:
            return f"[{kind}; it cannot be shown]"
    return ""


def filled(prompt: Prompt, words: Sequence[str]) -> dict[str, str]:
    """What a person typed behind a prompt's name, as its arguments.

    Args:
        words: ``name=value`` each; of a prompt with one argument, also just its value.

    Raises:
        ValueError: One is unknown or missing; the message says which there are.
    """
    names = (*prompt.required, *prompt.optional)
    if len(names) == 1 and words and not words[0].startswith(f"{names[0]}="):
        return {names[0]: " ".join(words)}
    given = dict(word.partition("=")[::2] for word in words)
    if wrong := [word for word in words if word.partition("=")[0] not in names or "=" not in word]:
        takes = ", ".join(f"{name}=…" for name in names) or "nothing"
        raise ValueError(f"{wrong[0]!r} is no argument of {prompt.name}; it takes {takes}")
    if missing := [name for name in prompt.required if name not in given]:
        raise ValueError(f"{prompt.name} needs {', '.join(f'{name}=…' for name in missing)}")
    return given
