"""Text files inside one folder, and nothing outside it.

A path is walked a component at a time, each opened relative to the one before with
``O_NOFOLLOW``. So a symbolic link is refused wherever it stands, also one that is put there
between a check and its use: what was opened is what is used. Writes go to a temporary file in
the same folder and are renamed over the target: a reader, or a crash, sees the file before or
after, never between. (A process killed half way can leave a hidden ``*.sayso-tmp`` behind.)

Errors: ``WorkspaceError`` (and ``NotThere`` below it) means that nothing changed,
``WriteUnknown`` that it may have.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 2_000_000
MAX_DEPTH = 32
MAX_SCANNED = 20_000  # directory entries one listing looks at

_TEMPORARY = ".sayso-tmp"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a pipe that takes a file's place must not make us wait for its other end.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Protected = Sequence[Path | str] | Callable[[], Iterable[Path | str]]
Parts = tuple[str, ...]
Version = tuple[int, int, int, int]
"""Device, inode, size and modification time: whether a file is still the one that was read."""


class WorkspaceError(ValueError):
    """The request was refused or failed; nothing was changed. The text says what to do."""


class NotThere(WorkspaceError):
    """There is no such file, or no folder that could hold it."""


class WriteUnknown(Exception):
    """The new content was written, but it is not known whether it took the file's place."""


@dataclass(frozen=True)
class TextFile:
    """A file's text as it stands."""

    text: str
    version: Version

    @property
    def crlf(self) -> bool:
        """Whether every line ends in carriage return, newline."""
        return ends_in_crlf(self.text)


@dataclass(frozen=True)
class Entry:
    """One file of a listing; ``modified`` in seconds since 1970."""

    path: str
    size: int
    modified: float


@dataclass(frozen=True)
class Listing:
    """Files below a folder, by path. ``skipped`` links and special files are not in it."""

    files: tuple[Entry, ...]
    skipped: int
    complete: bool


def ends_in_crlf(text: str) -> bool:
    """Whether a text has lines, and each ends in carriage return, newline."""
    return 0 < text.count("\n") == text.count("\r\n")


def normalise_path(path: str, *, folder: bool = False) -> str:
    """The one spelling of a path inside a workspace: relative, ``/`` between, no ``.`` parts.

    Args:
        folder: The path names a folder; then it may be empty, meaning the whole workspace.

    Raises:
        WorkspaceError: It is absolute, leads upwards, or cannot be a file's name.
    """
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or parts[:1] == ("~",):
        raise WorkspaceError(
            f"{path!r} is outside the workspace. Paths are relative to it, such as notes/plan.md."
        )
    for part in parts:
        problem = _name_problem(part)
        if problem:
            raise WorkspaceError(f"{path!r} cannot be used: {problem}.")
    if len(parts) > MAX_DEPTH:
        raise WorkspaceError(f"The path has {len(parts)} parts, at most {MAX_DEPTH} are followed.")
    if not folder and (not parts or path.endswith("/")):
        raise WorkspaceError(f"{path!r} names a folder. Give a file's path, such as notes/plan.md.")
    return "/".join(parts)


