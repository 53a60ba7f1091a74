"""``sayso policy``: is a policy file right, do its tests pass, and what would it say of a call?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.help import PlainCommand, PlainGroup
from agent.cli.output import answer, answer_json, answer_json_array, only_answers, say
from agent.cli.start import Plan, Start, with_start
from agent.errors import InvalidPolicy, NotFound, UsageError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent.policy import Catalogue, Explanation, Policy, PolicyFile, Proposed
    from tools.contract import Effects

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]", help="A policy file; without it SAYSO_POLICY's and ./policy.yaml."
    ),
]

app = typer.Typer(
    cls=PlainGroup,
    help="The rules about what is allowed, asked or denied: check a file, test it, ask about a "
    "call.",
    no_args_is_help=True,
)


@app.command("check", cls=PlainCommand)
@with_start("tools", "workspace", "trust")
def check(start: Start, file: File = None, as_json_: Json = False) -> None:
    """Whether policy files are right: each fault with its line; exit 1 if there is one."""
    tools = _Tools.to_look(start)
    faults: list[str] = []
    warnings: list[str] = []
    with only_answers():
        catalogue = tools.catalogue()
        paths = _paths(file, tools.plan)
        for path in paths:
            try:
                warnings += _read(path, catalogue).warnings
            except InvalidPolicy as error:
                faults += error.faults
    if as_json_:
        answer_json(
            {"files": [str(path) for path in paths], "faults": faults, "warnings": warnings}
        )
    else:
        for line in faults:
            answer(line)
        for line in warnings:
            answer(f"{line} (a warning)")
        if not faults:
            say(f"{', '.join(map(str, paths))}: no faults.")
    if faults:
        raise typer.Exit(1)


@app.command("test", cls=PlainCommand)
@with_start("tools", "workspace", "trust")
def run_tests(start: Start, file: File = None, as_json_: Json = False) -> None:
    """Run the tests that stand in policy files; exit 1 if one fails."""
    from agent.policy import run_cases

    tools = _Tools.to_look(start)
    rows = []
    with only_answers():
        catalogue = tools.catalogue()
        above = _organisation(tools.plan, catalogue)
        for path in _paths(file, tools.plan):
            read = _read(path, catalogue)
            for result in run_cases(read, _policy(above, read, path, tools.plan), tools.prepare):
                case = result.case
                rows.append(
                    {
                        "file": str(path),
                        "line": case.place.line,
                        "name": case.name or case.tool,
                        "passed": not result.fault,
                        "fault": result.fault or None,
                    }
                )
    failed = [row for row in rows if not row["passed"]]
    if as_json_:
        answer_json_array(rows)
    else:
        for row in failed:
            answer(f"{row['file']}:{row['line']}: {row['name']}: {row['fault']}")
        say(f"{len(rows) - len(failed)} of {len(rows)} tests passed.")
    if failed:
        raise typer.Exit(1)


Repeated = list[str] | None


@app.command("explain", cls=PlainCommand)
@with_start("tools", "workspace", "grant", "deny", "profile", "trust")
def explain(
    start: Start,
    call: Annotated[
        str, typer.Argument(metavar="CALL", help='Such as \'cancel_order({"order_id": "A1"})\'.')
    ],
    label: Annotated[
        Repeated,
        typer.Option("--label", metavar="LABEL", help="As if it had read: untrusted, private."),
    ] = None,
    count: Annotated[
        Repeated,
        typer.Option("--count", metavar="TOOL=N", help="As if a tool had run so often."),
    ] = None,
    spent: Annotated[
        Repeated,
        typer.Option(
            "--spent", metavar="EFFECT=AMOUNT", help="As if that were spent: spend:eur=5."
        ),
    ] = None,
    origin: Annotated[
        Repeated,
        typer.Option(
            "--origin",
            metavar="ARGUMENT=ORIGIN",
            help="As if a value came from there: to=untrusted. Without it: from the user.",
        ),
    ] = None,
    always: Annotated[
        bool, typer.Option("--always", help='As if you had answered "always" for this tool.')
    ] = False,
    as_json_: Json = False,
) -> None:
    """What would be said of a call: which rule, why, and what would change it. Nothing runs."""
    from agent.policy import Proposed, Spent, authority_of_new
    from agent.policy import always as always_rule
    from agent.policy import explain as explained
    from agent.policy.language import LABELS, ORIGINS
    from agent.policy.loading import load_policy

    tools = _Tools.of(start)
    name, given = _call(call)
    with only_answers():
        catalogue = tools.catalogue()
        policy = load_policy(tools.plan.settings.policy, tools.plan.policy, catalogue)
        if name not in catalogue:
            raise NotFound("tool", name, sorted(catalogue), "More tools: --tools NAMES.")
        try:
            args, effects = tools.prepare(name, given)
        except ValueError as error:
            raise UsageError(str(error)) from error
    asked = Proposed(
        tool=name,
        args=args,
        effects=effects,
        authority=authority_of_new(start.profile, start.grant, start.deny),
        version=catalogue[name].version,
        rules=[always_rule(name)] if always else [],
        labels=[_one_of(word, LABELS, "--label") for word in label or ()],
        user=_user(tools.plan),
        spent=Spent(_pairs(count, "--count", _whole), _pairs(spent, "--spent", _amount)),
        provenance=dict.fromkeys(args, "user")
        | _pairs(origin, "--origin", lambda word: _one_of(word, ORIGINS, "--origin")),
    )
    found = explained(policy, asked)
    if as_json_:
        answer_json(_as_json(asked, found))
        return
    for line in found.lines():
        answer(line)


def _as_json(asked: Proposed, found: Explanation) -> dict[str, Any]:
    outcome = found.outcome
    return {
        "tool": asked.tool,
        "args": dict(asked.args),
        "effects": sorted(asked.effects),
        "verdict": outcome.behavior,
        "rule": outcome.rule,
        "reason": outcome.reason,
        "message": outcome.message or None,
        "remember": outcome.remember if outcome.behavior == "ask" else None,
        "expires": outcome.expires.total_seconds() if outcome.expires else None,
        "rules": list(found.rules),
        "changes": list(found.changes),
    }


# --- the tools that a policy is held against -------------------------------------------------


class _Tools:
    """The tools of a new session, the bundled ones that it does not have, and pinned ones."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._by_name: dict[str, BaseTool] = {}

    @classmethod
    def of(cls, start: Start) -> _Tools:
        """As the settings and the current folder name them."""
        from agent.cli.start import plan

        return cls(plan(start, "cli"))

    @classmethod
    def to_look(cls, start: Start) -> _Tools:
        """The same for a look at files: what nobody has confirmed is left out without a word,
        since nothing of it is used."""
        from agent.cli.start import plan
        from agent.config import load_settings
        from agent.trust import find_items, is_trusted

        here = Path.cwd()
        confirmed = is_trusted(here, find_items(here), load_settings().home)
        return cls(plan(start, "cli", folder=start.trust or confirmed.trusted))

    def catalogue(self) -> Catalogue:
        """All of them, so that a rule about a tool that this session has not is no mistake."""
        import asyncio

        from agent.policy import catalogue_of

        self._by_name = {tool.name: tool for tool in asyncio.run(self._all())}
        return catalogue_of(self._by_name.values())

    async def _all(self) -> list[BaseTool]:
        from contextlib import AsyncExitStack

        from agent.toolset import Places, every_bundled_tool, load_tools

        settings = self.plan.settings
        places = Places.of(settings, settings.workspace or Path.cwd())
        found = {tool.name: tool for tool in every_bundled_tool(places.home)}
        found |= {tool.name: tool for tool in load_tools(settings.tools, places).tools}
        if self.plan.servers:
            async with AsyncExitStack() as stack:
                found |= {tool.name: tool for tool in await self.plan.server_tools(stack)}
        return list(found.values())

    def prepare(self, name: str, args: Mapping[str, Any]) -> tuple[Mapping[str, Any], Effects]:
        """The arguments as they would run, and what the call may do.

        Raises:
            KeyError: There is no such tool.
            ValueError: The arguments do not fit.
        """
        from agent.checks.arguments import ArgumentsError, normalise
        from tools.contract import contract_of

        tool = self._by_name[name]
        try:
            normalised = normalise(tool, args).args
        except ArgumentsError as error:
            raise ValueError(str(error)) from error
        return normalised, contract_of(tool).effects_of(normalised)


