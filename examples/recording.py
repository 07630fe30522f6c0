"""A recording of spikes: 200 noisy cells, three hidden dimensions, one trial held out.

python examples/recording.py
"""

from __future__ import annotations

import numpy as np

from dynacl import DCL, TimeSeries, metrics, simulate
from dynacl.data import Array


def record(rng: np.random.Generator, cells: int = 200) -> tuple[TimeSeries, Array]:
    """A hidden state that turns, and cells that fire now and then, each where it likes to."""
    hidden = simulate.lds(rng=rng, d=3, angle=5, noise=0.05, trials=10, steps=900, mixing="none")
    x = hidden.truth.latents
    preferred = rng.standard_normal((3, cells))
    spikes = rng.poisson(0.2 / (1 + np.exp(1 - x @ preferred)))
    return TimeSeries.of(hidden.split(spikes)), x


def main() -> dict[str, float]:
    series, x = record(np.random.default_rng(0))
    train, test = series.select(range(9)), series.select([9])
    # Five frames show more of the state than one. Noise can be learned by heart: few steps.
    model = DCL(3, "linear", time_lags=range(0, 10, 2), max_iter=150, random_state=0).fit(train)
    z, held_out = np.concatenate(model.transform(train)), model.transform(test)[0]
    true = np.concatenate([trial[8:] for trial in np.split(x[:8100], 9)])  # a window reaches 8 back
    L, b = metrics.affine(z, true)  # from found to true coordinates, by the training trials
    found = {
        "components kept": model.encoder_.whitening.frame.shape[1],
        "R², training trials": metrics.r2(true, z),
        "R², held-out trial": metrics.r2_of(x[8108:], held_out @ L.T + b),
    }
    for name, value in found.items():
        print(f"{name:<22} {value:.3f}")
    return found


if __name__ == "__main__":
    main()
