"""Neuroscientist: from a file of spikes to held-out proof, a decoded stimulus and a report.

python examples/walks/neuroscientist.py --out walks/neuro              # made-up data, seconds
DYNACL_DATA=… python examples/walks/neuroscientist.py --measured       # Allen, Natural Movie 1
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dynacl import DCL, TimeSeries, behaviour, decode_labels, evidence, plots, report
from dynacl.data import Array
from dynacl.inspection import doubts

FILE = "allen_movie1_ca_VISp_pseudomouse800_seed111.npz"
# Five frames show more of the state than one; a step is a third of a second; more steps of the
# training learn the noise of this recording by heart (docs/reproduction/allen-quick.md).
ALLEN = {"n_components": 8, "time_lags": (0, 5, 10, 15, 20), "time_offset": 10, "max_iter": 150}


def measured(folder: str) -> TimeSeries:
    """800 cells of visual cortex, ten repeats of a film (de Vries 2020; Deitch et al. 2021)."""
    return TimeSeries.read(Path(folder) / FILE, key="neural", label_key="frame", trial_key="repeat")


def rates(rng: np.random.Generator, cells: int, frames: int) -> tuple[Array, Array]:
    """The phase of a film that goes round three times, and spikes that each cell fires at it."""
    phase = 2 * np.pi * np.arange(frames) / (frames / 3)
    liked = rng.uniform(0, 2 * np.pi, cells)
    return phase, 0.4 * np.exp(2 * (np.cos(phase[:, None] - liked) - 1))


def made_up(seed: int = 0, cells: int = 60, repeats: int = 6, frames: int = 150) -> TimeSeries:
    """Cells that like a phase of the film, and fire by chance."""
    rng = np.random.default_rng(seed)
    phase, rate = rates(rng, cells, frames)
    spikes = [rng.poisson(rate) for _ in range(repeats)]
    return TimeSeries.of(spikes, labels={"phase": np.tile(np.cos(phase), repeats)})


def walk(series: TimeSeries, out: Path, *, nulls: Any = ("shuffle",), **model: Any) -> Any:
    """The model, the evidence, what labels are decoded; report and picture in `out`."""
    for doubt in doubts(series):
        print("doubt:", doubt)
    last = series.n_trials - 1  # the last repeat is held out
    fitted = DCL(dynamics="linear", validation=[last], random_state=0, **model).fit(series)
    found = evidence(fitted, series, nulls=nulls)
    told = decode_labels(fitted, series)
    out.mkdir(parents=True, exist_ok=True)
    report.write(out / "report.html", fitted, series, title="Responses to a film")
    draw(fitted, series).savefig(out / "neuroscientist.png", dpi=110)
    return fitted, found, told


def draw(model: DCL, series: TimeSeries) -> Figure:
    """The embedding, coloured by the label: repeats that were trained on, and the one held out."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    past = model.settings_.past
    ((name, label),) = series.labels.items()
    labels = [part[past:] for part in series.split(label)]
    z = model.transform(series)
    panels = figure.subplots(1, 2)
    for axis, some, title in zip(
        panels, (slice(-1), slice(-1, None)), ("trained on", "held out"), strict=True
    ):
        plots.embedding(z[some], labels[some], name=name, axes_of=z, ax=axis)
        axis.set_title(title, fontsize="small")
    ends = np.array([[axis.get_xlim(), axis.get_ylim()] for axis in panels])
    (left, bottom), (right, top) = ends[..., 0].min(0), ends[..., 1].max(0)
    for axis in panels:  # one section of one plane
        axis.set_aspect("equal", "box")
        axis.set(xlim=(left, right), ylim=(bottom, top))
    return figure


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measured", action="store_true", help="read Allen from DYNACL_DATA")
    parser.add_argument("--out", default="walks/neuroscientist")
    options = parser.parse_args(arguments)
    started = time.process_time()
    if options.measured:
        series, model = measured(os.environ["DYNACL_DATA"]), ALLEN
    else:
        series, model = made_up(), {"n_components": 3, "time_lags": (0, 2, 4), "max_iter": 60}
    fitted, found, told = walk(series, Path(options.out), **model)
    print(fitted.verdict_)
    print(found)
    print(behaviour.table(told))
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()
