"""How a training step's time and memory grow: negatives, d, K, D, rows. Draws docs/growth.png."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

AXES: dict[str, list[int]] = {
    "negatives": [2**i for i in range(10, 18)],
    "d": [2, 4, 8, 16, 32, 64],
    "modes": [1, 4, 16, 64, 256],
    "features": [10, 50, 200, 1000, 2000],
    "rows": [10**5, 10**6, 10**7],
}
DEFAULT = {"negatives": 4096, "d": 6, "modes": 5, "features": 50, "rows": 100_000}

# Each point runs in a process of its own, so that its peak of memory is its own too.
PROBE = """
import json, sys, time
import numpy as np
from benchmarks import peak
from benchmarks.step import begun
from dynacl import DCL, TimeSeries
from dynacl.sampling import rows
from dynacl.training import training_step
p, path = json.loads(sys.argv[1]), sys.argv[2]
if path:
    series = TimeSeries.read(path, trial_length=1000)
else:
    y = np.random.default_rng(0).standard_normal((p["rows"], p["features"]), dtype=np.float32)
    series = TimeSeries.of(y, trial_length=1000)
before = peak.forget()
model = DCL(p["d"], "switching", p["modes"], n_negatives=p["negatives"], max_iter=2,
            random_state=0)
run = begun(model, series)
data = rows(series, run)
times = []
for _ in range(9):
    started = time.perf_counter()
    training_step(run, data)
    times.append(time.perf_counter() - started)
print(json.dumps({"seconds": sorted(times)[4], "extra_mb": peak.megabytes() - before}))
"""


def probe(**changed: int) -> dict[str, float]:
    point = DEFAULT | changed
    with tempfile.TemporaryDirectory() as folder:
        path = ""
        if point["rows"] > 10**6:  # above the comfort of memory: through a memory map
            path = str(Path(folder) / "rows.npy")
            write_rows(path, point["rows"], point["features"])
        command = [sys.executable, "-c", PROBE, json.dumps(point), path]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(printed)


def write_rows(path: str, rows: int, features: int) -> None:
    import numpy as np

    file = np.lib.format.open_memmap(path, "w+", np.float32, (rows, features))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 10**6):
        file[start : start + 10**6] = rng.standard_normal((10**6, features), dtype=np.float32)
    file.flush()


def measure() -> list[dict[str, Any]]:
    found = []
    for axis, values in AXES.items():
        for value in values:
            row = {"what": f"growth: {axis} {value}", "axis": axis, "value": value}
            found.append(row | probe(**{axis: value}))
            print(f"{row['what']:<26} {found[-1]['seconds'] * 1e3:9.1f} ms per step, "
                  f"{found[-1]['extra_mb']:7.0f} MB above the data", flush=True)  # fmt: skip
    return found


def draw(rows: list[dict[str, Any]], out: str = "docs/growth.png") -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(12, 5), layout="constrained")
    axes = figure.subplots(2, len(AXES), sharex="col", sharey="row")
    for column, axis in zip(axes.T, AXES, strict=True):
        mine = [row for row in rows if row["axis"] == axis]
        x = [row["value"] for row in mine]
        column[0].loglog(x, [1e3 * row["seconds"] for row in mine], "o-", color="#d95f02")
        column[1].loglog(x, [max(1, row["extra_mb"]) for row in mine], "o-", color="#7570b3")
        column[0].set_title(axis)
        for panel in column:
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.yaxis.set_minor_formatter(NullFormatter())
        column[0].axvline(DEFAULT[axis], color="#cccccc", zorder=0)
    axes[0, 0].set_ylabel("ms per step")
    axes[1, 0].set_ylabel("MB above the data")
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    draw(measure())
