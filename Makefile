# sayso: everything starts here. Needs make and Python 3.11 to 3.13, nothing else.
#
#   make chat ARGS="-c"         options go through ARGS
#   make test ARGS="-k trust"
#   make PYTHON=/path/to/python3.12 VENV=/tmp/sayso-venv test

VENV ?= .venv
INTEROP ?= build/interop
EVALS ?= build/evals
INJECAGENT ?=
ARGS ?=

# The newest of these that is supported and complete (Debian ships Python without ensurepip).
CANDIDATES := python3.13 python3.12 python3.11 python3
USABLE := import ensurepip, sqlite3, ssl, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(USABLE)' 2>/dev/null && echo $$p && break; done)

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCKER := build/lock

.DEFAULT_GOAL := help
.PHONY: help chat test crash lint lock bench evals slice replays interop docs clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' Makefile

chat: $(STAMP) ## talk to the agent
	@$(BIN)/sayso chat $(ARGS)

test: $(STAMP) ## run the tests
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadgroup $(ARGS)

crash: $(STAMP) ## kill it at random, 200 times each way; ARGS="--seed N --tool T --database D"
	$(BIN)/python -m pytest tests/crash/test_kills.py tests/crash/test_races.py -q -n logical \
	  --maxprocesses 8 --dist loadgroup --kills 200 --rounds 1000 --seed $$(date +%s) $(ARGS)

lint: $(STAMP) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP) ## measure; README quotes the medians
	$(BIN)/python -m bench $(ARGS)

evals: $(EVALS)/.installed ## run the injection suites; INJECAGENT=PATH for InjecAgent's too
	$(EVALS)/bin/sayso eval injection --suite own --suite agentdojo \
	  $(if $(INJECAGENT),--suite injecagent --injecagent "$(INJECAGENT)") $(ARGS)

slice: $(EVALS)/.installed ## run as much of them as the whole check does, and hold its bounds
	$(EVALS)/bin/sayso eval injection --suite own --suite agentdojo --part workspace --part slack \
	  --defence none --defence approval --expect .ci/injection.toml $(ARGS)

replays: $(EVALS)/.installed ## replay the right answers of τ²-bench and of BFCL through the gate
	$(EVALS)/bin/sayso eval calls --suite bfcl
	$(EVALS)/bin/sayso eval tau2 $(ARGS)
	$(EVALS)/bin/sayso eval multi-turn $(ARGS)

interop: $(STAMP) $(INTEROP)/.installed ## try our MCP host and servers against those of others
	INTEROP="$(abspath $(INTEROP))" $(BIN)/python -m pytest interop $(ARGS)

docs: $(STAMP) ## renew the pictures that the program makes of itself
	$(BIN)/python docs/render.py $(ARGS)

COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" $(LOCKER)/bin/uv --no-config pip compile \
  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
  --quiet $(ARGS)

lock: $(LOCKER)/bin/uv ## renew requirements.lock (ARGS=--upgrade: newer versions)
	$(COMPILE) pyproject.toml --all-extras --group test --group lint --group build \
	  --output-file requirements.lock
	$(COMPILE) --no-deps requirements-evals.in --output-file requirements-evals.lock
	for name in $(ENVIRONMENTS); do \
	  $(COMPILE) $(PACKAGES)/$$name.in --output-file $(PACKAGES)/$$name.txt || exit; done

clean: ## remove what the above made, but for .venv
	rm -rf build dist htmlcov .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find agent tools mcp_servers prompts tests bench interop docs -name __pycache__ -prune -exec rm -rf {} +

# One virtual environment, made anew whenever the lock or the project file changes.
$(STAMP): requirements.lock pyproject.toml
	@$(NEED_PYTHON)
	@if [ -e "$(VENV)" ] && [ ! -e "$(VENV)/pyvenv.cfg" ]; then \
	  echo "$(VENV) is there and is not a virtual environment; nothing was changed." >&2; exit 2; fi
	@echo "Setting up $(VENV) with $(PYTHON): once, a minute or two" >&2
	@$(PYTHON) -m venv --clear "$(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The suites of others, beside sayso in an environment of their own: what they need is installed
# without its own dependencies, so that no version of ours changes.
$(EVALS)/.installed: requirements.lock requirements-evals.lock pyproject.toml
	@$(NEED_PYTHON)
	@echo "Setting up $(EVALS) with the suites: once, a minute or two" >&2
	@$(PYTHON) -m venv --clear "$(EVALS)"
	@$(EVALS)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(EVALS)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes \
	  -r requirements-evals.lock
	@$(EVALS)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# What others wrote. Node comes as a wheel, so that no Node is needed to get it; the Python servers
# have an environment for each major version of their SDK. No script of a package is run.
PACKAGES := interop/packages
ENVIRONMENTS := node sdk1 sdk2

$(INTEROP)/.installed: $(ENVIRONMENTS:%=$(PACKAGES)/%.txt) $(PACKAGES)/package-lock.json
	@$(NEED_PYTHON)
	@echo "Setting up $(INTEROP) with servers and clients of others: once, a few minutes" >&2
	@for name in $(ENVIRONMENTS); do \
	  $(PYTHON) -m venv --clear "$(INTEROP)/$$name" && "$(INTEROP)/$$name/bin/python" -m pip install -qq \
	    --disable-pip-version-check --no-deps --require-hashes -r $(PACKAGES)/$$name.txt || exit; done
	@mkdir -p "$(INTEROP)/npm"
	@cp $(PACKAGES)/package.json $(PACKAGES)/package-lock.json "$(INTEROP)/npm"
	@PATH="$(abspath $(INTEROP))/node/bin:$$PATH" npm --prefix "$(INTEROP)/npm" ci \
	  --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# The resolver stands apart, so that a lock that cannot be installed can still be renewed.
$(LOCKER)/bin/uv: pyproject.toml
	@$(NEED_PYTHON)
	@$(PYTHON) -m venv --clear $(LOCKER)
	@$(LOCKER)/bin/python -m pip install -qq --disable-pip-version-check "uv>=0.9"
	@touch $@

NEED_PYTHON = if ! $(if $(PYTHON),$(PYTHON) -c '$(USABLE)' 2>/dev/null,false); then \
  echo "sayso needs Python 3.11, 3.12 or 3.13 with venv, ssl and sqlite3$(if $(PYTHON),; $(PYTHON) is not one of these,)." >&2; \
  echo "Debian, Ubuntu: apt install python3 python3-venv. macOS: brew install python@3.13." >&2; \
  echo "Installed elsewhere? make PYTHON=/path/to/python3.12 ..." >&2; exit 2; fi
