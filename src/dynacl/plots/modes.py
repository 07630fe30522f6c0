"""Modes: when each is on, how long it lasts, and which follows which."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from dynacl.data import Array, InputError
from dynacl.plots.style import (
    CATEGORIES,
    MUTED,
    ON_DARK,
    ON_LIGHT,
    QUANTITY,
    TRUE,
    axes,
    colours,
    dressed,
    in_time,
    in_trials,
    legend,
    logarithmic,
    palette,
)

ROWS = 60  # trials that a raster shows, at most
RARE = 0.01  # share of steps; rarer switches are counted per 1,000
SHADES = 15  # of grey, in a transition matrix, below which numbers are written in it


def mode_raster(
    modes: Any, *, n_modes: int | None = None, interval: float | None = None, ax: Axes | None = None
) -> Axes:
    """The mode of each step, one row per trial; trials may differ in length."""
    trials = _checked(modes)
    shown = trials[:ROWS]
    K = n_modes or 1 + max(int(m.max(initial=0)) for m in trials)
    image = np.full((len(shown), max(map(len, shown))), np.nan)
    for row, found in zip(image, shown, strict=True):
        row[: len(found)] = np.where(found < 0, np.nan, found)
    panel = axes(ax, min(3.2, 1.3 + 0.06 * len(shown)))
    step, words = in_time(interval)
    drawn = panel.imshow(
        image,
        aspect="auto",
        cmap=palette(K),
        vmin=-0.5,
        vmax=K - 0.5,
        interpolation="nearest",
        extent=(0, image.shape[1] * step, len(shown) - 0.5, -0.5),
    )
    panel.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    if len(CATEGORIES) >= K:
        legend(panel, handles=[Patch(color=c, label=f"mode {k}") for k, c in enumerate(colours(K))])
    else:
        bar = panel.figure.colorbar(drawn, ax=panel, aspect=30)
        bar.set_label("mode", fontsize="small")
        bar.ax.tick_params(labelsize="x-small")
    dressed(panel, words, "trial")
    return panel


def mode_durations(
    modes: Any, *, n_modes: int | None = None, interval: float | None = None, ax: Axes | None = None
) -> Axes:
    """How long each mode lasts: a dot per visit, and the median.

    A visit that began before its trial or goes on behind it is drawn open, and counts as long as it
    was seen. Without these, long visits would be missing from the median.
    """
    trials = _checked(modes)
    K = n_modes or 1 + max(int(m.max(initial=0)) for m in trials)
    step, _ = in_time(interval)
    found = [visits(m) for m in trials]
    mode, length, whole = (np.concatenate(part) for part in zip(*found, strict=True))
    panel = axes(ax, min(4.0, 0.9 + 0.24 * K))
    rng = np.random.default_rng(0)  # scatters dots, so that all are seen
    for k, colour in enumerate(colours(K)):
        mine = mode == k
        at = k + rng.uniform(-0.28, 0.28, mine.sum())
        for some, face in ((whole[mine], colour), (~whole[mine], "none")):
            panel.scatter(length[mine][some] * step, at[some], s=9, facecolors=face,
                          edgecolors=colour, linewidths=0.7)  # fmt: skip
        if mine.any():
            middle = float(np.median(length[mine])) * step
            panel.plot([middle, middle], [k - 0.4, k + 0.4], color=TRUE, linewidth=1.6)
    logarithmic(panel, "x")
    panel.set_ylim(K - 0.5, -0.5)
    panel.yaxis.set_major_locator(MaxNLocator(min(K, 10), integer=True))
    panel.grid(axis="x", color=MUTED, alpha=0.25, linewidth=0.5)
    dressed(panel, f"duration of a visit ({'time steps' if interval is None else 's'})", "mode")
    return panel


def visits(modes: Array) -> tuple[Array, Array, Array]:
    """Of one trial: the mode of each visit, its length, and whether it lies within the trial."""
    modes = np.asarray(modes)
    if len(modes) == 0:
        return np.zeros(0, int), np.zeros(0, int), np.zeros(0, bool)
    starts = np.r_[0, np.flatnonzero(np.diff(modes)) + 1]
    ends = np.r_[starts[1:], len(modes)]
    return modes[starts], ends - starts, (starts > 0) & (ends < len(modes))


def transitions(matrix: Any, *, ax: Axes | None = None) -> Axes:
    """How often one mode follows another: rows sum to 1. The diagonal stays out of the colours.

    It is near 1 where modes last, and nothing else would be seen beside it. Rare switches are
    counted per 1,000 steps.
    """
    P = np.asarray(matrix, dtype=float)
    if P.ndim != 2 or P.shape[0] != P.shape[1]:
        raise InputError(f"matrix: got shape {P.shape}; wanted (K, K)")
    panel = axes(ax, 2.8)
    others = np.where(np.eye(len(P), dtype=bool), np.nan, P)
    top = np.nanmax(others) if len(P) > 1 else 1.0
    per = 1000 if top < RARE else 1
    drawn = panel.imshow(per * others, cmap=QUANTITY, vmin=0, vmax=max(per * top, 1e-12))
    if len(P) <= SHADES // 2:
        for (i, j), p in np.ndenumerate(P):
            light = i != j and p > 0.6 * top
            said = "–" if i == j and per > 1 else f"{per * p:.2g}"
            panel.text(j, i, said, ha="center", va="center", fontsize="x-small",
                    color=MUTED if i == j else ON_LIGHT if light else ON_DARK)  # fmt: skip
    bar = panel.figure.colorbar(drawn, ax=panel, shrink=0.8, aspect=30)
    of = "switches per 1,000 steps" if per > 1 else "share of steps, where it changes"
    bar.set_label(of, fontsize="small")
    bar.ax.tick_params(labelsize="x-small")
    bar.outline.set_visible(False)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(min(len(P), 8), integer=True))
    dressed(panel, "to mode", "from mode")
    return panel


def _checked(modes: Any) -> list[Array]:
    trials = in_trials(modes)
    if not trials or any(m.ndim != 1 or m.dtype.kind not in "iu" for m in trials):
        raise InputError("modes: wanted whole numbers, one vector per trial, as DCL.modes gives "
                         "them")  # fmt: skip
    if not any(len(m) for m in trials):
        raise InputError("modes: has no steps; wanted at least one")
    return trials
