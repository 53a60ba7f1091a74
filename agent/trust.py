"""Trust in the current folder: what it would bring, and whether a person has confirmed it.

A cloned folder may hold a ``.env`` that sends every prompt elsewhere, an ``.mcp.json`` that
starts a program, or a ``policy.yaml`` that allows writes unasked. So these files are read once, as
bytes; what was read is shown, hashed and, when confirmed, used. Nothing is read a second time, and
one changed byte asks again.

Code is bound to its contents for as long as a session lives: the name of a file of tools goes
on with the SHA-256 of what was read (``/path/mine.py@sha256:…``), and other contents under this
name do not run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from agent.config import NOT_FROM_A_FOLDER, VARIABLES, mask, parse_env, show_value
from agent.errors import UntrustedFolder, UsageError
from agent.safe_text import one_line

ENV, MCP, POLICY = ".env", ".mcp.json", "policy.yaml"
SIZE_LIMIT = 256 * 1024
"""Bytes of one file; nobody confirms more than that by looking at it."""

TRUST_FILE = "trust.json"

_BOM = "\ufeff"

_TOOLS_FILE = re.compile(r"(?P<path>.+\.py)(@sha256:(?P<sha256>[0-9a-f]*))?", re.DOTALL)


@dataclass(frozen=True)
class FolderItems:
    """What a folder would bring.

    Args:
        texts: The files found, by name: ``.env``, ``.mcp.json``, ``policy.yaml``, and the prompt
            or the tool files that the ``.env`` names, by the path written there.
        variables: The ``.env`` as written; :func:`agent.config.load_settings` picks from it.
        refused: One sentence for each file that is there and cannot be used.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to confirm."""
        return bool(self.texts)

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 (hex) of each file's contents, by name."""
        return {name: _digest(text.encode()) for name, text in self.texts.items()}

    @property
    def entries(self) -> list[str]:
        """Which of ``.env``, ``.mcp.json`` and ``policy.yaml`` there are: used, or ignored.

        A file that the ``.env`` names comes with it, and a session that was started with such a
        file goes on with it in any case.
        """
        return [name for name in self.texts if name in (ENV, MCP, POLICY)]

    def bind(self, tools: Sequence[str]) -> tuple[str, ...]:
        """Names of tools, files of this folder among them bound to the contents read here."""
        digests = self.digests
        bound = []
        for name in tools:
            file, digest = ToolsFile.of(name), digests.get(str(_expanded(name)))
            bound.append(str(replace(file, sha256=digest)) if file and digest else name)
        return tuple(bound)

    def without(self, name: str, why: str) -> FolderItems:
        """The rest of them, where a file cannot be used after all; ``why`` is a sentence."""
        texts = {other: text for other, text in self.texts.items() if other != name}
        return replace(self, texts=texts, refused=(*self.refused, why))

    def describe(self, servers: Sequence[str] = (), policy: Sequence[str] = ()) -> list[str]:
        """Lines to show before a person confirms: names and targets, secrets masked.

        Args:
            servers: The lines about the servers of ``.mcp.json``, whose format is not known
                here; fit to be shown.
            policy: The same about the rules of ``policy.yaml``.
        """
        lines = []
        for name, text in self.texts.items():
            lines.append(one_line(name))
            if name == ENV:
                lines += [f"  {line}" for line in _describe_env(self.variables)]
            elif name == MCP:
                lines += [f"  {line}" for line in servers or ["no servers"]]
            elif name == POLICY:
                lines += [f"  {line}" for line in policy or [f"{len(text.splitlines())} lines"]]
            else:
                lines.append(f"  named in {ENV}; {len(text.splitlines())} lines")
        return lines


@dataclass(frozen=True)
class Trust:
    """Whether a folder's items may be used; true or false in conditions.

    Args:
        trusted: A person has confirmed exactly these contents, or there is nothing to confirm.
        reason: Why not, for the person who is asked; empty when trusted.
    """

    trusted: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.trusted


def find_items(folder: Path) -> FolderItems:
    """Read what the folder would bring, once; use the returned contents, never the files again.

    A ``.env`` goes with the files it names: when one of these cannot be used, neither can it.
    What an ``.mcp.json`` or a ``policy.yaml`` says is not looked at.
    """
    texts: dict[str, str] = {}
    variables: dict[str, str] = {}
    refused: list[str] = []
    try:
        env = read_small(folder / ENV)
        if env is not None:
            env = env.removeprefix(_BOM)
            variables = parse_env(env)
            texts = {ENV: env} | _read_all(folder, _files_named_in(variables))
    except UsageError as error:
        variables = {}
        refused.append(f"{one_line(str(folder / ENV))} is not used: {error}")
    for name in (MCP, POLICY):
        try:
            text = read_small(folder / name)
            if text is not None:
                texts[name] = text.removeprefix(_BOM)
        except UsageError as error:
            refused.append(f"{one_line(str(folder / name))} is not used: {error}")
    return FolderItems(texts, variables, tuple(refused))


