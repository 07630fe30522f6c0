"""System identification: fit a machine with its input, then forecast under an input to come.

python examples/driven_system.py
"""

from __future__ import annotations

import numpy as np

from dynacl import DCL, TimeSeries, metrics, simulate

AHEAD = 40


def main() -> dict[str, float]:
    whole = simulate.controlled(
        rng=np.random.default_rng(0), d=3, control="lds", trials=60, steps=240, observed=10,
        mixing="linear", noise=0.01,
    )  # fmt: skip
    y, u = whole.split(whole.observations), whole.split(whole.control)
    model = DCL(3, "linear", max_iter=300, batch_size=256, random_state=0)
    model.fit([trial[:-AHEAD] for trial in y], u=[trial[:-AHEAD] for trial in u])

    # Row t of u moves step t to t + 1: the forecast starts with the input of the last step seen.
    past = TimeSeries.of([trial[:-AHEAD] for trial in y], [trial[:-AHEAD] for trial in u])
    future = [trial[-AHEAD - 1 : -1] for trial in u]
    ahead = {
        "with the input to come": model.forecast(past, AHEAD, u=future),
        "as if there were none": model.forecast(past, AHEAD, u=[0 * trial for trial in future]),
    }
    # The truth is known here, so forecasts can be compared in its coordinates.
    L, c = metrics.affine(np.concatenate(model.transform(y)), whole.truth.latents)
    true = np.concatenate([x[-AHEAD:] for x in whole.split(whole.truth.latents)])
    found = {
        name: metrics.r2_of(true, np.concatenate(x) @ L.T + c) for name, x in ahead.items()
    }  # fmt: skip
    for name, r2 in found.items():
        print(f"R² of {AHEAD} steps ahead, {name}: {r2:.3f}")
    print(f"spectral radius {model.spectral_radius_[0]:.4f}")
    return found


if __name__ == "__main__":
    main()
