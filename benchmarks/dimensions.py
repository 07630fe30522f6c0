"""Which number of dimensions prediction of held-out observations chooses.

python -m benchmarks.dimensions lds --seed 0      true d = 3, candidates 1 to 5
python -m benchmarks.dimensions slds --seed 0     true d = 6, candidates 4 to 8
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from dynacl import DCL, one_standard_error, simulate

GROUPS = 5  # of fresh trials, over which the standard error is taken
SYSTEMS: dict[str, tuple[Any, dict[str, Any], tuple[int, ...]]] = {
    "lds": (simulate.lds, {}, (1, 2, 3, 4, 5)),
    "slds": (simulate.slds, {"dynamics": "switching", "n_modes": 5}, (4, 5, 6, 7, 8)),
}


def choose(system: str, seed: int, trials: int, candidates: tuple[int, ...] | None = None) -> int:
    """Fit each candidate to the same trials, score fresh ones, print a row for each."""
    make, model, listed = SYSTEMS[system]
    data = make(rng=np.random.default_rng(seed), trials=trials, steps=1000)
    fresh = simulate.again(data, rng=np.random.default_rng([seed, 1]), trials=4 * GROUPS)
    scores = []
    for d in candidates or listed:
        started = time.perf_counter()
        fitted = DCL(d, random_state=0, **model).fit(data)
        seconds = time.perf_counter() - started
        each = [fitted.prediction_score(fresh.select(range(i, fresh.n_trials, GROUPS)))
                for i in range(GROUPS)]  # fmt: skip
        scores.append(each)
        error = np.std(each, ddof=1) / GROUPS**0.5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # near its cap
            bits = fitted.score(fresh)
        print(f"d {d}: R² {np.mean(each):.4f} ± {error:.4f} over {fitted.run_.horizons} steps, "
              f"score {bits:.2f} bits, {seconds:.0f} s", flush=True)  # fmt: skip
    return (candidates or listed)[one_standard_error(np.array(scores))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=100, help="of 1,000 samples")
    parser.add_argument("--candidates", type=int, nargs="*")
    options = parser.parse_args()
    listed = tuple(options.candidates) if options.candidates else None
    print("chosen:", choose(options.system, options.seed, options.trials, listed))


if __name__ == "__main__":
    main()
