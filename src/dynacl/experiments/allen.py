"""Calcium imaging of visual cortex: how alike are embeddings of five runs?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynacl.data import Array, InputError
from dynacl.experiments.plan import Claim, Experiment, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

FILE = "*VISp*800*"
KEY = "neural"  # the array of an .npz that holds several
REPEATS = 10  # of the movie, 900 samples each; the last is held out
LAGS = [0, 5, 10, 15, 20]
CELLS = ("consistency", "consistency_validation", "consistency_train")
PAPER = {"batch_size": 512, "n_negatives": 16_384, "max_iter": 10_000, "learning_rate": 1e-4,
         "dynamics_learning_rate": 1e-4}  # fmt: skip
# The default, with its judge: without one, a fit learns the noise by heart.
OURS: dict[str, Any] = {"settings": {}}
ALL = list(itertools.product((8, 16, 32, 64), (1, 5, 10, 15, 20, 25, 30)))
MOST = [(d, offset) for d, offset in ALL if d <= 16 or offset in (1, 10, 30)]
# (latent dimensions, time offset) of recordings as they are, and of shuffled ones
GRID: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {
    "smoke": ([(3, 2)], []),
    "quick": ([(8, 1), (8, 10), (8, 30), (32, 30)], [(8, 30)]),
    "standard": (MOST, MOST),
    "paper": (ALL, ALL),
}


def row(d: int, offset: int, dynamics: str, shuffle: bool) -> Row:
    return Row(
        name=f"{'shuffled,' if shuffle else ''}d={d},offset={offset}/{dynamics}",
        data={"system": "allen", "file": FILE, "key": KEY, "repeats": REPEATS, "shuffle": shuffle},
        model={"n_components": d, "dynamics": dynamics, "time_lags": LAGS, "time_offset": offset},
        cells=CELLS,
        family="lorenz",  # Adam at one rate, no standardisation; the rest stands in PAPER
        paper_training=PAPER,
        our_training=OURS,
        place={"panel": f"d = {d}", "x": offset, "curve": f"{dynamics}{', shuffled' * shuffle}"},
        datasets=1,
        seeds=5,
    )


def rows(scale: str) -> list[Row]:
    return [
        row(d, offset, dynamics, shuffle)
        for shuffle, grid in zip((False, True), GRID[scale], strict=True)
        for d, offset in grid
        for dynamics in ("identity", "linear")
    ]


def values(view: View, name: str, metric: str) -> list[float]:
    """R² between the embeddings of every ordered pair of runs."""
    from dynacl import metrics

    kept = [view.store.arrays(fit.name) for fit in view.done(name)]
    if len(kept) < 2:
        return []
    train, validation = ([a[k] for a in kept] for k in ("train", "validation"))
    fitted = validation if metric == "consistency_validation" else train
    scored = train if metric == "consistency_train" else validation
    try:
        scores = metrics.consistency(fitted, scored)
    except InputError:  # a constant dimension
        return []
    n = len(kept)
    return [float(scores[i, j]) for i in range(n) for j in range(n) if i != j]


def figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    drawn = {"allen": drawing.curves(view, ("consistency",), "time offset")}
    shuffled = [r.name for r in view.rows if r.name.startswith("shuffled,")]
    plain = [n.removeprefix("shuffled,") for n in shuffled] or [r.name for r in view.rows][:2]
    names = [n for n in [*plain[:2], *shuffled[:2]] if view.done(n)]
    if names:
        drawn["allen-shuffle"] = embeddings(view, names)
    return drawn


def embeddings(view: View, names: Sequence[str]) -> Figure:
    """First two principal components: training repeats coloured by time in the movie, raw and
    smoothed, the held-out repeat smoothed and black."""
    from dynacl.experiments import drawing

    figure = drawing.sheet(3 * len(names), 6)
    axes = figure.subplots(2, len(names), squeeze=False)
    for j, name in enumerate(names):
        kept = view.example(name)
        train, held = kept["train"], kept["validation"]
        centre = train.mean(0)
        plane = np.linalg.svd(train - centre, full_matrices=False)[2][:2].T
        line = smoothed(held) @ plane - centre @ plane
        repeats = np.split(train, range(len(held), len(train), len(held)))
        time = np.concatenate([np.arange(len(r)) for r in repeats])
        smooth = np.concatenate([smoothed(r) for r in repeats])
        for i, points in enumerate((train, smooth)):
            flat = (points - centre) @ plane
            axes[i, j].scatter(*flat.T, c=time, s=1, cmap="viridis", rasterized=True)
            axes[i, j].plot(*line.T, color="black", linewidth=1)
            axes[i, j].set_title(name if i == 0 else "smoothed", fontsize=8)
            axes[i, j].set(xticks=[], yticks=[])
    return figure


def smoothed(x: Array, width: int = 151) -> Array:
    """Moving average over `width` samples, shorter at the ends."""
    width = min(width, len(x))
    kernel = np.ones(width)
    weight = np.convolve(np.ones(len(x)), kernel, "same")
    return np.stack([np.convolve(column, kernel, "same") / weight for column in x.T], axis=1)


EXPERIMENT = Experiment(
    name="allen",
    title="Consistency of embeddings of neural recordings",
    source="fig:allen, fig:allen-shuffle",
    rows=rows,
    note=f"Needs --data-dir with a file {FILE} (.npz with an array `{KEY}`, .npy or .csv; 9,000 "
    "samples of 800 neurons, ten repeats of a movie). Five seeds at every scale: consistency is "
    "between runs. Our protocol judges itself here, on a part of the training repeats "
    "that it holds out, and hands out the linear start where that predicts better.",
    reduced={"quick": "five of the settings",
             "standard": "with d 32 and 64, offsets 1, 10 and 30 alone"},
    claims=tuple(
        Claim(f"d {d}, offset {offset}: {text}", (f"d={d},offset={offset}/linear", "consistency"),
              (f"{less}d={d},offset={offset}/{other}", "consistency"), sign)
        for d, offset, text, less, other, sign in (
            (8, 1, "linear minus identity", "", "identity", 0),
            (8, 10, "linear minus identity", "", "identity", 1),
            (8, 30, "linear minus identity", "", "identity", 1),
            (32, 30, "linear minus identity", "", "identity", 1),
            (8, 30, "linear minus shuffled", "shuffled,", "linear", 1),
        )
    ),
    figures=figures,
    values=values,
    needs_data=True,
)  # fmt: skip
