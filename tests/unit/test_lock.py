"""The lock: complete, pinned, hashed, and without an address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# One entry: "name==1.2 ; marker \", then its hashes, one a line.
ENTRIES = {
    match[0]: Requirement(match[1])
    for match in re.finditer(
        r"^([a-z0-9]\S*==[^\\\n]*)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
        LOCK,
        flags=re.MULTILINE,
    )
}
PINS = {canonicalize_name(entry.name): entry for entry in ENTRIES.values()}


def declared() -> list[Requirement]:
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    return [Requirement(text) for texts in lists for text in texts]


def test_every_requirement_is_pinned_to_a_version_that_fits() -> None:
    for wanted in declared():
        (pin,) = PINS[canonicalize_name(wanted.name)].specifier
        assert pin.operator == "=="
        assert wanted.specifier.contains(pin.version), f"{wanted}, but {pin}; run make lock"


def test_the_lock_holds_hashed_pins_and_comments_and_nothing_else() -> None:
    rest = LOCK
    for entry in ENTRIES:
        rest = rest.replace(entry, "", 1)
    left = [line for line in rest.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert left == []
    assert "://" not in LOCK
