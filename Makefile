# Every target sets up what it needs; the second time that costs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: install demo test lint bench docs clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/dynacl demo --out runs/demo --force

test: $(READY) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=90

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

docs: $(READY)
	@echo "The documentation is Markdown: docs/method.md, docs/speed.md, docs/reproduction.md, docs/log.md"

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache .coverage
