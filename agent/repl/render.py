"""What a running turn reports, drawn as it comes; and a stored conversation, drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from agent.events import (
    AnswerMarked,
    ApprovalAsked,
    CallFinished,
    CallJudged,
    CallProgress,
    CallProposed,
    Done,
    DraftRefused,
    Event,
    KnownSince,
    Message,
    MessageDelta,
    ReceiptReady,
)
from agent.provenance import NOTE, REFUSED
from agent.repl.markdown import MarkdownStream, SafeMarkdown
from agent.repl.panel import short_args
from agent.repl.screen import Screen
from agent.safe_text import one_line, plain, shorten
from agent.types import Receipt

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

RESULT_LINES = 3
"""How many lines of a result are shown while a turn runs; the model reads all of it."""

_HANGING = "\n" + 4 * " "
"""Before the further lines of a result, so that none stands where a line of ours begins."""

_VERDICTS = {"allow": ("allowed", "dim"), "ask": ("asks you", "yellow"), "deny": ("denied", "red")}
_NEXT = {
    "stopped": 'Say "continue" to go on.',
    "interrupted": 'The turn was stopped; the session is in order. Say "continue" to go on.',
    "failed": 'Nothing that was said is lost. Say "continue" to try again.',
    "cancelled": "This session was cancelled. /new starts another one.",
}
_HEADINGS = (
    ("done", "Done", "green"),
    ("not_done", "Not done", "yellow"),
    ("unknown", "Unknown", "bold red"),
    ("waiting", "Waiting", "yellow"),
)


class TurnView:
    """Draws the events of one turn, over its pauses.

    Calls are numbered, since several run side by side; their results are shown in the order of
    the numbers, as far as that holds none back for longer than the other calls take.

    Attributes:
        progress: How far a running call says it is, for the status line.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._stream = MarkdownStream(self._show_markdown)
        self._streamed = ""
        self._numbers: dict[str, int] = {}
        self._open: list[str] = []
        self._results: dict[str, CallFinished] = {}
        self._receipt: Receipt | None = None
        self.progress = ""

    def show(self, event: Event) -> None:
        """Draw one event. A receipt is kept for the end, so that it stands last."""
        if not isinstance(event, CallFinished | CallJudged | CallProgress):
            self._show_results(all_of_them=True)
        match event:
            case MessageDelta(text):
                self._streamed += text
                self._stream.feed(text)
            case Message(text):
                self._finish_message(text)
            case DraftRefused():
                self._screen.note(sent_back(event), "yellow")
            case AnswerMarked():
                self._screen.note(marked_because(event), "yellow")
            case CallProposed():
                self._call(event)
            case CallJudged():
                self._verdict(event)
            case CallFinished():
                self.progress = ""
                self._results[event.call] = event
                self._show_results(all_of_them=event.call not in self._open)
            case ReceiptReady(receipt):
                self._receipt = receipt
            case KnownSince(receipt):
                show_receipt(self._screen, receipt, "Known since then")
            case Done():
                self._done(event)
            case CallProgress():
                self.progress = _progress_line(event)
            case ApprovalAsked():
                pass  # its panel follows: of a question at once, else when the turn pauses

    @property
    def unfinished(self) -> str:
        """What the model has written of a block that is not whole yet."""
        return self._stream.unfinished

    def finish(self) -> None:
        """Print what has been held back: results, and the end of what was streamed."""
        self._show_results(all_of_them=True)
        self._stream.finish()

    def _show_markdown(self, part: SafeMarkdown) -> None:
        """A part with one blank line before it, whatever Rich puts around it."""
        lines = self._screen.lines(part)
        filled = [index for index, line in enumerate(lines) if line]
        if filled:
            self._screen.show_lines([[], *lines[filled[0] : filled[-1] + 1]])

    def _finish_message(self, text: str) -> None:
        if text.startswith(self._streamed):  # the whole of it when nothing streamed, else a mark
            self._stream.feed(text.removeprefix(self._streamed))
        self._stream.finish()
        self._streamed = ""

    def _call(self, event: CallProposed) -> None:
        self._stream.finish()
        number = self._numbers[event.call] = len(self._numbers) + 1
        self._open.append(event.call)
        head = f"{number} {one_line(event.tool)}"
        room = max(self._screen.console.width - len(head) - 5, 10)
        self._screen.show(
            Text.assemble(
                ("● ", "cyan"), (head, "bold"), "  ", shorten(short_args(event.args), room)
            )
        )

    def _verdict(self, event: CallJudged) -> None:
        word, style = _VERDICTS[event.verdict["behavior"]]
        reason = one_line(event.verdict["reason"])
        self._screen.show(self._under(event.call, Text(f"{word}: {reason}", style)))

    def _show_results(self, *, all_of_them: bool) -> None:
        """Draw results in the order of their calls, up to the first call that still runs."""
        for call in dict.fromkeys((*self._open, *self._results)):
            if call in self._results:
                self._result(self._results.pop(call))
                self._open = [other for other in self._open if other != call]
            elif not all_of_them:
                break

    def _result(self, event: CallFinished) -> None:
        lines = plain(event.text).strip("\n").split("\n")
        tool = one_line(event.tool)
        room = max(self._screen.console.width - 2 - len(_HANGING), 10)
        shown = [shorten(lines[0], max(room - len(tool) - 2, 10))]
        shown += [shorten(line, room) for line in lines[1:RESULT_LINES]]
        if len(lines) > RESULT_LINES:
            shown.append(f"… {len(lines) - RESULT_LINES} more lines")
        style = "red" if event.status == "error" else "dim"
        text = Text.assemble((f"{tool} ", "bold"), (_HANGING.join(shown), style))
        self._screen.show(self._under(event.call, text))

    def _under(self, call: str, text: Text) -> RenderableType:
        number = self._numbers.setdefault(call, len(self._numbers) + 1)
        return Padding(Text.assemble((f"{number} ", "dim"), text), (0, 0, 0, 2))

    def _done(self, event: Done) -> None:
        self._stream.finish()
        if event.error:
            self._screen.error(event.error)
        if event.state in _NEXT and 'Say "continue"' not in (event.error or ""):
            self._screen.note(_NEXT[event.state], "yellow")
        receipt, self._receipt = self._receipt, None
        if receipt is not None and event.state != "waiting":
            show_receipt(self._screen, receipt)


