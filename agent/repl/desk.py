"""Asking a person about what waits, and recording the answers.

The rules that keep an answer an answer: a deciding key counts only after the whole call was on
the screen and only when it was typed afterwards (``keys``); while a panel is open the store is
asked again and again, so that a decision made elsewhere closes it; an answer that does not fit
changes nothing and is asked again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.errors import AlreadyDecided, DecisionError
from agent.repl.keys import CLOSED, Answers, Keyboard
from agent.repl.panel import approval_panel, call_line, decided_elsewhere, explanation, overview
from agent.repl.ports import Approvals, Session
from agent.repl.prompts import Prompts
from agent.repl.screen import Lines, Screen, echo, join
from agent.safe_text import exact_json, strict
from agent.store.records import ApprovalRecord
from agent.types import Decision

POLL_SECONDS = 0.5
"""How often an open panel asks the store whether somebody else has decided."""

KEY_MARK = "▸"
"""Stands at the bottom while a key is waited for."""

_LEAVE = frozenset({"q", "escape", "c-c", "c-d", CLOSED})
_MORE = frozenset({" ", "enter"})
_ROWS_FOR_KEYS = 3  # the line with the keys, the status line, and one to spare

Outcome = Literal["decided", "left"]


@dataclass
class Desk:
    """The reviewer's side of one session.

    Args:
        session: Whose approvals they are.
        approvals: The store, for who decided elsewhere.
        left: Ids that the person has left waiting; they are not asked about again until
            ``ask_again``.
    """

    session: Session
    approvals: Approvals
    screen: Screen
    keyboard: Keyboard
    prompts: Prompts
    poll: float = POLL_SECONDS
    left: set[str] = field(default_factory=set)

    def waiting(self) -> list[ApprovalRecord]:
        """What waits and was not left."""
        return [a for a in self.session.pending() if a.id not in self.left]

    def ask_again(self) -> None:
        """Forget what was left: everything that waits is asked about."""
        self.left.clear()

    async def settle(self) -> bool:
        """Ask until nothing waits or the rest was left.

        Returns:
            Whether anything was decided, here or elsewhere, so that the session can go on.
        """
        before = {a.id for a in self.session.pending()}
        while waiting := self.waiting():
            outcome = (
                await self._one(waiting[0]) if len(waiting) == 1 else await self._several(waiting)
            )
            if outcome == "left":
                self.left |= {a.id for a in self.waiting()}
        return not before <= {a.id for a in self.session.pending()}

    # --- several approvals of one step ---------------------------------------------------

    async def _several(self, waiting: list[ApprovalRecord]) -> Outcome:
        """The overview: decide each, approve all, or pick one."""
        self.screen.show(overview(waiting, self.screen.console.width))
        writes = [a for a in waiting if a.kind == "write"]
        key = await self._key(
            waiting,
            join(
                (
                    "d decide each",
                    f"A approve all {len(writes)} (each is shown whole first)"
                    if len(writes) > 1
                    else "",
                    f"1-{min(len(waiting), 9)} pick one",
                    "q leave them waiting",
                )
            ),
            {"d", "A", *map(str, range(1, min(len(waiting), 9) + 1))},
        )
        if key is None:
            return "decided"
        if key in _LEAVE:
            self._say_left(waiting)
            return "left"
        if key == "d":
            return await self._each(waiting)
        if key == "A" and len(writes) > 1:
            return await self._all(writes)
        if key.isdigit():
            await self._one(waiting[int(key) - 1])
        return "decided"

    async def _each(self, waiting: list[ApprovalRecord]) -> Outcome:
        for number, approval in enumerate(waiting, 1):
            if approval.id in {a.id for a in self.session.pending()}:
                await self._one(approval, f"{number} of {len(waiting)}")
        self.left |= {a.id for a in waiting} & {a.id for a in self.session.pending()}
        return "decided"

    async def _all(self, writes: list[ApprovalRecord]) -> Outcome:
        """Show every call whole, then take one answer for them."""
        for number, approval in enumerate(writes, 1):
            panel = approval_panel(approval, self.session.record, f"{number} of {len(writes)}")
            end = await self._show_whole(writes, self.screen.lines(panel))
            if end != "shown":
                return "decided"  # news, or back to the overview
        key = await self._key(
            writes, f"y approve all {len(writes)} shown above · q back to the overview", {"y"}
        )
        if key == "y":
            answers = [(approval.id, Decision("approve")) for approval in writes]
            self._record(lambda: self.session.decide_many(answers))
        return "decided"

    # --- one approval --------------------------------------------------------------------

    async def _one(self, approval: ApprovalRecord, position: str = "") -> Outcome:
        """Show one approval until it is decided, here or elsewhere, or left."""
        while True:
            panel = approval_panel(approval, self.session.record, position)
            seen = await self._show_whole([approval], self.screen.lines(panel))
            end = await self._answer(approval) if seen == "shown" else seen
            if end != "again":
                return end

    async def _answer(self, approval: ApprovalRecord) -> Literal["decided", "left", "again"]:
        """One key at a panel that was shown whole, and what follows from it."""
        offers_always = approval.kind == "write" and self._scope(approval) is not None
        actions = self._actions(approval, offers_always)
        while True:
            key = await self._key(
                [approval], _keys_line(approval, offers_always), set(actions) | {"?"}
            )
            if key is None:
                return "decided"
            if key in _LEAVE:
                self._say_left([approval])
                self.left.add(approval.id)
                return "left"
            if key == "?":
                self.screen.show(explanation(approval, always=offers_always))
                continue
            decided = await actions[key](approval)
            return "decided" if decided else "again"

    def _actions(self, approval: ApprovalRecord, offers_always: bool) -> dict[str, Any]:
        """What each deciding key does; each returns whether the approval is decided now."""
        if approval.kind == "in_doubt":
            return {"h": self._happened, "n": self._did_not_happen}
        actions: dict[str, Any] = {"n": self._reject, "m": self._respond}
        if approval.kind == "write":
            actions |= {"y": self._approve, "e": self._edit}
        if offers_always:
            actions["a"] = self._always
        return actions

    async def _approve(self, approval: ApprovalRecord) -> bool:
        return self._decide(approval, Decision("approve"))

    async def _happened(self, approval: ApprovalRecord) -> bool:
        return self._decide(approval, Decision("respond", message="happened"))

    async def _did_not_happen(self, approval: ApprovalRecord) -> bool:
        return self._decide(approval, Decision("respond", message="not happened"))

    async def _reject(self, approval: ApprovalRecord) -> bool:
        reason = await self.prompts.line("Why not? (the model reads it; Enter for none, Esc: back)")
        if reason is None:
            return False
        return self._decide(approval, Decision("reject", message=reason.strip()))

    async def _respond(self, approval: ApprovalRecord) -> bool:
        answer = await self.prompts.line(
            "Your answer to the model instead of running it (Esc: back)"
        )
        if answer is None or not answer.strip():
            return False
        return self._decide(approval, Decision("respond", message=answer.strip()))

    async def _edit(self, approval: ApprovalRecord) -> bool:
        """Edit the arguments as JSON until they fit or the person goes back."""
        text = exact_json(approval.args)
        while True:
            self.screen.note("Edit the arguments. Ctrl-S takes them, Esc goes back unchanged.")
            edited = await self.prompts.edit(text)
            if edited is None:
                self.screen.note("Nothing was changed.")
                return False
            text = edited
            try:
                args = parse_arguments(edited)
                if args == approval.args and exact_json(args) == exact_json(approval.args):
                    self.screen.note("That is what was proposed: y approves it as it is.")
                    return False
                return self._take(self.session.decide(approval.id, Decision("edit", args=args)))
            except AlreadyDecided as error:
                self.screen.error(str(error))
                return True
            except (DecisionError, ArgumentsError) as error:
                self.screen.error(f"{error}")
                self.screen.note("Nothing was decided. Mend it, or go back with Esc.")

    async def _always(self, approval: ApprovalRecord) -> bool:
        """Show what "always" would cover, and ask before it is agreed to."""
        scope = self._scope(approval)
        if scope is None:
            return False
        self.screen.note(f"Always, for this session: {strict(scope)}", "bold yellow")
        key = await self._key(
            [approval], "y agree and approve this call · n back · revocable with /rules", {"y", "n"}
        )
        if key is None:
            return True
        if key != "y":
            return False
        return self._record(lambda: [self._agreed(approval)])

    def _agreed(self, approval: ApprovalRecord) -> ApprovalRecord:
        rule = self.session.allow_always(approval.id)
        self.screen.note(f"Rule {rule.id}: {rule.scope}. Revoke it with /rules revoke {rule.id}")
        return self.approvals.get(approval.id)

    def _scope(self, approval: ApprovalRecord) -> str | None:
        scope = self.session.always_scope(approval.id)
        return scope.text if scope is not None else None

    # --- recording -----------------------------------------------------------------------

    def _decide(self, approval: ApprovalRecord, decision: Decision) -> bool:
        return self._record(lambda: [self.session.decide(approval.id, decision)])

    def _record(self, record: Callable[[], Sequence[ApprovalRecord]]) -> bool:
        """Record answers; ``False`` when they were refused and can be given again."""
        try:
            for decided in record():
                self._take(decided)
        except AlreadyDecided as error:
            self.screen.error(str(error))
        except DecisionError as error:
            self.screen.error(str(error))
            return False
        return True

    def _take(self, decided: ApprovalRecord) -> bool:
        self.screen.note(f"{decided.status}: {call_line(decided, 60)}", "green")
        if decided.decided_args is not None and decided.status == "edited":
            self.screen.note(f"runs with {exact_json(decided.decided_args, indent=None)}", "green")
        return True

    def _say_left(self, approvals: Sequence[ApprovalRecord]) -> None:
        ids = ", ".join(approval.id for approval in approvals)
        self.screen.note(
            f"Left waiting: {ids}. Decide with /approvals, or from another terminal: "
            f"sayso approve {approvals[0].id}"
        )

    # --- showing and asking --------------------------------------------------------------

    async def _show_whole(
        self, watched: list[ApprovalRecord], lines: Lines
    ) -> Literal["shown", "left", "decided"]:
        """Print lines, a screenful at a time; a key for the next one, never an answer."""
        page = max(self.screen.height - _ROWS_FOR_KEYS, 1)
        for start in range(0, len(lines), page):
            self.screen.show_lines(lines[start : start + page])
            rest = len(lines) - start - page
            if rest <= 0:
                break
            key = await self._key(
                watched,
                f"Space shows {rest} more lines · q leaves it waiting",
                set(_MORE),
                transient=True,
                otherwise="Show the rest first (Space): the whole call has to be seen.",
            )
            if key is None:
                return "decided"
            if key in _LEAVE:
                self.left |= {approval.id for approval in watched}
                self._say_left(watched)
                return "left"
        return "shown"

    async def _key(
        self,
        watched: list[ApprovalRecord],
        question: str,
        keys: set[str],
        *,
        otherwise: str = "",
        transient: bool = False,
    ) -> str | None:
        """Wait for one of the keys, or one that leaves.

        Args:
            watched: What the question is about; it is void when one of them is decided.
            question: Names the keys; the last thing printed before a key can count.
            keys: The keys that are returned, beside those that leave.
            otherwise: What to say to any other key.
            transient: Whether the question is wiped afterwards.

        Returns:
            The key; ``None`` when an approval of ``watched`` is no longer pending, which has
            been said.
        """
        with asking(self.screen, self.keyboard, question, transient=transient) as answers:
            while True:
                key = await answers.get(self.poll)
                if key is None:
                    if self._decided_elsewhere(watched):
                        return None
                elif key in keys or key in _LEAVE:
                    return key
                else:
                    self.screen.note(otherwise or f"That key does nothing here. {question}")

    def _decided_elsewhere(self, watched: list[ApprovalRecord]) -> bool:
        pending = {approval.id for approval in self.session.pending()}
        gone = [approval for approval in watched if approval.id not in pending]
        for approval in gone:
            self.screen.note(decided_elsewhere(self.approvals.get(approval.id)), "bold green")
        return bool(gone)


@contextlib.contextmanager
def asking(
    screen: Screen, keyboard: Keyboard, question: str, *, transient: bool = False
) -> Iterator[Answers]:
    """Put a question that one key answers; ``KEY_MARK`` shows that keys count from now on.

    Args:
        transient: Whether the question itself is wiped afterwards.
    """
    if not transient:
        screen.note(question, "bold")
    screen.drain()
    mark = f"{KEY_MARK} {question}" if transient else KEY_MARK
    with (
        keyboard.asking() as answers,
        screen.status_line(mark),
        keyboard.echoing(
            lambda text: screen.status(f"{mark} (pasted, for your next message: {echo(text)})")
        ),
    ):
        yield answers


class ArgumentsError(ValueError):
    """Edited text that is not a JSON object; the message says where it fails."""


def parse_arguments(text: str) -> dict[str, Any]:
    """Read edited arguments: one JSON object, each key once, numbers that JSON has.

    Raises:
        ArgumentsError: With the line and column, or the key that stands twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise ArgumentsError(f"{exact_json(key, indent=None)} stands there twice.")
        return dict(pairs)

    def no_constant(name: str) -> Any:
        raise ArgumentsError(f"{name} is no JSON number.")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise ArgumentsError(
            f"Not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise ArgumentsError("Nested too deeply.") from error
    if not isinstance(value, dict):
        raise ArgumentsError("The arguments are one JSON object: {…}.")
    return value


def _keys_line(approval: ApprovalRecord, always: bool) -> str:
    if approval.kind == "in_doubt":
        return "h it happened · n it did not happen · ? explain · q leave it"
    return join(
        (
            "y approve · e edit" if approval.kind == "write" else "",
            "n reject · m answer instead",
            "a always" if always else "",
            "? explain · q leave it waiting",
        )
    )
