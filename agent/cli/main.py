"""The command ``sayso``: its options, its commands, its exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from agent.cli import authority, inbox, mcp, policy, record, run, sessions, settling, tools
from agent.cli import doctor as doctors
from agent.cli import eval as evals
from agent.cli.faults import told
from agent.cli.help import PlainCommand, PlainGroup
from agent.cli.output import say
from agent.cli.start import Command, Start, with_start

EPILOG = (
    "Options of chat and run (--model, --tools, --workspace, --profile, --grant, --deny, "
    "--freeze, --isolate, --trust) may stand before the command too. "
    "Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 waits for a decision (session id "
    "on stdout), 4 stopped by a limit, 5 a proposed write was refused, 130 interrupted."
)

app = typer.Typer(
    name="sayso",
    cls=PlainGroup,
    help="An agent that acts on your say-so: it reads freely, and every write waits for a person.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from agent import __version__

        typer.echo(f"sayso {__version__}")
        raise typer.Exit


@app.callback()
@with_start(hidden=True)
def _root(
    ctx: typer.Context,
    start: Start,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    ctx.obj = start


_PANELS: dict[str, dict[str, Command]] = {
    "Work": {"chat": run.chat, "run": run.run, "resume": run.resume},
    "Decide": {
        "approvals": inbox.approvals,
        "approve": inbox.approve,
        "reject": inbox.reject,
        "respond": inbox.respond,
        "reconcile": settling.reconcile,
        "undo": settling.undo,
    },
    "Sessions": {
        "show": sessions.show,
        "fork": sessions.fork,
        "cancel": sessions.cancel,
        "rules": sessions.rules,
        "authority": authority.authority,
    },
    "Record": {"effects": record.effects},
    "Set-up": {"tools": tools.tools, "doctor": doctors.doctor},
}

app.add_typer(sessions.app, name="sessions", rich_help_panel="Sessions")
app.add_typer(record.trail, name="trail", rich_help_panel="Record")
app.add_typer(mcp.app, name="mcp", rich_help_panel="Set-up")
app.add_typer(policy.app, name="policy", rich_help_panel="Set-up")
app.add_typer(evals.app, name="eval", rich_help_panel="Set-up")
for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        app.command(_name, cls=PlainCommand, rich_help_panel=_panel)(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Instead of the process's.

    Returns:
        The exit code. No exception leaves it: what went wrong is said on stderr.
    """
    try:
        app(args=arguments, prog_name="sayso")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        say("Interrupted.")
        return 130
    except Exception as error:
        return told(error)
    return 0
