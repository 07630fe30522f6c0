# Every target sets up what it needs; the second time that costs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: install hooks demo test long lint bench fuzz soak size scoreboard dist check fresh lowest \
  audit docs clean

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

# A thread per worker. Where a test takes two, they do not spin while they wait for each other.
THREADS := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
test: $(READY) lint
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=90
	# Again without the compiled kernel, for what touches the loss.
	DYNACL_NATIVE=0 $(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal -m loss

# What imports heavy libraries: NWB through pynapple.
long: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

# Two hundred fits among failures, schedulers and a hundred fits that are killed (five minutes).
soak: $(READY)
	DYNACL_SOAK=200 $(BIN)/python -m pytest tests/test_sweeps.py tests/test_kills.py

# Memory that large data take (half an hour, 21 GB of disk for a while).
size: $(READY)
	$(BIN)/python -m benchmarks.size

# Other tools on the same data for as long, each in an environment of its own (hours).
scoreboard: $(READY)
	$(BIN)/python -m benchmarks.scoreboard

# Damaged and made-up files, 10,000 for every reader; hours on a busy machine.
fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz

# Wheel and sdist, the same bytes whenever they are built from one commit.
dist: $(READY)
	rm -rf dist && mkdir dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -c \
	  "from hatchling import build; build.build_wheel('dist'); build.build_sdist('dist')"
	cd dist && sha256sum *

# Would a package index take them?
check: dist
	test -x build/check/bin/twine || ($(PYTHON) -m venv build/check && \
	  build/check/bin/pip install --quiet --disable-pip-version-check -c constraints.txt twine==7.0.0)
	build/check/bin/twine check --strict dist/*

# The wheel in an empty environment, used outside of this folder without HOME or a compiler.
fresh: dist
	rm -rf build/fresh && $(PYTHON) -m venv build/fresh
	build/fresh/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	build/fresh/bin/pip check
	rm -rf build/outside && mkdir build/outside
	cd build/outside && for line in \
	  "simulate lds --trials 20 --steps 100 --seed 0 --out x.npz" \
	  "fit x.npz --components 3 --max-iter 50 --quiet --out run" "evaluate run x.npz" \
	  "embed run x.npz --out z.npz" "forecast run x.npz --steps 5 --out future.csv"; \
	  do env -i PATH=/nowhere ../fresh/bin/dynacl $$line || exit 1; done

# The lowest versions that pyproject.toml promises, those of its extras too.
LOWEST := tests/test_estimator.py tests/test_dynamics.py tests/test_data_series.py \
  tests/test_metrics.py tests/test_objective.py tests/test_persistence.py tests/test_cli_embed.py \
  tests/test_data_formats.py tests/test_data_files.py tests/test_frames.py tests/test_engines.py
lowest:
	rm -rf build/lowest && $(PYTHON) -m venv build/lowest
	$(PYTHON) -c "import tomllib; found = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  extras = found['optional-dependencies']; wanted = [found['dependencies'], \
	  *(extras[name] for name in ('cluster', 'files', 'nwb'))]; \
	  print(*(text.replace('>=', '==') for part in wanted for text in part), sep='\n')" \
	  > build/lowest.txt
	build/lowest/bin/pip install --quiet --disable-pip-version-check -r build/lowest.txt \
	  pytest hypothesis psutil
	PYTHONPATH=src OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -m "" $(LOWEST)

# Known weaknesses of what constraints.txt pins; asks a service on the network. Strict: a package
# that it cannot tell of, as without a network, is an error. Without, that would be no weakness.
audit:
	test -x build/audit/bin/pip-audit || ($(PYTHON) -m venv build/audit && \
	  build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit)
	build/audit/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt

# The site, in build/site. What builds it has an environment of its own; nothing is fitted.
SITE := build/docs/bin
docs: build/docs/.ready
	$(SITE)/python -c "from dynacl.parameters import table; print(table(), end='')" > docs/parameters.md
	$(SITE)/python docs/which.py
	$(SITE)/python -m sphinx -q -a -W --keep-going -d build/doctrees docs build/site

build/docs/.ready: pyproject.toml constraints.txt docs/requirements.txt
	test -x $(SITE)/python || $(PYTHON) -m venv build/docs
	$(SITE)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -r docs/requirements.txt -e .
	touch $@

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache .coverage