def is_trusted(folder: Path, items: FolderItems, home: Path) -> Trust:
    """Whether a person has confirmed exactly these contents for this folder.

    Args:
        folder: The folder; symbolic links are followed, so that one folder has one name.
        items: What :func:`find_items` returned.
        home: The state folder, where confirmations are kept.
    """
    if not items:
        return Trust(True)
    folders, damage = _load(home)
    known = folders.get(_key(folder), {}).get("files", {})
    changed = [name for name, digest in items.digests.items() if known.get(name) != digest]
    if not changed:
        return Trust(True)
    if damage:
        return Trust(False, damage)
    if any(name in known for name in changed):
        return Trust(False, f"Changed since it was confirmed: {_names(changed)}.")
    return Trust(False, f"Not confirmed yet: {_names(changed)}.")


def remember(folder: Path, items: FolderItems, home: Path) -> None:
    """Record that a person has confirmed these contents; replaces what was known of the folder.

    Raises:
        UsageError: The state folder cannot be written.
    """
    now = datetime.now(UTC).isoformat()
    try:
        with locked(home):
            folders, _ = _load(home)
            folders[_key(folder)] = {"confirmed_at": now, "files": items.digests}
            write_private(home / TRUST_FILE, json.dumps({"folders": folders}, indent=2))
    except OSError as error:
        raise UsageError(
            f"{home / TRUST_FILE} cannot be written: {error.strerror}. "
            "The confirmation was not recorded; you will be asked again."
        ) from error


# --- code by its contents -------------------------------------------------------------------


@dataclass(frozen=True)
class ToolsFile:
    """A file of a person's own tools; as a string, its name among the tools of a session.

    Args:
        path: Its real path, so that the session can be carried on from any folder.
        sha256: Hex digest of the contents that may run; ``None`` for whatever is there.
    """

    path: Path
    sha256: str | None = None

    @classmethod
    def of(cls, name: str) -> ToolsFile | None:
        """The file that a name of tools stands for; ``None`` when it is the name of no file."""
        found = _TOOLS_FILE.fullmatch(name)
        return cls(_expanded(found["path"]).resolve(), found["sha256"]) if found else None

    def __str__(self) -> str:
        return str(self.path) if self.sha256 is None else f"{self.path}@sha256:{self.sha256}"

    def read(self) -> bytes:
        """The contents, for the one time that they are read: what is returned is what may run.

        Raises:
            UntrustedFolder: They are not those of the digest.
            UsageError: There is no such file, or it cannot be read.
        """
        if not self.path.is_file():
            raise UsageError(f"Tools {self.path}: there is no such file.")
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise UsageError(f"Tools {self.path}: cannot be read: {error.strerror}.") from error
        if self.sha256 is not None and _digest(data) != self.sha256:
            raise UntrustedFolder(
                f"Tools {self.path}: the file is not what it was when it was confirmed or the "
                "session was started, so nothing of it was run. Look at what is in it. To use it "
                f"as it is now, name it yourself: sayso --tools {shlex.quote(str(self.path))} …, "
                "or SAYSO_TOOLS in the environment."
            )
        return data

    def bound(self) -> ToolsFile:
        """The file with the digest of what it holds now, unless it has one already."""
        return self if self.sha256 is not None else replace(self, sha256=_digest(self.read()))


def tools_files(names: Sequence[str]) -> list[ToolsFile]:
    """The files among names of tools."""
    return [file for name in names if (file := ToolsFile.of(name))]


def bind(names: Sequence[str]) -> list[str]:
    """Names of tools, with every file bound to its contents.

    Raises:
        UsageError: A file that cannot be read.
    """
    return [str(file.bound()) if (file := ToolsFile.of(name)) else name for name in names]


def as_given(recorded: Sequence[str], own: Sequence[str]) -> list[str]:
    """The tools of a session as this process may load them.

    Args:
        recorded: The names that the session was started with.
        own: Those this process was given itself. A file among them is used as it was given
            here: a person has just named it, or confirmed it as it is now.
    """
    mine = {file.path: file for file in tools_files(own)}
    names = []
    for name in recorded:
        file = ToolsFile.of(name)
        # A file without a digest was never bound to anything: no contents are the right ones.
        kept = file and mine.get(file.path, replace(file, sha256=file.sha256 or ""))
        names.append(str(kept) if kept else name)
    return names


