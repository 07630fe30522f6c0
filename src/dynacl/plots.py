"""Pictures of what was found. Each function returns a matplotlib Figure; none touches pyplot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

from dynacl.data import Array
from dynacl.run import Record

TRUE, FOUND, MUTED = "#222222", "#d95f02", "#999999"
CURVES = {"DCL": FOUND, "baseline": "#7570b3"}


def latents(true: Array, aligned: dict[str, Array], steps: int = 300) -> Figure:
    """True latents of one trial, over time, with recovered ones (already aligned) on top."""
    d = true.shape[1]
    figure = Figure(figsize=(8, 0.9 + 1.0 * d), layout="constrained")
    axes = figure.subplots(d, 1, sharex=True, squeeze=False)[:, 0]
    for i, axis in enumerate(axes):
        axis.plot(true[:steps, i], color=TRUE, linewidth=2.5, label="true")
        for name, x in aligned.items():
            axis.plot(x[:steps, i], "--", color=CURVES.get(name, FOUND), linewidth=1.5, label=name)
        axis.set_ylabel(f"$x_{i + 1}$", rotation=0, labelpad=12)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Latent state of one trial, true and recovered up to an affine map")
    axes[0].legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 0.95))
    axes[-1].set_xlabel("time step")
    return figure


def modes(true: Sequence[Array], inferred: Sequence[Array]) -> Figure:
    """Mode of each step, one row per trial: true, inferred (labels matched), where they differ."""
    a, b = np.stack(list(true)), np.stack(list(inferred))
    K = int(max(a.max(), b.max())) + 1
    counts = np.zeros((K, K), dtype=int)
    np.add.at(counts, (b.ravel(), a.ravel()), 1)
    b = linear_sum_assignment(counts, maximize=True)[1][b]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    colours = "tab10" if K <= 10 else "viridis"
    for axis, image, title in zip(axes, (a, b), ("true mode", "inferred mode"), strict=False):
        shown = axis.imshow(image, aspect="auto", cmap=colours, vmin=-0.5, vmax=max(K, 10) - 0.5,
                            interpolation="nearest")  # fmt: skip
        axis.set_title(title)
        axis.set_xlabel("time step")
    axes[2].imshow(a != b, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes[2].set_title(f"differ ({(a != b).mean():.2%} of steps)")
    axes[2].set_xlabel("time step")
    axes[0].set_ylabel("trial")
    if K <= 10:
        figure.colorbar(shown, ax=axes[:2].tolist(), ticks=range(K), label="mode").ax.set_ylim(
            -0.5, K - 0.5
        )
    return figure


def loss(histories: dict[str, list[Record]], cap: float, several: float | None = None) -> Figure:
    """How far the loss is below that of guessing, in bits, over the steps; at most `cap`.

    several: the step from which the model is asked for several steps ahead, which is harder.
    """
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axis = figure.subplots()
    for name, history in histories.items():
        axis.plot(
            [r["step"] for r in history],
            [cap - r["loss"] / np.log(2) for r in history],
            color=CURVES.get(name),
            label=name,
        )
    axis.axhline(cap, color=MUTED, linestyle=":", label=f"cap, {cap:.1f} bits")
    if several is not None:
        axis.axvline(several, color=MUTED, linewidth=0.8)
        axis.annotate("several steps\nahead from here", (several, 0.35 * cap), (6, 0),
                      textcoords="offset points", color=MUTED)  # fmt: skip
    axis.set(xlabel="training step", ylabel="contrast in training [bits]", ylim=(0, None))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    return figure
