from __future__ import annotations

import ast
import inspect
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agent.config
from agent.config import (
    NOT_FROM_A_FOLDER,
    VARIABLES,
    Settings,
    actor,
    load_settings,
    mask,
    mask_url,
    parse_env,
    process_environment,
    show_value,
    tracing_notice,
)
from agent.errors import UsageError

ROOT = Path(__file__).parents[2]
KEY = "sk-proj-0123456789abcdefWXYZ"


def load(**environ: str) -> Settings:
    return load_settings(environ=environ)


def complaint(**environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(**environ)
    assert caught.value.exit_code == 2
    return str(caught.value)


# --- where a value comes from ---------------------------------------------------------------


def test_defaults(tmp_path: Path) -> None:
    settings = load(SAYSO_HOME=str(tmp_path))
    assert settings.model == "offline"
    assert settings.tools == ("orders", "research", "files")
    assert settings.database_url == f"sqlite:///{tmp_path}/sayso.db"
    assert (settings.max_steps, settings.model_retries, settings.result_limit) == (25, 4, 20_000)
    assert (settings.model_timeout, settings.tool_timeout, settings.lease_seconds) == (120, 60, 120)
    assert settings.unknown == ()


def test_the_files_of_a_database_are_known_where_it_has_any(tmp_path: Path) -> None:
    names = [path.name for path in load(SAYSO_HOME=str(tmp_path)).database_files]
    assert names == ["sayso.db", "sayso.db-wal", "sayso.db-shm", "sayso.db-journal"]
    assert load(SAYSO_DATABASE_URL="postgresql://ann@box/sayso").database_files == ()


def test_the_state_folder_is_the_users_own_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert load().home == tmp_path / "sayso"
    assert load().home.name == "sayso"


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({}, "offline"),
        ({"OPENAI_API_KEY": KEY}, "openai:gpt-4.1-mini"),
        ({"OPENAI_BASE_URL": "http://localhost:11434/v1"}, "openai:gpt-4.1-mini"),
        ({"OPENAI_API_KEY": KEY, "SAYSO_MODEL": "offline"}, "offline"),
        ({"SAYSO_MODEL": "anthropic:claude-x"}, "anthropic:claude-x"),
        ({"SAYSO_MODEL": "", "OPENAI_API_KEY": "  "}, "offline"),
    ],
)
def test_the_model_follows_what_is_configured(environ: dict[str, str], model: str) -> None:
    assert load(**environ).model == model


def test_options_beat_the_environment_which_beats_the_file() -> None:
    file = {"SAYSO_MAX_STEPS": "1", "SAYSO_MODEL_RETRIES": "1", "SAYSO_RESULT_LIMIT": "1001"}
    environ = {"SAYSO_MAX_STEPS": "2", "SAYSO_MODEL_RETRIES": "2"}
    settings = load_settings(env_file=file, environ=environ, max_steps=3, reviewer=None)
    assert settings.max_steps == 3
    assert settings.model_retries == 2
    assert settings.result_limit == 1001


def test_an_empty_variable_means_the_default_also_over_the_file() -> None:
    file = {"OPENAI_BASE_URL": "https://gateway.example/v1"}
    assert load_settings(env_file=file, environ={}).openai_base_url is not None
    settings = load_settings(env_file=file, environ={"OPENAI_BASE_URL": ""})
    assert settings.openai_base_url is None
    assert settings.model == "offline"


def test_the_process_environment_is_read_when_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAYSO_MAX_STEPS", "7")
    assert load_settings().max_steps == 7
    assert load_settings(environ={}).max_steps == 25
    assert Settings().max_steps == 25  # the class itself reads nothing
    assert process_environment()["SAYSO_MAX_STEPS"] == "7"


def test_a_file_sets_settings_and_nothing_else(tmp_path: Path) -> None:
    before = dict(os.environ)
    file = tmp_path / ".env"
    file.write_text("SAYSO_MAX_STEPS=9\nLD_PRELOAD=/evil.so\nLANGSMITH_TRACING=true\nPATH=/evil\n")
    assert load_settings(env_file=file, environ={}).max_steps == 9
    assert dict(os.environ) == before


