# make demo: a language model designs RL algorithms for order execution in minutes, with a page. make test: the whole suite.
# Both need only Python 3.11+ and make. make docs: the site in site/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup setup-dev demo checks test docs bench clean

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "SE-RL needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing se-rl and what it needs (about a minute the first time)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	@echo "installing development tools"
	@$(PIP) --editable '.[baselines,docs,postgres]' --requirement requirements-dev.txt
	@touch $@

# Compiled once here, and not by every process at the same time.
$(VENV)/.compiled: $(VENV)/.installed $(wildcard src/se_rl/market/*.py)
	@echo "compiling the market's kernels (once, about a minute)"
	@$(BIN)/python scripts/compile_kernels.py
	@touch $@

# With the embedded model: the last part of the installation.
$(VENV)/.ready: $(VENV)/.compiled
	@$(BIN)/se-rl llm pull smollm2
	@touch $@

demo: $(VENV)/.ready
	@$(BIN)/se-rl run --preset quick --out out/demo

checks: setup-dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

test: setup-dev
	@$(MAKE) --no-print-directory --jobs 2 checks $(VENV)/.ready
	@$(BIN)/pytest

docs: setup-dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

bench: setup-dev
	@$(BIN)/se-rl bench book
	@$(BIN)/se-rl bench market
	@$(BIN)/se-rl bench env
	@$(BIN)/se-rl bench ppo
	@$(BIN)/se-rl bench sandbox

clean:
	rm -rf $(VENV) out build dist site
