"""Deciding at a real terminal: each answer, several at once, elsewhere, and later."""

import pytest

from agent.types import Decision
from tests.support.fake_chat import CANCEL, SCENES, ChatTerminal, FakeStore

ASKED = 'run "cancel A1" supersede=False'
CALL = 'ap-1 cancel_order(order_id="A1", expected_revision=3)'
BOB = "by bob, 2026-01-02 03:05 UTC, cli"


@pytest.fixture
def chat(tmp_path):
    """A chat that waits at the panel of one approval."""
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("cancel A1")
        chat.asked("y approve")
        yield chat


def finished(chat):
    """Wait for the end of the resumed turn; returns the answer that reached the session."""
    chat.expect("Done as you decided.")
    chat.ready()
    return chat.log[1]


def test_a_rejection_takes_a_reason(chat):
    chat.send("n")
    chat.expect("Why not?")
    chat.send("too late\r")
    assert finished(chat) == "ap-1 reject null 'too late'"
    assert "Not done: cancel_order A1" in chat.display


def test_a_rejection_may_have_no_reason(chat):
    chat.send("n")
    chat.expect("Why not?")
    chat.send("\r")
    assert finished(chat) == "ap-1 reject null ''"


def test_going_back_from_a_reason_leaves_the_choice_open(chat):
    chat.send("n")
    chat.expect("Why not?")
    chat.send("\x1b")
    chat.asked("y approve")
    chat.send("m")
    chat.expect("Your answer to the model")
    chat.send("\r")  # an empty answer is none
    chat.asked("y approve")
    assert chat.log == [ASKED]
    chat.send("m")
    chat.expect("Your answer to the model")
    chat.send("ask again on Monday\r")
    assert finished(chat) == "ap-1 respond null 'ask again on Monday'"


def test_an_edit_is_asked_again_until_it_fits(chat):
    chat.send("e")
    chat.expect('"expected_revision": 3\n}')
    chat.send("x\x13")
    chat.expect("Not valid JSON: Extra data, line 4, column 2.")
    chat.expect("}x")
    chat.send("\x7f" * 60)
    chat.send('{"order_id": 7}\x13')
    chat.expect("order_id: a string is expected.")
    chat.expect('{"order_id": 7}')
    chat.send("\x7f" * 2 + '"A2", "expected_revision": 4}\x13')
    chat.asked("y run this")
    chat.send("y")
    chat.expect("edited")
    assert finished(chat) == ("""ap-1 edit {"order_id": "A2", "expected_revision": 4} ''""")


def test_what_an_edit_would_change_is_shown_before_it_is_agreed_to(chat):
    chat.send("e")
    chat.expect('"expected_revision": 3\n}')
    chat.send("\x7f" * 60 + '{"order_id": "A2"}\x13')
    chat.expect("as you edited it")
    chat.expect("order A2: shipped → cancelled")
    chat.asked("y run this")
    assert chat.log == [ASKED]
    chat.send("e")  # once more: what was typed is still there
    chat.expect('{"order_id": "A2"}')
    chat.send("\x7f" * 3 + '3"}\x13')
    chat.expect("order A3: shipped → cancelled")
    chat.asked("y run this")
    chat.send("q")
    chat.asked("y approve")
    assert chat.log == [ASKED]


def test_an_edit_that_changes_nothing_decides_nothing(chat):
    for keys, said in (("\x13", "That is what was proposed"), ("\x1b", "Nothing was changed.")):
        chat.send("e")
        chat.expect('"expected_revision": 3\n}')
        chat.send(keys)
        chat.expect(said)
        chat.asked("y approve")
    assert chat.log == [ASKED]


def test_always_shows_its_scope_first_and_can_be_revoked(chat):
    chat.send("a")
    chat.expect("Always, for this session, until 2026-01-02 11:04 UTC: cancel_order of order A1")
    chat.asked("y agree")
    chat.send("n")
    chat.asked("y approve")
    assert chat.log == [ASKED]
    chat.send("a")
    chat.asked("y agree")
    chat.send("y")
    assert finished(chat).startswith("ap-1 approve")
    chat.say("/rules")
    chat.expect("ru-1  cancel_order: cancel_order of order A1 · until 2026-01-02 11:04 UTC")
    chat.expect("agreed by ada")
    chat.ready().say("/rules revoke ru-1")
    chat.expect("Revoked ru-1")
    chat.ready().say("/rules")
    chat.expect('No "always" rules')


