"""What else a user waits for or pays: transform, the peak of memory, the density correction, two
fits at once, and whether negatives from the batch give what fresh ones give."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.step import medians, prepared
from dynacl import DCL, TimeSeries, evaluate, simulate
from dynacl.training import training_step

FIT = """
import json, sys, time
import numpy as np
from benchmarks import peak
from dynacl import DCL, TimeSeries
rows, steps = int(sys.argv[1]), int(sys.argv[2])
y = np.random.default_rng(0).standard_normal((rows, 50), dtype=np.float32)
series = TimeSeries.of(y, trial_length=1000)
before = peak.forget()
started = time.perf_counter()
DCL(6, "switching", 5, max_iter=steps, random_state=0).fit(series)
print(json.dumps({"seconds": time.perf_counter() - started,
                  "extra_mb": peak.megabytes() - before}))
"""


def fits(n: int, rows: int, steps: int, threads: int | None = None) -> list[dict[str, float]]:
    """n fits at a time, each in its own process; their seconds and memory beyond the data."""
    env = os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    command = [sys.executable, "-c", FIT, str(rows), str(steps)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
               for _ in range(n)]  # fmt: skip
    return [json.loads(process.communicate()[0]) for process in started]


def transform(rows: int = 1_000_000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    series = TimeSeries.of(rng.standard_normal((rows, 50), dtype=np.float32), trial_length=1000)
    model = DCL(6, "switching", 5, max_iter=1, random_state=0).fit(series)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        model.transform(series)
        times.append(time.perf_counter() - started)
    return {"what": f"transform of {rows:,} × 50", "seconds": statistics.median(times)}


def density() -> dict[str, Any]:
    plain, rows = prepared("default", 100_000)
    corrected, _ = prepared("default", 100_000, density_correction="euclidean")
    found = medians(
        {
            "plain": (lambda: training_step(plain, rows), 100),
            "corrected": (lambda: training_step(corrected, rows), 100),
        }
    )
    ratio = found["corrected"] / found["plain"]
    return {"what": "density correction, cost of a step", "seconds": found["corrected"],
            "times_plain": ratio}  # fmt: skip


def negatives(seed: int) -> list[dict[str, Any]]:
    """LDS, 200 trials: negatives from the batch, and as many drawn anew each step."""
    data = simulate.lds(rng=np.random.default_rng(seed), trials=200)
    found = []
    for name, n in (("of the batch", None), ("drawn anew", 2046)):
        model = DCL(3, "linear", n_negatives=n, random_state=seed).fit(data)
        judged = evaluate(model, data)
        found.append({"what": f"negatives {name}, LDS seed {seed}", "seconds": model.run_.seconds}
                     | {k: judged[k] for k in ("r2", "lds_error")})  # fmt: skip
    return found


def measure() -> list[dict[str, Any]]:
    found = [transform(), density()]
    found.append({"what": "fit, 1,000,000 × 50, memory beyond the data"} | fits(1, 10**6, 100)[0])
    cores = os.cpu_count() or 1
    alone = fits(1, 10**5, 400)[0]["seconds"]
    for threads in (None, 1):
        slowest = max(fit["seconds"] for fit in fits(2, 10**5, 400, threads))
        found.append({"what": f"two fits at once, {threads or cores} threads each",
                      "seconds": slowest, "times_one_after_the_other": slowest / (2 * alone)}
                     )  # fmt: skip
    for seed in (0, 1, 2):
        found += negatives(seed)
    return found


if __name__ == "__main__":
    from benchmarks.__main__ import table

    table(measure())
