"""Behaviour: modes of motion capture against labelled actions, beside k-means and two HMMs.

python examples/walks/behaviour.py --out walks/behaviour             # made-up data, seconds
DYNACL_DATA=… python examples/walks/behaviour.py --measured --out …  # mocap6
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dynacl import DCL, TimeSeries, metrics, plots, simulate
from dynacl.data import Array

sys.path.insert(0, str(Path(__file__).parent))
import markov


def measured(folder: str) -> TimeSeries:
    """Six sequences of exercises, twelve joint angles, ten frames a second (Fox et al. 2014)."""
    return TimeSeries.read(
        Path(folder) / "mocap6.npz", key="X", label_key="TrueZ", trial_key="doc_range"
    )


def made_up(seed: int = 0) -> TimeSeries:
    """Two regimes that turn a hidden state, each with its own matrix; the label is the regime."""
    found = simulate.slds(
        rng=np.random.default_rng(seed), d=2, modes=2, trials=8, steps=120, observed=4,
        angle=20, switch_probability=0.02, mixing="linear",
    )  # fmt: skip
    return TimeSeries.of(found.split(found.observations), labels={"action": found.truth.modes})


def walk(
    series: TimeSeries, K: int, d: int, *, seeds: int = 1, **settings: Any
) -> dict[str, list[Array]]:
    """The state of each frame by each method, one list of runs; frame 0 of a trial has none."""
    y = series.observations.astype(float)
    y = (y - y.mean(0)) / y.std(0)
    trials = series.split(y)
    found: dict[str, list[Array]] = {}
    for seed in range(seeds):
        clusters = KMeans(K, n_init=10, random_state=seed).fit_predict(y)
        model = DCL(d, "switching", K, random_state=seed, **settings).fit(series)
        runs = {
            "k-means": [part[1:] for part in series.split(clusters)],
            "Gaussian HMM": [p[1:] for p in markov.fit(trials, K, 0, seed=seed)[0]],
            "autoregressive HMM": markov.fit(trials, K, 1, seed=seed)[0],
            "dynacl": model.modes(series),  # of the step from each frame to the next
        }
        for name, parts in runs.items():
            found.setdefault(name, []).append(np.concatenate(parts))
    return found


def actions(series: TimeSeries) -> Array:
    """The label of every frame but the first of each trial, from 0."""
    (label,) = series.labels.values()
    kinds = np.unique(label, return_inverse=True)[1]
    return np.concatenate([part[1:] for part in series.split(kinds)])


def scores(series: TimeSeries, found: dict[str, list[Array]]) -> dict[str, dict[str, Array]]:
    """Agreement with the labels after matching, and the adjusted Rand index, one per run."""
    true = actions(series)
    return {
        name: {
            "accuracy": np.array([metrics.mode_accuracy(true, run) for run in runs]),
            "adjusted_rand": np.array([adjusted_rand_score(true, run) for run in runs]),
        }
        for name, runs in found.items()
    }


def draw(series: TimeSeries, found: dict[str, list[Array]]) -> Figure:
    """A panel for the labels and one for each method, its states named as labels match best."""
    true = actions(series)
    K = 1 + max(int(true.max()), *(int(runs[0].max()) for runs in found.values()))
    cuts = np.cumsum(series.lengths - 1)[:-1]
    rows = {"labelled actions": true}
    rows |= {name: metrics.matched_modes(true, runs[0]) for name, runs in found.items()}
    figure = Figure(figsize=(7, 1.25 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 1, sharex=True)
    for axis, (name, states) in zip(axes, rows.items(), strict=True):
        plots.mode_raster(np.split(states, cuts), n_modes=K, ax=axis)
        if axis.get_legend() is not None:
            axis.get_legend().remove()
        axis.set_title(name, fontsize="small", loc="left")
        axis.label_outer()
    return figure


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measured", action="store_true", help="read mocap6 from DYNACL_DATA")
    parser.add_argument("--out", default="walks/behaviour")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--max-iter", type=int, default=300, help="training steps of dynacl")
    options = parser.parse_args(arguments)
    if options.measured:
        series, K, d, settings = (
            measured(os.environ["DYNACL_DATA"]),
            12,
            6,
            {"max_iter": options.max_iter},
        )
    else:
        series, K, d, settings = made_up(), 2, 2, {"max_iter": 100, "batch_size": 128}
    started = time.process_time()
    found = walk(series, K, d, seeds=options.seeds, **settings)
    for name, one in scores(series, found).items():
        accuracy, rand = (" ".join(f"{v:.3f}" for v in values) for values in one.values())
        print(f"{name:<20} agrees {accuracy}   adjusted Rand {rand}", flush=True)
    print(f"{time.process_time() - started:.0f} s of processor time")
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    draw(series, found).savefig(out / "behaviour.png", dpi=110)


if __name__ == "__main__":
    main()