def test_what_a_session_may_do_is_shown_and_changed(chat):
    chat.send("q")
    chat.ready().say("/authority grant spend:eur")
    chat.expect("spend:eur  granted")
    chat.ready().say("/authority deny write:*")
    chat.expect("write:*    denied")
    chat.ready().say("/authority widen all")
    chat.expect("Use /authority, or /authority grant|deny|take-back EFFECT.")


def test_a_decision_elsewhere_closes_the_panel_and_the_session_goes_on(chat, tmp_path):
    FakeStore(tmp_path).decide("ap-1", Decision("reject", message="not now"), "bob", "cli")
    chat.expect(f"{CALL} was rejected by bob")
    chat.expect("cli: not now")
    assert finished(chat) == "resume"


def test_who_was_slower_is_told(chat, tmp_path):
    chat.send("n")
    chat.expect("Why not?")
    FakeStore(tmp_path).decide("ap-1", Decision("approve"), "bob", "cli")
    chat.send("no\r")
    chat.expect("ap-1 is already approved by bob")
    assert finished(chat) == "resume"


def test_a_decision_elsewhere_is_seen_at_the_prompt_and_what_was_typed_stays(chat, tmp_path):
    chat.send("q")
    chat.ready().send("half a mess")
    chat.expect_on_screen("› half a mess")
    FakeStore(tmp_path).decide("ap-1", Decision("approve"), "bob", "cli")
    chat.expect(f"{CALL} was approved {BOB}")
    chat.expect("Done as you decided.")
    chat.expect("› half a mess")
    chat.send("age\r")
    chat.expect("That is all.")
    assert chat.log == [ASKED, "resume", 'run "half a message" supersede=False']


def test_a_new_message_supersedes_only_when_confirmed(chat):
    chat.send("q")
    chat.expect("Later, or elsewhere: sayso chat -r s-fake01")
    chat.ready().say("something else")
    chat.asked("1 call waits; send anyway and nothing of it runs? y/N")
    chat.send("n")
    chat.expect("› something else")
    assert chat.log == [ASKED]
    chat.send("\r")
    chat.asked("y/N")
    chat.send("y")
    chat.expect("Not run, since you moved on: cancel_order")
    chat.expect("[ap-1]")
    chat.expect("That is all.")
    assert chat.log == [ASKED, 'run "something else" supersede=True']


def test_what_was_left_comes_back_with_approvals(chat):
    chat.send("\x1b")
    chat.expect("Left waiting: ap-1")
    chat.ready().say("/approvals")
    chat.asked("y approve")
    chat.send("y")
    assert finished(chat).startswith("ap-1 approve")


