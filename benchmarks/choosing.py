"""Whether `dynacl.select` finds what was simulated: dimensions, modes, and that nothing is there.

python -m benchmarks.choosing lds --seed 0        true d = 3, candidates 1 to 5
python -m benchmarks.choosing slds --seed 0       true d = 6 and K = 5: d by one, then K by one
python -m benchmarks.choosing shuffled --seed 0   no dynamics at all

Every fit is kept in results/choosing; the same command goes on from there. The rule was tuned on
seeds from 1000 on, and is reported on 0, 1 and 2.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynacl import TimeSeries, select, simulate


def lds(rng: np.random.Generator, trials: int, steps: int) -> TimeSeries:
    return simulate.lds(rng=rng, trials=trials, steps=steps)


def slds(rng: np.random.Generator, trials: int, steps: int) -> TimeSeries:
    return simulate.slds(rng=rng, trials=trials, steps=steps)


def shuffled(rng: np.random.Generator, trials: int, steps: int) -> TimeSeries:
    series = lds(rng, trials, steps)
    return replace(series, observations=series.observations[rng.permutation(len(series))])


def five(rng: np.random.Generator, trials: int, steps: int) -> TimeSeries:
    return simulate.lds(rng=rng, d=5, trials=trials, steps=steps)


def noisy(rng: np.random.Generator, trials: int, steps: int) -> TimeSeries:
    """Half of what is seen is noise."""
    series = lds(rng, trials, steps)
    noise = series.observations.std() * rng.standard_normal(series.observations.shape)
    return replace(series, observations=(series.observations + noise).astype(np.float32))


SWITCHING = {"dynamics": ("switching",)}
SYSTEMS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "lds": (lds, [{"components": (1, 2, 3, 4, 5)}]),
    "slds": (slds, [{"components": (5, 6, 7), "modes": (5,)} | SWITCHING,
                    {"components": (6,), "modes": (4, 5, 6)} | SWITCHING]),
    "shuffled": (shuffled, [{"components": (1, 3, 5)}]),
    "five": (five, [{"components": (4, 5, 6)}]),
    "noisy": (noisy, [{"components": (2, 3, 4, 5)}]),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1000, help="of a trial")
    parser.add_argument("--components", type=int, nargs="+", help="fewer, or others, than usual")
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--out", default="results/choosing")
    options = parser.parse_args()
    make, searches = SYSTEMS[options.system]
    data = make(np.random.default_rng(options.seed), options.trials, options.steps)
    out = Path(options.out) / f"{options.system}-{options.seed}"  # names differ by data and choice
    for usual in searches:
        search = usual | ({"components": options.components} if options.components else {})
        print(select(data, **search, folds=options.folds, out=out, verbose=True), flush=True)


if __name__ == "__main__":
    main()
