"""Six variations of the switching system; `test_split` judges the same fits on fresh trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynacl.experiments.plan import Claim, Experiment, Row, grid_of
from dynacl.experiments.slds import MODELS, row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dynacl.data import Array, TimeSeries
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

Panel = dict[str, list[tuple[float, dict[str, Any]]]]


def panels(
    samples: tuple[int, ...],
    lengths: tuple[int, ...],
    layers: tuple[int, ...],
    dimensions: tuple[int, ...],
    modes: tuple[int, ...],
    switching: tuple[float, ...],
) -> Panel:
    """Name of a panel: its values, and the settings that each stands for."""
    million = 1_000_000
    return {
        "samples": [(n, {"steps": n}) for n in samples],
        "length": [(n, {"trials": million // n, "steps": n}) for n in lengths],
        "layers": [(n, {"layers": n}) for n in layers],
        "dimensions": [(n, {"d": n}) for n in dimensions],
        "modes": [(n, {"modes": n}) for n in modes],
        "switching": [(p, {"switch_probability": p}) for p in switching],
    }


FULL = ((1000, 10_000, 100_000, 1_000_000), (1, 2, 3, 4, 5, 6), (3, 6, 10, 15), (2, 5, 10, 20),
        (1e-4, 1e-3, 1e-2, 1e-1, 2e-1))  # fmt: skip
GRID = {
    "smoke": panels((10,), (10_000,), (2,), (3,), (2,), (0.1,)),
    "quick": panels((10, 100, 1000), (1000, 100_000), (1, 4, 6), (3, 6), (2, 5, 10),
                    (1e-4, 1e-2, 1e-1)),
    "standard": panels((10, 100, 1000), *FULL),
    "paper": panels((10, 100, 1000, 10_000), *FULL),
}  # fmt: skip
LABELS = {
    "samples": "samples per trial",
    "length": "length of a trial",
    "layers": "mixing layers",
    "dimensions": "latent dimensions",
    "modes": "modes",
    "switching": "switching probability",
}
CELLS = ("r2", "mode_accuracy")
FRESH_CELLS = ("r2", "fresh.r2", "fresh.r2_train_map", "mode_accuracy", "fresh.mode_accuracy")
NOTE = "The paper does not print its values of latent dimension and modes."
REDUCED = {
    "quick": "100,000 samples where the paper has a million, so that the longest trial is a tenth "
    "as long; fewer values per panel",
    "standard": "without the 10 million samples of 10,000 per trial",
}
SIZES = ("samples", "length")  # panels whose axis is a size


def grid(scale: str, cells: tuple[str, ...]) -> list[Row]:
    models = ("truth",) if scale == "smoke" else MODELS  # the quickest that has modes
    return [
        row(f"{panel}={value:g}" if panel == "switching" else f"{panel}={value}", dynamics, cells,
            {"panel": LABELS[panel], "x": value}, sized=panel in SIZES, **changed)
        for panel, values in grid_of(scale, GRID).items()
        for value, changed in values
        for dynamics in models
    ]  # fmt: skip


def claims() -> tuple[Claim, ...]:
    places = ("samples=10", "samples=100", "samples=1000", "layers=6", "switching=0.1")
    pairs = (
        ("DCL minus baseline", "switching", "identity", 1),
        ("oracle minus DCL", "truth", "switching", 0),
    )
    return tuple(
        Claim(f"{place}: {text}", (f"{place}/{more}", "r2"), (f"{place}/{less}", "r2"), sign)
        for place in places
        for text, more, less, sign in pairs
    )


def figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    return {"ablations": drawing.curves(view, ("r2", "mode_accuracy"))}


def fresh_figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    drawn = {"test-split": drawing.curves(view, ("r2", "mode_accuracy"), beside="fresh.")}
    fits = [f for row in view.rows for f in view.done(row.name) if row.data["steps"] <= 1000]
    if fits:
        from dynacl.experiments.fitting import fresh_trials, simulated

        fit = max(fits, key=lambda f: int(f.row.data["steps"]))
        train = simulated(fit.config)
        drawn["closest-training-trial"] = closest(train, fresh_trials(fit.config, train))
    return drawn


def closest(train: TimeSeries, fresh: TimeSeries) -> Figure:
    """Five fresh trials with the training trial nearest in R², and the histogram of all."""
    from dynacl.experiments import drawing
    from dynacl.plots import style

    a, b = (_stacked(s) for s in (fresh, train))
    scores = np.zeros((len(a), len(b)))
    for j in range(a.shape[2]):  # uniform mean over dimensions, as r2_score
        x, y = a[:, :, j], b[:, :, j]
        residual = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T
        scores += (1 - residual / (x.var(1) * x.shape[1])[:, None]) / a.shape[2]
    best = scores.argmax(1)
    shown = min(5, len(a))
    d = a.shape[2]
    figure = drawing.sheet(2.2 * shown + 3, 0.8 * d + 1.2)
    trials, histogram = figure.subfigures(1, 2, width_ratios=(2.2 * shown, 3), squeeze=False)[0]
    grid = trials.subplots(d, shown, squeeze=False, sharex=True)
    for i in range(shown):
        for j in range(d):
            (true,) = grid[j, i].plot(a[i, :, j], color=style.TRUE)
            (near,) = grid[j, i].plot(b[best[i], :, j], color=style.FOUND)
            grid[j, i].set_yticks([])
            grid[j, 0].set_ylabel(f"x{j + 1}")
        grid[0, i].set_title(f"R² {scores[i, best[i]]:.2f}", fontsize=9)
        grid[-1, i].set_xlabel("time step")
    trials.legend([true, near], ["fresh trial", "closest training trial"], frameon=False,
                  loc="outside upper center", ncols=2)  # fmt: skip
    axis = histogram.subplots()
    axis.hist(scores.max(1), bins=20, color=style.MUTED)
    axis.set(xlabel="R² to the closest training trial", ylabel="fresh trials")
    return figure


def _stacked(series: TimeSeries) -> Array:
    assert series.truth is not None
    return np.stack(series.split(series.truth.latents.astype(float)))


EXPERIMENT = Experiment(
    name="ablations",
    title="Variations of the switching system",
    source="fig:variations",
    rows=lambda scale: grid(scale, CELLS),
    note=NOTE,
    reduced=REDUCED,
    claims=claims(),
    figures=figures,
    quick_samples=100_000,
    shares="test_split",
)
TEST_SPLIT = Experiment(
    name="test_split",
    title="The same, on fresh trials",
    source="tab:variation_num_samples, fig:variations_testset, fig:closest_train_trial",
    rows=lambda scale: grid(scale, FRESH_CELLS),
    note=NOTE + " The fits are those of `ablations`; fresh trials are a tenth of the training "
    "trials, at least one, of at most 100,000 steps.",
    reduced=REDUCED,
    claims=tuple(
        Claim(f"samples={n}: train minus fresh, DCL",
              (f"samples={n}/switching", "r2"), (f"samples={n}/switching", "fresh.r2"))
        for n in (10, 100, 1000, 10_000)
    ),
    figures=fresh_figures,
    quick_samples=100_000,
)  # fmt: skip
