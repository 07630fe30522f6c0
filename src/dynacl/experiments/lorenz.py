"""The Lorenz system: step size against noise, and the number of modes that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynacl.experiments.plan import Claim, Experiment, Row, grid_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dynacl.data import Array
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

SIZE = {"trials": 1, "steps": 1_000_000}
STARTS = [[0, 1, 0], [1, 0, 0], [2, 2, 2], [0, 0, 1], [3, 3, 3]]  # of the paper's five data sets
MODES = 200  # the paper says 100–200 for a million samples
TILES = "tiles"  # dynamics of the bank that tiles the flow, in rows named …/switching
# The paper prints the ends of its range of dt; the value between is ours.
GRID: dict[str, dict[str, tuple[Any, ...]]] = {
    "smoke": {"dt": (0.01,), "noise": (0.001,), "modes": (2, 5)},
    "quick": {"dt": (0.0005, 0.01), "noise": (0.001, 0.1), "modes": (10, 50, 200)},
    "paper": {"dt": (0.0005, 0.002, 0.01), "noise": (0.001, 0.01, 0.1),
              "modes": (10, 50, 100, 200, 400)},
}  # fmt: skip


def row(
    name: str,
    model: str,
    cells: tuple[str, ...],
    place: dict[str, Any] | None = None,
    *,
    dt: float = 0.01,
    noise: float = 0.001,
    modes: int = MODES,
) -> Row:
    """model: dynamics, of which "switching" is the bank. The baseline has one too, afterwards."""
    return Row(
        name=f"{name}/{model}" + ("" if modes == MODES else f"-{modes}"),
        data={"system": "lorenz", "dt": dt, "noise": noise, **SIZE, "starts": STARTS},
        model={
            "n_components": 3,
            "dynamics": TILES if model == "switching" else model,
            "n_modes": modes,
        },
        cells=cells,
        family="lorenz",
        post_hoc=TILES if model == "identity" else None,
        place=place or {},
        datasets=len(STARTS),
    )


def rows(scale: str) -> list[Row]:
    return [
        row(f"dt={dt:g},noise={noise:g}", model, ("r2",),
            {"panel": f"σ = {noise:g}", "x": dt, "curve": model}, dt=dt, noise=noise)
        for noise in grid_of(scale, GRID)["noise"]
        for dt in grid_of(scale, GRID)["dt"]
        for model in ("identity", "switching")
    ]  # fmt: skip


def mode_rows(scale: str) -> list[Row]:
    grid = grid_of(scale, GRID)
    steps = grid["dt"] if grid is GRID["paper"] else (0.01,)
    panel = "mean over dt" if len(steps) > 1 else f"dt = {steps[0]:g}"
    most = max(m for m in grid["modes"] if m <= MODES)
    return [
        row(f"dt={dt:g},noise={noise:g}", model, ("r2",),
            {"panel": panel, "x": modes, "curve": f"{model}, σ = {noise:g}"},
            dt=dt, noise=noise, modes=modes)
        for noise in grid["noise"]
        for dt in steps
        for modes in grid["modes"]
        for model in ("identity", "switching")
        if model == "switching" or modes == most  # a baseline has no modes but afterwards
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
    from dynacl.plots import style

    figure = drawing.sheet(12, 3 * len(settings))
    colours = (style.TRUE, drawing.COLOURS["identity"], style.FOUND)
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
            axis.plot(in_order(modes), ".", color=style.FOUND, markersize=1)
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
    note="200 modes. The paper prints dt 0.0005 to 0.01; the value between, 0.002, is ours. "
    "Our protocol trains tiles by a recipe of their own: ∇-SLDS minus baseline then compares "
    "recipes (docs/reproduction.md).",
    reduced={"quick": "dt 0.0005 and 0.01, noise 0.001 and 0.1"},
    claims=(
        Claim("dt 0.01, σ 0.001: ∇-SLDS minus baseline",
              ("dt=0.01,noise=0.001/switching", "r2"), ("dt=0.01,noise=0.001/identity", "r2")),
        Claim("dt 0.0005, σ 0.1: baseline minus ∇-SLDS",
              ("dt=0.0005,noise=0.1/identity", "r2"), ("dt=0.0005,noise=0.1/switching", "r2")),
    ),
    figures=figures,
)  # fmt: skip
NUMBER_OF_MODES = Experiment(
    name="lorenz_modes",
    title="Lorenz system: number of modes",
    source="fig:lorenz-ablation",
    rows=mode_rows,
    note="Our protocol trains tiles, however many, by a recipe of their own.",
    reduced={"quick": "dt 0.01 alone, noise 0.001 and 0.1, K 10, 50, 200"},
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
