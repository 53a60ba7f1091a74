"""What is known of a write beside the word of its answer: evidence, preconditions, the record.

Evidence is a result that the harness recorded after it let a tool run. What the model wrote, what
a person answered in a tool's place and what an error says is none.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

import prompts
from agent.canonical import canonical_json, check_plain
from agent.checks.arguments import normalise
from agent.deadlines import within
from agent.policy.grants import outside
from agent.provenance import RAW, marked, unmarked
from agent.safe_text import shorten
from agent.threads import in_thread
from agent.types import Authority
from tools.calling import at_once, contained, contained_answer, no_answer
from tools.contract import (
    Call,
    CallInfo,
    Contract,
    Evidence,
    Finding,
    Preview,
    Unmet,
    contract_of,
    is_read,
)

RAN = "sayso_ran"
"""Key, in a tool message, of how it ran: ``args`` where they are not those of the model's call,
``skip`` the length of what the harness put before the result."""

SHOWN = 2_000
"""Characters of a read that a reviewer is shown with a doubt."""

RECORD_SECONDS = 10.0
"""For how long a contract's function may look at the record."""

MOST_IN_SUMMARY, MOST_SHOWN = 2_000, 200_000
"""Characters of a preview's summary; of its ``after`` and its ``diff``."""

MOST_BEFORE = 2_000_000
"""Characters of a preview's ``before``: it is kept with the write, to be put back by its undo."""

_CUT = re.compile(r"\n\[cut: [0-9]+ more characters; SHA-256 of the whole text: [0-9a-f]{64}\]\Z")

IDENTIFIER = re.compile(r"[A-Za-z0-9_.:/#-]{1,64}")
"""What can be an id. It goes into the receipt, which is in the harness's own words."""


