"""What `select` tried: how well each choice predicts, and which one it recommends."""

from __future__ import annotations

from matplotlib.axes import Axes

from dynacl.choosing.rule import CLEARLY, Row, Selection, said
from dynacl.data import InputError
from dynacl.plots.style import MUTED, TRUE, axes, colours, dressed, legend, word

LATENTS, MODES = "n_components", "n_modes"
NAMES = {LATENTS: "latents", MODES: "modes"}


def selection(found: Selection, *, ax: Axes | None = None) -> Axes:
    """Decibels of each choice over its number of latents, a curve for each kind of dynamics.

    Over its number of modes, if only that differs. The band is what counts as no gain below the
    best. A ring is the choice that is recommended.
    """
    rows = [row for row in found.rows if row.decibels is not None]
    if not rows or any(LATENTS not in row.choice for row in rows):
        raise InputError("selection: wanted choices of n_components, as `select` gives them")
    over = MODES if len({_at(row, LATENTS) for row in rows}) == 1 < len(
        {_at(row, MODES) for row in rows}) else LATENTS  # fmt: skip
    kinds = list(dict.fromkeys(_kind(row, over) for row in rows))
    panel = axes(ax, 2.6)
    for kind, colour in zip(kinds, colours(len(kinds)), strict=True):
        mine = [row for row in rows if _kind(row, over) == kind]
        mine.sort(key=lambda row: _at(row, over))
        panel.errorbar([_at(row, over) for row in mine], [row.decibels or 0.0 for row in mine],
                       [row.error or 0.0 for row in mine], fmt="o-", color=colour, markersize=3.5,
                       linewidth=1.3, capsize=2, label=word(kind))  # fmt: skip
    best, error = max((row.decibels or 0.0, row.error or 0.0) for row in rows)
    panel.axhspan(best - max(CLEARLY, error), best, color=MUTED, alpha=0.2, linewidth=0)
    for name, line in (("VAR", "--"), ("ARX", "--"), ("persistence", ":")):
        if name in found.beside:
            panel.axhline(found.beside[name], color=MUTED, linestyle=line, linewidth=1, label=name)
    if found.recommended is not None:
        row = found.rows[found.recommended]
        panel.plot(_at(row, over), row.decibels or 0.0, "o", markersize=10, markerfacecolor="none",
                   markeredgecolor=TRUE, label="recommended")  # fmt: skip
    panel.set_xticks(sorted({_at(row, over) for row in rows}))
    legend(panel)
    dressed(panel, NAMES[over], "predicted over missed (dB)")
    return panel


def _at(row: Row, over: str) -> int:
    """Where a choice stands; dynamics without modes have one."""
    return int(row.choice.get(over, 1))


def _kind(row: Row, over: str) -> str:
    """All of a choice but where it stands, and the latents that all share."""
    rest = [value if isinstance(value, str) else said({name: value})
            for name, value in row.choice.items() if name not in (over, LATENTS)]  # fmt: skip
    return ", ".join(rest)
