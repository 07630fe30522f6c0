"""Fewer channels than states: a window of the past makes up for what one moment does not show.

python examples/partial_observation.py
"""

from __future__ import annotations

import warnings

import numpy as np

from dynacl import DCL, evaluate, simulate


def main() -> dict[tuple[int, ...], float]:
    data = simulate.lds(
        rng=np.random.default_rng(1), d=4, angle=10, noise=1e-3, trials=60, steps=300, rank=2,
        mixing="linear", observed=20,
    )  # fmt: skip
    found = {}
    for time_lags in ((0,), (0, 4, 8)):
        model = DCL(4, "linear", time_lags=time_lags, max_iter=300, batch_size=256, random_state=0)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.fit(data)
        latents = model.transform(data)[0]
        found[time_lags] = evaluate(model, data)["r2"]
        print(f"time_lags {time_lags}: R² {found[time_lags]:.3f}, {len(latents)} rows of 300")
        for warning in said:
            print(f"  {warning.message}")
    print(f"with pad=True: {len(model.transform(data, pad=True)[0])} rows of 300")
    return found


if __name__ == "__main__":
    main()