# --- files -----------------------------------------------------------------------------------


def _paths(file: Path | None, plan: Plan) -> list[Path]:
    """The files to look at; one that is only checked or tested need not be confirmed."""
    from agent.trust import POLICY

    if file is not None:
        return [file]
    own = plan.settings.policy
    found = [own] if own is not None else []
    if Path(POLICY).is_file() and not (own is not None and own.samefile(POLICY)):
        found.append(Path(POLICY))
    if not found:
        raise UsageError(
            "There is no policy: neither SAYSO_POLICY nor a policy.yaml in this folder. "
            "docs/policy.md says how to write one."
        )
    return found


def _read(path: Path, catalogue: Catalogue) -> PolicyFile:
    from agent.policy.loading import load_file

    return load_file(path, catalogue)


def _organisation(plan: Plan, catalogue: Catalogue) -> PolicyFile | None:
    return _read(plan.settings.policy, catalogue) if plan.settings.policy is not None else None


def _policy(above: PolicyFile | None, read: PolicyFile, path: Path, plan: Plan) -> Policy:
    """A file as it would hold: the organisation's own alone, another below it."""
    from agent.policy import Policy

    own = plan.settings.policy
    if own is not None and own.samefile(path):
        return Policy(organisation=read)
    return Policy(above, read)


# --- words of the command line ---------------------------------------------------------------


def _call(text: str) -> tuple[str, dict[str, Any]]:
    from agent.policy import read_call

    try:
        return read_call(text)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}.") from error


def _pairs(given: Iterable[str] | None, option: str, read: Callable[[str], Any]) -> dict[str, Any]:
    found = {}
    for text in given or ():
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text!r}: expected a name, = and a value.")
        try:
            found[name] = read(value)
        except ValueError as error:
            raise UsageError(f"{option} {text!r}: expected {error}.") from error
    return found


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("a whole number")
    return int(text)


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError("an amount such as 12.50") from None
    if not amount.is_finite():
        raise ValueError("an amount such as 12.50")
    return amount


def _one_of(word: str, known: Sequence[str], option: str) -> str:
    if word not in known:
        raise UsageError(f"{option} {word!r}: expected {', '.join(known)}.")
    return word


def _user(plan: Plan) -> str:
    from agent.config import actor

    return actor(plan.settings, "cli").name
