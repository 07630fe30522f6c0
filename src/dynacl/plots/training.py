"""How the training went: the loss, and what was missed of held-out data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dynacl.data import InputError
from dynacl.plots.style import BLUE, CURVES, FOUND, MUTED, axes, dressed, legend, logarithmic, word
from dynacl.run import Record


def training(
    histories: Sequence[Record] | Mapping[str, Sequence[Record]],
    chance: float | None = None,
    *,
    several_from: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The loss over the steps, beside that of guessing.

    histories: `history_` of a model, or those of several by name. chance: the loss of guessing
    (`run_.chance`); None where there is nothing to guess among. several_from: the step from which
    the model is asked for several steps ahead, which is harder.
    """
    several = histories if isinstance(histories, Mapping) else {"training data": histories}
    panel = axes(ax, 2.2)
    for name, history in several.items():
        losses = [r["loss"] for r in history]
        panel.plot([r["step"] for r in history], losses, color=CURVES.get(name, FOUND),
                   linewidth=1.3, label=word(name))  # fmt: skip
    if chance is not None:
        panel.axhline(chance, color=MUTED, linestyle=":", linewidth=1, label="chance")
    if several_from is not None and several_from > 0:
        panel.axvline(several_from, color=MUTED, linewidth=0.8)
        panel.annotate("several steps\nahead from here", (several_from, 1), (4, 0), va="top",
                       xycoords=("data", "axes fraction"), textcoords="offset points",
                       color=MUTED, fontsize="x-small",
                       bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
    legend(panel)
    panel.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    dressed(panel, "training step", "loss")
    return panel


def held_out_curve(history: Sequence[Record], *, ax: Axes | None = None) -> Axes:
    """What the model missed of held-out observations, each time that the training looked."""
    seen = [(r["step"], r["held_out"]) for r in history if "held_out" in r]
    if not seen:
        raise InputError("history: nothing was held out; wanted a fit with validation")
    # A record repeats the last look until there is a new one.
    looks = [seen[0], *(new for old, new in itertools.pairwise(seen) if new[1] != old[1])]
    steps, figures = np.array(looks).T
    panel = axes(ax, 1.9)
    panel.plot(steps, np.exp(figures), "o-", color=BLUE, markersize=3.5, linewidth=1.3)
    if np.ptp(figures) > np.log(3):  # else its ticks would be of many digits
        logarithmic(panel, "y")
    panel.set_xlim(0, None)
    panel.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    dressed(panel, "training step", "share missed, held out")
    return panel