def sent_back(event: DraftRefused) -> str:
    """A draft that the person does not see, and why."""
    return f"A draft was sent back to the model: no support for {', '.join(event.unsupported)}."


def marked_because(event: AnswerMarked) -> str:
    """What is wrong with the answer above, in the words of the program."""
    parts = []
    if event.unsupported:
        parts.append(f"No support was found for {', '.join(event.unsupported)}.")
    if event.problem:
        parts.append(f"This answer could not be checked: {event.problem}.")
    return " ".join(parts)


def _progress_line(event: CallProgress) -> str:
    """``orders__export: 3 of 10, writing pages`` on one line."""
    of = f"{event.done:g}" if event.total is None else f"{event.done:g} of {event.total:g}"
    return f"{one_line(event.tool)}: {of}{f', {one_line(event.text)}' if event.text else ''}"


def show_receipt(screen: Screen, receipt: Receipt, heading: str = "Receipt") -> None:
    """What the store says about the writes of a turn; a model's words are no evidence."""
    if not receipt:
        screen.note("No write was proposed in the last turn.")
        return
    text = Text(f"\n{heading}", "bold")
    for field, kind, style in _HEADINGS:
        for line in getattr(receipt, field):
            text.append(f"\n  {kind}: ", style)
            text.append(one_line(line), "not bold")
    screen.show(text)


def show_history(screen: Screen, messages: Sequence[BaseMessage], last: int = 6) -> None:
    """The end of a stored conversation: what was said, without the calls in between."""
    said = [m for m in messages if m.type in ("human", "ai") and _was_said(m)]
    if len(said) > last:
        screen.note(f"… {len(said) - last} earlier messages")
    for message in said[-last:]:
        if message.type == "human":
            screen.show("", Text.assemble(("› ", "bold cyan"), plain(str(message.text))))
        else:
            screen.show("", SafeMarkdown(str(message.text)))


def _was_said(message: BaseMessage) -> bool:
    """Whether the person wrote or read it: no note to the model, no draft that was sent back."""
    aside = message.additional_kwargs.keys() & {NOTE, REFUSED}
    return not aside and bool(str(message.text).strip())
