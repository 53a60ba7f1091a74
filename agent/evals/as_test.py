"""A session written down as a test that replays it: the model's replies as a script, the reviewer's
decisions in their order, and what came of it as assertions. No model is needed to run it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.store.ledger import is_of_a_file
from agent.store.named_secrets import without_secrets
from agent.toolset import SERVER

if TYPE_CHECKING:
    from agent.evals.recorded import Call, Recorded, Step, Turn
    from agent.store.records import ApprovalRecord

_LONGEST_NAME = 50
_KEYWORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def as_test(recorded: Recorded, tools: Sequence[str]) -> str:
    """The text of a Python file with one test.

    The values of secret-looking arguments are left out, the same way in the script and in what is
    expected. What ran under an "always" rule is approved by the reviewer of the test.

    Args:
        tools: Those of the session, as ``SAYSO_TOOLS`` names them.
    """
    lines = [
        f'"""Recorded from {recorded.session}; replayed without a model."""',
        "",
        "from agent.evals.expecting import a_call",
        "from agent.evals.reviewers import InOrder",
        "from agent.models.scripted import call, step",
        "from agent.types import Decision",
        "",
        "",
        f"def test_{_name(recorded)}(sayso):",
        "    session = sayso.session(",
        *_block(_script(recorded.steps)),
        f"        tools={_literal([t for t in tools if not t.startswith(SERVER)])},",
        "        reviewer=InOrder(",
        *_block(_decisions(recorded.calls), "            "),
        "        ),",
        "    )",
        *_servers(tools),
    ]
    was_left = False
    for turn in recorded.turns:
        lines += _turn(turn, was_left)
        was_left = any(call.became == "left" for step in turn.steps for call in step.calls)
    lines += [f"    session.so_far{_ledger(recorded)}.trail_holds()", ""]
    return "\n".join(lines)


def _name(recorded: Recorded) -> str:
    said = recorded.turns[0].said if recorded.turns else ""
    words = re.sub(r"[^a-z0-9]+", "_", said.lower()).strip("_")
    return words[:_LONGEST_NAME].rstrip("_") or "session"


def _literal(value: Any) -> str:
    """A JSON value as Python, with double quotes as far as its texts are plain."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
    return repr(value)


def _block(items: Sequence[str], indent: str = "        ") -> list[str]:
    return [f"{indent}[", *(f"{indent}    {item}," for item in items), f"{indent}],"]


def _script(steps: Sequence[Step]) -> list[str]:
    return [_reply(step) for step in steps]


def _reply(step: Step) -> str:
    if not step.calls:
        return _literal(step.text)
    said = [_literal(step.text)] if step.text else []
    return f"step({', '.join([*said, *(_call('call', call) for call in step.calls)])})"


def _call(function: str, call: Call) -> str:
    """``call("get_order", order_id="A1")``; names that Python cannot write go by ``**``."""
    args: Mapping[str, Any] = without_secrets(call.args)
    plain = {n: v for n, v in args.items() if _KEYWORD.fullmatch(n) and not n.startswith("_")}
    other = {name: value for name, value in args.items() if name not in plain}
    parts = [_literal(call.tool), *(f"{name}={_literal(value)}" for name, value in plain.items())]
    if other:
        parts.append(f"**{_literal(other)}")
    return f"{function}({', '.join(parts)})"


def _decisions(calls: Sequence[Call]) -> list[str]:
    """What was decided, in the order in which a replay asks."""
    found = []
    for call in calls:
        if call.approvals:
            found.append(_decision(call.approvals[-1]))
        elif call.effect is not None and call.effect.rule and not is_of_a_file(call.effect.rule):
            found.append('Decision("approve")')
    return found


def _decision(approval: ApprovalRecord) -> str:
    comment = approval.comment or ""
    match approval.status:
        case "approved":
            return 'Decision("approve")'
        case "edited":
            return f'Decision("edit", args={_literal(without_secrets(approval.decided_args))})'
        case "rejected":
            return f'Decision("reject", message={_literal(comment)})'
        case "answered":
            return f'Decision("respond", message={_literal(comment)})'
    return "None"


def _servers(tools: Sequence[str]) -> Iterator[str]:
    for name in tools:
        if name.startswith(SERVER):
            yield f"    # {_literal(name)} is left out: a test starts no MCP server."


def _turn(turn: Turn, was_left: bool) -> Iterator[str]:
    """A turn and what came of it; ``was_left``: it moved on from what waited in the one before."""
    moving_on = ", supersede=True" if was_left else ""
    yield ""
    yield f"    turn = session.say({_literal(turn.said)}{moving_on})"
    calls = [call for step in turn.steps for call in step.calls]
    if calls:
        yield "    turn.called_exactly("
        yield from (f"        {_call('a_call', call)}," for call in calls)
        yield "    )"
    else:
        yield "    turn.never_called()"
    for call in calls:
        if call.became not in ("open", "waiting", "left"):  # it waits there until the next turn
            yield f"    turn.became({_call('a_call', call)}, {_literal(call.became)})"


def _ledger(recorded: Recorded) -> str:
    states = [call.effect.state for call in recorded.calls if call.effect is not None]
    counts = ", ".join(f"{state}={states.count(state)}" for state in sorted(set(states)))
    return f".ledger({counts})"
