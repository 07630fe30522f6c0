"""The embedding: latents in two or three dimensions, coloured by what is known of each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dynacl.data import Array, InputError
from dynacl.plots.style import (
    CATEGORIES,
    COLUMN,
    MUTED,
    QUANTITY,
    axes,
    colours,
    dressed,
    fitting,
    in_time,
    in_trials,
    legend,
    word,
)

MOST = 20_000  # points that are drawn, evenly spread
NAMED = 12  # categories that a legend lists; more are drawn as a quantity


def embedding(
    latents: Any,
    by: str | Sequence[Any] | Array = "time",
    *,
    dimensions: int = 2,
    name: str | None = None,
    interval: float | None = None,
    axes_of: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Latents in their first principal components, 2 or 3 of them.

    latents: (T, d), or a list of such trials, as `transform` gives them. by: "time" since the start
    of a trial, "trial", or one entry per step, in the same trials: labels, or modes as
    `DCL.modes` gives them, whose last steps are not known and drawn in grey. name: of what colours.
    interval: seconds between two steps. axes_of: latents whose principal components are taken, so
    that several pictures have the same axes; None: those that are drawn.
    """
    trials = in_trials(latents)
    if dimensions not in (2, 3):
        raise InputError(f"dimensions: got {dimensions!r}; wanted 2 or 3")
    if any(x.ndim != 2 for x in trials) or len({x.shape[1] for x in trials}) > 1:
        raise InputError("latents: wanted (time, d) arrays of the same d")
    values, said = _values(trials, by)
    if isinstance(by, str) and by == "time":
        step, said = in_time(interval)
        values = step * values
    of = None if axes_of is None else np.concatenate(in_trials(axes_of))
    points, labels = principal(np.concatenate(trials), dimensions, of)
    some = np.linspace(0, len(points) - 1, min(MOST, len(points))).astype(int)
    height = fitting(points) if dimensions == 2 else 2.9
    panel: Any = axes(ax, height, projection="3d" if dimensions == 3 else None)
    _scatter(panel, points[some], values[some], word(name or said))
    dressed(panel, labels[0], labels[1])
    panel.set(xticks=[], yticks=[])
    if dimensions == 3:
        panel.set(zticks=[])
        panel.set_zlabel(labels[2], fontsize="small")
        panel.set_box_aspect(None, zoom=0.85)  # room for the words
        for axis in (panel.xaxis, panel.yaxis, panel.zaxis):
            axis.labelpad = -12  # there are no numbers between them and the axes
    else:
        panel.set_aspect("equal", "datalim")
    drawn: Axes = panel
    return drawn


def principal(x: Array, dimensions: int, of: Array | None = None) -> tuple[Array, list[str]]:
    """The first principal components, and a name with its share of the variance for each.

    of: what they are the components of; None: x. Where latents have fewer dimensions than are asked
    for, what lacks is 0 and has no name.
    """
    centre, vectors, share = principal_axes(x if of is None else of)
    found = np.zeros((len(x), dimensions))
    n = min(dimensions, x.shape[1])
    found[:, :n] = (x - centre) @ vectors[:, :n]
    return found, [f"PC {i + 1} ({share[i]:.0%})" if i < n else "" for i in range(dimensions)]


def principal_axes(x: Array) -> tuple[Array, Array, Array]:
    """The mean, the principal axes as columns, and the share of the variance along each."""
    x = np.asarray(x, dtype=float)
    variance, vectors = np.linalg.eigh(np.cov(x.T).reshape(x.shape[1], -1))
    # An axis has no sign; the larger weights are taken to be positive, so that runs look alike.
    vectors = vectors[:, ::-1] * np.where(vectors[:, ::-1].sum(0) < 0, -1, 1)
    share = variance[::-1].clip(min=0)
    return x.mean(0), vectors, share / max(share.sum(), np.finfo(float).tiny)


def _values(trials: list[Array], by: Any) -> tuple[Array, str]:
    """What colours each step, and the word for it; None where it is not known."""
    if isinstance(by, str):
        if by == "time":
            return np.concatenate([np.arange(len(x), dtype=float) for x in trials]), "time step"
        if by == "trial":
            return np.repeat(np.arange(len(trials)), [len(x) for x in trials]), "trial"
        raise InputError(f'by: got {by!r}; wanted "time", "trial" or one entry per step')
    given = in_trials(by)
    if len(given) == 1 and len(trials) > 1 and len(given[0]) == sum(map(len, trials)):
        return given[0], "label"  # in one piece
    short = [len(x) - len(v) for x, v in zip(trials, given, strict=False)]
    if len(given) != len(trials) or min(short) < 0 or any(v.ndim != 1 for v in given):
        raise InputError(f"by: got {len(given)} trials of {[len(v) for v in given][:5]} entries; "
                         "wanted one per step, in the trials of the latents")  # fmt: skip
    if not any(short):
        return np.concatenate(given), "label"
    ends = [np.full(n, -1, dtype=v.dtype) for n, v in zip(short, given, strict=True)]
    joined = [part for pair in zip(given, ends, strict=True) for part in pair]
    return np.concatenate(joined), "mode"


def _scatter(ax: Any, points: Array, values: Array, name: str) -> None:
    size = float(np.clip(2e4 / len(points), 1.2, 12))
    look = {"s": size, "linewidths": 0, "rasterized": True}
    kinds = np.unique(values) if values.dtype.kind != "f" else np.array([])
    if 0 < len(kinds) <= (NAMED if values.dtype.kind in "US" else len(CATEGORIES) + (-1 in kinds)):
        known = [k for k in kinds if not _unknown(k)]
        shades = dict(zip(known, colours(len(known)), strict=True))
        shown = np.array([shades.get(v, MUTED) for v in values.tolist()])
        ax.scatter(*points.T, c=shown, **look)
        dots = [Line2D([], [], marker="o", linestyle="", markersize=4, color=shades[k],
                       label=word(f"{name} {k}" if values.dtype.kind in "iu" else k))
                for k in known]  # fmt: skip
        legend(ax, handles=dots, handletextpad=0.1)
        return
    if values.dtype.kind in "US":  # too many names for colours: by their order
        values = np.unique(values, return_inverse=True)[1]
    numbers = np.asarray(values, dtype=float)
    drawn = ax.scatter(*points.T, c=numbers, cmap=QUANTITY, **look)
    bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.8, aspect=30, pad=0.02 * COLUMN)
    bar.set_label(name, fontsize="small")
    bar.ax.tick_params(labelsize="x-small")
    bar.outline.set_visible(False)


def _unknown(kind: Any) -> bool:
    """A mode that is not known, or a label without text."""
    return bool(kind == -1) if not isinstance(kind, str) else kind == ""
