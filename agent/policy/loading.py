"""The files that hold, read: the organisation's by its setting, a folder's as it was confirmed."""

from __future__ import annotations

from pathlib import Path

from agent.errors import InvalidPolicy, UsageError
from agent.policy.catalogue import Catalogue
from agent.policy.decide import Policy
from agent.policy.model import PolicyFile
from agent.policy.reading import SIZE_LIMIT, read_policy
from agent.safe_text import one_line
from agent.trust import POLICY, small_text


def load_policy(
    organisation: Path | None, project: str | None, catalogue: Catalogue | None = None
) -> Policy:
    """Both layers.

    Args:
        organisation: The file that ``SAYSO_POLICY`` names.
        project: The text of a folder's ``policy.yaml``, as a person confirmed it; the file is not
            read again.
        catalogue: The tools that may be called; with it, a rule that can never match is a fault.

    Raises:
        InvalidPolicy: One of them is wrong; each fault with file, line and column.
        UsageError: The organisation's file cannot be read.
    """
    above = load_file(organisation, catalogue) if organisation is not None else None
    below = read_policy(project, POLICY, catalogue) if project is not None else None
    return Policy(above, below)


def load_file(path: Path, catalogue: Catalogue | None = None) -> PolicyFile:
    """One file by its path.

    Raises:
        InvalidPolicy: It is wrong.
        UsageError: It is not there, too large, or no text.
    """
    name = one_line(str(path))
    try:
        if not path.is_file():  # neither a folder nor a pipe that somebody would have to fill
            there = "it is no regular file" if path.exists() else "there is no such file"
            raise UsageError(f"{there}.")
        with path.open("rb") as file:
            text = small_text(file, SIZE_LIMIT)
    except OSError as error:
        raise UsageError(f"Policy {name}: it cannot be read ({error.strerror}).") from error
    except UsageError as error:
        raise UsageError(f"Policy {name}: {error}") from error
    return read_policy(text, name, catalogue)


def what_it_allows(text: str) -> list[str]:
    """Lines about a folder's policy for the person who is asked to confirm it.

    What loosens is said whole: each rule that lets calls run unasked.
    """
    try:
        file = read_policy(text)
    except InvalidPolicy as error:
        return ["it cannot be used:", *(f"  {one_line(fault)}" for fault in error.faults)]
    count = len(file.rules)
    lines = [f"{count} rule{'' if count == 1 else 's'}"]
    if file.writes == "allow":
        lines.append("allows every write that no rule is about, unasked")
    for rule in file.rules:
        if rule.verdict == "allow":
            about = ", ".join(rule.tools)
            effects = f", {', '.join(rule.effects)}" if rule.effects else ""
            when = f", when {rule.when.source}" if rule.when else ""
            lines.append(one_line(f"allows unasked: {rule.name} ({about}{effects}{when})"))
    return lines