def test_a_file_cannot_redirect_the_record_or_name_the_reviewer() -> None:
    file = {
        "SAYSO_HOME": "/elsewhere",
        "SAYSO_DATABASE_URL": "postgresql://elsewhere/db",
        "SAYSO_TRAIL_KEY": "0123456789abcdef",
        "SAYSO_TRAIL_KEY_BEFORE": "fedcba9876543210",
        "SAYSO_REVIEWER": "boss",
        "SAYSO_POLICY": "policy.yaml",
        "sayso_home": "/elsewhere",
    }
    settings = load_settings(env_file=file, environ={})
    assert settings == load().model_copy(update={"unknown": settings.unknown})
    assert len(settings.unknown) == len(NOT_FROM_A_FOLDER) == 6
    assert all("in .env is ignored" in sentence for sentence in settings.unknown)


def test_values_of_a_file_are_not_interpolated() -> None:
    values = parse_env("# note\nexport A=\"${HOME} x\"\nB='two\nlines'\nC=\nD\n")
    assert values == {"A": "${HOME} x", "B": "two\nlines", "C": ""}


def test_a_line_that_is_no_assignment_is_named() -> None:
    with pytest.raises(UsageError, match="Line 2 is not NAME=value"):
        parse_env("A=1\nB='never closed\n")


@pytest.mark.parametrize("content", [b"A=\xff\n", None])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "settings.env"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=r"settings\.env cannot be used"):
        load_settings(env_file=file, environ={})


def test_trusted_sites_are_hosts_in_one_spelling() -> None:
    assert load().trusted_sites is None
    sites = load(SAYSO_TRUSTED_SITES="Larkford.gov, localhost,larkford.gov").trusted_sites
    assert sites == ("larkford.gov", "localhost")


# --- wrong values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SAYSO_MAX_STEPS", "many", "a whole number"),
        ("SAYSO_MAX_STEPS", "1.5", "a whole number"),
        ("SAYSO_MAX_STEPS", "0", "at least 1"),
        ("SAYSO_MODEL_RETRIES", "21", "at most 20"),
        ("SAYSO_MODEL_TIMEOUT", "nan", "a number"),
        ("SAYSO_MODEL_TIMEOUT", "0", "more than 0"),
        ("SAYSO_TOOL_TIMEOUT", "soon", "a number"),
        ("SAYSO_RESULT_LIMIT", "10", "at least 500"),
        ("SAYSO_MODEL", "gpt-4.1", "provider:name"),
        ("SAYSO_MODEL", "openai:", "provider:name"),
        ("SAYSO_TOOLS", ",", "at least one name"),
        ("SAYSO_TOOLS", "orders,no such", "'no such' is none of these"),
        ("SAYSO_TRUSTED_SITES", "https://larkford.gov", "without scheme, port or path"),
        ("SAYSO_TRUSTED_SITES", "larkford.gov,a b", "'a b' is none"),
        ("SAYSO_WORKSPACE", "/nonexistent/x", "a folder that exists"),
        ("SAYSO_PROMPT", "/nonexistent/x", "a file that exists"),
        ("SAYSO_POLICY", "/nonexistent/x", "a file that exists"),
        ("SAYSO_HOME", "~0", "a home folder on this machine"),
        ("SAYSO_WORKSPACE", "~0/x", "a home folder on this machine"),
        ("SAYSO_DATABASE_URL", "mysql://host/db", "sqlite:////absolute/path.db or postgresql"),
        ("SAYSO_DATABASE_URL", "sqlite:///relative.db", "an absolute path"),
        ("SAYSO_DATABASE_URL", "sqlite://", "sqlite:////absolute/path.db"),
        ("SAYSO_SMTP_URL", "mail.example:25", "smtp[s]://user:password@host:port"),
        ("SAYSO_SMTP_URL", "smtp://mail.example/x", "nothing behind the host and port"),
        ("SAYSO_MAIL_FROM", "Ann <ann@a.example>", "one plain e-mail address"),
        ("OPENAI_BASE_URL", "localhost:8000", "http:// or https://"),
        ("OPENAI_BASE_URL", "file:///etc/passwd", "http:// or https://"),
        ("SAYSO_REVIEWER", "a\x1b[2Jb", "printable"),
    ],
)
def test_a_wrong_value_names_the_variable_the_value_and_what_is_expected(
    name: str, value: str, expected: str
) -> None:
    message = complaint(**{name: value})
    assert message.startswith(f"{name}={value}: expected ")
    assert expected in message


