"""Settings: the one place that reads the environment and a ``.env`` file.

A value comes from, first found: an option of the command line, the environment, the ``.env``
of the current folder once a person has confirmed it (``agent.trust``), the default. Nothing is
ever put into the environment. ``.env.example`` lists every setting; a test holds it against
this file.
"""

from __future__ import annotations

import difflib
import os
import pwd
import re
import socket
import stat
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import platformdirs
from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from agent.errors import UsageError
from agent.types import Actor

OPENAI_DEFAULT = "openai:gpt-4.1-mini"
OFFLINE = "offline"

NOT_FROM_A_FOLDER = frozenset(
    {
        "SAYSO_HOME",
        "SAYSO_DATABASE_URL",
        "SAYSO_TRAIL_KEY",
        "SAYSO_TRAIL_KEY_BEFORE",
        "SAYSO_REVIEWER",
        "SAYSO_POLICY",
    }
)
"""What a folder's ``.env`` cannot set: where the record is kept, its keys, who decides, and by
which rules."""

_DATABASE_SCHEMES = ("sqlite", "postgresql", "postgresql+psycopg")
_TOOL_FORMS = (
    re.compile(r"[a-z][a-z0-9_]*"),  # a bundled domain
    re.compile(r".+\.py"),  # a file
    re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"),
)


_HOST = re.compile(r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}")


class ExpectedError(ValueError):
    """A value does not fit; the message completes the sentence "expected …"."""


# --- how single values are read ------------------------------------------------------------


