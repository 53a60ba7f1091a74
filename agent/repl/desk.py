"""Asking a person about what waits, and recording the answers.

The rules that keep an answer an answer: a deciding key counts only after the whole call was on
the screen (``questions``); while a panel is open the store is asked again and again, so that a
decision made elsewhere closes it; an answer that does not fit changes nothing and is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.console import RenderableType

from agent.elicitation import ENDED
from agent.errors import AlreadyDecided, DecisionError
from agent.repl.editing import ArgumentsError, parse_arguments
from agent.repl.forms import fill
from agent.repl.panel import (
    approval_panel,
    call_line,
    explanation,
    overview,
    what_became_of,
)
from agent.repl.ports import Approvals, Rules, Session
from agent.repl.prompts import Prompts
from agent.repl.questions import LEAVE, Questions, Void
from agent.repl.screen import Screen, join, until
from agent.safe_text import exact_json, one_line, strict
from agent.store.records import ApprovalRecord
from agent.types import Decision

CHAT = "chat"
"""``decided_via`` of a decision made at a panel; every other one was made elsewhere."""

Outcome = Literal["decided", "left"]
_ELSEWHERE = {"write": "approve", "in_doubt": "reconcile", "elicitation": "respond"}


@dataclass
class Desk:
    """The reviewer's side of one session.

    Args:
        session: Whose approvals they are.
        approvals: The store, for who decided elsewhere.
        rules: The store, for how long an "always" answer would hold.
    """

    session: Session
    approvals: Approvals
    rules: Rules
    screen: Screen
    questions: Questions
    prompts: Prompts
    _left: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    async def settle(self) -> bool:
        """Ask until nothing waits or the rest was left.

        Returns:
            Whether anything was decided, here or elsewhere, so that the session can go on.
        """
        before = set(self._seen)
        before |= _ids(self.look())
        while waiting := self._unanswered():
            outcome = (
                await self._one(waiting[0]) if len(waiting) == 1 else await self._several(waiting)
            )
            if outcome == "left":
                self._left |= _ids(self._unanswered())
        return self._moves_on(before - _ids(self.look()))

    async def ask_now(self, approval: ApprovalRecord) -> None:
        """Ask about this one alone, if it still waits."""
        if approval.id in _ids(self.look()):
            await self._one(approval)

    def ask_again(self) -> None:
        """Forget what was left: everything that waits is asked about."""
        self._left.clear()

    # --- what is decided elsewhere -------------------------------------------------------

    def has_news(self) -> bool:
        """Whether something that waited no longer does, unsaid so far; ``look`` says what."""
        pending = _ids(self.session.pending())
        self._seen |= pending
        return self._seen != pending

    def look(self) -> list[ApprovalRecord]:
        """What waits now; says what became of that which waited before."""
        pending = self.session.pending()
        for gone in sorted(self._seen - _ids(pending)):
            self._say_what_became_of(self.approvals.get(gone))
        self._seen = _ids(pending)
        return pending

    def take_news(self) -> bool:
        """Say what became of what waited, and whether the session goes on with it."""
        before = set(self._seen)
        return self._moves_on(before - _ids(self.look()))

    def _moves_on(self, gone: Iterable[str]) -> bool:
        """Whether what became of these is a reason to go on.

        That a write has come to its end by itself is none where somebody had stopped the turn.
        """
        rows = [self.approvals.get(one) for one in gone]
        if self.session.record.state == "interrupted":
            rows = [row for row in rows if (row.kind, row.status) != ("in_doubt", "superseded")]
        return bool(rows)

    def recall(self) -> None:
        """For a session just opened: say which calls of its last turn were decided elsewhere.

        A server's question that waits was left behind by a process that ended, and its call
        with it: an answer would reach nobody.
        """
        for approval in self.session.pending():
            if approval.kind == "elicitation":
                with suppress(AlreadyDecided):
                    self.approvals.expire(approval.id, ENDED)
        turn = self.session.record.turn
        rows = self.approvals.list(status=None, session=self.session.id, turn=turn, limit=None)
        for row in sorted(rows, key=lambda row: row.decided_at or ""):
            if row.status not in ("pending", "superseded") and row.decided_via != CHAT:
                self._say_what_became_of(row)

    def _say_what_became_of(self, approval: ApprovalRecord) -> None:
        moved_on = approval.status == "superseded"
        self.screen.note(what_became_of(approval), "yellow" if moved_on else "bold green")

    def _unanswered(self) -> list[ApprovalRecord]:
        """What waits and was not left."""
        return [a for a in self.look() if a.id not in self._left]

    def _void(self, watched: Sequence[ApprovalRecord]) -> Void:
        """Whether a question about these is void: one of them has been decided elsewhere."""
        return lambda: not _ids(watched) <= _ids(self.look())

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
        if key in LEAVE:
            return self._leave(waiting)
        if key == "d":
            return await self._each(waiting)
        if key == "A" and len(writes) > 1:
            return await self._all(writes)
        if key.isdigit():
            await self._one(waiting[int(key) - 1])
        return "decided"

    async def _each(self, waiting: list[ApprovalRecord]) -> Outcome:
        for number, approval in enumerate(waiting, 1):
            if approval.id in _ids(self.look()):
                await self._one(approval, f"{number} of {len(waiting)}")
        self._left |= _ids(waiting) & _ids(self.look())
        return "decided"

    async def _all(self, writes: list[ApprovalRecord]) -> Outcome:
        """Show every call whole, then take one answer for them."""
        for number, approval in enumerate(writes, 1):
            panel = approval_panel(approval, self.session.record, f"{number} of {len(writes)}")
            if await self._show_whole(writes, panel) != "shown":
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
            record, under_way = self.session.record, self.session.is_under_way(approval)
            panel = approval_panel(approval, record, position, under_way=under_way)
            seen = await self._show_whole([approval], panel)
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
            if key in LEAVE:
                return self._leave([approval])
            if key == "?":
                self.screen.show(explanation(approval, always=offers_always))
                continue
            decided = await actions[key](approval)
            return "decided" if decided else "again"

    def _actions(self, approval: ApprovalRecord, offers_always: bool) -> dict[str, Any]:
        """What each deciding key does; each returns whether the approval is decided now."""
        if approval.kind == "in_doubt":
            return {"h": self._happened, "n": self._did_not_happen}
        if approval.kind == "elicitation":
            return {"y": self._answer_server, "n": self._decline}
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

    async def _answer_server(self, approval: ApprovalRecord) -> bool:
        """Fill in the form, show what would be sent, and send it."""
        if approval.args.get("schema") is None:
            return self._decide(approval, Decision("respond", message="done"))
        void, content = self._void([approval]), None
        while True:
            content = await fill(approval.args, self.prompts, self.screen, void, content)
            if content is None:
                self.screen.note("Nothing was answered here.")
                return void()
            answer = exact_json(content, indent=None)
            self.screen.note(f"To {strict(approval.tool)}: {answer}", "bold yellow")
            key = await self._key([approval], "y send this · n change it · q back", {"y", "n"})
            if key is None:
                return True
            if key != "n":
                break
        return key == "y" and self._decide(approval, Decision("respond", message=answer))

    async def _decline(self, approval: ApprovalRecord) -> bool:
        return self._decide(approval, Decision("reject"))

    async def _edit(self, approval: ApprovalRecord) -> bool:
        """Edit the arguments as JSON until they fit; then show what would run, and ask."""
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
                shown = await self.session.as_edited(approval.id, args)
            except (DecisionError, ArgumentsError) as error:
                self.screen.error(f"{error}")
                self.screen.note("Nothing was decided. Mend it, or go back with Esc.")
                continue
            if shown.digest == approval.digest:
                self.screen.note("That is what was proposed: y approves it as it is.")
                return False
            key = await self._agree_to(shown)
            if key == "y":
                edit = Decision("edit", args=shown.args, preview=shown.preview)
                return self._decide(approval, edit)
            if key != "e":
                return key is None  # it was decided elsewhere

    async def _agree_to(self, edited: ApprovalRecord) -> str | None:
        """Show an edited call whole; the key that follows, ``None`` when it waits no more."""
        panel = approval_panel(edited, self.session.record, "as you edited it")
        void = self._void([edited])
        end = await self.questions.show_whole(self.screen.lines(panel), void)
        if end != "shown":
            return "q" if end == "left" else None
        return await self._key([edited], "y run this · e edit again · q back", {"y", "e"})

    async def _always(self, approval: ApprovalRecord) -> bool:
        """Show what "always" would cover, and ask before it is agreed to."""
        scope = self._scope(approval)
        if scope is None:
            return False
        when = until(self.rules.until())
        self.screen.note(f"Always, for this session, {when}: {one_line(scope)}", "bold yellow")
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
        what = f"{one_line(rule.scope)}, {until(rule.expires_at)}"
        self.screen.note(f"Rule {rule.id}: {what}. Revoke it with /rules revoke {rule.id}")
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
            self._say_too_late(error)
        except DecisionError as error:
            self.screen.error(str(error))
            return False
        return True

    def _take(self, decided: ApprovalRecord) -> bool:
        self._seen.discard(decided.id)
        became = decided.comment if decided.kind == "in_doubt" else decided.status
        self.screen.note(f"{became}: {call_line(decided, 60)}", "green")
        if decided.decided_args is not None and decided.status == "edited":
            self.screen.note(f"runs with {exact_json(decided.decided_args, indent=None)}", "green")
        return True

    def _say_too_late(self, error: AlreadyDecided) -> None:
        self._seen.discard(error.approval)
        self.screen.error(str(error))

    def _leave(self, approvals: Sequence[ApprovalRecord]) -> Literal["left"]:
        self._left |= _ids(approvals)
        ids = ", ".join(approval.id for approval in approvals)
        is_question = approvals[0].kind == "elicitation"  # its call runs: there is no prompt
        here = "Tab shows it again" if is_question else "Decide with /approvals"
        self.screen.note(
            f"Left waiting: {ids}. {here}, or from another terminal: "
            f"sayso {_ELSEWHERE[approvals[0].kind]} {approvals[0].id}"
        )
        return "left"

    # --- showing and asking --------------------------------------------------------------

    async def _show_whole(
        self, watched: Sequence[ApprovalRecord], panel: RenderableType
    ) -> Literal["shown", "left", "decided"]:
        end = await self.questions.show_whole(self.screen.lines(panel), self._void(watched))
        if end == "left":
            return self._leave(watched)
        return "shown" if end == "shown" else "decided"

    async def _key(
        self, watched: Sequence[ApprovalRecord], question: str, keys: set[str]
    ) -> str | None:
        """A key for a question about approvals; ``None`` when one of them was decided elsewhere."""
        return await self.questions.key(question, keys, self._void(watched))


def _ids(approvals: Iterable[ApprovalRecord]) -> set[str]:
    return {approval.id for approval in approvals}


def _keys_line(approval: ApprovalRecord, always: bool) -> str:
    if approval.kind == "in_doubt":
        return "h it happened · n it did not happen · ? explain · q leave it"
    if approval.kind == "elicitation":
        return "y answer · n decline · ? explain · q leave it waiting"
    return join(
        (
            "y approve · e edit" if approval.kind == "write" else "",
            "n reject · m answer instead",
            "a always" if always else "",
            "? explain · q leave it waiting",
        )
    )