def test_a_wrong_option_is_told_from_a_variable() -> None:
    with pytest.raises(UsageError, match="The option for SAYSO_MODEL=x: expected provider:name"):
        load_settings(environ={"SAYSO_MODEL": "offline"}, model="x")


def test_secrets_are_masked_in_complaints_and_in_repr() -> None:
    assert complaint(OPENAI_API_KEY=KEY + "é") == (
        "OPENAI_API_KEY=…XYZé: expected printable ASCII without spaces."
    )
    assert "hunter2" not in complaint(SAYSO_DATABASE_URL="mysql://me:hunter2@host/db")
    url = "postgresql://me:hunter2@host/db"
    shown = repr(load(OPENAI_API_KEY=KEY, SAYSO_DATABASE_URL=url))
    assert KEY not in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("fifteen bytes..", "at least 16 bytes, such as `openssl rand -hex 32` prints"),
        ("  fifteen bytes..  ", "at least 16 bytes, such as `openssl rand -hex 32` prints"),
        ("sixteen bytes...\ud800", "text in UTF-8"),
    ],
)
def test_no_part_of_the_trails_key_is_ever_shown(key: str, expected: str) -> None:
    assert complaint(SAYSO_TRAIL_KEY=key) == f"SAYSO_TRAIL_KEY=…: expected {expected}."
    settings = load(SAYSO_TRAIL_KEY=" eight pairs ééé ")
    assert settings.trail_key is not None
    assert settings.trail_key.get_secret_value() == "eight pairs ééé"
    assert "pairs" not in repr(settings) + str(settings.model_dump()) + settings.model_dump_json()
    assert show_value("SAYSO_TRAIL_KEY", "a long key with a tail") == "…"


def test_the_secrets_among_the_settings() -> None:
    assert load().secrets == ()
    settings = load(
        OPENAI_API_KEY=KEY,
        OPENAI_BASE_URL="https://me:p%40ss@gateway.example/v1",
        SAYSO_TRAIL_KEY="0123456789abcdef",
        SAYSO_DATABASE_URL="postgresql://ann:hunter2@host/db",
    )
    assert settings.secrets == (KEY, "0123456789abcdef", "p@ss", "hunter2")
    mail = load(SAYSO_SMTP_URL="smtp://ann:s3%2Fcret@mail.example", SAYSO_MAIL_FROM="a@b.example")
    assert mail.secrets == ("s3/cret",)
    assert load(SAYSO_DATABASE_URL="postgresql://ann@host/db").secrets == ()


@given(st.sampled_from(sorted(VARIABLES)), st.text())
def test_any_text_is_a_value_or_a_usage_error(name: str, value: str) -> None:
    try:
        load(**{name: value})
    except UsageError as error:
        assert name in str(error)  # noqa: PT017


def test_mail_is_sent_from_an_address_and_its_password_is_never_shown() -> None:
    url = "smtps://ann:s3cret%2Fof-the-server@mail.example:465"
    message = complaint(SAYSO_SMTP_URL=url)
    assert message.startswith("SAYSO_SMTP_URL is set without SAYSO_MAIL_FROM")
    settings = load(SAYSO_SMTP_URL=f" {url} ", SAYSO_MAIL_FROM=" Ann@Office.EXAMPLE ")
    assert settings.mail_from == "Ann@office.example"
    assert settings.smtp_url is not None
    assert settings.smtp_url.get_secret_value() == url
    shown = [message, repr(settings), str(settings.model_dump()), settings.model_dump_json()]
    shown += [show_value("SAYSO_SMTP_URL", url), complaint(SAYSO_SMTP_URL=f"{url}/inbox")]
    assert all("s3cret" not in text for text in shown)
    assert show_value("SAYSO_SMTP_URL", url) == "smtps://…@mail.example:465"
    for wrong in ("smtp://ann:s3cret/of@the?server@a.b", "ann:s3cret@a.b", "s3cret://x@a.b"):
        assert "cret" not in complaint(SAYSO_SMTP_URL=wrong).replace("s3cret://", "")
    assert load(SAYSO_MAIL_FROM="ann@office.example").smtp_url is None


