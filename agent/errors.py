"""What can go wrong in sayso, as one tree.

::

    SaysoError                    a message for a person; carries its exit code
    ├── UsageError                wrong arguments, settings or files          (exit 2)
    │   ├── NotFound              no such session, approval, tool …; lists what was tried
    │   ├── CannotUndo            a write that cannot be compensated, and why
    │   ├── ToolMissing           an open call needs a tool that is not loaded here
    │   ├── UntrustedFolder       a file of the current folder waits for confirmation
    │   ├── InvalidPolicy         a policy file that cannot be used; lists each fault with its place
    │   └── InvalidFile           a file of cases or tasks that cannot be used; the same
    ├── StoreError                the database cannot be used
    │   └── SchemaTooNew          written by a newer program                  (exit 2)
    ├── DecisionError             an answer that cannot be applied; nothing was changed
    │   ├── AlreadyDecided        somebody was faster: by whom, what, when    (exit 1)
    │   │   └── ApprovalExpired   nobody decided in time                      (exit 1)
    │   └── InvalidDecision       malformed, or its edit does not fit the tool (exit 2)
    ├── SessionBusy               another process holds the session's lease   (exit 1)
    ├── LeaseLost                 this process no longer owns the session     (exit 1)
    ├── RuleEnded                 the rule that allowed a call has ended      (told to the model)
    ├── AlreadyUndone             a write was compensated already             (told to the model)
    ├── NothingToUndo             what it would compensate may not have happened (told to the model)
    ├── LimitReached              a limit stopped the turn: which, value, bound (exit 4)
    ├── ModelUnavailable          the provider gave up; the turn can be repeated (exit 1)
    └── McpError                  an MCP server cannot be used                (exit 1)

Errors of tools (``ToolFailure``, ``TransientFailure``, ``OutcomeUnknown``) live in
``tools.contract``: they are words between a tool and the harness, not for the shell.
"""

from __future__ import annotations

from collections.abc import Sequence


class SaysoError(Exception):
    """A failure with a message meant for a person: what happened, what it means, what to do."""

    exit_code = 1


class UsageError(SaysoError):
    """Wrong arguments, settings or files; nothing was done."""

    exit_code = 2


class NotFound(UsageError):
    """Something named does not exist.

    Args:
        what: The kind of thing, such as ``"session"``.
        name: What was asked for.
        tried: What exists, or was looked at; shown to the reader, at most ten.
        hint: What to do next.
    """

    def __init__(self, what: str, name: str, tried: Sequence[str] = (), hint: str = "") -> None:
        self.what, self.name, self.tried = what, name, tuple(tried)
        parts = [f"No {what} {name!r}."]
        if self.tried:
            parts.append("There is: " + ", ".join(map(str, self.tried[:10])) + ".")
        if hint:
            parts.append(hint)
        super().__init__(" ".join(parts))


class ToolMissing(UsageError):
    """An open call needs a tool that this process has not loaded; the call stays as it is."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(
            f"The session has an open call of {tool}, and this tool is not loaded here. Nothing "
            "was changed; what was decided stays recorded. Carry the session on in the folder it "
            "was started in, with the same tools (--trust, if they come from its .mcp.json)."
        )


class CannotUndo(UsageError):
    """A write that did not happen, was undone already, or can only be undone by hand."""

    def __init__(self, effect: str, why: str) -> None:
        self.effect = effect
        super().__init__(f"{effect} cannot be undone from here: {why} Nothing was changed.")


class UntrustedFolder(UsageError):
    """A file would be used that nobody has confirmed, or that is not what was confirmed."""


class InvalidPolicy(UsageError):
    """A policy file is wrong, so none of it is used and nothing is started.

    Args:
        faults: One line each: ``policy.yaml:12:5: what is wrong; what to write instead``.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("The policy cannot be used, so nothing was done:\n" + "\n".join(faults))


