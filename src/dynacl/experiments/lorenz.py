"""The Lorenz system: step size against noise, and the number of modes that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynacl.experiments import table1
from dynacl.experiments.plan import Claim, Experiment, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dynacl.data import Array
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

# The paper prints the ends of its range of dt; the value between is ours.
GRID: dict[str, dict[str, tuple[Any, ...]]] = {
    "smoke": {"dt": (0.01,), "noise": (0.001,), "modes": (2, 5)},
    "quick": {"dt": (0.0005, 0.01), "noise": (0.001, 0.1), "modes": (10, 50, 200)},
    "paper": {"dt": (0.0005, 0.002, 0.01), "noise": (0.001, 0.01, 0.1),
              "modes": (10, 50, 100, 200, 400)},
}  # fmt: skip


def system(dt: float, noise: float) -> dict[str, Any]:
    """As table1 names its two, so that their fits are found."""
    if (dt, noise) == (0.0005, 0.1):
        return {"system": "lorenz-small-dt"}
    changed = {"dt": dt} if dt != 0.01 else {}
    return {"system": "lorenz", **changed, **({"noise": noise} if noise != 0.001 else {})}


def row(dynamics: str, dt: float, noise: float, modes: int, place: dict[str, Any]) -> Row:
    suffix = "" if modes == table1.LORENZ_MODES else f"-{modes}"
    return Row(
        name=f"dt={dt:g},noise={noise:g}/{dynamics}{suffix}",
        data={**system(dt, noise), **table1.LONG},
        model={"n_components": 3, "dynamics": dynamics, "n_modes": modes},
        cells=("r2",),
        family="lorenz",
        post_hoc="switching" if dynamics == "identity" else None,
        place=place,
        datasets=5,
    )


def rows(scale: str) -> list[Row]:
    return [
        row(dynamics, dt, noise, table1.LORENZ_MODES,
            {"panel": f"σ = {noise:g}", "x": dt, "curve": dynamics})
        for noise in GRID[scale]["noise"]
        for dt in GRID[scale]["dt"]
        for dynamics in ("identity", "switching")
    ]  # fmt: skip


def mode_rows(scale: str) -> list[Row]:
    steps = GRID[scale]["dt"] if scale == "paper" else (0.01,)
    panel = "mean over dt" if len(steps) > 1 else f"dt = {steps[0]:g}"
    most = max(m for m in GRID[scale]["modes"] if m <= table1.LORENZ_MODES)
    return [
        row(dynamics, dt, noise, modes,
            {"panel": panel, "x": modes, "curve": f"{dynamics}, σ = {noise:g}"})
        for noise in GRID[scale]["noise"]
        for dt in steps
        for modes in GRID[scale]["modes"]
        for dynamics in ("identity", "switching")
        if dynamics == "switching" or modes == most  # a baseline has no modes but afterwards
    ]  # fmt: skip


def figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    return {
        "lorenz": drawing.curves(view, ("r2",), "dt", log=True),
        "lorenz-attractors": attractors(view, ((0.0005, 0.1), (0.01, 0.001))),
    }


def attractors(view: View, settings: Sequence[tuple[float, float]]) -> Figure:
    """Ground truth, baseline, ∇-SLDS and its mode sequence: one row per setting."""
    from dynacl.experiments import drawing

    figure = drawing.sheet(12, 3 * len(settings))
    colours = (drawing.TRUE, drawing.COLOURS["identity"], drawing.FOUND)
    for i, (dt, noise) in enumerate(settings):
        place = f"dt={dt:g},noise={noise:g}"
        base, ours = (view.example(f"{place}/{m}") for m in ("identity", "switching"))
        shown = (("true", ours or base, "true"), ("baseline", base, "recovered"),
                 ("∇-SLDS", ours, "recovered"))  # fmt: skip
        for j, (title, kept, key) in enumerate(shown):
            axis = figure.add_subplot(len(settings), 4, 4 * i + j + 1, projection="3d")
            if kept:
                axis.plot(*kept[key].T, color=colours[j], linewidth=0.5)
            of = f"{title}, dt = {dt:g}, σ = {noise:g}" if j == 0 else title
            axis.set_title(of if kept else f"{of}: not run", fontsize=9)
            drawing.bare(axis)
        axis = figure.add_subplot(len(settings), 4, 4 * i + 4)
        if "modes" in ours:
            modes = ours["modes"][ours["modes"] >= 0]  # the last step of a trial has none
            axis.plot(in_order(modes), ".", color=drawing.FOUND, markersize=1)
        axis.set(title="modes, by first visit", xlabel="time step", ylabel="mode")
    return figure


def in_order(modes: Array) -> Array:
    """The same modes, numbered in the order of their first visits."""
    kinds, first, inverse = np.unique(modes, return_index=True, return_inverse=True)
    rank = np.empty(len(kinds), dtype=int)
    rank[first.argsort()] = np.arange(len(kinds))
    ranked: Array = rank[inverse]
    return ranked


def mode_figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    return {"lorenz-modes": drawing.curves(view, ("r2",), "modes in the bank", log=True)}


EXPERIMENT = Experiment(
    name="lorenz",
    title="Lorenz system: step size and noise",
    source="fig:lorenz",
    rows=rows,
    note="200 modes. quick: dt 0.0005 and 0.01, noise 0.001 and 0.1. The paper prints dt 0.0005 to "
    "0.01; the value between, 0.002, is ours. Our protocol trains so many modes by a recipe of "
    "their own: ∇-SLDS minus baseline then compares recipes (docs/reproduction.md).",
    claims=(
        Claim("dt 0.01, σ 0.001: ∇-SLDS minus baseline",
              ("dt=0.01,noise=0.001/switching", "r2"), ("dt=0.01,noise=0.001/identity", "r2")),
        Claim("dt 0.0005, σ 0.1: baseline minus ∇-SLDS",
              ("dt=0.0005,noise=0.1/identity", "r2"), ("dt=0.0005,noise=0.1/switching", "r2")),
    ),
    figures=figures,
)  # fmt: skip
MODES = Experiment(
    name="lorenz_modes",
    title="Lorenz system: number of modes",
    source="fig:lorenz-ablation",
    rows=mode_rows,
    note="quick: dt 0.01 alone, noise 0.001 and 0.1, K 10, 50, 200. paper: all dt, K to 400. Our "
    "protocol trains more than 30 modes by a recipe of their own.",
    claims=(
        Claim("σ 0.001, dt 0.01: 200 modes minus 10",
              ("dt=0.01,noise=0.001/switching", "r2"),
              ("dt=0.01,noise=0.001/switching-10", "r2"), 1),
        Claim("σ 0.001, dt 0.01: 400 modes minus 200",
              ("dt=0.01,noise=0.001/switching-400", "r2"),
              ("dt=0.01,noise=0.001/switching", "r2"), 0),
    ),
    figures=mode_figures,
    shares="lorenz",
)  # fmt: skip