def test_the_lease_outlives_a_tool_call() -> None:
    assert load(SAYSO_TOOL_TIMEOUT="300").lease_seconds == 600
    message = complaint(SAYSO_TOOL_TIMEOUT="300", SAYSO_LEASE_SECONDS="200")
    assert "SAYSO_LEASE_SECONDS=200: expected more than SAYSO_TOOL_TIMEOUT (300)" in message


@pytest.mark.parametrize("workspace", [".", "home", "home/inside", "link"])
def test_the_workspace_never_overlaps_the_state_folder(tmp_path: Path, workspace: str) -> None:
    (tmp_path / "home/inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    message = complaint(
        SAYSO_HOME=str(tmp_path / "home"), SAYSO_WORKSPACE=str(tmp_path / workspace)
    )
    assert "outside the state folder" in message


def test_relative_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "me.md").write_text("You are me.")
    monkeypatch.chdir(tmp_path)
    settings = load(SAYSO_WORKSPACE="notes", SAYSO_PROMPT="me.md", SAYSO_HOME="~/s")
    assert settings.workspace == tmp_path / "notes"
    assert settings.prompt == tmp_path / "me.md"
    assert settings.home == Path.home() / "s"


def test_tools_are_domains_files_and_attributes() -> None:
    settings = load(SAYSO_TOOLS=" orders, my/tools.py,acme.desk:tools , orders")
    assert settings.tools == ("orders", "my/tools.py", "acme.desk:tools")


def test_unknown_variables_are_named_with_the_likely_one() -> None:
    settings = load_settings(
        environ={"SAYSO_MAXSTEPS": "3", "SAYSO_XYZZY": "1", "PATH": "/bin"},
        env_file={"SAYSO_MODLE": "x", "DJANGO_DEBUG": "1"},
    )
    assert settings.max_steps == 25
    assert settings.unknown == (
        "SAYSO_MAXSTEPS is not a setting and is ignored. Did you mean SAYSO_MAX_STEPS?",
        "SAYSO_XYZZY is not a setting and is ignored. See .env.example for all.",
        "SAYSO_MODLE in .env is not a setting and is ignored. Did you mean SAYSO_MODEL?",
    )


# --- the state folder -----------------------------------------------------------------------


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_state_folder_is_made_for_its_owner_only(sayso_home: Path) -> None:
    assert load_settings().ensure_home() == sayso_home
    assert mode(sayso_home) == 0o700
    (sayso_home / "sayso.db").touch()
    assert load_settings().ensure_home() == sayso_home


def test_an_empty_open_folder_is_closed_and_one_in_use_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    settings = load(SAYSO_HOME=str(home))
    settings.ensure_home()
    assert mode(home) == 0o700
    home.chmod(0o750)
    (home / "file").touch()
    with pytest.raises(UsageError, match=f"chmod 700 {home}"):
        settings.ensure_home()
    assert mode(home) == 0o750


def test_a_state_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(UsageError, match="Point SAYSO_HOME at a folder of yours"):
        load(SAYSO_HOME=str(tmp_path / "home")).ensure_home()


# --- masks ----------------------------------------------------------------------------------


