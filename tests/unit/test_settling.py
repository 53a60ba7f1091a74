"""What can still be done about a write: looked up in its own record, or compensated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from agent.canonical import call_digest
from agent.errors import CannotUndo
from agent.provenance import marked
from agent.settling import compensation, info_of, look_up_effect, undo_in_words
from agent.store import Store
from agent.store.records import EffectRecord, LeaseRecord
from agent.types import Actor, Decision
from tools.contract import Call, Committed, Contract, Finding, Preview, Undo, make_tool

ANA = Actor("ana", 1000, "here", "test")
DIGEST = call_digest("act", {"n": 1})


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


def act(n: int) -> str:
    """Act."""
    raise AssertionError("nothing runs here")


def tool(name: str = "act", **contract: Any) -> Any:
    return make_tool(act, args=Number, name=name, contract=Contract(**contract))


class Desk:
    """A store with one session and its writes, each under an approval of its own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.session = store.sessions.create(
            model="m", tools=[], workspace=None, granted=[], denied=[], actor=ANA
        ).id
        self.lease: LeaseRecord = store.leases.acquire(self.session, store.owner(), 600)

    def write(
        self,
        state: Any,
        *,
        call: str = "c1",
        text: Any = '{"cart":"C17"}',
        decision: Decision | None = None,
        before: str | None = "there",
        undoes: str | None = None,
    ) -> EffectRecord:
        decision = decision or Decision("approve")
        common = {"session": self.session, "turn": 1, "message": "m1", "call": call}
        asked = self.store.approvals.ask(
            **common, kind="write", interrupt=None, tool="act", tool_version="1", args={"n": 1},
            digest=DIGEST, effects=[], rule="", reason="", notes=[],
            preview={"summary": "", "before": "at the question", "after": "", "diff": ""},
            provenance=None, undo=None,
        )  # fmt: skip
        edited = "e" if decision.type == "edit" else None
        self.store.approvals.decide(asked.id, decision, ANA, digest=edited)
        effect = self.store.ledger.begin(
            **common, epoch=self.lease.epoch, tool="act", tool_version="1",
            args=decision.args or {"n": 1}, digest=edited or DIGEST, approval=asked.id, rule=None,
            idempotency_key=call, undoes=undoes, before=before,
        ).effect  # fmt: skip
        if state == "intended":
            return effect
        return self.store.ledger.finish(
            effect.id, attempt=1, state=state, result={"text": text, "status": "success"}
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    yield Desk(store)
    store.close()


# --- compensating ----------------------------------------------------------------------------

BACK = Call("act", {"n": -1})
UNDO = Undo("take it back", lambda write: BACK)


async def test_the_contract_says_what_would_compensate_a_write_from_what_is_recorded(
    desk: Desk,
) -> None:
    seen: list[Committed] = []

    def back(write: Committed) -> Call:
        seen.append(write)
        return BACK

    effect = desk.write("committed")
    tools = {"act": tool(undo=Undo("take it back", back))}
    assert await compensation(desk.store, effect, tools) == BACK
    assert seen == [Committed({"n": 1}, {"cart": "C17"}, "there")]


async def test_of_an_edited_write_it_gets_the_arguments_that_ran(desk: Desk) -> None:
    seen: list[Committed] = []

    def back(write: Committed) -> Call:
        seen.append(write)
        return BACK

    effect = desk.write("committed", decision=Decision("edit", args={"n": 2}), before=None)
    await compensation(desk.store, effect, {"act": tool(undo=Undo("take it back", back))})
    assert seen == [Committed({"n": 2}, {"cart": "C17"}, "")]


def _makes_its_call_of_the_arguments(write: Committed) -> Call:
    args: Any = write.args
    args["n"] = -1
    return Call("act", args)


async def test_an_undo_that_changes_the_arguments_it_is_given_changes_a_copy(desk: Desk) -> None:
    contract = Contract(undo=Undo("take it back", _makes_its_call_of_the_arguments))
    asked = {"n": 1}
    assert await undo_in_words(contract, asked, None) == "take it back"
    assert asked == {"n": 1}

    effect = desk.write("committed")
    assert await compensation(desk.store, effect, {"act": tool(undo=contract.undo)}) == BACK
    assert effect.args == {"n": 1}


def breaks(write: Committed) -> Call:
    raise KeyError("cart")


IMPOSSIBLE: dict[str, tuple[str, Any, str]] = {
    "it failed": ("failed", {"undo": UNDO}, "did not happen"),
    "it is in doubt": ("in_doubt", {"undo": UNDO}, "is not known to have happened"),
    "it is under way": ("intended", {"undo": UNDO}, "is not known to have happened"),
    "it has none": ("committed", {}, "act has nothing that would undo it"),
    "by hand": ("committed", {"undo": Undo("call the shop")}, "by hand (call the shop)"),
    "not any more": (
        "committed",
        {"undo": Undo("discard it", lambda write: None)},
        "by hand (discard it)",
    ),
    "nonsense": (
        "committed",
        {"undo": Undo("discard it", lambda write: "act")},
        "act gave a str for what would undo it",
    ),
    "it breaks": ("committed", {"undo": Undo("discard it", breaks)}, "could not say how ('cart')"),
    "it exits": (
        "committed",
        {"undo": Undo("discard it", lambda write: sys.exit(0))},
        "could not say how (SystemExit: 0)",
    ),
    "it names what is no JSON": (
        "committed",
        {"undo": Undo("discard it", lambda write: Call("act", {"n": object()}))},
        "act could not say how (Object of type object is not JSON serializable)",
    ),
    "with a tool that is not here": (
        "committed",
        {"undo": Undo("discard it", lambda write: Call("discard", {}))},
        "the tool discard, which undoes it, is not loaded here",
    ),
}


@pytest.mark.parametrize(("state", "contract", "why"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_a_write_that_cannot_be_compensated_from_here_says_why(
    desk: Desk, state: str, contract: dict[str, Any], why: str
) -> None:
    effect = desk.write(state)
    with pytest.raises(CannotUndo) as refused:
        await compensation(desk.store, effect, {"act": tool(**contract)})
    assert why in str(refused.value)
    assert str(refused.value).startswith(f"{effect.id} cannot be undone from here: ")
    assert str(refused.value).endswith("Nothing was changed.")


CUT = f"the beginning\n[cut: 9 more characters; SHA-256 of the whole text: {'0' * 64}]"


async def test_what_was_too_long_to_be_kept_is_not_put_back(desk: Desk) -> None:
    """Nor does any function of the contract take the beginning for the whole."""
    heard: list[Any] = []
    effect = desk.write("committed", before=CUT)
    undo = Undo("discard it", lambda write: heard.append(write.before))
    with pytest.raises(CannotUndo, match=r"too long to be kept; .* by hand \(discard it\)"):
        await compensation(desk.store, effect, {"act": tool(undo=undo)})
    said = await undo_in_words(Contract(undo=undo), {"n": 1}, Preview("", before=CUT))
    assert said == "by hand: discard it"
    assert info_of(effect).before == ""
    assert heard == []
    whole = desk.write("committed", call="c2", before="the whole")
    assert info_of(whole).before == "the whole"


async def test_a_write_whose_tool_is_not_here_cannot_be_compensated(desk: Desk) -> None:
    with pytest.raises(CannotUndo, match="its tool act is not loaded here"):
        await compensation(desk.store, desk.write("committed"), {})


@pytest.mark.parametrize("state", ["committed", "in_doubt", "intended", "failed"])
async def test_what_was_compensated_already_or_maybe_is_not_again(desk: Desk, state: str) -> None:
    effect = desk.write("committed")
    undoing = desk.write(state, call="c2", undoes=effect.id)
    tools = {"act": tool(undo=UNDO)}
    if state == "failed":
        assert await compensation(desk.store, effect, tools) == BACK
        return
    with pytest.raises(CannotUndo, match=rf"{undoing.id} undoes it already \({state}\)"):
        await compensation(desk.store, effect, tools)


# --- looking up ------------------------------------------------------------------------------


def answering(finding: Finding, **contract: Any) -> Any:
    return tool(reconcile=lambda args, info: finding, **contract)


HAPPENED = Finding(True, "T1 is there.", {"status": "done"}, "T1", '{"cart":"C17"}')
NOT_THERE = Finding(False, "There is no T1.")


@pytest.mark.parametrize("open_world", [True, False])
async def test_what_the_record_shows_to_have_happened_is_committed_with_its_result(
    desk: Desk, open_world: bool
) -> None:
    doubt = desk.write("in_doubt")
    found = await look_up_effect(
        desk.store, doubt, answering(HAPPENED, open_world=open_world), 1_000
    )
    assert found == desk.store.ledger.get(doubt.id)
    assert (found.state, found.settled, found.transaction) == ("committed", "happened", "T1")
    assert found.evidence is not None
    assert found.evidence["found"]["record"] == {"status": "done"}
    assert found.result is not None
    text, returned = found.result["text"], '{"cart":"C17"}'
    assert "the service's own record shows that it happened" in text
    assert (marked("T1 is there.", "act") in text) == open_world
    assert text.endswith(marked(returned, "act") if open_world else returned)
    undo = Undo("discard it", lambda write: Call("act", {"n": write.result["cart"]}))
    call = await compensation(desk.store, found, {"act": tool(undo=undo, open_world=open_world)})
    assert call.args == {"n": "C17"}


async def test_a_long_result_of_a_lost_call_is_cut_where_it_is_seen(desk: Desk) -> None:
    finding = Finding(True, "It is there.", result="x" * 2_000)
    found = await look_up_effect(desk.store, desk.write("in_doubt"), answering(finding), 500)
    assert found.result is not None
    assert found.result["text"].count("x") == 499
    assert "…" in found.result["text"]


@pytest.mark.parametrize(
    ("finding", "running", "state", "said"),
    [
        (NOT_THERE, False, "failed", "There is no T1."),
        (NOT_THERE, True, "in_doubt", "There is no T1. It is still under way."),
        (Finding(None, "Hm."), False, "in_doubt", "Hm."),
        (Finding(None, "Hm."), True, "in_doubt", "Hm."),
        (HAPPENED, True, "committed", "T1 is there."),
    ],
    ids=["not there", "not there yet", "cannot tell", "cannot tell yet", "there already"],
)
async def test_not_there_is_trusted_of_a_body_that_has_ended(
    desk: Desk, finding: Finding, running: bool, state: str, said: str
) -> None:
    doubt = desk.write("in_doubt")
    found = await look_up_effect(desk.store, doubt, answering(finding), 1_000, running=running)
    assert found.state == state
    assert (found.evidence or {})["found"]["summary"] == said
    assert found == desk.store.ledger.get(doubt.id)


async def test_a_contract_without_a_record_leaves_the_doubt_as_it_is(desk: Desk) -> None:
    doubt = desk.write("in_doubt")
    assert await look_up_effect(desk.store, doubt, tool(), 1_000) == doubt
    assert desk.store.trail.entries(desk.session)[-1].kind == "effect.in_doubt"