def fold_path(path: str) -> str:
    """The path as a file system that ignores case and invisible characters would see it."""
    visible = "".join(char for char in path if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", visible).casefold()


def encode_text(text: str) -> bytes:
    """The text as it is written.

    Raises:
        WorkspaceError: It has a NUL or a lone surrogate, or is too large.
    """
    if "\0" in text:
        raise WorkspaceError("The text has a NUL character; nothing was changed.")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise WorkspaceError(
            f"The text has a broken character at {error.start}; nothing was changed."
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise WorkspaceError(
            f"The text has {len(data)} bytes, at most {MAX_FILE_BYTES} are written; nothing was "
            "changed. Split it into several files."
        )
    return data


def _name_problem(name: str) -> str:
    """Why a name is never a file's name here; empty when it may be one."""
    if name == "..":
        return "it leads out of the folder it is in"
    if "\\" in name:
        return "write / between folders, not \\"
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        return "it has a control character or broken text in it"
    if len(name.encode()) > 255:
        return "a name in it is longer than 255 bytes"
    return ""


class Workspace:
    """One folder whose text files may be listed, read and written.

    Args:
        root: The folder. A link to it is followed once, here.
        protected: Files and folders that are refused although they are inside, or a function
            that returns them, asked at every operation. ``.env*``, ``.mcp.json`` and ``.git``
            are refused in any folder.
    """

    def __init__(self, root: Path | str, protected: Protected = ()) -> None:
        self._given = Path(os.path.abspath(root))
        self.root = self._given.resolve()
        self._protected = protected

    def read(self, path: str) -> TextFile:
        """The text of one file.

        Raises:
            NotThere: With near names.
            WorkspaceError: It is protected, reached over a link, not a regular file, larger
                than ``MAX_FILE_BYTES``, or not UTF-8 text.
        """
        parts = self._admit(path)
        with _os_errors(path), self._folder(parts[:-1]) as folder:
            info = self._regular(folder, parts)
            if info is None:
                raise NotThere(self._missing(folder, parts))
            with open(os.open(parts[-1], _FILE_FLAGS, dir_fd=folder), "rb") as file:
                info = os.fstat(file.fileno())
                self._check_regular(info, parts)
                data = file.read(MAX_FILE_BYTES + 1)
        return _decode(data, path, _version(info))

    def write(self, path: str, text: str, *, expected: Version | None) -> None:
        """Give a file this text, whole, making missing folders. The file keeps its mode.

        Args:
            expected: The version that was read, ``None`` when there was no file; when that is
                no longer so, the file is left alone.

        Raises:
            WorkspaceError: It cannot be written; nothing was changed.
            WriteUnknown: The rename, or telling the disk about it, failed.
        """
        parts = self._admit(path)
        data = encode_text(text)
        with _os_errors(path), self._folder(parts[:-1], create=True) as folder:
            old = self._regular(folder, parts)
            if old is not None and not old.st_mode & 0o222:
                raise WorkspaceError(f"{path} is marked read-only; nothing was changed.")
            temporary = _write_temporary(folder, data, old)
            try:
                self._check_version(folder, parts, expected)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise
            _rename(folder, temporary, parts[-1], path)

    def list(self, folder: str = "", pattern: str | None = None) -> Listing:
        """The files below a folder, by path.

        Args:
            pattern: Shell pattern (``*``, ``?``, ``[abc]``) for the name, or for the path from
                the folder on when it has a ``/``.

        Raises:
            WorkspaceError: The folder is missing, protected or reached over a link.
        """
        normal = normalise_path(folder, folder=True)
        parts = tuple(normal.split("/")) if normal else ()
        guard = self._guard()
        guard.check(parts)
        walk = _Walk(guard, pattern and pattern.removeprefix("**/"), len(parts))
        with _os_errors(folder or "the workspace"), self._folder(parts) as opened:
            walk.visit(opened, parts)
        files = sorted(walk.files, key=lambda entry: entry.path)
        return Listing(tuple(files), walk.skipped, walk.scanned <= MAX_SCANNED)

    # Admission ----------------------------------------------------------------------------

    def _admit(self, path: str) -> Parts:
        parts = tuple(normalise_path(path).split("/"))
        self._guard().check(parts)
        return parts

    def _guard(self) -> _Guard:
        paths = self._protected() if callable(self._protected) else self._protected
        return _Guard.over(self.root, self._given, paths)

    # Walking ------------------------------------------------------------------------------

    @contextmanager
    def _folder(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        """The folder's descriptor; folders that were made are removed again on failure."""
        made: list[tuple[int, str]] = []
        with ExitStack() as stack:
            opened = self._open_root()
            stack.callback(os.close, opened)
            try:
                for depth, part in enumerate(parts, 1):
                    if create and _make_folder(opened, part):
                        made.append((opened, part))
                    opened = _open_folder(opened, part, "/".join(parts[:depth]))
                    stack.callback(os.close, opened)
                yield opened
            except BaseException:
                for parent, name in reversed(made):
                    with suppress(OSError):  # somebody else has put something there
                        os.rmdir(name, dir_fd=parent)
                raise

    def _open_root(self) -> int:
        try:
            return os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise WorkspaceError(
                f"The workspace {self.root} cannot be opened ({error.strerror}); nothing was "
                "changed."
            ) from error

    def _regular(self, folder: int, parts: Parts) -> os.stat_result | None:
        """What is known of the file without opening it; ``None`` when there is none."""
        try:
            info = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._check_regular(info, parts)
        return info

    def _check_regular(self, info: os.stat_result, parts: Parts) -> None:
        path = "/".join(parts)
        if not stat.S_ISREG(info.st_mode):
            raise WorkspaceError(f"{path} is {_kind(info.st_mode)}; nothing was changed.")
        if info.st_nlink > 1 and (info.st_dev, info.st_ino) in self._guard().identities():
            raise WorkspaceError(f"{path} is another name of a protected file.")

    def _check_version(self, folder: int, parts: Parts, expected: Version | None) -> None:
        info = self._regular(folder, parts)
        if (info and _version(info)) != expected:
            raise WorkspaceError(
                f"{'/'.join(parts)} was changed by somebody else just now; nothing was written. "
                "Read it again."
            )

    def _missing(self, folder: int, parts: Parts) -> str:
        guard = self._guard()
        names = [name for name in os.listdir(folder) if not guard.hides((*parts[:-1], name))]
        near = difflib.get_close_matches(parts[-1], names, n=3, cutoff=0.5)
        hint = ", ".join("/".join((*parts[:-1], name)) for name in near)
        return (
            f"There is no file {'/'.join(parts)}."
            + (f" Near it: {hint}." if hint else "")
            + " List the folder to see what there is."
        )


@dataclass(frozen=True)
class _Guard:
    """The protected paths of one operation, folded, relative to the workspace."""

    root: Path
    paths: tuple[Path, ...]
    keys: frozenset[Parts]

    @classmethod
    def over(cls, root: Path, given: Path, protected: Iterable[Path | str]) -> _Guard:
        keys: set[Parts] = set()
        paths = tuple(Path(os.path.abspath(given / path)) for path in protected)
        for named in paths:
            for spelling in (named, named.resolve()):
                for base in (given, root):
                    if spelling.is_relative_to(base):
                        keys.add(_fold(spelling.relative_to(base).parts))
                    elif base.is_relative_to(spelling):
                        keys.add(())  # the workspace is inside of it: nothing is left
        return cls(root, paths, frozenset(keys))

    def protects(self, parts: Parts) -> bool:
        folded = _fold(parts)
        return any(
            part.startswith(".env") or part in (".mcp.json", ".git") for part in folded
        ) or any(folded[: len(key)] == key for key in self.keys)

    def hides(self, parts: Parts) -> bool:
        """Whether a listing leaves the path out."""
        name = parts[-1]
        return bool(_name_problem(name)) or name.endswith(_TEMPORARY) or self.protects(parts)

    def check(self, parts: Parts) -> None:
        if self.protects(parts):
            raise WorkspaceError(
                f"{'/'.join(parts) or 'The workspace'} is protected: it may hold secrets or "
                "settings, so it is neither read nor written here. Nothing was changed."
            )

    def identities(self) -> set[tuple[int, int]]:
        """Device and inode of the protected files that exist, to know them by another name."""
        found = set()
        for path in (*self.paths, *self.root.glob(".env*"), self.root / ".mcp.json"):
            with suppress(OSError):
                info = path.stat()
                found.add((info.st_dev, info.st_ino))
        return found


class _Walk:
    """One listing under way: what was found, left out, and looked at."""

    def __init__(self, guard: _Guard, pattern: str | None, base: int) -> None:
        self._guard, self._pattern, self._base = guard, pattern, base
        self.files: list[Entry] = []
        self.skipped = 0
        self.scanned = 0

    def visit(self, folder: int, parts: Parts) -> None:
        for name in sorted(os.listdir(folder)):
            self.scanned += 1
            if self.scanned > MAX_SCANNED:
                return
            child = (*parts, name)
            if self._guard.hides(child):
                continue
            with suppress(FileNotFoundError):  # gone since the folder was listed
                self._look(folder, child)

    def _look(self, folder: int, child: Parts) -> None:
        info = os.stat(child[-1], dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            self._enter(folder, child)
        elif not stat.S_ISREG(info.st_mode):
            self.skipped += 1
        elif self._matches(child):
            self.files.append(Entry("/".join(child), info.st_size, info.st_mtime))

    def _enter(self, folder: int, child: Parts) -> None:
        if len(child) > MAX_DEPTH:
            self.skipped += 1
            return
        try:
            opened = os.open(child[-1], _FOLDER_FLAGS, dir_fd=folder)
        except OSError:  # no permission, or a link has taken its place
            self.skipped += 1
            return
        try:
            self.visit(opened, child)
        finally:
            os.close(opened)

    def _matches(self, child: Parts) -> bool:
        if not self._pattern:
            return True
        subject = "/".join(child[self._base :]) if "/" in self._pattern else child[-1]
        return fnmatch.fnmatchcase(subject, self._pattern)


def _fold(parts: Parts) -> Parts:
    return tuple(map(fold_path, parts))


def _make_folder(parent: int, name: str) -> bool:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _open_folder(parent: int, name: str, path: str) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError as error:
        raise NotThere(f"There is no folder {path}. List the workspace to see.") from error
    except OSError as error:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            raise
        kind = "a file" if stat.S_ISREG(info.st_mode) else _kind(info.st_mode)
        raise WorkspaceError(
            f"{path} is {kind}, not a folder of the workspace; nothing was changed."
        ) from error


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link, and links are not followed"
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe, socket or device, not a text file"


def _version(info: os.stat_result) -> Version:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _decode(data: bytes, path: str, version: Version) -> TextFile:
    size = version[2]
    if len(data) > MAX_FILE_BYTES:
        raise WorkspaceError(
            f"{path} has {size} bytes; at most {MAX_FILE_BYTES} are read. It was left alone."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise WorkspaceError(
            f"{path} is not UTF-8 text ({size} bytes, binary); only text files are read and "
            "written here."
        )
    return TextFile(text, version)


def _write_temporary(folder: int, data: bytes, old: os.stat_result | None) -> str:
    """A new file in the folder with the data on disk and the old file's mode; its name."""
    name = f".{secrets.token_hex(8)}{_TEMPORARY}"
    mode = 0o666 if old is None else 0o600  # 0o666: what the umask leaves of it
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return name


def _rename(folder: int, temporary: str, name: str, path: str) -> None:
    """The one step that changes the file. What fails here, or after, leaves the outcome open."""
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise WriteUnknown(
            f"{path} may or may not have its new content ({error.strerror}). Read it to see."
        ) from error


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """The operating system's errors in words; none of them comes after a change."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(
            f"{path} cannot be used ({error.strerror}); nothing was changed."
        ) from error
