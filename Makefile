# Two commands set everything up on a fresh machine: `make quickstart` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= privbench-store

.PHONY: quickstart test quick lint wheel clean help

help:
	@echo "make quickstart   install, then run the quickstart sweep and write its report"
	@echo "make test         install with the development tools, then run every check and test"
	@echo "make quick        the tests without the slow ones"
	@echo "make lint         ruff, mypy and import-linter only"
	@echo "make clean        remove the environment and what the tools left behind"

# torch comes first and pinned: an open range would pull gigabytes of CUDA on a machine without a GPU.
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "==> making $(VENV) and installing privbench (torch first; a few minutes the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "==> installing the development tools"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

quickstart: $(VENV)/.installed
	@echo "==> running the quickstart sweep into $(STORE)"
	$(BIN)/privbench quickstart --store $(STORE)

test: $(VENV)/.installed-dev lint
	@echo "==> running the tests"
	$(BIN)/pytest -n 2 --dist loadfile
	@$(MAKE) --no-print-directory wheel

quick: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

lint: $(VENV)/.installed-dev
	@echo "==> ruff, mypy, import-linter"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A wheel that lacks a file still works in the checkout; only a clean environment shows it.
wheel: $(VENV)/.installed-dev
	@echo "==> building the wheel and importing it in a clean environment"
	$(BIN)/python tests/check_wheel.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
