"""A sweep: what is missing is run, each result is one file, written whole or not at all.

`OUT/runs/NAME.json` is the result of the configuration with that hash, `NAME.npz` its arrays.
Started again, a sweep reads what is there and does the rest. What is damaged is missing.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from tqdm.auto import tqdm

from dynacl.experiments import plan
from dynacl.experiments.fitting import Outcome
from dynacl.experiments.plan import Config, Fit
from dynacl.experiments.store import Record, Store
from dynacl.progress import say, shows_bars

Engine = Callable[[Sequence[Config]], Iterator[Outcome]]


def missing(fits: Sequence[Fit], store: Store, again: bool = False) -> list[Fit]:
    """Fits without a whole result, each once; failed ones count as done unless `again`."""
    wanted = {"missing", "failed"} if again else {"missing"}
    unique = {f.name: f for f in reversed(fits)}
    return [
        f for f in reversed(unique.values())
        if store.state(f.name) in wanted or store.damage(f.name)
    ]  # fmt: skip


def sweep(fits: Sequence[Fit], store: Store, engine: Engine, *, quiet: bool = False) -> None:
    """Run these fits and keep every result as it comes, also of those that fail."""
    if fits:
        store.check_writable()
    labels = {f.name: f.label for f in fits}
    for name in labels:
        if why := store.damage(name):
            places = " and ".join(map(str, store.set_aside(name)))
            say(f"damaged: {labels[name]} ({name}.json {why}); it is set aside as {places} and "
                "run again")  # fmt: skip
    with Display(len(fits), quiet) as display:
        for outcome in engine([f.config for f in fits]):
            name = plan.name(outcome.record["config"])
            store.put(name, outcome, labels[name])
            display.show(labels[name], outcome.record)


class Display:
    """A bar on a terminal, a line per fit in a log, with the time that is left."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self.total, self.done, self.quiet = total, 0, quiet
        self.started = time.monotonic()
        bar = shows_bars() and not quiet
        self.bar = tqdm(total=total, unit="fit", dynamic_ncols=True) if bar else None

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def show(self, label: str, record: Record) -> None:
        self.done += 1
        if self.quiet:
            return
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
        say(f"[{self.done}/{self.total}] {text} ({record['seconds']:.0f} s; {span(left)} left)")


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
