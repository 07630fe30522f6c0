"""Lorenz's equations from 50 channels alone, in aligned coordinates, beside the true ones.

python -m benchmarks.equations --seeds 0 1 2      the paper's Lorenz, a million samples

The error of a term is that of its coefficient times the spread of the term over the data, as a
share of the spread of its equation. Beside it stands the error of the coefficient itself.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch

from benchmarks.zoo import keeping
from dynacl import DCL, equations, metrics, simulate
from dynacl.data import Array, TimeSeries

ROWS = keeping.RUNS.parent / "equations.jsonl"
TOLERANCES = (0.02, 0.005, 0.001)  # shares of a flow's mean square that may be missed
GOAL = 0.05


def run(seed: int, dynamics: str) -> list[dict[str, Any]]:
    """A row for each tolerance: equations as text, the worst term, and false terms."""
    data = simulate.lorenz(rng=np.random.default_rng(seed))
    started = time.perf_counter()
    model = DCL(3, dynamics, random_state=seed).fit(data)
    shared = {
        "seed": seed,
        "dynamics": dynamics,
        "recipe": keeping.recipe(),
        "seconds": round(time.perf_counter() - started),
        "r2": metrics.r2(data.truth.latents, np.concatenate(model.transform([data.observations]))),  # type: ignore[union-attr]
    }
    return [shared | judged(model, data, tolerance) for tolerance in TOLERANCES]


def judged(model: DCL, data: TimeSeries, tolerance: float) -> dict[str, Any]:
    found = equations(model, data, tolerance=tolerance)
    recovered, true, names = found["recovered"], found["true"], found["monomials"]
    assert data.truth is not None
    terms = products(data.truth.latents[::50].astype(float), names)
    spread = terms.std(0)
    whole = (terms @ true.T).std(0)
    off = np.abs(recovered - true) * spread / whole[:, None]
    real = true != 0
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = np.where(real, np.abs(recovered / true - 1), 0.0)
    return {
        "tolerance": tolerance,
        "text": found["recovered_text"],
        "worst_true_term": float(off[real].max()),
        "worst_false_term": float(off[~real].max()),
        "worst_raw": float(raw.max()),
        "within": float((off <= GOAL).mean()),
        "passes": bool((off <= GOAL).all()),
    }


def products(x: Array, names: list[str]) -> Array:
    """Monomials by their names, such as x1·x3, of states (n, d)."""
    columns = [np.prod([x[:, int(f[1:]) - 1] for f in name.split("·")], axis=0)
               if name != "1" else np.ones(len(x)) for name in names]  # fmt: skip
    return np.stack(columns, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.equations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--dynamics", default="polynomial")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for row in run(seed, options.dynamics):
            with ROWS.open("a") as end:
                end.write(json.dumps(row) + "\n")
            print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
