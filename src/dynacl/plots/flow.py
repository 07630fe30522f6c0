"""The flow: where the dynamics takes the states that data visit, and where it stands still."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dynacl.data import Array, InputError
from dynacl.flows import FixedPoints
from dynacl.plots.embedding import principal_axes
from dynacl.plots.style import MUTED, QUANTITY, TRUE, axes, dressed, fitting, in_trials, legend

CELLS = 20  # along each side
FEWEST = 3  # states in a cell that has an arrow
DOTS = 4000  # states that are drawn, evenly spread


def flow_field(
    latents: Any,
    predicted: Any,
    fixed: FixedPoints | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """One step of the dynamics in the plane of the first two principal components.

    latents, predicted: of `DCL.transform` and `DCL.predict`, in the same trials. An arrow is the
    mean step of the states in its cell: nothing is drawn where data never were. Its colour is the
    length of the step. fixed: from `fixed_points`; filled where they attract, open where they do
    not.
    """
    x = np.concatenate(in_trials(latents)).astype(float)
    to = np.concatenate(in_trials(predicted)).astype(float)
    if x.ndim != 2 or x.shape != to.shape:
        raise InputError(f"predicted: got shape {to.shape}; wanted that of the latents, {x.shape}")
    centre, vectors, share = principal_axes(x)
    plane = vectors[:, :2] if x.shape[1] > 1 else np.eye(1, 2)
    labels = [f"PC {i + 1} ({s:.0%})" for i, s in enumerate((*share, 0.0)[:2])]
    flat, step = (x - centre) @ plane, (to - x) @ plane
    at, mean = _in_cells(flat, step)
    length = np.linalg.norm(mean, axis=1)
    # Slow and fast arrows are both seen: lengths by the square root, the colour says how long.
    shown = mean / np.maximum(np.sqrt(length), 1e-30)[:, None]
    panel = axes(ax, fitting(flat))
    some = np.linspace(0, len(flat) - 1, min(DOTS, len(flat))).astype(int)
    panel.plot(*flat[some].T, ".", color=MUTED, markersize=1.5, alpha=0.25, markeredgewidth=0,
               rasterized=True)  # fmt: skip
    if len(at):
        width = max(np.ptp(flat, axis=0).max(), 1e-30) / CELLS
        arrows = panel.quiver(*at.T, *shown.T, length, cmap=QUANTITY, angles="xy", pivot="mid",
                              scale_units="xy", scale=np.sqrt(length.max() or 1) / (1.3 * width),
                              width=0.005, headwidth=3.5, headlength=4,
                              headaxislength=3.6)  # fmt: skip
        bar = panel.figure.colorbar(arrows, ax=panel, shrink=0.8, aspect=30)
        bar.set_label("length of a step", fontsize="small")
        bar.ax.tick_params(labelsize="x-small")
        bar.outline.set_visible(False)
    if fixed is not None and len(fixed.points):
        points = (fixed.points - centre) @ plane
        for stable, face, name in ((True, TRUE, "attracts"), (False, "white", "does not attract")):
            mine = points[fixed.stable == stable]
            if len(mine):
                panel.plot(*mine.T, "o", markersize=6.5, markerfacecolor=face,
                           markeredgecolor=TRUE, markeredgewidth=1.2,
                           label=f"fixed point, {name}")  # fmt: skip
    legend(panel)
    dressed(panel, *labels)
    panel.set(xticks=[], yticks=[])
    panel.set_aspect("equal", "datalim")
    return panel


def _in_cells(flat: Array, step: Array) -> tuple[Array, Array]:
    """The middle of each cell that holds enough states, and their mean step."""
    low, span = flat.min(0), max(float(np.ptp(flat, axis=0).max()), 1e-30)
    cell = np.minimum((CELLS * (flat - low) / span).astype(int), CELLS - 1)
    index = cell[:, 0] * CELLS + cell[:, 1]
    counts = np.bincount(index, minlength=CELLS**2)
    sums = np.stack([np.bincount(index, side, CELLS**2) for side in step.T], 1)
    kept = np.flatnonzero(counts >= FEWEST)
    middle = low + (np.stack([kept // CELLS, kept % CELLS], 1) + 0.5) * span / CELLS
    return middle, sums[kept] / counts[kept, None]
