"""What an "always" rule covers: each constraint is checked on the arguments that would run."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from agent.store.records import RuleRecord


def is_about(rule: RuleRecord, tool: str, version: str) -> bool:
    """Whether a rule is one for this tool, as it was when a person agreed."""
    return rule.tool == tool and rule.tool_version in (None, version)


def covers(scope_args: Mapping[str, Mapping[str, Any]], args: Mapping[str, Any]) -> bool:
    """Whether arguments lie within a rule's scope; an unknown constraint covers nothing."""
    return all(_fits(constraint, args.get(name)) for name, constraint in scope_args.items())


def _fits(constraint: Mapping[str, Any], value: Any) -> bool:
    match dict(constraint):
        case {"equals": wanted} if len(constraint) == 1:
            return type(value) is type(wanted) and bool(value == wanted)
        case {"under": str(folder)} if len(constraint) == 1:
            return isinstance(value, str) and _is_under(folder, value)
    return False


def _is_under(folder: str, path: str) -> bool:
    if "\\" in path or "\0" in path:
        return False
    folder, path = posixpath.normpath(folder or "."), posixpath.normpath(path)
    if path.startswith(("/", "../")) or path in ("..", "."):
        return False
    return folder == "." or path.startswith(folder + "/")