def changed_files(recorded: Sequence[str], own: Sequence[str]) -> list[Path]:
    """The files of a session that :func:`as_given` takes with other contents than recorded."""
    now = {file.path: file.bound() for file in tools_files(as_given(recorded, own))}
    return [
        file.path for file in tools_files(recorded) if now[file.path].sha256 != (file.sha256 or "")
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- reading --------------------------------------------------------------------------------


def read_small(path: Path, limit: int = SIZE_LIMIT) -> str | None:
    """The text of a small regular file, or ``None`` where there is none.

    Args:
        path: Not followed where it is a symbolic link.
        limit: Bytes that it may have.

    Raises:
        UsageError: It cannot be used; the message begins with "it".
    """
    try:
        # NOFOLLOW: a link could show one file and be pointed at another. NONBLOCK: no waiting
        # for a pipe's writer.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError("it is a symbolic link; put the file itself there.") from error
        raise UsageError(f"it cannot be read ({error.strerror}).") from error
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):  # virtual environments are called .env too
            return None
        if not stat.S_ISREG(mode):
            raise UsageError("it is not a regular file.")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return small_text(file, limit)
    finally:
        os.close(handle)


def small_text(file: BinaryIO, limit: int = SIZE_LIMIT) -> str:
    """The rest of an open file as text, if it is small.

    Args:
        limit: Bytes that it may have.

    Raises:
        UsageError: It cannot be used; the message begins with "it".
    """
    data = file.read(limit + 1)
    if len(data) > limit:
        raise UsageError(f"it is larger than {limit // 1024} KiB.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"it is not UTF-8 text (byte {error.start}).") from error


def _read_all(folder: Path, names: list[str]) -> dict[str, str]:
    """The files of a ``.env`` that are there; one that is missing is a fault of the settings."""
    texts = {}
    for name in names:
        try:
            text = read_small(folder / name)
        except UsageError as error:
            raise UsageError(f"it names {one_line(name)}, and {error}") from error
        if text is not None:
            texts[name] = text
    return texts


def _files_named_in(variables: Mapping[str, str]) -> list[str]:
    """Files that a ``.env`` has used as code or as the prompt: they are confirmed with it."""
    tools = [part.strip() for part in variables.get("SAYSO_TOOLS", "").split(",")]
    paths = [variables.get("SAYSO_PROMPT", "").strip(), *(t for t in tools if t.endswith(".py"))]
    return [str(_expanded(path)) for path in dict.fromkeys(paths) if path]


def _expanded(name: str) -> Path:
    """``~`` and ``~name`` made whole. As in a shell, a name that is nobody's stays as it is."""
    return Path(os.path.expanduser(name))


# --- showing --------------------------------------------------------------------------------


def _names(names: list[str]) -> str:
    return ", ".join(one_line(name) for name in names)


def _describe_env(variables: Mapping[str, str]) -> list[str]:
    """``NAME=value`` for what would be used; names alone for the rest."""
    used = [n for n in variables if n in VARIABLES and n not in NOT_FROM_A_FOLDER]
    lines = [f"{name}={one_line(show_value(name, variables[name]))}" for name in used]
    refused = [name for name in variables if name in NOT_FROM_A_FOLDER]
    if refused:
        lines.append(f"ignored, a folder cannot set it: {_names(refused)}")
    others = [n for n in variables if n not in VARIABLES]
    if others:
        lines.append(f"not used: {_names([f'{n}={mask(variables[n])}' for n in others])}")
    return lines or ["no variables"]


# --- keeping --------------------------------------------------------------------------------


def _key(folder: Path) -> str:
    return str(folder.resolve())


def _load(home: Path) -> tuple[dict[str, Any], str]:
    """All confirmations by folder, and what is wrong with the file; then there are none."""
    path = home / TRUST_FILE
    try:
        folders = json.loads(path.read_text(encoding="utf-8"))["folders"]
        if not all(isinstance(known["files"], dict) for known in folders.values()):
            raise TypeError("a folder without its files")
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return {}, f"{path} is damaged, so no folder counts as confirmed ({error})."
    return folders, ""


@contextlib.contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the files of confirmations in the state folder, which is made where there is none.

    Whoever reads one, changes it and writes it back does so within, so that two processes do
    not lose each other's changes. Not to be nested.

    Raises:
        OSError: The folder cannot be made or opened.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner only.

    Raises:
        OSError: It cannot be written; what was there is still there.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
