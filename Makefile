# Two commands set everything up on a fresh machine: `make quickstart` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= privbench-store

.PHONY: quickstart test test-all test-slow lint wheel clean help cluster-up cluster-down test-cluster
.PHONY: engine-up engine-down test-docker chaos mutations calibration-check licences verify-dependencies
.PHONY: audit-dependencies docs benchmarks reproduction

help:
	@echo "make quickstart   install, then run the quickstart sweep and write its report"
	@echo "make test         install with the development tools, then lint and run the tests that are quick"
	@echo "make test-all     make test, then make test-slow"
	@echo "make test-slow    the slow tests (browser, real data, second device, short campaigns), the site, the wheel"
	@echo "make lint         ruff, mypy and import-linter only"
	@echo "make cluster-up   start a SLURM cluster on this machine; make cluster-down removes it"
	@echo "make test-cluster the tests on a SLURM cluster of their own"
	@echo "make engine-up    start a Docker engine on this machine; make engine-down removes it"
	@echo "make test-docker  the tests on a Docker engine of their own, with an image they build"
	@echo "make chaos        the campaigns of kills, damage, full disks, crowds and malformed input; hours"
	@echo "make mutations    switch every rule of evidence off and show the test that fails; some minutes"
	@echo "make calibration-check  coverage, false winners and power of leakage figures, by simulation; hours"
	@echo "make benchmarks   measure all costs against their bounds and write docs/performance.md; needs an idle machine"
	@echo "make reproduction run lines of published tables, cheapest first, into results/ (HOURS=1); needs the data sets"
	@echo "make verify-dependencies  check what the package index serves against the published hashes"
	@echo "make audit-dependencies   look the pinned versions up among known vulnerabilities (needs a network)"
	@echo "make licences     write LICENCES.md from what is installed"
	@echo "make docs         write the manifest and the generated pages of the reference, then build the site into build/site"
	@echo "make clean        remove the environment and what the tools left behind"

# torch comes first and pinned: an open range would pull gigabytes of CUDA on a machine without a GPU.
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "==> making $(VENV) and installing privbench (torch first; a few minutes the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[features]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "==> installing the development tools"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,features]"
	@touch $@

quickstart: $(VENV)/.installed
	@echo "==> running the quickstart sweep into $(STORE)"
	$(BIN)/privbench quickstart --store $(STORE)

test: $(VENV)/.installed-dev lint
	@echo "==> running the quick tests; make test-all runs all of them"
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

test-all: test test-slow

# All of them; CI leaves some out, for the sake of its time limit (.ci/run).
SLOW_TESTS ?= tests

test-slow: $(VENV)/.installed-dev docs
	@echo "==> running the slow tests"
	$(BIN)/pytest -n 2 --dist loadfile -m slow $(SLOW_TESTS)
	@$(MAKE) --no-print-directory wheel

# Real daemons on a loaded machine are sometimes late: what failed runs once more, alone, and must pass then.
define twice
$(BIN)/pytest -m $(1) $(2) || { echo "==> once more, alone, what failed"; \
	$(BIN)/pytest --last-failed --last-failed-no-failures none -m $(1) $(2); }
endef

# All of them; CI takes a part, for the sake of its time limit (.ci/run).
CLUSTER_TESTS ?= tests/harness/backends/slurm/cluster
DOCKER_TESTS ?= tests/harness/backends/docker/containers

cluster-up:
	slurm/dev-cluster up

cluster-down:
	slurm/dev-cluster clean

test-cluster: $(VENV)/.installed-dev
	@echo "==> running the tests on a SLURM cluster of their own"
	$(call twice,"cluster and not benchmark",$(CLUSTER_TESTS))

engine-up:
	docker/dev-engine up
	docker/dev-engine base-image

engine-down:
	docker/dev-engine clean

test-docker: $(VENV)/.installed-dev
	@echo "==> running the tests on a Docker engine of their own"
	$(call twice,"docker and not benchmark",$(DOCKER_TESTS))

chaos: $(VENV)/.installed-dev
	@echo "==> running the campaigns of faults (docs/trust.md)"
	$(BIN)/python -m tests.campaigns.chaos
	@echo "==> throwing malformed input at every way in"
	$(BIN)/python -m tests.campaigns.fuzz.campaign --seed 0 --inputs 50000

mutations: $(VENV)/.installed-dev
	@echo "==> switching rules of evidence off, one at a time (docs/rules.md)"
	$(BIN)/python -m tests.campaigns.mutations
	$(BIN)/python -m tests.second_device

# Its counts are kept, so a run that was stopped is continued by the next.
CALIBRATION ?= --cells 2000 --models 4,8,16,32

calibration-check: $(VENV)/.installed-dev
	@echo "==> measuring coverage, false winners and power of leakage figures (docs/calibration.md)"
	$(BIN)/python -m tests.campaigns.calibration $(CALIBRATION) --state .calibration.json --out docs/calibration.md

# The page is written also if a bound is missed: it says so.
benchmarks: $(VENV)/.installed-dev
	@echo "==> measuring costs against their bounds (docs/performance.md)"
	$(BIN)/pytest -m benchmark tests/benchmarks; code=$$?; $(BIN)/python -m tests.benchmarks.page && exit $$code

# Continues in its store, which a new clone fills with the results that are shipped.
HOURS ?= 1

reproduction: $(VENV)/.installed-dev
	@echo "==> running lines of published tables (docs/results/reproduction.md)"
	$(BIN)/python -m tests.campaigns.reproduction run --hours $(HOURS) --store .reproduction-store

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

# The theme's fonts and scripts are its own: the site needs no network, neither to build nor to read.
docs: $(VENV)/.installed-dev
	@echo "==> writing the manifest and the reference, and building the site"
	$(BIN)/python -m tests.docs.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

licences: $(VENV)/.installed-dev
	$(BIN)/python -m tests.safety.dependencies licences

verify-dependencies: $(VENV)/.installed-dev
	@echo "==> downloading every pinned package but torch and checking its hash"
	$(BIN)/python -m tests.safety.dependencies verify

# In an environment of its own: the tool is not one of ours, and what it needs must not move what we pin.
audit-dependencies:
	test -x $(VENV)/audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/pip install --quiet pip-audit; }
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --requirement requirements.lock

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