def _split(value: Any) -> Any:
    """``"a, b"`` → ``("a", "b")``; repeated names count once."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _tool_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not any(form.fullmatch(name) for form in _TOOL_FORMS):
            raise ExpectedError(
                f"names of bundled tools, files x.py or package:attribute, "
                f"separated by commas; {name!r} is none of these"
            )
    return names


def _hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not _HOST.fullmatch(name.lower()):
            raise ExpectedError(
                f"names of hosts such as larkford.gov, separated by commas, without scheme, port "
                f"or path; {name!r} is none"
            )
    return tuple(dict.fromkeys(name.lower() for name in names))


def _absolute(path: Path) -> Path:
    try:
        return Path(os.path.abspath(path.expanduser()))
    except RuntimeError:  # pathlib's word for a ~name that is nobody's
        raise ExpectedError("a path whose ~ or ~name is a home folder on this machine") from None


def _is(what: Callable[[Path], bool], path: Path) -> bool:
    try:
        return what(path)
    except OSError:  # a name that is too long, a folder that may not be looked into
        return False


def _folder(path: Path) -> Path:
    path = _absolute(path)
    if not _is(Path.is_dir, path):
        raise ExpectedError("a folder that exists")
    return path


def _file(path: Path) -> Path:
    path = _absolute(path)
    if not _is(Path.is_file, path):
        raise ExpectedError("a file that exists")
    return path


def _model_name(name: str) -> str:
    name = name.strip()
    provider, colon, model = name.partition(":")
    if name != OFFLINE and not (colon and provider and model and not re.search(r"\s", name)):
        raise ExpectedError(f"provider:name, such as {OPENAI_DEFAULT}, or {OFFLINE}")
    return name


def _database_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _DATABASE_SCHEMES or not rest:
        raise ExpectedError("sqlite:////absolute/path.db or postgresql://user@host/name")
    if scheme == "sqlite" and (not rest.startswith("//") or rest == "//"):
        raise ExpectedError(
            "sqlite:// and an absolute path, such as sqlite:////srv/sayso.db: "
            "a relative one would be another database in each folder"
        )
    return url


def _base_url(url: str) -> str:
    url = url.strip()
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:
        valid = False
    if not valid or not url.isprintable() or " " in url:
        raise ExpectedError("http:// or https:// with a host, such as http://localhost:11434/v1")
    return url


def _smtp_url(url: SecretStr) -> SecretStr:
    from tools.worlds.smtp import SmtpServer

    value = url.get_secret_value().strip()
    try:
        SmtpServer.of(value)
    except ValueError as error:
        raise ExpectedError(
            f"smtp[s]://user:password@host:port, such as smtps://ann:…@mail.example.org; {error}"
        ) from None
    return SecretStr(value)


def _mail_from(address: str) -> str:
    from tools.worlds.addresses import plain_address

    try:
        return plain_address(address.strip())
    except ValueError:
        raise ExpectedError("one plain e-mail address, such as ann@example.org") from None


def _key(key: SecretStr) -> SecretStr:
    value = key.get_secret_value().strip()
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise ExpectedError("printable ASCII without spaces")
    return SecretStr(value)


def _trail_key(key: SecretStr) -> SecretStr:
    value = key.get_secret_value().strip()
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise ExpectedError("text in UTF-8") from None
    if length < 16:
        raise ExpectedError("at least 16 bytes, such as `openssl rand -hex 32` prints")
    return SecretStr(value)


def _person(name: str) -> str:
    name = name.strip()
    if not name.isprintable() or not 0 < len(name) <= 100:
        raise ExpectedError("a name of 1 to 100 printable characters")
    return name


# --- defaults that depend on other settings ------------------------------------------------


def _default_model(values: dict[str, Any]) -> str:
    configured = values.get("openai_api_key") or values.get("openai_base_url")
    return OPENAI_DEFAULT if configured else OFFLINE


def _default_database(values: dict[str, Any]) -> str:
    return f"sqlite:///{values['home'] / 'sayso.db'}"


def _default_lease(values: dict[str, Any]) -> float:
    return max(120.0, 2 * float(values["tool_timeout"]))


Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]


class Settings(BaseModel):
    """Everything that can be set. Relative paths count from the current folder.

    The variable of a field is ``SAYSO_`` and its name, but for the two of OpenAI. The class
    itself reads nothing: :func:`load_settings` does, and its errors are for people.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    openai_api_key: Annotated[SecretStr, AfterValidator(_key)] | None = None
    """Key for OpenAI or a compatible gateway. It goes to OPENAI_BASE_URL, nowhere else."""

    openai_base_url: Annotated[str, AfterValidator(_base_url)] | None = None
    """Where an OpenAI-compatible API answers (gateway, Ollama, vLLM, llama.cpp); else OpenAI."""

    model: Annotated[str, AfterValidator(_model_name)] = Field(default_factory=_default_model)
    """``provider:name``. Default: ``openai:gpt-4.1-mini`` with a key or a base URL, else
    ``offline``, the rule-based model that needs neither."""

    tools: Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_tool_names)] = Field(
        default=("orders", "research", "files"), min_length=1
    )
    """Bundled domains and a person's own tools (``path/to/tools.py``, ``package:attribute``),
    separated by commas."""

    trusted_sites: (
        Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_hosts)] | None
    ) = None
    """Hosts, separated by commas, whose pages, and those of hosts below them, the numbers of an
    answer from research may rest on. Default: the official ones of the bundled pages."""

    smtp_url: Annotated[SecretStr, AfterValidator(_smtp_url)] | None = None
    """``smtp[s]://user:password@host:port``: the server that sends the mails of ``send_email``.
    Without one they stay in the outbox. ``smtp`` goes over to TLS (port 587), ``smtps`` begins
    with it (port 465)."""

    mail_from: Annotated[str, AfterValidator(_mail_from)] | None = None
    """The plain address that mails are sent from; needed with SAYSO_SMTP_URL."""

    workspace: Annotated[Path, AfterValidator(_folder)] | None = None
    """The one folder that the file tools may touch; it never overlaps SAYSO_HOME."""

    prompt: Annotated[Path, AfterValidator(_file)] | None = None
    """A file whose text takes the place of the bundled system prompt."""

    home: Annotated[Path, AfterValidator(_absolute)] = Field(
        default_factory=lambda: platformdirs.user_state_path("sayso")
    )
    """State folder: database, sample data, history. Readable by its owner only."""

    database_url: Annotated[str, AfterValidator(_database_url)] = Field(
        default_factory=_default_database, repr=False
    )
    """``sqlite:////absolute/path.db``, or ``postgresql://…`` when several people or machines
    share one inbox (extra ``postgres``). Default: ``sayso.db`` in SAYSO_HOME."""

    trail_key: Annotated[SecretStr, AfterValidator(_trail_key)] | None = None
    """A secret of at least 16 bytes that seals the trail (HMAC). Everybody who writes to the
    same database needs the same one; kept nowhere by sayso."""

    trail_key_before: Annotated[SecretStr, AfterValidator(_trail_key)] | None = None
    """The key before that one: ``sayso trail seal`` then seals anew what it had sealed."""

    reviewer: Annotated[str, AfterValidator(_person)] | None = None
    """The name recorded with decisions: a claim. Default: the login."""

    policy: Annotated[Path, AfterValidator(_file)] | None = None
    """The organisation's policy file. A ``policy.yaml`` of the current folder can only tighten
    what it says (``docs/policy.md``)."""

    max_steps: int = Field(default=25, ge=1, le=10_000)
    """Model calls in one turn before it stops (exit code 4)."""

    model_timeout: Seconds = 120.0
    """Seconds that the model may take for one reply."""

    model_retries: int = Field(default=4, ge=0, le=20)
    """Further tries when the model's service is busy or fails (429, 5xx, no connection)."""

    tool_timeout: Seconds = 60.0
    """Seconds for one tool call, unless the tool's contract says otherwise."""

    result_limit: int = Field(default=20_000, ge=500, le=10_000_000)
    """Characters of one tool result that reach the model; the cut is marked."""

    approval_hours: float = Field(default=168.0, ge=0, le=100_000)
    """Hours that an approval may be answered; then it expires, and nothing runs. 0: for ever."""

    rule_hours: float = Field(default=8.0, ge=0, le=100_000)
    """Hours that an "always" answer holds; then such calls are asked about again. 0: as long as its
    session."""

    freeze: bool = False
    """Choose each turn's tools from the user's words alone, before anything is read."""

    isolate: bool = False
    """Let a second call of the model read strangers' text; the one that plans sees short facts."""

    lease_seconds: Seconds = Field(default_factory=_default_lease)
    """How long a process that died keeps a session from others. More than SAYSO_TOOL_TIMEOUT;
    default: 120, or twice that timeout when that is more."""

    unknown: tuple[str, ...] = Field(default=(), exclude=True)
    """Not a setting: one sentence for each variable that was found and not used, and why."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values among the settings that nobody else may read: keys, and passwords in URLs."""
        keys = (self.openai_api_key, self.trail_key, self.trail_key_before)
        smtp = self.smtp_url.get_secret_value() if self.smtp_url else ""
        urls = (self.openai_base_url or "", self.database_url, smtp)
        users = map(_USERINFO.search, urls)
        passwords = (unquote(user[0].partition(":")[2]) for user in users if user)
        return (*(key.get_secret_value() for key in keys if key), *filter(None, passwords))

    @property
    def database_files(self) -> tuple[Path, ...]:
        """The SQLite database and what SQLite keeps beside it; empty for PostgreSQL."""
        scheme, _, rest = self.database_url.partition(":///")
        if scheme != "sqlite":
            return ()
        given = Path(unquote(rest.partition("?")[0]))  # as SQLAlchemy reads it
        return tuple(
            path.with_name(path.name + suffix)
            for path in dict.fromkeys((given, given.resolve()))  # a link's target has the log
            for suffix in ("", "-wal", "-shm", "-journal")
        )

    def ensure_home(self) -> Path:
        """Make the state folder, mode 0700, or check the one that is there.

        Raises:
            UsageError: It cannot be made or written, or others can read what is in it.
        """
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            if stat.S_IMODE(self.home.stat().st_mode) & 0o077:
                self._close_home()
        except OSError as error:
            raise UsageError(
                f"The state folder {self.home} cannot be used: {error.strerror or error}. "
                "Point SAYSO_HOME at a folder of yours."
            ) from error
        if not os.access(self.home, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(
                f"The state folder {self.home} is not writable for you. "
                "Point SAYSO_HOME at a folder of yours."
            )
        return self.home

    def _close_home(self) -> None:
        """Take an open folder's permissions back, unless it holds anything already.

        A folder in use may be somebody's home or ``/tmp``; its owner must say so.
        """
        if any(self.home.iterdir()):
            raise UsageError(
                f"The state folder {self.home} is open to other users of this machine. "
                f"Nothing was written. If it is only sayso's: chmod 700 {self.home}"
            )
        self.home.chmod(0o700)


def variable_of(field: str) -> str:
    """The environment variable of a field: ``"max_steps"`` → ``"SAYSO_MAX_STEPS"``."""
    return field.upper() if field.startswith("openai_") else f"SAYSO_{field.upper()}"


VARIABLES: Mapping[str, str] = {
    variable_of(field): field for field in Settings.model_fields if field != "unknown"
}
"""Every variable that is read, with the name of its field."""


def load_settings(
    *,
    env_file: Path | Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    **overrides: Any,
) -> Settings:
    """Put the settings together.

    Args:
        env_file: A confirmed ``.env``: its path, or better the values that were confirmed
            (``agent.trust.FolderItems.variables``), so that the file is not read again.
        environ: Instead of the process's environment. A variable that is there but empty means
            the default, also where ``env_file`` has a value.
        overrides: Values of the command line by field name; ``None`` is no override.

    Returns:
        The settings; ``unknown`` names what was found and not used.

    Raises:
        UsageError: A value does not fit: which variable, the value (secrets masked), and what
            is expected.
    """
    environ = os.environ if environ is None else environ
    folder = _read_env_file(env_file) if isinstance(env_file, Path) else dict(env_file or {})
    allowed = {n: v for n, v in folder.items() if n not in NOT_FROM_A_FOLDER}
    merged = {n: v for n, v in {**allowed, **environ}.items() if n in VARIABLES and v.strip()}
    given = {field: value for field, value in overrides.items() if value is not None}
    unknown = (*_unused(environ, ""), *_unused(folder, " in .env", folder=True))
    try:
        settings = Settings(
            **{VARIABLES[name]: value for name, value in merged.items()} | given, unknown=unknown
        )
    except ValidationError as error:
        raise UsageError(_explain(error, merged, given)) from None
    _check_together(settings)
    return settings


def parse_env(text: str) -> dict[str, str]:
    """The variables of a ``.env`` text, taken as they are written: nothing is interpolated.

    Raises:
        UsageError: A line that is neither NAME=value, nor a comment, nor empty.
    """
    for line in parse_stream(StringIO(text)):
        if line.error:
            raise UsageError(f"Line {line.original.line} is not NAME=value.")
    values = dotenv_values(stream=StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def _read_env_file(path: Path) -> dict[str, str]:
    try:
        return parse_env(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeError, UsageError) as error:
        raise UsageError(f"{path} cannot be used: {error}") from error


def _unused(variables: Mapping[str, str], where: str, *, folder: bool = False) -> list[str]:
    """A sentence for each variable that looks like ours and is not used."""
    said = []
    for name in sorted(variables):
        if folder and name in NOT_FROM_A_FOLDER:
            said.append(
                f"{name}{where} is ignored: a folder cannot say where the record is kept, what "
                "seals it, who decides or by which rules. Set it in the environment."
            )
        elif name.startswith("SAYSO_") and name not in VARIABLES:
            close = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=0.8)
            hint = f" Did you mean {close[0]}?" if close else " See .env.example for all."
            said.append(f"{name}{where} is not a setting and is ignored.{hint}")
    return said


def _explain(error: ValidationError, variables: Mapping[str, str], given: Mapping[str, Any]) -> str:
    """The first fault as "NAME=value: expected …"; later ones often follow from it."""
    fault = error.errors(include_url=False)[0]
    field = str(fault["loc"][0])
    name = variable_of(field)
    if field in given:
        source, shown = f"The option for {name}", str(given[field])
    else:
        source, shown = name, variables.get(name, "")
    return f"{source}={show_value(name, shown)}: expected {_expectation(fault)}."


_WORDS = {
    "value_error": "{error}",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "too_short": "at least one name",
    "extra_forbidden": "one of the settings in .env.example",
    "path_type": "a path",
    "string_type": "text",
    "tuple_type": "names separated by commas",
}


def _expectation(fault: Mapping[str, Any]) -> str:
    words = _WORDS.get(fault["type"])
    return words.format(**fault.get("ctx", {})) if words else str(fault["msg"])


def _check_together(settings: Settings) -> None:
    """What no single field can check."""
    if settings.lease_seconds <= settings.tool_timeout:
        raise UsageError(
            f"SAYSO_LEASE_SECONDS={settings.lease_seconds:g}: expected more than "
            f"SAYSO_TOOL_TIMEOUT ({settings.tool_timeout:g}), or another process could take a "
            "session over while its tool still runs."
        )
    if settings.smtp_url is not None and settings.mail_from is None:
        raise UsageError(
            "SAYSO_SMTP_URL is set without SAYSO_MAIL_FROM: expected the address that mails are "
            "sent from."
        )
    workspace = settings.workspace
    if workspace is not None and overlap(workspace, settings.home):
        raise UsageError(
            f"SAYSO_WORKSPACE={workspace}: expected a folder outside the state folder "
            f"{settings.home} that does not hold it either; tools never reach the record."
        )


def overlap(one: Path, other: Path) -> bool:
    """Whether one of two paths lies inside the other, symbolic links followed."""
    one, other = one.resolve(), other.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)


