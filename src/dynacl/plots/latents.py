"""Latents over time beside the truth, where it is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dynacl.data import InputError
from dynacl.plots.style import CURVES, FOUND, TRUE, axes, dressed, in_time, legend, word


def recovered(
    true: Any,
    aligned: Mapping[str, Any],
    *,
    interval: float | None = None,
    name: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One dimension of the true state over time, with recovered ones (already aligned) on top."""
    truth = np.asarray(true, dtype=float)
    panel = axes(ax, 1.6)
    step, words = in_time(interval)
    time = step * np.arange(len(truth))
    panel.plot(time, truth, color=TRUE, linewidth=2.2, label="true")
    for who, x in aligned.items():
        if np.shape(x) != truth.shape or truth.ndim != 1:
            raise InputError(f"aligned[{who!r}]: got shape {np.shape(x)}; wanted that of the "
                             f"truth, (time,), which has {truth.shape}")  # fmt: skip
        panel.plot(time, x, "--", color=CURVES.get(who, FOUND), linewidth=1.3, label=word(who))
    legend(panel)
    dressed(panel, words, word(name))
    return panel
