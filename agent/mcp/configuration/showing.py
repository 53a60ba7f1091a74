"""What a person is shown of a server before it is started or reached, and no secret with it.

A text of the file is shown with the values of its variables put in where they cannot be a secret,
and as it is written where they may be: ``serve --in /home/ann/notes --token ${TOKEN}``. What
decides which program or code runs, or where requests go, is shown in any case, without the
passwords and tokens that can be told in it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from agent.config import mask, mask_url
from agent.mcp.servers import Http, Stdio

_DECIDING = {
    "loader and shells": (
        "PATH HOME SHELL IFS ENV BASH_ENV ZDOTDIR PROMPT_COMMAND XDG_CONFIG_HOME XDG_CONFIG_DIRS "
        "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT OPENSSL_CONF "
        "DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH DYLD_FRAMEWORK_PATH DYLD_FALLBACK_LIBRARY_PATH "
        "DYLD_FALLBACK_FRAMEWORK_PATH DYLD_VERSIONED_LIBRARY_PATH DYLD_VERSIONED_FRAMEWORK_PATH "
        "DYLD_ROOT_PATH DYLD_IMAGE_SUFFIX"
    ),
    "Python, pip, uv": (
        "PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONEXECUTABLE PYTHONPLATLIBDIR "
        "PYTHONPYCACHEPREFIX PYTHONBREAKPOINT PYTHONWARNINGS PYTHONINSPECT VIRTUAL_ENV "
        "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CONFIG_FILE PIP_REQUIREMENT "
        "CONDA_PREFIX PIP_CONSTRAINT PIP_TARGET PIP_PREFIX PIP_PYTHON PIP_TRUSTED_HOST "
        "PIPX_HOME PIPX_DEFAULT_PYTHON PIPX_DEFAULT_BACKEND "
        "UV_INDEX UV_DEFAULT_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_INDEX_STRATEGY UV_FIND_LINKS "
        "UV_CONFIG_FILE UV_PYTHON UV_PYTHON_INSTALL_DIR UV_PYTHON_INSTALL_MIRROR "
        "UV_PYPY_INSTALL_MIRROR UV_PYTHON_DOWNLOADS_JSON_URL UV_TOOL_DIR UV_CACHE_DIR "
        "UV_TOOL_BIN_DIR UV_PROJECT UV_PROJECT_ENVIRONMENT UV_WORKING_DIRECTORY UV_ENV_FILE "
        "UV_CONSTRAINT UV_BUILD_CONSTRAINT UV_OVERRIDE UV_INSECURE_HOST"
    ),
    "Node and its package managers, Bun, Deno": (
        "NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE "
        "NPM_CONFIG_REGISTRY NPM_CONFIG_USERCONFIG NPM_CONFIG_GLOBALCONFIG NPM_CONFIG_PREFIX "
        "NPM_CONFIG_CACHE NPM_CONFIG_NODE_OPTIONS NPM_CONFIG_SCRIPT_SHELL NPM_CONFIG_SHELL "
        "NPM_CONFIG_GIT PNPM_HOME COREPACK_HOME COREPACK_NPM_REGISTRY "
        "YARN_REGISTRY YARN_NPM_REGISTRY_SERVER YARN_RC_FILENAME YARN_YARN_PATH YARN_PLUGINS "
        "YARN_GLOBAL_FOLDER YARN_CACHE_FOLDER "
        "BUN_INSTALL BUN_OPTIONS BUN_CONFIG_REGISTRY BUN_INSTALL_CACHE_DIR "
        "DENO_DIR DENO_INSTALL DENO_INSTALL_ROOT JSR_URL"
    ),
    "containers": (
        "DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_CERT_PATH DOCKER_TLS_VERIFY "
        "DOCKER_CONTENT_TRUST DOCKER_CONTENT_TRUST_SERVER CONTAINER_HOST CONTAINERS_CONF "
        "CONTAINERS_REGISTRIES_CONF COMPOSE_FILE KUBECONFIG"
    ),
    "Git and SSH": (
        "GIT_SSH GIT_SSH_COMMAND GIT_EXEC_PATH GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM "
        "GIT_WORK_TREE GIT_TEMPLATE_DIR GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF "
        "GIT_DIR GIT_PROXY_COMMAND GIT_ASKPASS SSH_ASKPASS"
    ),
    "other languages": (
        "PERLLIB PERL5LIB PERL5OPT PERL5DB RUBYLIB RUBYOPT GEM_HOME GEM_PATH BUNDLE_GEMFILE "
        "JAVA_HOME JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH "
        "GOPROXY GOSUMDB GOFLAGS GOENV GOPATH GOROOT GOBIN GOTOOLCHAIN CARGO_HOME RUSTUP_HOME "
        "RUSTUP_TOOLCHAIN RUSTC_WRAPPER RUSTFLAGS DOTNET_ROOT DOTNET_STARTUP_HOOKS PHPRC "
        "PHP_INI_SCAN_DIR LUA_INIT LUA_PATH LUA_CPATH"
    ),
}
"""Variables that decide which program or which code runs; npm takes them in lower case too.