# --- showing values -------------------------------------------------------------------------


_REFERENCE = re.compile(r"\$\{[^}]*\}")
_USERINFO = re.compile(r"(?<=://)[^/?#]*(?=@)")
_QUERY_VALUE = re.compile(r"(?<==)[^&#]+")


def mask(value: str) -> str:
    """A secret as it may be shown: its last four characters when it is long.

    Of a value with references to variables, ``"Bearer ${TOKEN}"``, these stay: ``"…${TOKEN}"``.
    """
    references = _REFERENCE.findall(value)
    if references:
        return "…" + "".join(references)
    return f"…{value[-4:]}" if len(value) >= 20 else "…"


def mask_url(url: str) -> str:
    """A URL whole but for what may be secret: user and password, and values in its query."""
    head, mark, query = _USERINFO.sub(lambda part: mask(part[0]), url).partition("?")
    return head + mark + _QUERY_VALUE.sub(lambda part: mask(part[0]), query)


def show_value(name: str, value: str) -> str:
    """A variable's value as it may be shown: settings, but for secrets, and nothing else.

    URLs are shown without their credentials, since they say where data goes.
    """
    if name in ("OPENAI_BASE_URL", "SAYSO_DATABASE_URL"):
        return mask_url(value)
    if name == "SAYSO_SMTP_URL":  # a password may hold what ends the user part of a URL
        user, at, host = value.rpartition("@")
        return f"{user[: user.find('://') + 3] if '://' in user else ''}…@{host}" if at else value
    if name.startswith("SAYSO_TRAIL_KEY"):
        return "…"
    if name in VARIABLES and name != "OPENAI_API_KEY":
        return value
    return mask(value)


