"""A sweep: what is missing is run, each result is one file, written whole or not at all.

`OUT/runs/NAME.json` is the result of the configuration with that hash, `NAME.npz` its arrays.
Started again, a sweep reads what is there and does the rest.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dynacl.data import Array, InputError, write_npz
from dynacl.experiments import plan
from dynacl.experiments.fitting import Outcome
from dynacl.experiments.plan import Config, Fit
from dynacl.persistence import to_json
from dynacl.writing import remove_leftovers, write

Engine = Callable[[Sequence[Config]], Iterator[Outcome]]
Record = dict[str, Any]


class Store:
    """Results in a folder, by name."""

    def __init__(self, out: Path) -> None:
        self.runs = Path(out) / "runs"
        remove_leftovers(self.runs)

    def get(self, name: str) -> Record | None:
        path = self.runs / f"{name}.json"
        try:
            record: Record = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: is not valid JSON: {error}; remove it") from error
        return record

    def arrays(self, name: str) -> dict[str, Array]:
        path = self.runs / f"{name}.npz"
        if not path.is_file():
            return {}
        with np.load(path, allow_pickle=False) as loaded:
            return {k: loaded[k] for k in loaded.files}

    def put(self, name: str, outcome: Outcome, label: str = "") -> None:
        """The arrays first: where there is a .json, all is there."""
        self.runs.mkdir(parents=True, exist_ok=True)
        if outcome.arrays:
            write_npz(self.runs / f"{name}.npz", outcome.arrays)
        config = {k: v for k, v in outcome.record["config"].items() if k != "where"}
        record = outcome.record | {"name": name, "config": config, "label": label}
        text = to_json(record, indent=1, sort_keys=True)
        write(self.runs / f"{name}.json", (text + "\n").encode())

    def state(self, name: str) -> str:
        record = self.get(name)
        return "missing" if record is None else str(record["state"])

    def records(self) -> Iterator[Record]:
        for path in sorted(self.runs.glob("*.json")):
            found = self.get(path.stem)
            if found is not None:
                yield found

    def repeats(self) -> tuple[list[int], list[int]]:
        """Numbers of the data sets and seeds of all results."""
        configs = [r["config"] for r in self.records()]
        datasets = sorted({c["data"]["dataset"] for c in configs})
        return datasets, sorted({c["seed"] for c in configs})


def missing(fits: Sequence[Fit], store: Store, again: bool = False) -> list[Fit]:
    """Fits without a result, each once; failed ones count as done unless `again`."""
    wanted = {"missing", "failed"} if again else {"missing"}
    unique = {f.name: f for f in reversed(fits)}
    return [f for f in reversed(unique.values()) if store.state(f.name) in wanted]


def sweep(fits: Sequence[Fit], store: Store, engine: Engine) -> None:
    """Run these fits and keep every result as it comes, also of those that fail."""
    labels = {f.name: f.label for f in fits}
    with Display(len(fits)) as display:
        for outcome in engine([f.config for f in fits]):
            name = plan.name(outcome.record["config"])
            store.put(name, outcome, labels[name])
            display.show(labels[name], outcome.record)


class Display:
    """A bar on a terminal, a line per fit in a log, with the time that is left."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.started = time.monotonic()
        self.bar = (
            tqdm(total=total, unit="fit", dynamic_ncols=True) if sys.stderr.isatty() else None
        )

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def show(self, label: str, record: Record) -> None:
        self.done += 1
        numbers = record.get("metrics", {})
        r2 = numbers.get("r2")
        said = record.get("error") or ("done" if r2 is None else f"R² {r2:.4f}")
        text = f"{label}: {said.splitlines()[0]}"
        if self.bar is not None:
            self.bar.update(1)
            self.bar.set_postfix_str(text)
            if record["state"] == "failed":
                self.bar.write(f"failed: {text}", file=sys.stderr)
            return
        spent = time.monotonic() - self.started
        left = spent / self.done * (self.total - self.done)
        print(f"[{self.done}/{self.total}] {text} ({record['seconds']:.0f} s; {span(left)} left)",
              file=sys.stderr, flush=True)  # fmt: skip


def span(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def expected(fits: Sequence[Fit], store: Store) -> dict[str, float]:
    """Seconds of each fit the last time, or of other data sets and seeds of its row."""
    own = {f.name: float(r["seconds"]) for f in fits if (r := store.get(f.name)) is not None}
    alike: dict[str, list[float]] = {}
    for record in store.records():
        if record["state"] == "done":
            alike.setdefault(_kind(record["config"]), []).append(record["seconds"])
    for f in fits:
        if f.name not in own and (seconds := alike.get(_kind(f.config))):
            own[f.name] = statistics.fmean(seconds)
    return own


def _kind(config: Config) -> str:
    """A configuration without what differs between repeats."""
    data = {k: v for k, v in config["data"].items() if k != "dataset"}
    return json.dumps(
        [data, config["model"], config["training"], config["control"]], sort_keys=True
    )
