"""The tour: simulate a switching system, fit it, compare with the baseline, write a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dynacl import metrics, plots, report, simulate
from dynacl.data import Array, TimeSeries
from dynacl.estimator import DCL
from dynacl.evaluation import against_truth
from dynacl.persistence import to_json
from dynacl.writing import save_figure, write

ROWS = (
    ("r2", "R² of the latent state"),
    ("mode_accuracy", "mode accuracy, step by step"),
    ("mode_accuracy_sequence", "mode accuracy, decoded"),
    ("dyn_r2_1", "dynR², 1 step"),
    ("dyn_r2_1_control", "  identity control"),
    ("dyn_r2_10", "dynR², 10 steps"),
    ("dyn_r2_10_control", "  identity control"),
)
SHOWN = 300  # steps of the trial that is drawn


def demo(out: Path, *, seed: int = 0, verbose: bool = True, **sizes: Any) -> dict[str, Any]:
    """Write metrics.json, the model, figures and report into `out`; sizes replace the tour's."""
    size = {"trials": 50, "steps": 1000, "max_iter": 600} | sizes  # an answer within a minute
    started = time.monotonic()
    print("Simulating a switching linear system: 6 hidden dimensions, 5 modes, 50 observed.")
    rng = np.random.default_rng(seed)
    data = simulate.slds(rng=rng, trials=size["trials"], steps=size["steps"])
    models, found = {}, {}
    for name, dynamics, post_hoc in (
        ("DCL", "switching", None),
        ("baseline", "identity", "switching"),
    ):
        print(f"Fitting {name}: {dynamics} dynamics, {len(data):,} samples, observations only.")
        model = DCL(6, dynamics, 5, max_iter=size["max_iter"], random_state=seed, verbose=verbose)
        models[name] = model.fit(data)
        found[name] = against_truth(model, data, post_hoc=post_hoc)
    print(f"\n  {'':<28}  {'DCL':>9}  {'baseline':>9}")
    for key, label in ROWS:
        print(f"  {label:<28}  {found['DCL'][key]:>9.4f}  {found['baseline'][key]:>9.4f}")
    print("  (baseline: trained in the same way without dynamics, which are fitted afterwards)\n")

    out.mkdir(parents=True, exist_ok=True)
    models["DCL"].save(out)
    _draw(out, data, models)
    report.write(
        out / "report.html",
        models["DCL"],
        data,
        title="A switching system, recovered",
        source=f"simulated: {size['trials']} trials of {size['steps']} steps, seed {seed}",
        commands=[f"dynacl demo --seed {seed}"],
    )
    found["seconds"] = {name: model.run_.seconds for name, model in models.items()}
    write(out / "metrics.json", (to_json(found, indent=1) + "\n").encode())
    best = found["DCL"]
    print(
        f"Found: the hidden state up to an affine map with R² {best['r2']:.3f}, and which of its "
        f"5 regimes it is in {best['mode_accuracy_sequence']:.2%} of the time, in "
        f"{models['DCL'].run_.seconds:.0f} s of training."
    )
    print(f"Pictures: {out}/latents.png, modes.png, loss.png")
    print(f"Report:   {out}/report.html ({time.monotonic() - started:.0f} s in all)")
    return found


def _draw(out: Path, data: TimeSeries, models: dict[str, DCL]) -> None:
    assert data.truth is not None
    assert data.truth.modes is not None
    true = data.split(data.truth.latents)[0][:SHOWN]
    aligned = {}
    for name, model in models.items():
        x = np.concatenate(model.transform(data))
        L, b = metrics.affine(x, data.truth.latents)
        aligned[name] = x[: len(true)] @ L.T + b
    model = models["DCL"]
    several = model.settings_.several_from
    histories = {name: model.history_ for name, model in models.items()}
    training = plots.training(histories, model.run_.chance, several_from=several)
    figures = {
        "latents": _latents(true, aligned),
        "modes": _modes(
            [m[:-1] for m in data.split(data.truth.modes)[:40]],
            model.modes(data.split(data.observations)[:40]),
        ),
        "loss": training.figure,
    }
    for name, figure in figures.items():
        save_figure(figure, out / f"{name}.png")


def _latents(true: Array, aligned: dict[str, Array]) -> Figure:
    """A row for each dimension of the state."""
    d = true.shape[1]
    figure = Figure(figsize=(8, 0.9 + d), layout="constrained")
    axes = figure.subplots(d, 1, sharex=True, squeeze=False)[:, 0]
    for i, axis in enumerate(axes):
        lines = {name: x[:, i] for name, x in aligned.items()}
        plots.recovered(true[:, i], lines, name=f"x{i + 1}", ax=axis)
        if i:
            axis.get_legend().remove()
        axis.label_outer()
    figure.suptitle("Latent state of one trial, true and recovered up to an affine map",
                    fontsize="medium")  # fmt: skip
    return figure


def _modes(true: Sequence[Array], inferred: Sequence[Array]) -> Figure:
    """A row for each trial: true modes, inferred ones with their labels matched, differences."""
    a, b = np.stack(list(true)), np.stack(list(inferred))
    K = int(max(a.max(), b.max())) + 1
    b = metrics.matched_modes(a, b)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for axis, modes, title in zip(axes, (a, b), ("true mode", "inferred mode"), strict=False):
        plots.mode_raster(list(modes), n_modes=K, ax=axis)
        axis.get_legend().remove()
        axis.set_title(title, fontsize="medium")
        axis.label_outer()
    axes[2].imshow(a != b, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes[2].set_xlabel("time step", fontsize="small")
    axes[2].tick_params(labelsize="x-small")
    axes[2].set_title(f"differ ({(a != b).mean():.2%} of steps)", fontsize="medium")
    return figure