# --- the process ----------------------------------------------------------------------------


def actor(settings: Settings, via: str) -> Actor:
    """Who this process says is acting, recorded with every decision.

    Args:
        settings: Whose ``reviewer`` is the name; else the login that the system knows.
        via: ``"chat"``, ``"cli"`` …
    """
    uid = os.getuid()
    try:
        login = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's user without an entry
        login = f"uid {uid}"
    return Actor(name=settings.reviewer or login, uid=uid, host=socket.gethostname(), via=via)


def tracing_notice(environ: Mapping[str, str] | None = None) -> str | None:
    """What to say at start when LangSmith tracing is on, since it sends everything out.

    Returns:
        One sentence that names the variable and the target, or ``None``. The variables are
        those that ``langsmith.utils.tracing_is_enabled`` obeys.
    """
    environ = os.environ if environ is None else environ
    for suffix in ("TRACING_V2", "TRACING"):
        name, value = _langsmith(environ, suffix)
        if value:  # the first that is set decides, as in LangSmith itself
            break
    if value != "true":
        return None
    _, target = _langsmith(environ, "ENDPOINT")
    return (
        f"LangSmith tracing is on ({name}={value}): prompts, tool arguments and results are "
        f"sent to {mask_url(target) if target else 'LangSmith'}. Unset {name} to stop that."
    )


def _langsmith(environ: Mapping[str, str], suffix: str) -> tuple[str, str]:
    names = [f"{prefix}_{suffix}" for prefix in ("LANGSMITH", "LANGCHAIN")]
    return next(((n, environ[n]) for n in names if environ.get(n, "").strip()), (names[0], ""))


def process_environment() -> dict[str, str]:
    """A copy of the environment, for the few parts that hand some of it on or look things up.

    Whoever starts a child process picks by name; no ``SAYSO_*`` variable is ever handed on.
    """
    return dict(os.environ)
