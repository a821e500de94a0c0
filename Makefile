# Every target prepares what it needs by itself: a fresh clone needs no other command first.
# A stamp file in .venv says what is ready, so a second run with nothing changed starts at once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PY     := .venv/bin/python
STAMPS := .venv/.stamps
READY  := $(STAMPS)/base $(STAMPS)/native
NATIVE := $(shell find src/contrailmq/_native -name '*.py' -o -name '*.pxd')
ARGS   ?=
export PYTHON

.PHONY: help
help: ## this list
	@echo "ContrailMQ: make TARGET [ARGS='...' for pytest, the demo or the benchmarks]"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) ## a tour: cluster, clients and a Spark pipeline, in two minutes
	@if scripts/need --quiet java; then $(MAKE) -s $(STAMPS)/spark; fi
	@.venv/bin/contrail demo $(ARGS)

.PHONY: test
test: $(READY) ## all tests that need nothing but Python, on all cores (ARGS="-n 0": on one)
	$(PY) -m pytest -q -n auto --maxprocesses 8 $(ARGS)

.PHONY: check
check: $(READY) ## lint, format, types, and the rules of the house
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) scripts/review
	$(PY) -m pytest -q tests/tidy $(ARGS)

.PHONY: interop
interop: $(READY) ## tests against the Java system (Java 17, Maven) and the Go, C++ and Node clients
	@scripts/prepare interop
	$(PY) -m pytest -q -m interop -n 2 tests/interop $(ARGS)

.PHONY: browser
browser: $(READY) ## tests of the console in Chromium, with an accessibility scan (npm; Debian's chromium)
	@scripts/prepare browser
	$(PY) -m pytest -q -n 0 -m browser tests/browser $(ARGS)

.PHONY: spark
spark: $(READY) $(STAMPS)/spark ## tests of the Spark connector (Java 17; with Maven also against Java brokers)
	$(PY) -m pytest -q -n 2 tests/unit/arrow tests/unit/spark tests/unit/pipelines $(ARGS)
	$(PY) -m pytest -q -m "spark$$(scripts/need --quiet maven || echo ' and not interop')" tests $(ARGS)

.PHONY: bench
bench: $(READY) ## measure; the report goes to bench/out
	@scripts/bench $(ARGS)

.PHONY: build
build: $(READY) ## a wheel and a source distribution in dist/
	@rm -rf build/lib build/bdist.*
	$(PY) -c "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')" >/dev/null
	@ls -l dist

.PHONY: docs
docs: $(READY) $(STAMPS)/docs ## the documentation as a site in site/
	$(PY) -m mkdocs build --quiet --strict

.PHONY: clean
clean: ## remove what was built (the virtual environment goes with: rm -rf .venv)
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache bench/out
	find src/contrailmq/_native -name '*.so' -delete
	rm -f $(STAMPS)/native
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: ci
ci: ## everything above that tests: what .ci/run does
	@.ci/run

$(STAMPS)/base: pyproject.toml setup.py scripts/prepare
	@scripts/prepare base
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/native: $(NATIVE) setup.py | $(STAMPS)/base
	@scripts/prepare native
	@touch $@

$(STAMPS)/spark: pyproject.toml | $(STAMPS)/base
	@scripts/prepare spark
	@touch $@

$(STAMPS)/docs: pyproject.toml | $(STAMPS)/base
	@scripts/prepare docs
	@touch $@
