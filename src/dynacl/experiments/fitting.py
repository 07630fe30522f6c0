"""One fit: configuration in, numbers and a few arrays out. It writes nothing and knows no engine.

The number of threads is part of the configuration, because sums over threads round differently:
so the same configuration gives the same numbers in every engine.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from dynacl import inference, metrics, simulate
from dynacl._version import __version__
from dynacl.data import Array, InputError, TimeSeries
from dynacl.estimator import DCL
from dynacl.evaluation import against_truth
from dynacl.experiments.plan import Config
from dynacl.settings import tuples

ROOT = Path(__file__).parent.parent  # of the package
EXAMPLE = 2_000  # rows of latents and modes that are kept for pictures
LONG_EXAMPLE = 10_000  # of a single long trial: the paper draws as many of its attractor
FRESH = 100_000  # most steps of a fresh trial
# Rooms that cannot change the result of a configuration: they say what is asked for, where it runs
# or what is shown. All other sources count, so that a new one counts from the start.
NO_EFFECT = (
    "__main__", "_version", "cli", "demo", "plots", "portrait", "progress", "report",
    *(f"experiments.{name}" for name in (
        "ablations", "allen", "baselines", "compute", "control", "dynr2", "kde", "lorenz", "mcc",
        "noninjective", "slds", "table1", "vmf",
        "catalogue", "drawing", "engines", "render", "reproduce", "runner", "store", "verdicts",
        "workers",
    )),
)  # fmt: skip
Numbers = dict[str, Any]


@dataclass
class Outcome:
    """What comes back from a fit, also from one that failed: `record` is its JSON file."""

    record: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)


def run(config: Config) -> Outcome:
    """Simulate, fit and evaluate. An error goes into the record; an interrupt goes through."""
    started = time.perf_counter()
    record: dict[str, Any] = {"config": config, "state": "done"}
    arrays: dict[str, Array] = {}
    with threads(config["threads"]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            record["metrics"], arrays = fit(config)
            record["fit_seconds"] = record["metrics"].pop("fit_seconds", None)
        except Exception as error:
            record |= {"state": "failed", "error": f"{type(error).__name__}: {error}"}
            record["traceback"] = traceback.format_exc()
    record["seconds"] = round(time.perf_counter() - started, 3)
    record |= {"dynacl": __version__, "torch": torch.__version__, "sources": fingerprint()}
    record |= {"machine": platform.machine(), "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    return Outcome(record, arrays)


def fit(config: Config) -> tuple[Numbers, dict[str, Array]]:
    if "choice" in config:
        from dynacl.experiments import selecting  # which imports the engines, and they this

        return selecting.fit(config)
    series = simulated(config)
    if "baseline" in config["model"]:
        return fit_other(config, series), {}
    training = series if config["control"] else replace(series, control=None)
    if series.truth is None:  # a recording: its last trial is held out
        training = series.select(range(series.n_trials - 1))
    arguments = tuples(config["model"]) | config["training"]
    model = DCL(**arguments, random_state=config["seed"])
    model.fit(training)
    if model.run_.interrupted:
        raise KeyboardInterrupt
    numbers: Numbers = {"steps": model.n_iter_, "fit_seconds": model.run_.seconds}
    if model.history_:
        numbers["loss"] = model.history_[-1]["loss"]
    if series.truth is None:
        held = series.select([series.n_trials - 1])
        return numbers, {
            "train": np.concatenate(model.transform(training)),
            "validation": np.concatenate(model.transform(held)),
        }
    numbers |= against_truth(model, series, post_hoc=config["post_hoc"])
    if config["fresh"]:
        fresh = fresh_trials(config, series)
        numbers["fresh"] = against_truth(model, fresh, post_hoc=config["post_hoc"], train=series)
    return numbers, example(model, series)


def fresh_trials(config: Config, series: TimeSeries) -> TimeSeries:
    """New trials of the system and mixing of a fit's data."""
    rng = np.random.default_rng([config["data"]["dataset"], 1])
    return simulate.again(series, rng=rng, steps=min(int(series.lengths[0]), FRESH))