@given(st.text(alphabet=st.characters(exclude_characters="${}"), min_size=1))
def test_a_mask_shows_four_characters_at_most(secret: str) -> None:
    shown = mask(secret)
    assert shown[0] == "…"
    assert len(shown) <= min(5, max(1, len(secret) // 4))


def test_a_mask_keeps_the_names_of_variables() -> None:
    assert mask("Bearer ${TOKEN}") == "…${TOKEN}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("https://me:pw@host/v1?k=s&m=t#f", "https://…@host/v1?k=…&m=…#f"),
        ("https://me:p@w@host/", "https://…@host/"),
        ("https://host/?a https://me:pw@other/", "https://host/?a https://…@other/"),
        ("https://host/p?key=${KEY}", "https://host/p?key=…${KEY}"),
    ],
)
def test_a_url_is_shown_without_its_credentials(url: str, shown: str) -> None:
    assert mask_url(url) == shown


# --- the process ----------------------------------------------------------------------------


def test_the_actor_is_the_reviewer_or_the_login() -> None:
    named = actor(load(SAYSO_REVIEWER="Ada"), "cli")
    assert (named.name, named.uid, named.via) == ("Ada", os.getuid(), "cli")
    assert named.host == socket.gethostname()
    login = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert actor(load(), "chat").name == login


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"LANGSMITH_TRACING": "true"}, "LANGSMITH_TRACING"),
        ({"LANGCHAIN_TRACING_V2": "true"}, "LANGCHAIN_TRACING_V2"),
        ({"LANGSMITH_TRACING_V2": " ", "LANGCHAIN_TRACING": "true"}, "LANGCHAIN_TRACING"),
        ({}, None),
        ({"LANGSMITH_TRACING": "false"}, None),
        ({"LANGSMITH_TRACING_V2": "false", "LANGSMITH_TRACING": "true"}, None),
    ],
)
def test_active_tracing_is_announced_exactly_when_langsmith_traces(
    environ: dict[str, str], name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langsmith import utils

    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    forget = utils.get_env_var.cache_clear  # type: ignore[attr-defined]
    forget()
    try:
        assert utils.tracing_is_enabled() == (name is not None)
    finally:
        forget()
    notice = tracing_notice()
    assert (notice is None) == (name is None)
    if name:
        assert f"LangSmith tracing is on ({name}=true)" in str(notice)


def test_the_tracing_notice_names_the_target() -> None:
    notice = tracing_notice(
        {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": "https://trace.example/api"}
    )
    assert "sent to https://trace.example/api" in str(notice)


def test_importing_the_settings_loads_no_framework() -> None:
    code = (
        "import sys, agent.config, agent.trust\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    heavy = {"langchain", "langchain_core", "langgraph", "openai", "sqlalchemy", "mcp", "httpx"}
    assert heavy & set(loaded) == set()


# --- documentation --------------------------------------------------------------------------


def test_every_setting_is_documented_where_it_is_declared() -> None:
    (cls,) = ast.parse(inspect.getsource(agent.config.Settings)).body
    assert isinstance(cls, ast.ClassDef)
    documented = {
        declared.target.id
        for declared, doc in zip(cls.body, cls.body[1:], strict=False)
        if isinstance(declared, ast.AnnAssign)
        and isinstance(declared.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }
    assert documented == set(Settings.model_fields)


EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^((?:# .+\n)+)# ([A-Z_]+)=(.*)$", EXAMPLE, flags=re.MULTILINE)


def test_the_example_lists_every_setting_once_with_a_comment() -> None:
    names = re.findall(r"^#? ?([A-Z_]+)=", EXAMPLE, flags=re.MULTILINE)
    assert sorted(names) == sorted(VARIABLES)
    assert [name for _, name, _ in ENTRIES] == names


def test_the_example_shows_the_defaults() -> None:
    shown = {name: value for _, name, value in ENTRIES if value}
    assert load_settings(environ=shown) == load_settings(environ={})
    unset = load_settings(environ={})
    fixed = {n for n, field in VARIABLES.items() if isinstance(getattr(unset, field), int | float)}
    assert fixed | {"SAYSO_MODEL", "SAYSO_TOOLS"} == set(shown)


def test_the_example_sets_nothing_as_it_is() -> None:
    assert parse_env(EXAMPLE) == {}
