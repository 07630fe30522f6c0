"""The paper's figures from stored results: View in, matplotlib Figures out; none touches pyplot.

Curves come from the numbers, trajectories from the examples that fits keep. What was not run is
left out; a figure with nothing to show says so.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from scipy.optimize import linear_sum_assignment

from dynacl import simulate
from dynacl.data import Array, TimeSeries
from dynacl.plots import CURVES, FOUND, MUTED, TRUE

if TYPE_CHECKING:
    from dynacl.experiments.plan import Row
    from dynacl.experiments.render import View

NAMES = {"identity": "baseline", "switching": "∇-SLDS", "linear": "LDS", "truth": "oracle"}
COLOURS = {"identity": CURVES["baseline"], "plain": MUTED, "switching": FOUND, "linear": FOUND,
           "corrected": FOUND, "truth": TRUE, "asymmetric": "#1b9e77"}  # fmt: skip
LABELS = {"r2": "R² [%]", "mode_accuracy": "mode accuracy [%]", "consistency": "consistency [%]"}
LINES = ("o-", "s--", "^:", "D-.")  # of the details of a model's curves, in turn
FRESH = "x--"
Figures = dict[str, Figure]


def curves(
    view: View,
    metrics: Sequence[str],
    x_label: str = "",
    log: bool = False,
    beside: str = "",
) -> Figure:
    """A column a panel, a row a metric; mean and standard deviation over x, a curve a model.

    A curve "model, detail" has its model's colour and its detail's line. beside: a prefix of
    metrics that are drawn dashed in the same panel.
    """
    panels = list(dict.fromkeys(row.place["panel"] for row in view.rows))
    width, height = max(4.8, 2.6 * len(panels) + 1), 2.4 * len(metrics) + 0.6
    figure = Figure(figsize=(width, height), layout="constrained")
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


def slds(view: View) -> Figures:
    return {
        "slds": curves(view, ("r2", "mode_accuracy"), "largest angle [°]"),
        "slds-trajectories": rotations((0.0,), 4),
        "slds-example-modes": rotations((1e-4, 1e-2), 5),
        **examples(view, "slds-modes", [r.name for r in view.rows if r.name.endswith("switching")]),
    }


def rotations(noises: Sequence[float], modes: int, steps: int = 600) -> Figure:
    """Trajectories of single modes of data set 0, three dimensions of the six a panel."""
    figure = Figure(figsize=(2.4 * modes, 2.4 * len(noises)), layout="constrained")
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
            axis.plot(*np.array(path)[:, :3].T, color=TRUE, linewidth=0.6)
            axis.set_title(f"mode {k + 1}" + (f", σ = {noise:g}" if noise else ""), fontsize=9)
            _bare(axis)
    return figure


def examples(view: View, name: str, rows: Sequence[str]) -> Figures:
    """True and recovered latents and modes of the trial that switches most of all that are kept."""
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
    figure = Figure(figsize=(8, 0.7 * d + 1.2), layout="constrained")
    axes = figure.subplots(d + ("modes" in kept), 1, sharex=True, squeeze=False)[:, 0]
    for j in range(d):
        axes[j].plot(true[:, j], color=TRUE, linewidth=2, label="true")
        axes[j].plot(found[:, j], "--", color=FOUND, linewidth=1.2, label="recovered")
    if "modes" in kept and "true_modes" in kept:
        steps = np.arange(len(true) - 1)  # the last has no mode
        told, inferred = (kept[k][shown][:-1] for k in ("true_modes", "modes"))
        axes[-1].step(steps, told, color=TRUE, linewidth=2)
        axes[-1].step(steps, matched(told, inferred), "--", color=FOUND, linewidth=1.2)
        axes[-1].set_ylabel("mode")
    axes[0].legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    axes[0].set_title(row, loc="left", fontsize=9)
    axes[-1].set_xlabel("time step")
    return {name: figure}


def _switches(kept: dict[str, Array], trial: slice) -> int:
    return int(np.count_nonzero(np.diff(kept.get("true_modes", np.zeros(0))[trial][:-1])))


def matched(told: Array, inferred: Array) -> Array:
    """Inferred modes under the labels that fit the true ones best."""
    K = int(max(told.max(), inferred.max())) + 1
    counts = np.zeros((K, K), dtype=int)
    np.add.at(counts, (inferred, told), 1)
    labels: Array = linear_sum_assignment(counts, maximize=True)[1]
    return labels[inferred]


def lorenz(view: View) -> Figures:
    return {
        "lorenz": curves(view, ("r2",), "dt", log=True),
        "lorenz-attractors": attractors(view, ((0.0005, 0.1), (0.01, 0.001))),
    }


def attractors(view: View, settings: Sequence[tuple[float, float]]) -> Figure:
    """Ground truth, baseline, ∇-SLDS and its mode sequence; a row a setting."""
    figure = Figure(figsize=(12, 3 * len(settings)), layout="constrained")
    colours = (TRUE, COLOURS["identity"], FOUND)
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
            _bare(axis)
        axis = figure.add_subplot(len(settings), 4, 4 * i + 4)
        if "modes" in ours:
            modes = ours["modes"][ours["modes"] >= 0]  # the last step of a trial has none
            axis.plot(in_order(modes), ".", color=FOUND, markersize=1)
        axis.set(title="modes, by first visit", xlabel="time step", ylabel="mode")
    return figure


def in_order(modes: Array) -> Array:
    """The same modes, numbered in the order of their first visits."""
    kinds, first, inverse = np.unique(modes, return_index=True, return_inverse=True)
    rank = np.empty(len(kinds), dtype=int)
    rank[first.argsort()] = np.arange(len(kinds))
    ranked: Array = rank[inverse]
    return ranked


def modes_needed(view: View) -> Figures:
    return {"lorenz-modes": curves(view, ("r2",), "modes in the bank", log=True)}


def ablations(view: View) -> Figures:
    return {"ablations": curves(view, ("r2", "mode_accuracy"))}


def test_split(view: View) -> Figures:
    figures = {"test-split": curves(view, ("r2", "mode_accuracy"), beside="fresh.")}
    fits = [f for row in view.rows for f in view.done(row.name) if row.data["steps"] <= 1000]
    if fits:
        from dynacl.experiments.fitting import simulated

        fit = max(fits, key=lambda f: int(f.row.data["steps"]))
        train = simulated(fit.config)
        fresh = simulate.again(train, rng=np.random.default_rng([fit.dataset, 1]))
        figures["closest-training-trial"] = closest(train, fresh)
    return figures


def closest(train: TimeSeries, fresh: TimeSeries) -> Figure:
    """Five fresh trials with the training trial nearest in R², and the histogram of all."""
    a, b = (_stacked(s) for s in (fresh, train))
    scores = np.zeros((len(a), len(b)))
    for j in range(a.shape[2]):  # uniform mean over dimensions, as r2_score
        x, y = a[:, :, j], b[:, :, j]
        residual = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T
        scores += (1 - residual / (x.var(1) * x.shape[1])[:, None]) / a.shape[2]
    best = scores.argmax(1)
    shown = min(5, len(a))
    d = a.shape[2]
    figure = Figure(figsize=(2.2 * shown + 3, 0.8 * d + 1.2), layout="constrained")
    trials, histogram = figure.subfigures(1, 2, width_ratios=(2.2 * shown, 3), squeeze=False)[0]
    grid = trials.subplots(d, shown, squeeze=False, sharex=True)
    for i in range(shown):
        for j in range(d):
            (true,) = grid[j, i].plot(a[i, :, j], color=TRUE)
            (near,) = grid[j, i].plot(b[best[i], :, j], color=FOUND)
            grid[j, i].set_yticks([])
            grid[j, 0].set_ylabel(f"x{j + 1}")
        grid[0, i].set_title(f"R² {scores[i, best[i]]:.2f}", fontsize=9)
        grid[-1, i].set_xlabel("time step")
    trials.legend([true, near], ["fresh trial", "closest training trial"], frameon=False,
                  loc="outside upper center", ncols=2)  # fmt: skip
    axis = histogram.subplots()
    axis.hist(scores.max(1), bins=20, color=MUTED)
    axis.set(xlabel="R² to the closest training trial", ylabel="fresh trials")
    return figure


def _stacked(series: TimeSeries) -> Array:
    assert series.truth is not None
    return np.stack(series.split(series.truth.latents.astype(float)))


def noninjective(view: View) -> Figures:
    return {"noninjective": curves(view, ("r2",), "time steps given to the encoder", log=True)}


def control(view: View) -> Figures:
    """A row a data set: u, true latents, DCL with u, baseline; steps with u = 0 shaded."""
    ours, base = ({f.dataset: f for f in view.done(f"step/{m}")} for m in ("linear+u", "identity"))
    both = sorted(set(ours) & set(base))[:3]
    if not both:
        return {}
    figure = Figure(figsize=(12, 2.6 * len(both)), layout="constrained")
    axes = figure.subplots(len(both), 4, squeeze=False)
    for i, dataset in enumerate(both):
        kept = view.store.arrays(ours[dataset].name)
        rows = slice(0, int(kept["bounds"][1]))
        u = kept["control"][rows]
        other = view.store.arrays(base[dataset].name)
        shown = {
            "control u": u,
            "true latents": kept["true"][rows],
            "DCL with u": kept["recovered"][rows],
            "baseline": other["recovered"][rows],
        }
        still = np.flatnonzero((u == 0).all(1))
        for axis, (title, values) in zip(axes[i], shown.items(), strict=True):
            axis.plot(values, linewidth=0.8)
            if len(still):
                axis.axvspan(still[0], still[-1], color=MUTED, alpha=0.3, linewidth=0)
            axis.set_title(title if i == 0 else "", fontsize=9)
            axis.set_xlabel("time step" if i == len(both) - 1 else "")
        axes[i, 0].set_ylabel(f"data set {dataset}")
    return {"control": figure}


def vmf(view: View) -> Figures:
    return {"vmf": curves(view, ("r2",), "angle [°]")}


def kde(view: View) -> Figures:
    return {"kde": curves(view, ("r2",), "κ of the marginal")}


def allen(view: View) -> Figures:
    figures = {"allen": curves(view, ("consistency",), "time offset")}
    shuffled = [r.name for r in view.rows if r.name.startswith("shuffled,")]
    plain = [n.removeprefix("shuffled,") for n in shuffled] or [r.name for r in view.rows][:2]
    names = [n for n in [*plain[:2], *shuffled[:2]] if view.done(n)]
    if names:
        figures["allen-shuffle"] = embeddings(view, names)
    return figures


def embeddings(view: View, names: Sequence[str]) -> Figure:
    """First two principal components: training repeats coloured by time in the movie, raw and
    smoothed, the held-out repeat smoothed and black."""
    figure = Figure(figsize=(3 * len(names), 6), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False)
    for j, name in enumerate(names):
        kept = view.example(name)
        train, held = kept["train"], kept["validation"]
        centre = train.mean(0)
        plane = np.linalg.svd(train - centre, full_matrices=False)[2][:2].T
        line = smoothed(held) @ plane - centre @ plane
        repeats = np.split(train, range(len(held), len(train), len(held)))
        time = np.concatenate([np.arange(len(r)) for r in repeats])
        smooth = np.concatenate([smoothed(r) for r in repeats])
        for i, points in enumerate((train, smooth)):
            flat = (points - centre) @ plane
            axes[i, j].scatter(*flat.T, c=time, s=1, cmap="viridis", rasterized=True)
            axes[i, j].plot(*line.T, color="black", linewidth=1)
            axes[i, j].set_title(name if i == 0 else "smoothed", fontsize=8)
            axes[i, j].set(xticks=[], yticks=[])
    return figure


def smoothed(x: Array, width: int = 151) -> Array:
    """Moving average over `width` samples, shorter at the ends."""
    width = min(width, len(x))
    kernel = np.ones(width)
    weight = np.convolve(np.ones(len(x)), kernel, "same")
    return np.stack([np.convolve(column, kernel, "same") / weight for column in x.T], axis=1)


def _bare(axis: Any) -> None:
    axis.set(xticks=[], yticks=[], zticks=[])
