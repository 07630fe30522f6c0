"""What `select` tried: how well each choice predicts, and which one it recommends."""

from __future__ import annotations

from matplotlib.axes import Axes

from dynacl.choosing.rule import CLEARLY, Row, Selection, said
from dynacl.data import InputError
from dynacl.plots.style import MUTED, TRUE, axes, colours, dressed, legend, word

LATENTS = "n_components"


def selection(found: Selection, *, ax: Axes | None = None) -> Axes:
    """Decibels of each choice over its number of latents, a curve for each kind of dynamics.

    The band is what counts as no gain below the best. A ring is the choice that is recommended.
    """
    rows = [row for row in found.rows if row.decibels is not None]
    if not rows or any(LATENTS not in row.choice for row in rows):
        raise InputError("selection: wanted choices of n_components, as `select` gives them")
    kinds = list(dict.fromkeys(_kind(row) for row in rows))
    panel = axes(ax, 2.6)
    for kind, colour in zip(kinds, colours(len(kinds)), strict=True):
        mine = sorted((row for row in rows if _kind(row) == kind), key=_latents)
        panel.errorbar([_latents(row) for row in mine], [row.decibels or 0.0 for row in mine],
                       [row.error or 0.0 for row in mine], fmt="o-", color=colour, markersize=3.5,
                       linewidth=1.3, capsize=2, label=word(kind))  # fmt: skip
    best = max(row.decibels or 0.0 for row in rows)
    panel.axhspan(best - CLEARLY, best, color=MUTED, alpha=0.2, linewidth=0)
    for name, line in (("VAR", "--"), ("ARX", "--"), ("persistence", ":")):
        if name in found.beside:
            panel.axhline(found.beside[name], color=MUTED, linestyle=line, linewidth=1, label=name)
    if found.recommended is not None:
        row = found.rows[found.recommended]
        panel.plot(_latents(row), row.decibels or 0.0, "o", markersize=10, markerfacecolor="none",
                   markeredgecolor=TRUE, label="recommended")  # fmt: skip
    panel.set_xticks(sorted({_latents(row) for row in rows}))
    legend(panel)
    dressed(panel, "latents", "predicted over missed (dB)")
    return panel


def _latents(row: Row) -> int:
    return int(row.choice[LATENTS])


def _kind(row: Row) -> str:
    """All of a choice but its number of latents."""
    rest = [value if isinstance(value, str) else said({name: value})
            for name, value in row.choice.items() if name != LATENTS]  # fmt: skip
    return ", ".join(rest)