def fit_other(config: Config, series: TimeSeries) -> Numbers:
    """TCL, PCL or TDRL: the best during training, as the paper reports them, and the last."""
    assert series.truth is not None
    latents = series.truth.latents

    def judge(x: Array) -> Mapping[str, float]:
        return {"r2": metrics.r2(latents, x), "mcc": metrics.mcc(latents, x)}

    model = dict(config["model"])
    fitted = other_models().fit_baseline(
        model.pop("baseline"),
        series,
        domains=series.truth.modes,
        metric=judge,
        seed=config["seed"],
        **model,
    )
    if fitted.interrupted:
        raise KeyboardInterrupt
    found = {name: fitted.best(name) for name in ("r2", "mcc")}
    return found | {f"{name}_last": fitted.last(name) for name in ("r2", "mcc")}


def other_models() -> Any:
    """The package of TCL, PCL, TDRL and their data; nothing else here depends on it."""
    try:
        return importlib.import_module("dynacl.baselines")
    except ImportError as error:
        raise InputError(f"baselines: dynacl.baselines is not installed ({error})") from error


def simulated(config: Config) -> TimeSeries:
    for module in config["where"].get("imports", ()):
        importlib.import_module(module)  # which knows the system
    return data(json.dumps(config["data"], sort_keys=True), config["where"].get("path"))


@lru_cache(maxsize=1)
def data(settings: str, path: str | None = None) -> TimeSeries:
    """The data set of these settings; the last one stays, as fits of one data set come together."""
    chosen: dict[str, Any] = json.loads(settings)
    system, dataset = chosen.pop("system"), chosen.pop("dataset")
    rng = np.random.default_rng(dataset)
    if path is not None:
        return recorded(path, chosen, rng)
    if system == "changing":
        series: TimeSeries = other_models().changing(rng=rng, **chosen)
        return series
    if starts := chosen.pop("starts", None):
        chosen["start"] = starts[dataset % len(starts)]
    return simulate.preset(system, rng=rng, **chosen)


def recorded(path: str, chosen: dict[str, Any], rng: np.random.Generator) -> TimeSeries:
    """A recording of repeats, each a trial; shuffled in time within each repeat to compare with."""
    whole = TimeSeries.read(path, key=chosen["key"] if path.endswith(".npz") else None)
    if len(whole) % chosen["repeats"]:
        raise InputError(f"{path}: {len(whole)} samples; wanted {chosen['repeats']} equal repeats")
    series = TimeSeries.of(
        whole.given(), trial_length=len(whole) // chosen["repeats"], name=Path(path).name
    )
    if not chosen["shuffle"]:
        return series
    order = np.concatenate([a + rng.permutation(b - a) for a, b in series.spans()])
    return replace(series, observations=series.observations[order])


def example(model: DCL, whole: TimeSeries) -> dict[str, Array]:
    """Latents of the first rows, true and recovered, and modes: what the pictures show."""
    series, x, _ = model._latents(model._driven(whole))  # time lags cost a trial its first rows
    assert series.truth is not None
    most = LONG_EXAMPLE if series.n_trials == 1 else EXAMPLE
    rows = slice(0, min(most, len(series)))
    L, b = metrics.affine(x, series.truth.latents)
    kept = {
        "true": series.truth.latents[rows],
        "recovered": (x[rows] @ L.T + b).astype(np.float32),
        "bounds": np.append(series.bounds[series.bounds < rows.stop], rows.stop),
    }
    if series.control is not None:
        kept["control"] = series.control[rows]
    if series.truth.modes is not None:
        kept["true_modes"] = series.truth.modes[rows].astype(np.int32)
    f = model.run_.dynamics
    if f.infers_modes:
        offset = model.settings_.time_offset
        found = inference.modes(f, series, x, x, offset)
        kept["modes"] = found[rows].astype(np.int32)
    return kept


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        with threadpool_limits(n):  # NumPy's pool, as in the workers of an engine
            yield
    finally:
        torch.set_num_threads(before)


@cache
def fingerprint(root: Path = ROOT) -> str:
    """Hash of the sources that a result depends on; a table says if its results mix several."""
    digest = hashlib.sha256()
    for file in sources(root):
        path, content = file.relative_to(root).as_posix(), file.read_bytes()
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def sources(root: Path = ROOT) -> list[Path]:
    """Every .py and .c file of the package but those of rooms without effect."""
    left_out = tuple(f"{room}." for room in NO_EFFECT)  # of a file or of a folder
    return sorted(
        file
        for file in root.rglob("*")
        if file.suffix in (".py", ".c")
        and not ".".join((*file.relative_to(root).with_suffix("").parts, "")).startswith(left_out)
    )
