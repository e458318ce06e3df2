# All development commands. `make` alone lists them.

# For `make run`: inline or functions.
TOPOLOGY ?=
# The number of parallel test processes.
WORKERS ?= 2
# Extra arguments for the command behind run, test and bench.
ARGS ?=
# For `make bench`: the benchmark modules to run.
BENCH ?= cold_start calls
# The Python for .venv; by default, the newest supported one on PATH.
PYTHON ?=

# Each stamp is written last: its step is repeated if it is missing or older than its inputs.
MADE := .venv/made
# Stamps of the dependencies to run, and of those to develop, which include the former.
RUN := .venv/run
DEV := .venv/dev
PYTEST := .venv/bin/pytest -rs -n $(WORKERS)
VALIDATE := .venv/bin/check-jsonschema --quiet --builtin-schema
CODE := functions infra shared tests benchmarks
SCRIPTS = $(shell find functions extension tests -name node_modules -prune -o -name '*.*js' -print)

.DEFAULT_GOAL := help
.PHONY: help run dev deploy test test-emulator test-slow test-tool coverage mutants conformance
.PHONY: style types imports check fix bench lock dist new-tool clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

run: $(RUN) ## Run Carrel here; TOPOLOGY=functions: each tool in its own process
	@.venv/bin/carrel up $(if $(TOPOLOGY),--topology $(TOPOLOGY)) $(ARGS)

dev: $(DEV) ## Run Carrel here, and start it again when its code changes
	@echo 'Meanwhile: make fix, make test-tool NAME=search_kb, make check (see CONTRIBUTING.md)'
	@.venv/bin/watchfiles '.venv/bin/carrel up $(ARGS)' functions infra shared

deploy: $(RUN) ## Deploy to your Google Cloud project; asks first
	@.venv/bin/carrel deploy $(ARGS)

test: $(DEV) ## Run all tests but the slow ones; ARGS='-k search' selects some
	@$(PYTEST) -m 'not slow' $(or $(ARGS),--check-unused-indexes)

test-emulator: $(DEV) ## Run tests/emulator on Google's emulator; FOLDERS selects some
	@$(PYTEST) -m 'not slow' --database=emulator $(or $(FOLDERS),tests/emulator) $(ARGS)

test-slow: $(DEV) ## Run the slow tests: random kills, Terraform, browsers, pip
	@$(PYTEST) -m slow $(ARGS)

test-tool: $(DEV) ## Run the tests that call or import one tool, NAME=search_kb
	@$(if $(NAME),,echo 'Name it: make test-tool NAME=search_kb' >&2; exit 1;) \
	$(PYTEST) -m 'not slow' --snapshot-warn-unused --tool $(NAME) tests/unit tests/emulator tests/contract $(ARGS)

coverage: $(DEV) ## Run the same tests as `make test`, and list the lines that none executes
	@rm -f .coverage .coverage.*
	@.venv/bin/coverage run -m pytest -rs -n $(WORKERS) -m 'not slow' --check-unused-indexes
	@.venv/bin/coverage combine --quiet
	@.venv/bin/coverage report

mutants: $(DEV) ## Make random mutants for 30 minutes, and list those that survive
	@.venv/bin/python -m tests.mutants $(ARGS)

conformance: $(DEV) ## Run the public MCP conformance suite; needs npm
	@.venv/bin/pytest -rs tests/e2e/conformance $(ARGS)

style: $(DEV)
	@echo 'Style'
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check

types: $(DEV)
	@echo 'Types'
	@.venv/bin/mypy $(CODE)

imports: $(DEV)
	@echo 'Imports'
	@.venv/bin/lint-imports --no-logo

check: style types imports ## Run all static checks; writes nothing
	@echo 'Merge conflicts'
	@git grep --no-index --exclude-standard -nE '^(<<<<<<<|>>>>>>>) '; test $$? -eq 1
	@echo 'Scripts'
	@if command -v node >/dev/null; then for script in $(SCRIPTS); do \
	node --input-type=module --check - <$$script || { echo "$$script" >&2; exit 1; }; done; \
	else echo 'not parsed: there is no Node.js'; fi
	@echo 'Generated files'
	@.venv/bin/carrel generate --check
	@echo 'Cloud Build'
	@$(VALIDATE) vendor.cloudbuild cloudbuild.yaml
	@echo 'GitHub and Docker'
	@$(VALIDATE) vendor.github-workflows .github/workflows/*.yml
	@$(VALIDATE) vendor.dependabot .github/dependabot.yml
	@$(VALIDATE) vendor.compose-spec compose.yaml
	@.venv/bin/zizmor --quiet --offline .github
	@echo 'Terraform'
	@if command -v terraform >/dev/null; then terraform fmt -check infra/terraform; \
	else echo 'not checked: there is no Terraform'; fi

fix: $(DEV) ## Fix style, write the generated files, and say what is left to fix
	@.venv/bin/ruff check --quiet --fix --exit-zero >/dev/null
	@.venv/bin/ruff format
	@.venv/bin/carrel generate
	@.venv/bin/python -m tests.evidence
	@$(MAKE) --no-print-directory --keep-going style types imports

bench: $(DEV) ## Run benchmarks; BENCH=ingest takes ten minutes
	@for name in $(BENCH); do .venv/bin/python -m benchmarks.$$name $(ARGS) || exit; done

dist: $(RUN) ## Build the wheel dist/carrel-VERSION-py3-none-any.whl
	@rm -rf build
	@.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

new-tool: $(RUN) ## Create a tool, NAME=tasks/pin_task, as a copy; LIKE=delete_task
	@$(if $(NAME),,echo 'Name it: make new-tool NAME=knowledge/count_chunks' >&2; exit 1;) \
	.venv/bin/python -m tests.new_tool $(NAME) $(LIKE)

lock: $(RUN) ## Update constraints.txt to the newest versions for the oldest Python
	@.venv/bin/python -m uv pip compile pyproject.toml --extra dev --upgrade --python-version 3.11 \
		--no-annotate --custom-compile-command 'make lock' --quiet --output-file constraints.txt

clean: ## Delete what the other targets created, except .carrel with its data
	@rm -rf .venv dist build *.egg-info .coverage .coverage.*
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

# A program on PATH may be a version switcher's shim without a Python, or lack ensurepip.
CANDIDATES := $(if $(PYTHON),'$(PYTHON)',python3.13 python3.12 python3.11 python3)
FIND_PYTHON = for python in $(CANDIDATES) ''; do \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11, 7))' \
	2>/dev/null && break; done
NO_PYTHON := \
	'There is no Python 3.11.7 or newer that can create virtual environments. To get one:' \
	'  Debian 13, Ubuntu 24.04 or newer  sudo apt-get install python3 python3-venv' \
	'  macOS                             brew install python@3.13' \
	'  any system with uv                uv python install 3.13, then' \
	'                                    make PYTHON="$$(uv python find 3.13)" ...' \
	'Or name one that is not on PATH: make PYTHON=/path/to/python3.13 ...'

$(MADE):
	@set -e; $(FIND_PYTHON); \
	if [ -z "$$python" ]; then printf '%s\n' $(NO_PYTHON) >&2; exit 1; fi; \
	echo "Making .venv with $$("$$python" --version) ..."; \
	rm -rf .venv; \
	"$$python" -m venv .venv; \
	touch $@

$(RUN): $(MADE) pyproject.toml constraints.txt
	@.venv/bin/python -m infra.local.install
	@touch $@

$(DEV): $(MADE) pyproject.toml constraints.txt
	@.venv/bin/python -m infra.local.install dev
	@touch $(RUN) $@
