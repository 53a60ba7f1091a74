"""A test suite of somebody else's, in a project of its own: the plugin, and sessions as tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.openai_server import Call, ModelServer, Reply, by_history

PARCELS = '''
from pydantic import BaseModel

from tools.contract import Contract, make_tool


class Parcel(BaseModel, extra="forbid"):
    number: str


def send_parcel(number: str) -> str:
    """Send a parcel."""
    return f"sent {number}"


send = make_tool(
    send_parcel,
    args=Parcel,
    contract=Contract(effects=frozenset({"write:parcels"}), open_world=False),
)
'''

TESTS = """
from agent.evals.reviewers import Rejects, approves
from agent.models.scripted import call, step


def test_a_parcel_is_sent_once_somebody_agrees(sayso):
    script = [step(call("send_parcel", number="P1")), "Sent."]
    session = sayso.session(script, tools=["tools/parcels.py"], reviewer=approves)
    session.say("Send P1").asked("send_parcel").ran("send_parcel", times=1)


def test_the_offline_model_does_what_a_reviewer_refuses(sayso):
    session = sayso.session(reviewer=Rejects("no"))
    session.say("Cancel order A1").ran("cancel_order")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with folders of the names of our packages, one of them with its own tools."""
    for name in ("tools", "agent", "prompts", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "tools" / "parcels.py").write_text(PARCELS)
    (tmp_path / "agent" / "notes.txt").write_text("Nothing of ours.")
    return tmp_path


def run_pytest(project: Path, *options: str, module: bool = True, **variables: str) -> str:
    """What pytest prints there, started from the project's folder with these variables set."""
    start = [sys.executable, "-m", "pytest"] if module else [Path(sys.executable).parent / "pytest"]
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:cov", "-p", "no:xdist"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "SAYSO"))}
    ended = subprocess.run(
        [*start, *plain, *options],
        cwd=project, env=environment | variables, capture_output=True, text=True, timeout=110,
        check=False,
    )  # fmt: skip
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("module", [True, False], ids=["python -m pytest", "pytest"])
def test_it_works_in_a_project_with_folders_named_as_ours(project: Path, module: bool) -> None:
    (project / "tests" / "test_parcels.py").write_text(TESTS)
    told = run_pytest(project, "--sayso-figures", module=module)
    assert "1 failed, 1 passed" in told
    assert "Deviation: It went another way: cancel_order was to be: ran." in told
    story = told.split("It went another way", 1)[1]
    assert "→   2  cancel_order(order_id=" in story
    assert "expecting.py" not in story  # the test's own line is shown, and nothing of ours
    assert "send_parcel" not in story
    assert "is_sent_once_somebody_agrees: 2 steps, 1 calls, 1 writes, 1 asked, 30 tokens" in told


def test_a_model_that_is_named_is_asked_where_a_test_has_no_script(project: Path) -> None:
    (project / "tests" / "test_it.py").write_text(
        dedent("""
        def test_it(sayso):
            session = sayso.session()
            session.say("What of A1?").called_exactly("get_order").said("It is pending.")
        """)
    )
    with ModelServer() as server:
        asks = Reply(tool_calls=(Call("get_order", {"order_id": "A1"}),))
        server.script(by_history([asks, Reply("It is pending.")]))
        told = run_pytest(
            project,
            "--sayso-model=openai:test",
            OPENAI_BASE_URL=server.url,
            OPENAI_API_KEY="k",
            SAYSO_MODEL="offline",
        )
        assert "1 passed" in told
        assert [request.body["model"] for request in server.requests] == ["test", "test"]


def test_a_package_named_as_ours_is_named_in_the_error(project: Path) -> None:
    (project / "agent" / "__init__.py").write_text("")
    (project / "tests" / "test_it.py").write_text("def test_it(sayso):\n    pass\n")
    (project / "tests" / "test_other.py").write_text("def test_other():\n    import agent\n")
    told = run_pytest(project)
    assert "1 passed, 1 error" in told  # a test that does not ask for it is not disturbed
    assert "The package 'agent' of this project" in told
    assert "A folder of that name without an __init__.py is no package" in told


def test_the_page_on_testing_shows_what_works(project: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.DOTALL)
    (project / "tests" / "test_example.py").write_text(example)
    assert "2 passed" in run_pytest(project)


def test_what_cannot_be_set_up_is_said_in_words(project: Path) -> None:
    (project / "tests" / "test_it.py").write_text(
        dedent("""
        import pytest
        from agent.errors import UsageError

        def test_it(sayso):
            with pytest.raises(UsageError, match="nonsense"):
                sayso.session([], max_steps="nonsense")
            with pytest.raises(UsageError, match="policy"):
                sayso.session([], policy="rules: 5")
        """)
    )
    assert "1 passed" in run_pytest(project)


# --- a session as a test ----------------------------------------------------------------------


def sayso(home: Path, *command: str) -> str:
    environment = os.environ | {"SAYSO_HOME": str(home), "SAYSO_REVIEWER": "ana"}
    ended = subprocess.run(
        [sys.executable, "-m", "agent", *command],
        env=environment, cwd=home.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode in (0, 3, 5), ended.stderr
    return ended.stdout


def test_a_session_is_saved_as_a_test_that_replays_it(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    sayso(home, "run", "--tools", "orders", "Cancel orders A1 and A4 if they are still pending")
    first, second = json.loads(sayso(home, "approvals", "--json"))
    order = "A1" if first["args"]["order_id"] == "A1" else "A4"
    sayso(home, "reject", second["id"], "--reason", 'not "that" one')
    sayso(home, "approve", first["id"])
    (session,) = json.loads(sayso(home, "sessions", "--json"))

    text = sayso(home, "show", session["id"], "--as-test")
    (project / "tests" / "test_recorded.py").write_text(text)
    assert "1 passed" in run_pytest(project)
    assert text.startswith(f'"""Recorded from {session["id"]}')
    assert "def test_cancel_orders_a1_and_a4_if_they_are_still_pending(sayso):" in text

    # The other answer is another trajectory.
    changed = text.replace('Decision("approve")', 'Decision("reject")', 1)
    (project / "tests" / "test_recorded.py").write_text(changed)
    told = run_pytest(project)
    assert f'cancel_order(order_id="{order}"' in told
    assert "was to be: ran." in told
