"""What every tool gets: arrays to learn from, arrays to be judged on, and the truth for the judge.

Three kinds of tasks. "latents": embed fresh trials, and say where each state is ten steps on.
"modes": name the regime of each step. "machine": simulate an output under a known input.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measured
from dynacl import TimeSeries, simulate

AHEAD = 10  # steps, of dynR²
WARMUP = 50  # samples of a machine that every tool sees before it simulates
STEPS = 1000  # of a trial, as in the paper
SAMPLES = {"tiny": 4_000, "small": 50_000, "paper": 1_000_000}


@dataclass
class Task:
    """`given` is what tools see; `truth` is a series or labels, and stays here."""

    name: str
    kind: str
    given: dict[str, Any]
    truth: Any = None
    words: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def simulated(name: str, kind: str, size: str, seed: int, d: int, **options: Any) -> Task:
    """The paper's system of this name, and fresh trials of it."""
    n, rng = SAMPLES[size], np.random.default_rng(seed)
    system = options.pop("system", name)
    cut = (
        {"trials": 1, "steps": n} if system == "lorenz" else {"trials": n // STEPS, "steps": STEPS}
    )
    series = simulate.preset(system, rng=rng, **cut, **options)
    fresh = simulate.again(series, rng=rng, trials=max(2, n // STEPS // 10), steps=STEPS)
    given = parts("", series) | parts("test_", fresh) | {"d": d}
    given |= {"x": series.truth.latents, "test_x": fresh.truth.latents, "dt": 1.0}
    facts = simulate.system(series.truth.system)
    given["dt"] = facts.time_step
    if series.truth.modes is not None:
        given["K"] = int(series.truth.modes.max()) + 1
    return Task(
        name, kind, given, fresh, f"{n:,} samples of {series.observations.shape[1]} channels"
    )


def parts(prefix: str, series: TimeSeries) -> dict[str, Any]:
    found = {f"{prefix}y": series.observations, f"{prefix}lengths": series.lengths}
    if series.control is not None:
        found[f"{prefix}u"] = series.control
    return found


def mocap(size: str, seed: int) -> Task:
    """Six sequences of exercises; the labels are judged on the frames that were learned from."""
    series = TimeSeries.read(
        recordings() / "mocap6.npz", key="X", label_key="TrueZ", trial_key="doc_range"
    )
    y = series.observations.astype(float)
    y = (y - y.mean(0)) / y.std(0)
    (label,) = series.labels.values()
    kinds = np.unique(label, return_inverse=True)[1]
    given = {"y": y, "lengths": series.lengths, "test_y": y, "test_lengths": series.lengths}
    given |= {"d": 8, "K": int(kinds.max()) + 1}
    return Task("mocap6", "modes", given, kinds, f"{len(y):,} frames of 12 channels")


def machine(name: str, test: str) -> Callable[[str, int], Task]:
    def read(size: str, seed: int) -> Task:
        found = measured.DATA[name](recordings())
        train, held_out = found["train"], found[test]
        if size == "tiny":
            train, held_out = (part.head(1000) for part in (train, held_out))
        given = parts("", train) | parts("test_", held_out) | {"warmup": WARMUP, "d": 4}
        words = f"{len(train):,} samples, {len(held_out):,} simulated"
        return Task(name, "machine", given, held_out.observations, words)

    return read


def recordings() -> Path:
    folder = os.environ.get("DYNACL_DATA")
    if not folder:
        raise SystemExit("DYNACL_DATA: not set; wanted the folder that has the recordings")
    return Path(folder)


def _drawn(name: str, kind: str, d: int, **options: Any) -> Callable[[str, int], Task]:
    return lambda size, seed: simulated(name, kind, size, seed, d, **options)


TASKS: dict[str, Callable[[str, int], Task]] = {
    "lds": _drawn("lds", "latents", 3),
    "slds": _drawn("slds", "latents", 6),
    "lorenz": _drawn("lorenz", "latents", 3),
    "slds-linear": _drawn(
        "slds-linear", "modes", 6, system="slds", mixing="linear", switch_probability=0.002
    ),
    "mocap6": mocap,
    "silverbox": machine("silverbox", "sweep"),
    "tanks": machine("tanks", "validation"),
}
