"""True and recovered attractors side by side: a fresh trial of each of some flows."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.flows.systems import REGIMES, Attractor
from benchmarks.step import begun
from dynacl import DCL, TimeSeries, inference, metrics
from dynacl.data import Array
from dynacl.plots.style import BLUE, FOUND, TRUE
from dynacl.run import Run

OUT = Path(__file__).parents[2] / "docs" / "attractors.png"
LENGTH = 1000  # samples that are drawn


def draw(names: list[str], out: Path = OUT) -> None:
    """Quiet flows by `flow`: the truth, the linear start and what was recovered, a row each."""
    figure = Figure(figsize=(6.7, 2.2 * len(names)), layout="constrained")
    for i, name in enumerate(names):
        for j, (title, x, colour) in enumerate(_views(name)):
            ax = figure.add_subplot(len(names), 3, 3 * i + j + 1, projection="3d")
            ax.plot(*x[:LENGTH].T, color=colour, linewidth=0.6)
            ax.set_title(title, fontsize=8)
            ax.set(xticklabels=[], yticklabels=[], zticklabels=[])
    figure.savefig(out, dpi=130)


def _views(name: str) -> list[tuple[str, Array, str]]:
    drawn = Attractor(name).draw(REGIMES["quiet"])
    assert drawn is not None, f"{name} leaves its attractor"
    data, fresh = drawn
    assert fresh.truth is not None
    model = DCL(3, "flow", random_state=0)
    start = begun(model, data)
    start.encoder.be_linear()
    views = [(f"{name}: the true state", fresh.truth.latents, TRUE)]
    for said, run, colour in (
        ("linear start", start, BLUE),
        ("recovered", model.fit(data).run_, FOUND),
    ):
        x, r2 = _aligned(run, data, fresh)
        views.append((f"{said}, R² {r2:.3f}", x, colour))
    return views


def _aligned(run: Run, data: TimeSeries, fresh: TimeSeries) -> tuple[Array, float]:
    """Fresh latents in the coordinates of the truth, by the affine map of the training data."""
    assert data.truth is not None
    assert fresh.truth is not None
    L, b = metrics.affine(inference.latents(run, data), data.truth.latents)
    x = inference.latents(run, fresh)
    return x @ L.T + b, metrics.r2(fresh.truth.latents, x)
