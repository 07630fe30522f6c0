"""Predictions beside what happened, and what they miss by number of steps ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from dynacl.data import Array, InputError
from dynacl.plots.style import (
    CURVES,
    FOUND,
    MUTED,
    TRUE,
    axes,
    dressed,
    in_time,
    legend,
    logarithmic,
    word,
)
from dynacl.prediction import HeldOut

LINES: dict[str, Any] = {"linear start": "--", "VAR": "-.", "ARX": "-.", "persistence": ":",
                         "identity control": (0, (5, 1, 1, 1, 1, 1))}  # fmt: skip


def forecast(
    predicted: Any,
    observed: Any = None,
    *,
    past: Any = None,
    interval: tuple[Any, Any] | None = None,
    beside: Mapping[str, Any] | None = None,
    stride: int = 1,
    step: float | None = None,
    name: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One channel: what was predicted from time 0 on, and what happened.

    predicted, observed: one number per step ahead. past: what was known, up to time 0. interval:
    the lower and the upper end, one number per step each. beside: other predictions, by name.
    stride: samples that one step of the model takes. step: seconds between two samples.
    """
    predicted = _line(predicted, "predicted")
    width, words = in_time(step)
    ahead = width * stride * np.arange(1, len(predicted) + 1)
    panel = axes(ax, 1.9)
    if interval is not None:
        low, high = (_line(end, "interval", len(predicted)) for end in interval)
        panel.fill_between(ahead, low, high, color=FOUND, alpha=0.2, linewidth=0)
    if past is not None:
        known = _line(past, "past")
        panel.plot(width * np.arange(1 - len(known), 1), known, color=TRUE, linewidth=1.4)
    if observed is not None:
        happened = _line(observed, "observed")
        panel.plot(width * np.arange(1, len(happened) + 1), happened, color=TRUE, linewidth=1.4,
                   label="observed")  # fmt: skip
    for other, values in (beside or {}).items():
        line = _line(values, f"beside[{other!r}]", len(predicted))
        panel.plot(ahead, line, linestyle=LINES.get(other, "--"), color=CURVES.get(other, MUTED),
                   linewidth=1.1, label=other)  # fmt: skip
    panel.plot(ahead, predicted, color=FOUND, linewidth=1.4, label="model")
    panel.axvline(0, color=MUTED, linewidth=0.6)
    legend(panel)
    panel.xaxis.set_major_locator(MaxNLocator(6))
    dressed(panel, f"{words} from the start of the forecast", word(name))
    return panel


def held_out(found: HeldOut, *, ax: Axes | None = None) -> Axes:
    """The share of the variance of observations that each model misses, by steps ahead."""
    if len(found.horizons) == 1:
        return _held_out_at_once(found, ax)
    panel = axes(ax, 2.3)
    for name, missed in found.missed.items():
        shown = np.where(np.isfinite(missed), missed, np.nan)
        panel.plot(found.horizons, shown, marker="o", markersize=3.5, linewidth=1.3,
                   linestyle=LINES.get(name, "-"), color=CURVES.get(name, MUTED),
                   label=name)  # fmt: skip
    panel.axhline(1, color=MUTED, linewidth=0.6)
    panel.annotate("the mean would do as well", (0, 1), (3, 3), ha="left",
                   xycoords=("axes fraction", "data"), textcoords="offset points",
                   fontsize="x-small", color=MUTED)  # fmt: skip
    logarithmic(panel, "y")
    low, high = panel.get_ylim()
    panel.set_ylim(low, max(high, low**-0.15))  # room for the words above their line
    if max(found.horizons) > 8:
        panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(list(found.horizons)))
    panel.xaxis.set_major_formatter("{x:.0f}")
    panel.xaxis.set_minor_locator(NullLocator())
    legend(panel)
    dressed(panel, "steps ahead", "share of variance missed")
    return panel


def _held_out_at_once(found: HeldOut, ax: Axes | None) -> Axes:
    """The same where there is one number of steps: a row for each model."""
    panel = axes(ax, 0.7 + 0.2 * len(found.missed))
    for row, (name, missed) in enumerate(found.missed.items()):
        panel.plot(missed[0], row, "o", color=CURVES.get(name, MUTED), markersize=4.5)
    panel.axvline(1, color=MUTED, linewidth=0.6)
    panel.set_yticks(range(len(found.missed)), list(found.missed))
    panel.set_ylim(len(found.missed) - 0.5, -0.5)
    panel.set_xlim(0, None)
    panel.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.5)
    ahead = found.horizons[0]
    dressed(panel, f"variance missed {ahead} step{'s' * (ahead > 1)} ahead (1: the mean)")
    return panel


def _line(values: Any, name: str, length: int | None = None) -> Array:
    found: Array = np.asarray(values, dtype=float)
    if found.ndim != 1 or (length is not None and len(found) != length):
        wanted = "one number per step" if length is None else f"{length} numbers, one per step"
        raise InputError(f"{name}: got shape {found.shape}; wanted {wanted}")
    return found
