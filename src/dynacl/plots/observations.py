"""Observations as they came: one row per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dynacl.data import InputError
from dynacl.plots.style import QUANTITY, axes, dressed, in_time, word

COLUMNS = 1000  # steps that are drawn; of more, every so many
NAMED = 12  # channels, up to which their names are written


def observations(
    y: Any,
    names: Sequence[str] | None = None,
    *,
    interval: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One trial (time, channels), each channel in units of its own spread around its mean."""
    table = np.asarray(y, dtype=float)
    if table.ndim != 2 or len(table) == 0:
        raise InputError(f"y: got shape {table.shape}; wanted (time, channels)")
    spread = table.std(0)
    shown = (table - table.mean(0)) / np.where(spread > 0, spread, 1)
    stride = max(1, -(-len(table) // COLUMNS))
    step, words = in_time(interval)
    D = table.shape[1]
    panel = axes(ax, float(np.clip(1.2 + 0.04 * D, 1.8, 3.2)))
    drawn = panel.imshow(
        shown[::stride].T,
        aspect="auto",
        cmap=QUANTITY,
        vmin=-2.5,
        vmax=2.5,
        interpolation="nearest",
        extent=(0, len(table) * step, D - 0.5, -0.5),
    )
    bar = panel.figure.colorbar(drawn, ax=panel, aspect=30)
    bar.set_label("standard deviations", fontsize="small")
    bar.ax.tick_params(labelsize="x-small")
    bar.outline.set_visible(False)
    dressed(panel, words, "channel")
    if names is not None and D <= NAMED:
        panel.set_yticks(range(D), [word(name) for name in names])
        panel.set_ylabel("")
    else:
        panel.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    return panel
