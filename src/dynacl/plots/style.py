"""What all pictures share: colours that everybody can tell apart, sizes, plain axes.

Categories have the colours of Okabe and Ito (2008), quantities those of cividis (Nuñez et al.
2018): both are made to be told apart with any kind of colour vision. A picture is as wide as the
column of a paper, so its letters are read at the size at which they are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from dynacl.data import Array

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
SKY, VERMILION, YELLOW = "#56b4e9", "#d55e00", "#f0e442"
CATEGORIES = (BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW)
TRUE, FOUND, MUTED = "#222222", VERMILION, "#808080"
CURVES = {"DCL": FOUND, "model": FOUND, "baseline": BLUE, "linear start": BLUE, "VAR": GREEN,
          "ARX": GREEN, "identity control": PINK, "persistence": MUTED}  # fmt: skip
QUANTITY = "cividis"
ON_LIGHT, ON_DARK = "#111111", "#fefefe"  # words within a picture, whatever the page is
COLUMN = 3.35  # inches: 85 mm, a column of most journals
LONGEST = 28  # letters of a name that are shown


def colours(n: int) -> list[str]:
    """n colours of categories; of more than there are, an even ramp."""
    if n <= len(CATEGORIES):
        return list(CATEGORIES[:n])
    return [to_hex(c) for c in colormaps[QUANTITY](np.linspace(0, 1, n))]


def palette(n: int) -> ListedColormap:
    return ListedColormap(colours(n))


def axes(
    ax: Axes | None, height: float = 2.4, width: float = COLUMN, *, projection: str | None = None
) -> Axes:
    """These axes, or new ones of this size in inches, on a figure that pyplot does not know."""
    if ax is not None:
        return ax
    figure = Figure(figsize=(width, height), layout="constrained")
    made: Axes = figure.subplots(subplot_kw={"projection": projection})
    return made


def fitting(points: Array) -> float:
    """The height in inches that fits points (n, 2) in a column, at one scale for both axes."""
    across, up = np.maximum(np.ptp(points, axis=0), 1e-30)
    return float(np.clip(0.7 + 2.3 * up / across, 1.6, 3.2))


def dressed(ax: Any, x: str = "", y: str = "", title: str = "") -> None:
    """Axes with their words, and without what is not needed."""
    ax.set_xlabel(x, fontsize="small")
    ax.set_ylabel(y, fontsize="small")
    if title:
        ax.set_title(title, fontsize="medium")
    ax.tick_params(which="both", labelsize="x-small")
    if "top" in ax.spines:
        ax.spines[["top", "right"]].set_visible(False)


class PlainLog(LogFormatter):
    """Words of a logarithmic axis: 0.05 or 700, and powers of ten where numbers are long."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        if not super().__call__(x, pos):  # too many ticks to name this one
            return ""
        return f"{x:g}" if 1e-5 < x < 1e6 else f"$\\mathdefault{{10^{{{np.log10(x):.3g}}}}}$"


def logarithmic(ax: Any, which: str) -> None:
    """The axis "x" or "y" by powers of ten."""
    getattr(ax, f"set_{which}scale")("log")
    axis = getattr(ax, f"{which}axis")
    axis.set_major_formatter(PlainLog())
    axis.set_minor_formatter(PlainLog())


def legend(ax: Any, **how: Any) -> None:
    """Above the axes, where it hides nothing, in as many columns as fit; it reads row by row."""
    handles, names = ax.get_legend_handles_labels()
    if not names and "handles" in how:
        handles, names = how["handles"], [handle.get_label() for handle in how["handles"]]
    if names:
        columns = max(1, min(len(names), int(46 / (4 + max(map(len, names))))))
        by_column = [i for j in range(columns) for i in range(j, len(names), columns)]
        ax.legend(**{"frameon": False, "fontsize": "x-small", "ncols": columns, "loc": "lower left",
                     "bbox_to_anchor": (0, 1), "borderaxespad": 0.2, "handlelength": 1.4,
                     "columnspacing": 1, "handletextpad": 0.5} | how
                  | {"handles": [handles[i] for i in by_column],
                     "labels": [names[i] for i in by_column]})  # fmt: skip


def word(text: Any) -> str:
    """A name that came with data: as it is, not taken for mathematics, and not too long."""
    said = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    said = said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
    return said.replace("$", r"\$")


def in_time(interval: float | None) -> tuple[float, str]:
    """How long a step is, and the words of a time axis."""
    return (1.0, "time step") if interval is None else (float(interval), "time (s)")


def in_trials(values: Any) -> list[Array]:
    """A list of trials, also where there is one array."""
    several = isinstance(values, Sequence) and len(values) > 0 and np.ndim(values[0]) > 0
    return [np.asarray(v) for v in values] if several else [np.asarray(values)]