No other is among them, whatever its name begins with: ``GIT_TOKEN`` and ``GIT_CONFIG_VALUE_0``
may be secrets.
"""
_NAMES = frozenset(name for names in _DECIDING.values() for name in names.split())
_REGISTRY_OF_SCOPE = re.compile(r"NPM_CONFIG_@[^:]+:REGISTRY")

_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|AUTH|CREDENTIAL|COOKIE|API_?KEY|"
    r"(^|_)(PAT|PASS|PWD|KEY|PIN)(_|$)",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"(?<!\S)(--?[\w.-]*(?:token|secret|passw|passphrase|api[_.-]?key)[\w.-]*(?:=|\s+))(\S+)",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:gh[a-z]_|github_pat_|glpat-|sk-|[sr]k_(?:live|test)_|xox[a-z]-|npm_|"
    r"pypi-|hf_|dckr_pat_|shp[a-z]{2}_|lin_api_)[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|"
    r"AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w.-]+)|(?<=[Bb]earer )\S+|(?<=[Bb]asic )\S+"
)
"""What tokens of well-known services look like, and the values of an Authorization header."""

_REFERENCE = re.compile(r"\$\{[\w:./-]*\}")


def decides(variable: str) -> bool:
    """Whether a program is found, or made to load something, by this variable: it is part of the
    command."""
    name = variable.upper()
    return name in _NAMES or bool(_REGISTRY_OF_SCOPE.fullmatch(name))


def sounds_secret(variable: str) -> bool:
    """Whether a variable is called what secrets are called."""
    return bool(_SECRET.search(variable))


def may_be_shown(variable: str, value: str) -> bool:
    """Whether a value is no secret as a whole: nothing, something that is there on this machine,
    or what ``decides``. ``in_clear`` says how it is shown."""
    return not value or decides(variable) or (os.path.isabs(value) and os.path.lexists(value))


def in_clear(value: str) -> str:
    """A value that may be shown, without the passwords and tokens that can be told in it."""
    words = [mask_url(word) if "://" in word else word for word in value.split(" ")]
    value = _TOKEN.sub(lambda found: mask(found[0]), " ".join(words))
    return _OPTION.sub(lambda found: found[1] + mask(found[2]), value)


def command_line(child: Stdio, args: Sequence[str], env: Mapping[str, str]) -> str:
    """What would be started, for a person to confirm.

    Args:
        args: Its arguments, as they are shown.
        env: Those of its variables that are shown, as they are.
    """
    variables = [
        f"{name}={_quoted(in_clear(env[name])) if name in env else '…'}" for name in child.env
    ]
    folder = f"  (in {child.cwd})" if child.cwd else ""
    return " ".join([*variables, *map(_quoted, (child.command, *args))]) + folder


def address(remote: Http, url: str) -> str:
    """Where requests would go, for a person to confirm.

    Values of headers are hidden, and so are values in the address's query: keys stand there.

    Args:
        url: Its address, as it is shown. Where that does not tell the host, the host is added.
    """
    parts = urlsplit(remote.url)
    origin = f"{parts.scheme}://{parts.netloc}"
    tells = url.startswith(origin) and url[len(origin) :][:1] in ("", "/", "?", "#")
    kind = " (SSE)" if remote.sse else ""
    headers = "".join(f" {name}: …" for name in remote.headers)
    return f"{mask_url(url)}{kind}{headers}" + ("" if tells else f"  (at {origin})")


def _quoted(word: str) -> str:
    """A word as a shell would have it; what stands for a value in it needs no quotes."""
    rest = _REFERENCE.sub("x", word).replace("…", "x")
    return word if shlex.quote(rest) == rest else shlex.quote(word)