def test_each_of_several_is_decided_in_turn(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("cancel three")
        chat.asked("q leave them waiting")
        chat.send("d")
        for position, key in (("1 of 3", "y"), ("2 of 3", "n"), ("3 of 3", "y")):
            chat.expect(position)
            chat.asked("n reject")
            chat.send(key)
            if key == "n":
                chat.expect("Why not?")
                chat.send("keep it\r")
        chat.expect("Done as you decided.")
        assert chat.log[1:] == [
            "ap-1 approve null ''",
            "ap-2 reject null 'keep it'",
            "ap-3 approve null ''",
            "resume",
        ]


def test_approving_all_shows_each_whole_first(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("cancel three")
        chat.asked("A approve all 3")
        chat.send("A")
        shown = chat.asked("y approve all 3")
        assert [f'"order_id": "{order}"' in shown for order in ("A1", "A2", "B1")] == [True] * 3
        assert chat.log == ['run "cancel three" supersede=False']
        chat.send("y")
        chat.expect("Done as you decided.")
        assert [line.split()[:2] for line in chat.log[1:4]] == [
            [f"ap-{n}", "approve"] for n in (1, 2, 3)
        ]


def test_one_can_be_picked_and_the_rest_left(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("cancel three")
        chat.asked("1-3 pick one")
        chat.send("2")
        chat.asked("y approve")
        chat.send("y")
        chat.expect("2 calls wait for you")
        chat.asked("q leave them waiting")
        chat.send("q")
        chat.expect("Left waiting: ap-1, ap-3")
        chat.ready()
        assert chat.log[1:] == ["ap-2 approve null ''", "resume"]


@pytest.mark.parametrize(("key", "answer"), [("h", "happened"), ("n", "not happened")])
def test_what_is_in_doubt_is_settled_by_a_person(tmp_path, key, answer):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("cancel lost")
        chat.expect("Did this call happen?")
        chat.asked("h it happened")
        chat.send("y")  # is no answer to this question
        chat.expect("That key does nothing here.")
        chat.send(key)
        assert finished(chat) == f"ap-1 respond null {answer!r}"


@pytest.mark.parametrize("how", [["-r", "s-fake01"], ["-c"]])
def test_the_panel_of_a_waiting_session_comes_first(tmp_path, how):
    FakeStore(tmp_path).save([CANCEL])
    with ChatTerminal(tmp_path, *how) as chat:
        before = chat.asked("y approve")
        assert "I will cancel it." in before
        assert "›  " not in before.replace("› cancel A1", "")
        chat.send("y")
        chat.expect("Done as you decided.")


def test_a_session_that_was_decided_meanwhile_goes_on_when_it_is_opened(tmp_path):
    store = FakeStore(tmp_path)
    store.save([CANCEL])
    store.decide("ap-1", Decision("approve"), "bob", "cli")
    with ChatTerminal(tmp_path, "-r", "s-fake01") as chat:
        chat.expect(f"{CALL} was approved {BOB}")
        chat.expect("Done as you decided.")
        chat.ready()
        assert chat.text.count("was approved") == 1
        assert chat.log == ["resume"]


def test_what_was_decided_at_the_panel_is_no_news_when_it_is_opened_again(tmp_path):
    store = FakeStore(tmp_path)
    store.save([CANCEL, *SCENES["cancel three"][1:]])
    store.decide("ap-1", Decision("approve"), "ada", "chat")
    store.decide("ap-2", Decision("reject", message="keep it"), "bob", "cli")
    with ChatTerminal(tmp_path, "-r", "s-fake01") as chat:
        before = chat.asked("y approve")
        assert 'ap-2 cancel_order(order_id="A2") was rejected by bob' in before
        assert "ap-1" not in before


def test_one_of_several_decided_elsewhere_is_said_and_not_asked(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("cancel three")
        chat.asked("q leave them waiting")
        chat.send("d")
        chat.expect("1 of 3")
        chat.asked("n reject")
        FakeStore(tmp_path).decide("ap-2", Decision("reject", message="keep it"), "bob", "cli")
        chat.expect('ap-2 cancel_order(order_id="A2") was rejected by bob')
        chat.send("y")
        shown = chat.expect("3 of 3")
        assert "2 of 3" not in shown
        chat.asked("n reject")
        chat.send("y")
        chat.expect("Done as you decided.")
        chat.ready()
        assert chat.text.count("was rejected by bob") == 1


def test_a_decision_elsewhere_during_a_question_is_not_lost(chat, tmp_path):
    chat.send("q")
    chat.ready().say("something else")
    chat.asked("1 call waits; send anyway and nothing of it runs? y/N")
    FakeStore(tmp_path).decide("ap-1", Decision("approve"), "bob", "cli")
    chat.send("n")
    chat.expect(f"{CALL} was approved {BOB}")
    chat.expect("Done as you decided.")
    chat.expect("› something else")
    assert chat.log == [ASKED, "resume"]


def test_what_waits_in_other_sessions_is_counted(tmp_path):
    store = FakeStore(tmp_path)
    others = [CANCEL.model_copy(update={"id": f"ap-{n}", "session": "s-else"}) for n in (7, 8)]
    store.save([CANCEL, *others])
    with ChatTerminal(tmp_path, "-r", "s-fake01") as chat:
        chat.asked("y approve")
        chat.send("q")
        chat.ready().say("/approvals")
        chat.expect("2 more wait in other sessions: sayso approvals")
        chat.asked("y approve")
        chat.send("y")
        chat.expect("Done as you decided.")
        store.save([record for record in store.all() if record.id != "ap-7"])
        chat.ready().say("/approvals")
        chat.expect("Nothing waits for you in this session.")
        chat.expect("1 waits in other sessions: sayso approvals")
        store.save([others[0].model_copy(update={"id": f"ap-{n}"}) for n in range(300)])
        chat.ready().say("/approvals")
        chat.expect("over 100 wait in other sessions: sayso approvals")


def test_a_session_that_does_not_exist_is_an_error_of_use(tmp_path):
    with ChatTerminal(tmp_path, "-r", "s-none") as chat:
        chat.expect("No session 's-none'. There is: s-fake01.")
        assert chat.close() == 2
        assert chat.is_restored()


def test_the_scenes_are_pending():
    assert {a.status for scene in SCENES.values() for a in scene} == {"pending"}
