"""``sayso`` and ``python -m agent``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def main() -> int:
    """Run the command line and return its exit code; the console script's entry point."""
    if problem := foreign_package():
        print(problem, file=sys.stderr)  # noqa: T201
        return 2
    from agent.cli.main import main as run

    return run()


def foreign_package() -> str | None:
    """Why the packages that would be imported are not this program's own, if they are not.

    ``tools`` is a common name: a folder on Python's path may hold another package of that name.
    Nothing of it is imported to find out.
    """
    ours = Path(__file__).resolve().parent.parent
    for name in ("tools", "prompts"):
        spec = find_spec(name)
        origin = spec.origin if spec else None
        if origin is None or Path(origin).resolve().parent.parent != ours:
            return (
                f"sayso cannot start: Python would take another package for its own {name!r}: "
                f"{origin or 'there is none'}. Nothing of it was run. Start the command `sayso` "
                "rather than `python -m agent`, and see that PYTHONPATH does not name the folder "
                "that holds it."
            )
    return None


if __name__ == "__main__":
    sys.exit(main())
