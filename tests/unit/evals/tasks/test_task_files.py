"""Task files: what is wrong with one is said with its line; the bundled ones are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import InvalidFile, NotFound
from agent.evals.tasks.task import bundled_worlds, read_tasks, read_world
from agent.policy import read_policy

HEAD = """\
world: small
domains: [orders]
policy: policy.md
ids: [order_id]
state:
  orders.db: {}
tasks:
"""
TASK = """\
  - id: one
    says: Cancel order A1.
    calls:
      - {call: get_order, args: {order_id: A1}}
"""


def faults_of(folder: Path, text: str, policy: str | None = "Be kind.") -> tuple[str, ...]:
    (folder / "small.yaml").write_text(text)
    if policy is not None:
        (folder / "policy.md").write_text(policy)
    with pytest.raises(InvalidFile) as raised:
        read_tasks(folder / "small.yaml")
    return raised.value.faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (HEAD + TASK + "    cals: []\n", "small.yaml:12: cals: there is no such field"),
        (HEAD + TASK + TASK, "small.yaml:12: 'one' is the id of the task in small.yaml:8 too"),
        (HEAD + TASK + "    tags: [question]\n", "small.yaml:8: one needs a question"),
        (HEAD + TASK + "    tags: [maybe]\n", "small.yaml:12: tags: Input should be"),
        (HEAD + TASK.replace("args: {", "any: [x], args: {"), "small.yaml:11: 'x' may be anything"),
        (HEAD + "  - id: two\n    says: 'oh\n", "small.yaml:"),
        (HEAD.replace("[orders]", "[shop]") + TASK, "small.yaml:2: domains: Input should be"),
        (HEAD.replace("policy.md", "gone.md") + TASK, "small.yaml:3: gone.md cannot be read"),
        (HEAD.replace("policy.md", "../x.md") + TASK, "small.yaml:3: ../x.md is to be the name"),
        (HEAD.replace("policy.md", "/etc/passwd") + TASK, "small.yaml:3: /etc/passwd is to be the"),
        (HEAD.replace("state:", "pages: {x: y}\nstate:") + TASK, "small.yaml:5: pages are of no"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    (found, *_) = faults_of(tmp_path, text)
    assert found.startswith(fault)


def test_an_unknown_world_names_those_there_are() -> None:
    with pytest.raises(NotFound, match="bank, courses, grocery, mail, retail"):
        read_world("shop")


def test_the_retail_world_has_the_tasks_it_should() -> None:
    tasks = read_world("retail").tasks.values()
    assert len(tasks) >= 15
    assert sum("ordered" in task.tags for task in tasks) >= 1
    assert sum("refused" in task.tags for task in tasks) >= 3
    assert sum("question" in task.tags for task in tasks) >= 2


@pytest.mark.parametrize("name", bundled_worlds())
def test_the_rules_of_a_bundled_world_can_be_read(name: str) -> None:
    file = read_world(name)
    assert file.rules is not None
    read_policy(file.rules)
    assert file.policy.startswith("# Policy")


def test_the_digest_is_of_all_that_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(HEAD + TASK)
    digests = set()
    for policy in ("Be kind.", "Be quick."):
        (tmp_path / "policy.md").write_text(policy)
        digests.add(read_tasks(tmp_path / "small.yaml").digest)
    assert len(digests) == 2
