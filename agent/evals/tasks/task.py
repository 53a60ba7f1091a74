"""Task files: a world, its written policy, and tasks with the calls that are right. Read from YAML.

::

    world: retail
    domains: [orders]
    policy: retail.md
    rules: retail.rules.yaml
    ids: [order_id]
    state:
      orders.db:
        leaves_out: {orders: [updated_at]}
    tasks:
      - id: cancel-one
        says: Cancel order B1, thanks.
        calls:
          - {call: get_order, args: {order_id: B1}}
          - {call: cancel_order, args: {order_id: B1, expected_revision: 1}}
        goal:
          - {table: orders, row: {id: B1, status: cancelled}}

``docs/tasks.md`` says what each field means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.errors import InvalidFile, NotFound
from agent.evals.written import Written, read_written

Tag = Literal["ordered", "refused", "question"]
"""``ordered``: two writes at least, in this order only. ``refused``: nothing is to be changed.
``question``: a value is missing that only the user knows."""

Domain = Literal["orders", "grocery", "bank", "mail", "web", "courses"]
"""``courses`` is reached over MCP."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GoldCall(_Strict):
    """A call that is right.

    Args:
        any: Names of arguments whose value is free, such as the text of a mail.
    """

    call: str
    args: dict[str, Any] = Field(default_factory=dict)
    any: list[str] = Field(default_factory=list)


class GoalRow(_Strict):
    """A row that the goal state has: these columns among others."""

    table: str
    row: dict[str, Any]


class Task(_Strict):
    """What a user wants, and what is right.

    Args:
        says: The first message.
        facts: What the user tells only when asked, by the words that ask for it.
        calls: The right calls, reads and writes, in order.
        careless: The writes of somebody who takes the user's words literally and looks nothing
            up; left out: the right writes.
        goal: Rows that the right calls have to lead to.
        say: What has to be said, each of it.
        never_say: What must not be said.
        never: Tools that must not run.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")]
    says: Annotated[str, Field(min_length=1)]
    facts: dict[str, str] = Field(default_factory=dict)
    calls: list[GoldCall] = Field(default_factory=list)
    careless: list[GoldCall] | None = None
    goal: list[GoalRow] = Field(default_factory=list)
    say: list[str] = Field(default_factory=list)
    never_say: list[str] = Field(default_factory=list)
    never: list[str] = Field(default_factory=list)
    tags: list[Tag] = Field(default_factory=list)


class StateOf(_Strict):
    """What of a database counts: all tables and columns but these.

    Args:
        leaves_out: Columns by table that no goal can fix, such as times and running numbers.
        only_whether: Columns of which it only counts whether they have a value.
    """

    leaves_out: dict[str, list[str]] = Field(default_factory=dict)
    only_whether: dict[str, list[str]] = Field(default_factory=dict)


class WorldWritten(_Strict):
    """A file of tasks.

    Args:
        domains: The bundled tools there are.
        policy: The file of the written policy, beside this one.
        rules: A policy file (``docs/policy.md``) that holds what of it the tools do not.
        grant: The session's authority, as ``--grant`` takes it; left out: the default one.
        ids: Arguments that say what a call is about.
        pages: Pages of the web by address, where ``web`` is among the domains.
        state: The databases that count, by file name.
    """

    world: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    domains: Annotated[list[Domain], Field(min_length=1)]
    policy: str
    rules: str | None = None
    grant: list[str] = Field(default_factory=list)
    ids: list[str] = Field(default_factory=list)
    pages: dict[str, str] = Field(default_factory=dict)
    state: Annotated[dict[str, StateOf], Field(min_length=1)]
    tasks: Annotated[list[Task], Field(min_length=1)]


@dataclass(frozen=True)
class TaskFile:
    """A file of tasks, with its texts, and where things stand in it.

    Args:
        policy: The written policy.
        rules: The text of the policy file; ``None`` where there is none.
    """

    written: Written[WorldWritten]
    policy: str
    rules: str | None

    @property
    def world(self) -> WorldWritten:
        """What it says."""
        return self.written.value

    @property
    def name(self) -> str:
        """The name of the world."""
        return self.world.world

    @cached_property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks by id."""
        return {task.id: task for task in self.world.tasks}

    @cached_property
    def digest(self) -> str:
        """Of all that it says: results of other tasks are not results of these."""
        texts = [self.world.model_dump_json(), self.policy, self.rules or ""]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    def at(self, task: str, *where: str | int) -> str:
        """``retail.yaml:12``: where this part of a task is written."""
        number = next(n for n, one in enumerate(self.world.tasks) if one.id == task)
        return self.written.at("tasks", number, *where)


def bundled_worlds() -> list[str]:
    """The names of the worlds that come with sayso."""
    with as_file(files(__package__) / "bundled") as folder:
        return sorted(path.stem for path in folder.glob("*.yaml") if "." not in path.stem)


def read_world(name: str) -> TaskFile:
    """A bundled world by name, or a file of tasks by path.

    Raises:
        NotFound: There is neither.
        InvalidFile: It cannot be used; each fault with its line.
    """
    if name.endswith((".yaml", ".yml")):
        return read_tasks(Path(name))
    if name not in (known := bundled_worlds()):
        raise NotFound("world", name, known, "Or give a file of tasks, such as tasks.yaml.")
    with as_file(files(__package__) / "bundled") as folder:
        return read_tasks(folder / f"{name}.yaml")


def read_tasks(path: Path) -> TaskFile:
    """A file of tasks.

    Raises:
        InvalidFile: It cannot be used; each fault with its line.
    """
    written = read_written(path, WorldWritten)
    if faults := list(_faults(written)):
        raise InvalidFile(faults)
    world = written.value
    policy = _beside(path, world.policy, written.at("policy"))
    rules = _beside(path, world.rules, written.at("rules")) if world.rules else None
    return TaskFile(written, policy, rules)


def _beside(path: Path, name: str, at: str) -> str:
    """The text of a file in the same folder: a task file that was got from somebody else must not
    put another file of this machine into a prompt."""
    if Path(name).name != name or (path.parent / name).is_symlink():
        raise InvalidFile([f"{at}: {name} is to be the name of a file beside this one"])
    try:
        return (path.parent / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile([f"{at}: {name} cannot be read ({error})"]) from None


def _faults(written: Written[WorldWritten]) -> Iterator[str]:
    world, first = written.value, dict[str, str]()
    if world.pages and "web" not in world.domains:
        yield f"{written.at('pages')}: pages are of no use without the domain web"
    for number, task in enumerate(world.tasks):
        at = written.at("tasks", number)
        if task.id in first:
            yield f"{at}: {task.id!r} is the id of the task in {first[task.id]} too"
        first.setdefault(task.id, at)
        if "question" in task.tags and not task.facts:
            yield f"{at}: {task.id} needs a question, but the user has no facts to tell"
        for place, call in enumerate(task.calls):
            for name in set(call.any) - call.args.keys():
                at = written.at("tasks", number, "calls", place)
                yield f"{at}: {name!r} may be anything, but {call.call} has no value of it"
