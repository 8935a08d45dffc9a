# Everything a developer runs. Needs Python 3.11 to 3.13 with pip, and make; the rest is made in .venv.
#
#   make demo    a concurrency sweep against the embedded practice engine, and its report
#   make test    all tests          make check   linters, types, import rule, docs
#   make bench   the benchmarks     make help    all targets

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-print-directory

VENV    := .venv
PY      := $(VENV)/bin/python
ENGINES := .engines
BENCH   := bench/results
BENCHES := $(wildcard bench/engine.py bench/client.py bench/triton_grpc.py bench/distributed.py bench/report.py)
say      = @printf '%s\n' "--> $(1)"

.PHONY: help demo test test-engines check bench lock clean venv venv-dev engines browser

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-21s%s\n", $$1, $$2}'

# ---------------------------------------------------------------- what people run

demo: venv ## run a concurrency sweep against the embedded engine, print the table, write the HTML report
	$(call say,locust -f locustfiles/openai_chat.py --headless --scenario scenarios/demo.toml)
	@$(VENV)/bin/locust -f locustfiles/openai_chat.py --headless --scenario scenarios/demo.toml

test: venv-dev browser engines ## run all tests (ARGS="tests/analysis -x" for some)
	$(call say,pytest -n 3 --dist loadfile $(ARGS): three files at a time, as whole runs mostly wait)
	@$(PY) -m pytest -n 3 --dist loadfile $(ARGS)

check: venv-dev ## ruff, mypy --strict, import rule, docs: what must be green before a commit
	$(call say,ruff check and ruff format --check)
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .
	$(call say,mypy)
	@$(PY) -m mypy
	$(call say,import rule)
	@$(VENV)/bin/lint-imports --no-logo
	$(call say,docs and packaging)
	@$(PY) -m pytest -q -m "not slow" tests/test_docs.py tests/test_project.py

bench: venv-dev ## run the benchmarks, print their tables, write JSON to bench/results/
	@mkdir -p $(BENCH)
	@for script in $(BENCHES); do \
	    name=$$(basename $$script .py); \
	    echo "--> $$script"; \
	    $(PY) $$script --json $(BENCH)/$$name.json; \
	done
	$(call say,results are in $(BENCH)/)

lock: venv-dev ## renew the locks from pyproject.toml and tests/engines/*.in
	@$(PY) -m pip install -qq --disable-pip-version-check uv
	$(call say,requirements.lock and requirements-dev.lock)
	@$(LOCK) pyproject.toml --group build -o requirements.lock
	@$(LOCK) pyproject.toml --group build --group dev -c requirements.lock -o requirements-dev.lock
	$(call say,locks of tests/engines)
	@$(LOCK) tests/engines/support.in --python-version 3.11 -o tests/engines/support.lock
	@$(LOCK) --no-deps tests/engines/engines.in --python-version 3.11 -o tests/engines/engines.lock
	@$(LOCK) --no-deps tests/engines/triton/triton.in --python-version 3.11 -o tests/engines/triton/triton.lock

clean: ## remove environments, caches and results (runs/ stays)
	rm -rf $(VENV) $(ENGINES) $(BENCH) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- environments
# A stamp file holds what was installed; a second call compares times and does nothing.

# One version of each package for all Pythons: types and behaviour are then checked once for all.
LOCK = $(PY) -m uv pip compile -q --upgrade --universal --fork-strategy fewest --generate-hashes --no-emit-index-url --no-annotate \
       --custom-compile-command "make lock"

venv: $(VENV)/.runtime-installed
venv-dev: $(VENV)/.dev-installed

$(VENV)/.runtime-installed: requirements.lock pyproject.toml
	@.ci/make-venv $(VENV)
	$(call say,installing requirements.lock into $(VENV))
	@$(PY) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev-installed: requirements-dev.lock $(VENV)/.runtime-installed
	$(call say,installing requirements-dev.lock into $(VENV))
	@$(PY) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

browser: ## install Debian's Chromium and Prometheus for the tests where that is possible
	@.ci/install-browser
	@.ci/install-prometheus

engines: venv-dev ## install the real engines of tests/engines into .engines/
	@tests/engines/install.sh $(PY) $(ENGINES)

test-engines: engines ## measure a real vLLM on the CPU with our load test and with its own benchmark, side by side (3 GB)
	@tests/engines/vllm/install.sh $(PY) $(ENGINES)/vllm
	$(call say,ours and vllm bench serve against one vLLM)
	@$(PY) -m tests.engines.vllm.side_by_side $(ENGINES)/vllm $(ENGINES)/light/model/hf
