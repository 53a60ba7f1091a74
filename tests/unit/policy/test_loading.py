"""The files that hold, as they are found; and the profiles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import InvalidPolicy, UsageError
from agent.policy import PROFILES, Policy
from agent.policy.grants import outside
from agent.policy.loading import load_file, load_policy, what_it_allows
from agent.toolset import every_bundled_tool
from tools.contract import contract_of

ASKS = "version: 1\ndefault: {writes: ask}\n"


def test_the_layers_are_read_and_named_by_their_contents(tmp_path: Path) -> None:
    path = tmp_path / "org.yaml"
    path.write_text(ASKS)
    both = load_policy(path, "version: 1\n")

    assert both.organisation is not None
    assert both.organisation.file == str(path)
    assert both.project is not None
    assert both.digest.startswith("organisation:")
    assert load_policy(None, None) == Policy()
    assert Policy().digest == ""
    path.write_text(ASKS + "\n")
    assert load_policy(path, "version: 1\n").digest != both.digest


def test_a_fault_of_either_stops_both(tmp_path: Path) -> None:
    path = tmp_path / "org.yaml"
    path.write_text(ASKS)
    with pytest.raises(InvalidPolicy, match=r"policy\.yaml:1:1: "):
        load_policy(path, "rules: []")
    path.write_text("rules: []")
    with pytest.raises(InvalidPolicy, match=r"org\.yaml:1:1: "):
        load_policy(path, ASKS)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"version: 1 # \xe9")
    (tmp_path / "large").write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    os.mkfifo(tmp_path / "pipe")
    for name, why in [
        ("gone", "there is no such file"),
        (".", "no regular file"),
        ("pipe", "no regular file"),
        ("x" * 5_000, "cannot be read"),
        ("latin", "not UTF-8 text"),
        ("large", "larger than 4096 KiB"),
    ]:
        with pytest.raises(UsageError, match=why):
            load_file(tmp_path / name)


def test_a_person_sees_what_a_folders_policy_would_allow() -> None:
    lines = what_it_allows(
        "version: 1\ndefault: {writes: allow}\nrules:\n"
        "  - {name: a, tools: refund_order, when: amount <= 5, verdict: allow}\n"
        '  - {name: b, effects: "write:*", when: "user == \\"\\u202e\\"", verdict: allow}\n'
        "  - {name: c, verdict: deny}\n"
    )
    assert lines[:3] == [
        "3 rules",
        "allows every write that no rule is about, unasked",
        "allows unasked: a (refund_order, when amount <= 5)",
    ]
    assert "\u202e" not in "".join(lines)
    assert what_it_allows("rules: []")[0] == "it cannot be used:"


def test_a_profile_is_what_its_name_says(tmp_path: Path) -> None:
    for tool in every_bundled_tool(tmp_path):
        effects = contract_of(tool).effects
        if not callable(effects):
            granted = not outside(effects, PROFILES["read-only"])
            assert granted == all(effect.startswith("read:") for effect in effects), tool.name
    assert outside(frozenset({"network:web"}), PROFILES["read-only"])
    sends = {"write:mail", "disclose:email", "disclose:email.ann@example.com"}
    assert not outside(frozenset({"write:orders", "spend:refund-eur", *sends}), PROFILES["desk"])
    assert outside(frozenset({"spend:eur"}), PROFILES["desk"])
    assert not outside(frozenset({"network:web", "network:web.x.org"}), PROFILES["research"])
    assert outside(frozenset({"disclose:email"}), PROFILES["research"])


def test_without_conditions_their_library_is_not_imported() -> None:
    """It brings a command line of its own, a fifth of a second that no start should pay for."""
    program = (
        "import sys\n"
        "from agent.policy import Policy, Proposed, decide, read_policy\n"
        "policy = Policy(read_policy('version: 1\\nrules: [{name: a, verdict: deny}]'))\n"
        "print(decide(policy, Proposed('t', {}, frozenset())).behavior, 'cel' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "deny False\n", done.stderr