def evidence_in(
    messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool] | None = None
) -> list[Evidence]:
    """The results of this session that count as evidence, oldest first.

    Args:
        tools: By name; whose results are no strangers' text is told by them alone.
    """
    asked: dict[str, Mapping[str, Any]] = {}
    found = []
    for message in messages:
        if isinstance(message, AIMessage):
            asked = {call["id"] or "": call["args"] for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.status == "success":
            ran = message.additional_kwargs.get(RAN)
            if ran is not None and message.tool_call_id in asked:
                args = ran.get("args", asked[message.tool_call_id])
                whole = message.additional_kwargs.get(RAW) or str(message.content)
                text = whole[ran.get("skip", 0) :]
                tool = message.name or ""
                known = (tools or {}).get(tool)
                trusted = known is not None and not contract_of(known).open_world
                found.append(Evidence(tool, deepcopy(args), value_of(text, tool), trusted))
    return found


def value_of(text: str, tool: str = "") -> Any:
    """A result as a contract sees it: the value of a JSON text, without the untrusted marks."""
    text = unmarked(text, tool)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def unmet(
    contract: Contract, args: Mapping[str, Any], messages: Sequence[BaseMessage]
) -> Unmet | None:
    """Why the call must not be proposed yet; a precondition that fails itself does not hold."""
    if contract.precondition is None:
        return None
    try:
        found = await ask(contract.precondition, deepcopy(dict(args)), evidence_in(messages))
        if isinstance(found, Unmet) and found.read is not None:
            in_words(found.read)  # what cannot be said to the model is no answer
    except Exception as error:
        return Unmet(f"Its precondition could not be checked: {in_short(error)}.")
    if found is None or isinstance(found, Unmet):
        return found
    return Unmet(f"Its precondition gave a {type(found).__name__}, which says nothing.")


async def preview_of(contract: Contract, args: Mapping[str, Any]) -> Preview | None:
    """What the call would change; a preview that fails says so and stops nobody.

    What is longer than can be shown and kept is cut, and says so. Two previews that differ behind
    the cut differ still.
    """
    if contract.preview is None:
        return None
    try:
        found = await ask(contract.preview, deepcopy(dict(args)))
        if not isinstance(found, Preview):
            raise TypeError(f"the tool gave a {type(found).__name__}")
        return Preview(
            summary=_cut(str(found.summary), MOST_IN_SUMMARY),
            before=_cut(str(found.before), MOST_BEFORE),
            after=_cut(str(found.after), MOST_SHOWN),
            diff=_cut(str(found.diff), MOST_SHOWN),
        )
    except Exception as error:
        return Preview(summary=_cut(f"no preview: {in_short(error)}", MOST_IN_SUMMARY))


def _cut(text: str, most: int) -> str:
    """The beginning of a text that is too long, and a note that stands for the rest of it."""
    if len(text) <= most:
        return text
    whole = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    left = len(text) - most
    return f"{text[:most]}\n[cut: {left} more characters; SHA-256 of the whole text: {whole}]"


def is_cut(before: str) -> bool:
    """Whether ``Preview.before`` is only the beginning of what a write replaced."""
    return _CUT.search(before) is not None


def unmet_text(missing: Unmet, tool: str, contract: Contract) -> str:
    """What the model is told about a precondition that does not hold."""
    read = f" Call {in_words(missing.read)} first, then propose this again." if missing.read else ""
    return prompts.message("unmet", why=foreign(missing.why, tool, contract), read=read)


def foreign(text: str, tool: str, contract: Contract) -> str:
    """A tool's own words inside a sentence of ours: marked where they may be a stranger's."""
    return f"\n{marked(text, tool)}\n" if contract.open_world else text


def in_short(error: Exception) -> str:
    """What a contract's function failed with."""
    silent = (
        "it gave no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    )
    return str(error) or silent


def in_words(call: Call) -> str:
    """A call that a contract names, as the model would write it."""
    return f"{call.tool}({canonical_json(dict(call.args))})"


async def ask(function: Callable[..., Any], *args: Any) -> Any:
    """What a function of a contract says, sync or async, within its time.

    It has a thread of its own, and an async one an event loop there: one that hangs, or blocks its
    loop, goes on alone, and keeps nothing else from going on.

    Raises:
        Exception: Whatever it ends in, and ``TimeoutError``, which names it.
    """
    try:
        async with within(RECORD_SECONDS):
            return await in_thread(contained, _to_its_end, function, *args)
    except TimeoutError as error:
        if str(error):  # its own words
            raise
        raise TimeoutError(no_answer(function, RECORD_SECONDS)) from error


def _to_its_end(function: Callable[..., Any], *args: Any) -> Any:
    said = function(*args)
    return asyncio.run(_awaited(said)) if inspect.isawaitable(said) else said


async def _awaited(said: Awaitable[Any]) -> Any:
    async with within(RECORD_SECONDS):
        return await contained_answer(said)


def check_of(contract: Contract, args: Mapping[str, Any]) -> Call | None:
    """The read that shows whether a call happened, where the contract names one."""
    try:
        found = at_once(contract.check, deepcopy(dict(args))) if contract.check else None
        return found if isinstance(found, Call) and in_words(found) else None
    except Exception:
        return None


def check_text(contract: Contract, args: Mapping[str, Any]) -> str:
    """Where the model may look for the outcome of a write."""
    read = check_of(contract, args)
    return f"Find out with {in_words(read)}." if read else "Read the record to find out."


async def read_now(read: Call, tools: Mapping[str, BaseTool], authority: Authority) -> str | None:
    """What a read that a contract names shows now; ``None`` where it must not or cannot run."""
    tool = tools.get(read.tool)
    if tool is None:
        return None
    try:
        args = normalise(tool, read.args).args
        effects = contract_of(tool).effects_of(args)
        if not is_read(effects) or outside(effects, authority):
            return None
        async with within(RECORD_SECONDS):  # an async body belongs to the loop of its connections
            if getattr(tool, "coroutine", None) is not None:
                shown = await contained_answer(tool.ainvoke(args))
            else:
                shown = await in_thread(contained, tool.invoke, args)
        return shorten(_text_of(shown), SHOWN)
    except Exception as error:
        return f"it could not be read ({in_short(error)})"


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


async def look_up(contract: Contract, args: Mapping[str, Any], info: CallInfo) -> Finding | None:
    """What the record says of a write in doubt; ``None`` without a way to ask."""
    if contract.reconcile is None:
        return None
    return await _ask_record(contract.reconcile, deepcopy(dict(args)), info)


async def verify(
    contract: Contract, args: Mapping[str, Any], info: CallInfo, result: Any
) -> Finding | None:
    """What the record says after a write that was answered; ``None`` without a postcondition."""
    if contract.postcondition is None:
        return None
    return await _ask_record(contract.postcondition, deepcopy(dict(args)), info, result)


async def _ask_record(function: Callable[..., Finding | Awaitable[Finding]], *args: Any) -> Finding:
    """A record that cannot be read, or a function that fails, has found out nothing."""
    try:
        found: Finding = await ask(function, *args)
        problem = _problem_with(found)
    except Exception as error:
        return Finding(None, f"The record could not be read: {in_short(error)}.")
    if problem:
        return Finding(None, f"The record gave {problem}, which says nothing.")
    if found.transaction is not None and not IDENTIFIER.fullmatch(found.transaction):
        return replace(found, transaction=None)
    return found


def _problem_with(found: Any) -> str:
    """What is wrong with a finding; empty when it can be used, and kept."""
    if not isinstance(found, Finding):
        return f"a {type(found).__name__}"
    if not (found.happened is None or isinstance(found.happened, bool)):
        return f"{found.happened!r} for whether it happened"
    texts = found.summary, found.transaction or "", found.result or ""
    if not all(isinstance(text, str) for text in texts):
        return "something else than texts"
    try:
        check_plain(dict(found.record))
    except (TypeError, ValueError) as error:
        return f"a record that is no JSON ({error})"
    return ""
