"""Figures of several runs, or of the data alone: consistency, canonical correlations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dynacl.data import InputError
from dynacl.plots.style import FOUND, MUTED, ON_DARK, ON_LIGHT, QUANTITY, axes, dressed, word

WRITTEN = 8  # runs, up to which the numbers stand in the matrix
SHOWN = 30  # canonical correlations, at most


def consistency(matrix: Any, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """R² of the affine map from each run's embedding to each other's (`metrics.consistency`)."""
    figures = np.asarray(matrix, dtype=float)
    n = len(figures)
    if figures.shape != (n, n) or n < 2:
        raise InputError(f"matrix: got shape {figures.shape}; wanted (n, n) of at least two runs")
    said = [str(i + 1) for i in range(n)] if names is None else [word(name) for name in names]
    if len(said) != n:
        raise InputError(f"names: got {len(said)}; wanted {n}, one for each run")
    panel = axes(ax, 2.9)
    low = min(0.0, float(figures.min())) if figures.min() < 0.5 else 0.5
    drawn = panel.imshow(figures, cmap=QUANTITY, vmin=max(low, -1.0), vmax=1)
    if n <= WRITTEN:
        for (i, j), one in np.ndenumerate(figures):
            light = (one - low) / max(1 - low, 1e-9) > 0.55
            panel.text(j, i, f"{one:.2f}", ha="center", va="center", fontsize="x-small",
                       color=ON_LIGHT if light else ON_DARK)  # fmt: skip
    bar = panel.figure.colorbar(drawn, ax=panel, shrink=0.8, aspect=30)
    bar.set_label("R²", fontsize="small")
    bar.ax.tick_params(labelsize="x-small")
    bar.outline.set_visible(False)
    dressed(panel, "to run", "from run")
    long = max(map(len, said)) > 3
    panel.set_xticks(range(n), said, rotation=45 if long else 0, ha="right" if long else "center")
    panel.set_yticks(range(n), said)
    return panel


def canonical_correlations(
    values: Any, n_components: int | None = None, *, ax: Axes | None = None
) -> Axes:
    """Of a window with the window after it: those that are not near 0 bound the dimensions.

    n_components: how many latents the model has; what is beyond is drawn in grey.
    """
    found = np.asarray(values, dtype=float)
    if found.ndim != 1 or len(found) == 0:
        raise InputError(f"values: got shape {found.shape}; wanted (n,), as "
                         "canonical_correlations_ has them")  # fmt: skip
    shown = found[:SHOWN]
    panel = axes(ax, 2.0)
    d = len(shown) if n_components is None else n_components
    at = np.arange(1, len(shown) + 1)
    panel.bar(at, shown, width=0.7, color=[FOUND if i < d else MUTED for i in range(len(shown))])
    if n_components is not None and d < len(shown):
        panel.axvline(d + 0.5, color=MUTED, linewidth=0.8, linestyle=":")
        panel.annotate(f"{d} latents", (d + 0.5, 1), (0, 2), textcoords="offset points",
                       ha="center", va="bottom", fontsize="x-small", color=MUTED)  # fmt: skip
    panel.set_ylim(0, 1)
    panel.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    dressed(panel, "component", "correlation")
    return panel
