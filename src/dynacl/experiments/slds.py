"""Switching systems: faster rotations and more noise, against the baseline and the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dynacl.experiments.plan import Claim, Experiment, Row, grid_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dynacl.data import Array
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

# The reference of all experiments on switching systems; settings that equal it are not repeated
# in a configuration, so that its fits are found by every experiment.
REFERENCE = {"trials": 1000, "steps": 1000, "d": 6, "modes": 5, "angle": 10.0, "noise": 1e-4,
             "switch_probability": 1e-4, "layers": 4}  # fmt: skip
MODELS = ("identity", "switching", "truth")
GRID: dict[str, dict[str, tuple[Any, ...]]] = {
    "smoke": {"angle": (10.0,), "noise": (1e-4,)},
    "quick": {"angle": (5.0, 10.0, 20.0), "noise": (1e-4, 1e-2)},
    "paper": {"angle": (5.0, 10.0, 20.0), "noise": (1e-4, 1e-3, 1e-2)},
}


def row(
    name: str,
    dynamics: str,
    cells: tuple[str, ...],
    place: dict[str, Any] | None = None,
    sized: bool = False,
    **changed: Any,
) -> Row:
    """A model on the reference system with some settings changed."""
    setting = REFERENCE | changed
    size = {k: setting[k] for k in ("trials", "steps")}
    differs = {k: v for k, v in changed.items() if v != REFERENCE[k] and k not in size}
    return Row(
        name=f"{name}/{dynamics}",
        data={"system": "slds", **size, **differs},
        model={"n_components": setting["d"], "dynamics": dynamics, "n_modes": setting["modes"]},
        cells=cells,
        post_hoc="switching" if dynamics == "identity" else None,
        fresh=True,  # shown by `test_split`, which shares its fits with all experiments on SLDS
        place=(place or {}) | {"curve": dynamics},
        sized=sized,
    )


def rows(scale: str) -> list[Row]:
    return [
        row(f"angle={angle:g},noise={noise:g}", dynamics, ("r2", "mode_accuracy"),
            {"panel": f"σ = {noise:g}", "x": angle}, angle=angle, noise=noise)
        for noise in grid_of(scale, GRID)["noise"]
        for angle in grid_of(scale, GRID)["angle"]
        for dynamics in MODELS
    ]  # fmt: skip


def figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    return {
        "slds": drawing.curves(view, ("r2", "mode_accuracy"), "largest angle [°]"),
        "slds-trajectories": rotations((0.0,), 4),
        "slds-example-modes": rotations((1e-4, 1e-2), 5),
        **examples(view, "slds-modes", [r.name for r in view.rows if r.name.endswith("switching")]),
    }


def rotations(noises: Sequence[float], modes: int, steps: int = 600) -> Figure:
    """Trajectories of single modes of data set 0, three dimensions of the six per panel."""
    from dynacl import simulate
    from dynacl.experiments import drawing
    from dynacl.plots import style

    figure = drawing.sheet(2.4 * modes, 2.4 * len(noises))
    for i, noise in enumerate(noises):
        rng = np.random.default_rng(0)
        data = simulate.slds(rng=rng, trials=1, steps=2, mixing="none", noise=noise)
        assert data.truth is not None
        for k in range(modes):
            A, x = data.truth.system["matrices"][k], np.ones(6) / 6**0.5
            path = []
            for _ in range(steps):
                path.append(x)
                x = A @ x + noise * rng.standard_normal(6)
            axis = figure.add_subplot(len(noises), modes, i * modes + k + 1, projection="3d")
            axis.plot(*np.array(path)[:, :3].T, color=style.TRUE, linewidth=0.6)
            axis.set_title(f"mode {k + 1}" + (f", σ = {noise:g}" if noise else ""), fontsize=9)
            drawing.bare(axis)
    return figure


def examples(view: View, name: str, rows: Sequence[str]) -> Figures:
    """True and recovered latents and modes of the trial that switches most of all that are kept."""
    from dynacl.experiments import drawing
    from dynacl.plots import style

    trials = [
        (row, kept, slice(int(a), int(b)))
        for row in rows
        if (kept := view.example(row))
        for a, b in pairwise(kept["bounds"])
    ]
    if not trials:
        return {}
    row, kept, shown = max(trials, key=lambda t: _switches(*t[1:]))
    true, found = kept["true"][shown], kept["recovered"][shown]
    d = true.shape[1]
    figure = drawing.sheet(8, 0.7 * d + 1.2)
    axes = figure.subplots(d + ("modes" in kept), 1, sharex=True, squeeze=False)[:, 0]
    for j in range(d):
        axes[j].plot(true[:, j], color=style.TRUE, linewidth=2, label="true")
        axes[j].plot(found[:, j], "--", color=style.FOUND, linewidth=1.2, label="recovered")
    if "modes" in kept and "true_modes" in kept:
        steps = np.arange(len(true) - 1)  # the last has no mode
        told, inferred = (kept[k][shown][:-1] for k in ("true_modes", "modes"))
        axes[-1].step(steps, told, color=style.TRUE, linewidth=2)
        axes[-1].step(steps, matched(told, inferred), "--", color=style.FOUND, linewidth=1.2)
        axes[-1].set_ylabel("mode")
    axes[0].legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    axes[0].set_title(row, loc="left", fontsize=9)
    axes[-1].set_xlabel("time step")
    return {name: figure}


def _switches(kept: dict[str, Array], trial: slice) -> int:
    return int(np.count_nonzero(np.diff(kept.get("true_modes", np.zeros(0))[trial][:-1])))


def matched(told: Array, inferred: Array) -> Array:
    """Inferred modes under the labels that fit the true ones best."""
    from scipy.optimize import linear_sum_assignment

    K = int(max(told.max(), inferred.max())) + 1
    counts = np.zeros((K, K), dtype=int)
    np.add.at(counts, (inferred, told), 1)
    labels: Array = linear_sum_assignment(counts, maximize=True)[1]
    return labels[inferred]


EXPERIMENT = Experiment(
    name="slds",
    title="Switching dynamics: angles and noise",
    source="fig:slds, fig:slds-example-modes",
    rows=rows,
    note="The paper counts 162 fits here; the full grid of angles, noise levels and models with "
    "nine repeats is 243.",
    reduced={"quick": "noise 1e-4 and 1e-2, one data set, one seed"},
    claims=tuple(
        Claim(f"{angle:g}°, σ 1e-4: {text}", (f"angle={angle:g},noise=0.0001/{more}", metric),
              (f"angle={angle:g},noise=0.0001/{less}", metric), sign)
        for angle in (5.0, 10.0, 20.0)
        for text, more, less, metric, sign in (
            ("DCL minus baseline", "switching", "identity", "r2", 1),
            ("DCL minus baseline, mode accuracy", "switching", "identity", "mode_accuracy", 1),
            ("oracle minus DCL", "truth", "switching", "r2", 0),
        )
    ),
    figures=figures,
)  # fmt: skip
