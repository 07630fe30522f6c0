"""`benchmark`: a table of your own, systems and models, on the engines that reproduce the paper's.

A row names a system by its preset. One of your own gets a name by
`simulate.PRESETS["pendulum"] = (partial(simulate.own, pendulum, d=2), {})`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynacl import simulate
from dynacl.data import InputError
from dynacl.experiments import engines
from dynacl.experiments.plan import TRAINING, Experiment, Fit, Row, plan
from dynacl.experiments.render import View, summary
from dynacl.experiments.runner import missing, sweep
from dynacl.experiments.store import Store
from dynacl.experiments.verdicts import METRICS
from dynacl.persistence import to_json
from dynacl.writing import write

__all__ = ["Row", "Table", "benchmark"]


class Table(NamedTuple):
    """Cells by row and metric: mean, std and n of the fits. `str` is Markdown."""

    cells: dict[str, dict[str, dict[str, Any] | None]]
    notes: list[str]  # why cells are empty, and what failed

    def __str__(self) -> str:
        metrics = list(dict.fromkeys(m for row in self.cells.values() for m in row))
        head = ["", *(METRICS[m].label for m in metrics)]
        lines = [head, ["---"] * len(head)]
        for name, row in self.cells.items():
            lines.append([name, *(_said(row.get(m)) for m in metrics)])
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n".join(
            [table, *(["", *(f"- {note}" for note in self.notes)] if self.notes else [])]
        )


def benchmark(
    rows: Sequence[Row],
    *,
    out: str | os.PathLike[str],
    datasets: Sequence[int] = (0,),
    seeds: Sequence[int] = (0,),
    protocol: str = "ours",
    engine: str = "local",
    jobs: int | None = 1,
    threads: int = 1,
    scheduler: str | None = None,
    imports: Sequence[str] = (),
    verbose: bool = False,
) -> Table:
    """Simulate, fit and evaluate every row for these data sets and seeds; what is there stays.

    out: a folder for every result, table.md and table.json. imports: modules that a worker imports
    first, such as the one that puts your system into `simulate.PRESETS`; not needed where that is
    done at the top of the script itself, or with one job.
    """
    if protocol not in TRAINING:
        raise InputError(f"protocol: got {protocol!r}; wanted one of {', '.join(TRAINING)}")
    for module in imports:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"imports: {error}; wanted modules that can be imported") from error
    for row in rows:
        _check(row)
    experiment = Experiment("benchmark", "", "–", lambda scale: rows)
    planned = plan(experiment, scale="paper", protocol=protocol, datasets=datasets, seeds=seeds,
                   threads=threads)  # fmt: skip
    fits = [_known(fit, imports) for fit in planned]
    store = Store(Path(out))
    run = engines.named(engine, jobs=jobs or engines.jobs_for(threads), scheduler=scheduler)
    sweep(missing(fits, store, again=True), store, run, quiet=not verbose)
    found = _table(View(experiment, fits, store))
    content = {"cells": found.cells, "notes": found.notes}
    write(Path(out) / "table.json", (to_json(content, indent=1) + "\n").encode())
    write(Path(out) / "table.md", f"{found}\n".encode())
    return found


def _check(row: Row) -> None:
    system = row.data.get("system")
    if system not in simulate.PRESETS:
        raise InputError(f"rows: {row.name} has the system {system!r}; wanted one of "
                         f"{', '.join(simulate.PRESETS)}, or simulate.PRESETS[{system!r}] = "
                         "(function, settings)")  # fmt: skip
    unknown = [cell for cell in row.cells if cell not in METRICS]
    if unknown or not row.cells:
        raise InputError(f"rows: {row.name} has the cells {', '.join(row.cells) or 'none'}; wanted "
                         f"some of {', '.join(METRICS)}")  # fmt: skip


def _known(fit: Fit, imports: Sequence[str]) -> Fit:
    """A few steps of its system go into the name of a fit: a system that changes is another."""
    settings = {k: v for k, v in fit.row.data.items() if k not in ("system", "starts")}
    few = simulate.preset(fit.row.data["system"], rng=np.random.default_rng(0),
                          **settings | {"trials": 2, "steps": 20})  # fmt: skip
    where = fit.config["where"] | {"imports": list(imports)}
    return replace(fit, config=fit.config | {"probe": few.fingerprint(), "where": where})


def _table(view: View) -> Table:
    cells = {row.name: {m: summary([100 * v for v in view.values(row.name, m)]) for m in row.cells}
             for row in view.rows}  # fmt: skip
    notes = []
    for fit in view.fits:
        record = view.found.get(fit.name, {})
        if "error" in record:
            notes.append(f"{fit.label}: {record['error'].splitlines()[0]}")
        reasons = record.get("metrics", {}).get("reasons", {})
        notes += [f"{fit.row.name}, {METRICS[m].label}: {reasons[m]}" for m in fit.row.cells
                  if m in reasons]  # fmt: skip
    return Table(cells, list(dict.fromkeys(notes)))


def _said(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "–"
    spread = "" if cell["std"] is None else f" ± {cell['std']:.2f}"
    return f"{cell['mean']:.2f}{spread}"
