"""The tour: simulate a switching system, fit it, compare with the baseline, draw what was found."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from dynacl import metrics, plots, simulate
from dynacl.data import TimeSeries
from dynacl.estimator import DCL
from dynacl.evaluation import evaluate
from dynacl.persistence import to_json
from dynacl.writing import save_figure, write

ROWS = (
    ("r2", "R² of the latent state"),
    ("mode_accuracy", "mode accuracy, step by step"),
    ("mode_accuracy_sequence", "mode accuracy, decoded"),
    ("dyn_r2_1", "dynR², 1 step"),
    ("dyn_r2_1_control", "  its control (no dynamics)"),
    ("dyn_r2_10", "dynR², 10 steps"),
    ("dyn_r2_10_control", "  its control (no dynamics)"),
)


def demo(out: Path, *, seed: int = 0, verbose: bool = True, **sizes: Any) -> dict[str, Any]:
    """Write metrics.json, the model and figures into `out`; sizes replace those of the tour."""
    size = {"trials": 200, "steps": 1000, "max_iter": None} | sizes
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
        found[name] = evaluate(model, data, post_hoc=post_hoc)
    print(f"\n  {'':<28}  {'DCL':>9}  {'baseline':>9}")
    for key, label in ROWS:
        print(f"  {label:<28}  {found['DCL'][key]:>9.4f}  {found['baseline'][key]:>9.4f}")
    print("  (baseline: no dynamics in training, fitted afterwards; the same protocol)\n")

    out.mkdir(parents=True, exist_ok=True)
    models["DCL"].save(out)
    _draw(out, data, models)
    found["seconds"] = {name: model.run_.seconds for name, model in models.items()}
    write(out / "metrics.json", (to_json(found, indent=1) + "\n").encode())
    best = found["DCL"]
    print(
        f"Found: the hidden state up to an affine map with R² {best['r2']:.3f}, and which of its "
        f"5 regimes it is in {best['mode_accuracy_sequence']:.2%} of the time, in "
        f"{models['DCL'].run_.seconds:.0f} s of training."
    )
    print(
        f"See {out}/latents.png, modes.png, loss.png ({time.monotonic() - started:.0f} s in all)."
    )
    return found


def _draw(out: Path, data: TimeSeries, models: dict[str, DCL]) -> None:
    assert data.truth is not None
    assert data.truth.modes is not None
    true = data.split(data.truth.latents)
    aligned = {}
    for name, model in models.items():
        x = np.concatenate(model.transform(data))
        L, b = metrics.affine(x, data.truth.latents)
        aligned[name] = x[: len(true[0])] @ L.T + b
    settings = models["DCL"].settings_
    figures = {
        "latents": plots.latents(true[0], aligned),
        "modes": plots.modes(
            [m[:-1] for m in data.split(data.truth.modes)[:40]],
            models["DCL"].modes(data.split(data.observations)[:40]),
        ),
        "loss": plots.loss(
            {name: model.history_ for name, model in models.items()},
            models["DCL"].run_.cap,
            settings.several_from,
        ),
    }
    for name, figure in figures.items():
        save_figure(figure, out / f"{name}.png")