class InvalidFile(UsageError):
    """A file that a person wrote for a suite is wrong, so nothing was run.

    Args:
        faults: One line each: ``retail.yaml:12: what is wrong``.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("Nothing was run:\n" + "\n".join(faults))

    def __reduce__(self) -> tuple[type[InvalidFile], tuple[Sequence[str]]]:
        """As it comes back from another process."""
        return InvalidFile, (self.faults,)


class StoreError(SaysoError):
    """The database cannot be opened, read or written."""


class SchemaTooNew(StoreError):
    """The database was written by a newer sayso than this one."""

    exit_code = 2

    def __init__(self, found: str, known: str) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"The database has schema {found}, this program knows up to {known}. "
            "Nothing was changed. Upgrade sayso, or point SAYSO_HOME or SAYSO_DATABASE_URL "
            "at another database."
        )


class DecisionError(SaysoError):
    """An answer to an approval that cannot be applied; the approval stays as it was."""


class AlreadyDecided(DecisionError):
    """The approval is no longer pending.

    Args:
        approval: The approval's id.
        status: What it is now (``approved``, ``rejected``, ``superseded`` …).
        by: Who is said to have decided; empty when the program did.
        at: ISO 8601 time of that decision.
    """

    def __init__(self, approval: str, status: str, by: str, at: str) -> None:
        self.approval, self.status, self.by, self.at = approval, status, by, at
        super().__init__(
            f"{approval} is already {status}" + (f" by {by}" if by else "") + f" at {at}. "
            "Your answer changed nothing."
        )


class ApprovalExpired(AlreadyDecided):
    """The time for this decision was over; nothing ran."""

    def __init__(self, approval: str, session: str, at: str) -> None:
        super().__init__(approval, "expired", "", at)
        self.args = (
            f"{approval} expired at {at}: nobody decided in time, nothing ran, and your answer "
            f"changed nothing. Ask again: sayso resume {session} --ask-again (without it the call "
            "is let go)",
        )


class ApprovalVoid(AlreadyDecided):
    """It was approved, and that holds no more: nothing ran under it."""

    def __init__(self, approval: str, session: str, by: str, at: str) -> None:
        super().__init__(approval, "void", by, at)
        self.args = (
            f"{approval} is void: {by} had approved it at {at}, and before it ran something had "
            "changed. Nothing ran, and your answer changed nothing. What waits now: "
            f"sayso approvals --session {session}",
        )


class InvalidDecision(DecisionError):
    """The answer is malformed, or its edited arguments do not fit the tool."""

    exit_code = 2


def owner_in_words(owner: str) -> str:
    """``host:pid:token`` as a person reads it; anything else as it is."""
    host, _, rest = owner.partition(":")
    return f"process {rest.partition(':')[0]} on {host}" if rest else owner


class SessionBusy(SaysoError):
    """Another process is working on the session, or it is open in this one already."""

    def __init__(self, session: str, owner: str) -> None:
        self.session, self.owner = session, owner
        super().__init__(
            f"Session {session} is open already ({owner_in_words(owner)}). "
            "Nothing was changed. "
            "Go on there, or close it and try again."
        )


class LeaseLost(SaysoError):
    """This process no longer owns the session; another one went on with it."""

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(
            f"Session {session} was taken over by another process, or its lease ran out, so "
            f"this one stopped before its next write. See what happened: sayso show {session}"
        )


class RuleEnded(SaysoError):
    """The rule that allowed a call was revoked since, is over, or does not cover what would run."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(f"Rule {rule} does not allow this call any more; nothing was changed.")


class AlreadyUndone(SaysoError):
    """A write was compensated already, or that is under way or in doubt."""

    def __init__(self, effect: str, by: str, state: str) -> None:
        self.effect, self.by, self.state = effect, by, state
        word = "was undone" if state == "committed" else "may have been undone"
        super().__init__(f"{effect} {word} by {by} ({state}). Nothing was run.")


class NothingToUndo(SaysoError):
    """A write that was to be compensated has turned out not to be known to have happened."""

    def __init__(self, effect: str, state: str) -> None:
        self.effect, self.state = effect, state
        word = "did not happen" if state == "failed" else "is not known any more to have happened"
        super().__init__(f"{effect} {word} ({state}), so it was not undone. Nothing was run.")


class LimitReached(SaysoError):
    """A limit stopped the turn.

    Args:
        kind: Which limit, such as ``"steps"``.
        value: What was reached.
        limit: The bound.
    """

    exit_code = 4

    def __init__(self, kind: str, value: int, limit: int) -> None:
        self.kind, self.value, self.limit = kind, value, limit
        super().__init__(
            f"Stopped at the limit of {limit} {kind} for one turn; nothing was lost. "
            'Say "continue" to go on, or raise SAYSO_MAX_STEPS.'
        )


class ModelUnavailable(SaysoError):
    """The model provider could not answer; the conversation is as it was before the call."""


class McpError(SaysoError):
    """An MCP server cannot be started, reached or understood."""
