# Every target sets up what it needs; the second time that costs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: install hooks demo test long lint bench soak size docs clean

install: $(READY)

# ruff and mypy before each commit.
hooks: $(READY)
	$(BIN)/pre-commit install

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/dynacl demo --out runs/demo --force

test: $(READY) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=90
	# Again without the compiled kernel, for what touches the loss.
	DYNACL_NATIVE=0 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m loss

# What imports heavy libraries: NWB through pynapple.
long: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

# Two hundred fits among failures, and schedulers that are killed (three minutes).
soak: $(READY)
	DYNACL_SOAK=200 $(BIN)/python -m pytest tests/test_sweeps.py

# Memory that large data take (half an hour, 21 GB of disk for a while).
size: $(READY)
	$(BIN)/python -m benchmarks.size

docs: $(READY)
	$(BIN)/python -c "from dynacl.parameters import table; print(table(), end='')" > docs/parameters.md

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache .coverage
