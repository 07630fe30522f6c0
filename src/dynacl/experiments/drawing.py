"""What the figures share: names and colours of models, sheets, curves with error bars.

The one module of the experiments that imports matplotlib. The figures live with their experiments,
which import this when they draw. None touches pyplot.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from dynacl.plots.style import CURVES, FOUND, GREEN, MUTED, TRUE

if TYPE_CHECKING:
    from dynacl.experiments.plan import Row
    from dynacl.experiments.render import View

NAMES = {"identity": "baseline", "switching": "∇-SLDS", "linear": "LDS", "truth": "oracle"}
COLOURS = {"identity": CURVES["baseline"], "plain": MUTED, "switching": FOUND,
           "linear": FOUND, "corrected": FOUND, "truth": TRUE,
           "asymmetric": GREEN}  # fmt: skip
LABELS = {"r2": "R² [%]", "mode_accuracy": "mode accuracy [%]", "consistency": "consistency [%]"}
LINES = ("o-", "s--", "^:", "D-.")  # of the details of a model's curves, in turn
FRESH = "x--"
Figures = dict[str, Figure]


def sheet(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    return Figure(figsize=(width, height), layout="constrained")


def curves(
    view: View,
    metrics: Sequence[str],
    x_label: str = "",
    log: bool = False,
    beside: str = "",
) -> Figure:
    """Mean and standard deviation over x: a column per panel, a row per metric, a curve per model.

    A curve "model, detail" has its model's colour and its detail's line. beside: a prefix of
    metrics that are drawn dashed in the same panel. What was not run is left out.
    """
    panels = list(dict.fromkeys(row.place["panel"] for row in view.rows))
    width, height = max(4.8, 2.6 * len(panels) + 1), 2.4 * len(metrics) + 0.6
    figure = sheet(width, height)
    axes = figure.subplots(len(metrics), len(panels), squeeze=False, sharey="row")
    details = list(dict.fromkeys(row.place["curve"].partition(", ")[2] for row in view.rows))
    for i, metric in enumerate(metrics):
        for j, panel in enumerate(panels):
            axis = axes[i, j]
            rows = [row for row in view.rows if row.place["panel"] == panel]
            for curve in dict.fromkeys(row.place["curve"] for row in rows):
                model, _, detail = curve.partition(", ")
                label = NAMES.get(model, model) + (f", {detail}" if detail else "")
                mine = [row for row in rows if row.place["curve"] == curve]
                style = LINES[details.index(detail) % len(LINES)]
                colour = COLOURS.get(model)
                line = _curve(axis, view, mine, metric, style, label=label, color=colour)
                if beside:
                    _curve(axis, view, mine, beside + metric, FRESH, color=line or colour,
                           label=f"{label}, {beside.strip('.')} trials")  # fmt: skip
            values = sorted({row.place["x"] for row in rows})
            if (log or values[-1] >= 30 * max(values[0], 1e-12)) and values[0] > 0:
                axis.set_xscale("log")
            if len(values) <= 6:
                axis.set_xticks(values, [f"{v:g}" for v in values])
                axis.xaxis.set_minor_locator(NullLocator())
            axis.spines[["top", "right"]].set_visible(False)
            if i == 0:
                axis.set_title(panel if x_label else "", fontsize=10)
            if i == len(metrics) - 1:
                axis.set_xlabel(x_label or panel)
        axes[i, 0].set_ylabel(LABELS.get(metric, metric))
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", frameon=False,
                      ncols=min(4, 2 * len(panels), len(handles)))  # fmt: skip
    return figure


def _curve(
    axis: Any, view: View, rows: Sequence[Row], metric: str, style: str, **look: Any
) -> str | None:
    """One line with error bars where there are several fits; its colour."""
    points: dict[float, list[float]] = {}
    for row in rows:
        found = view.values(row.name, metric)
        points.setdefault(row.place["x"], []).extend(100 * v for v in found)
    shown = [
        (x, statistics.fmean(v), statistics.stdev(v) if len(v) > 1 else np.nan)
        for x, v in sorted(points.items())
        if v
    ]
    if not shown:
        return None
    x, mean, std = np.array(shown).T
    drawn = axis.errorbar(x, mean, std, fmt=style, markersize=4, capsize=2, alpha=0.8, **look)
    return str(drawn.lines[0].get_color())


def bare(axis: Any) -> None:
    """Three axes without ticks, where only the shape counts."""
    axis.set(xticks=[], yticks=[], zticks=[])
