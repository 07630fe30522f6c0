"""How much memory large data take: a file larger than memory, many trials, columns and rows.

make size                              all (half an hour; the large file, with holes, is in TMPDIR)
python -m benchmarks.size map rows     only these

Each case is a process of its own. Its anonymous memory, which is what the system cannot give back
without swapping, is looked at fifty times a second from outside; pages of a memory map do not
count. The process may not have more than LIMIT: what asks for more ends with a MemoryError, and
its traceback names the line.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 4 << 30  # bytes: a case that wants more fails, and nobody else on the machine suffers
FILE = 20 * 10**9  # bytes of the large file, …
FILLED = 10**9  # … and of simulated rows in it; the rest are holes
COLUMNS, STRETCH = 100, 1000  # of the large file; steps of a simulated stretch
FORECASTS = 100  # trials, each with observations to come of 16 MB

MAP = """
from pathlib import Path
import sys
import numpy as np
from dynacl.cli import main
folder = Path(sys.argv[1])
common = ["--trial-length", sys.argv[2]] if len(sys.argv) > 2 else []
fit = ["fit", str(folder / "large.npy"), "--components", "3", "--max-iter", "50", "--quiet",
       "--out", str(folder / "run"), "--force", *common]
assert main(fit) == 0
out = folder / "z.npy"
assert main(["embed", str(folder / "run"), str(folder / "large.npy"), "--out", str(out), "--force",
             *common]) == 0
z = np.load(out, mmap_mode="r")
rows = len(np.load(folder / "large.npy", mmap_mode="r"))
assert z.shape == (rows, 3), z.shape
assert np.isfinite(z[:: max(1, rows // 10**5)]).all()
"""

MODES = """
from pathlib import Path
import sys
import numpy as np
from dynacl.cli import main
from dynacl.data.formats import entries
folder = Path(sys.argv[1])
data, run = str(folder / "large.npy"), str(folder / "run")
assert main(["fit", data, "--components", "3", "--dynamics", "switching", "--modes", "3",
             "--time-lags", "0,1", "--max-iter", "50", "--quiet", "--out", run]) == 0
rows = len(np.load(data, mmap_mode="r"))
for name in sys.argv[2:]:
    assert main(["embed", run, data, "--pad", "--out", str(folder / name)]) == 0
    assert {entry.shape[0] for entry in entries(folder / name)} <= {rows, 2}
"""

FORECAST = """
from pathlib import Path
import sys
import numpy as np
from dynacl.cli import main
folder = Path(sys.argv[1])
data, run, out = str(folder / "large.npy"), str(folder / "run"), folder / "future.npy"
common = ["--trial-length", sys.argv[2]]
assert main(["fit", data, "--components", "3", "--max-iter", "50", "--quiet", "--out", run,
             *common]) == 0
assert main(["forecast", run, data, "--steps", "40000", "--observations", "--out", str(out),
             *common]) == 0
trials = len(np.load(data, mmap_mode="r")) // int(sys.argv[2])
assert np.load(out, mmap_mode="r").shape == (trials * 40000, 100)
"""

TRIALS = """
import numpy as np
from dynacl import DCL, simulate
data = simulate.lds(rng=np.random.default_rng(0), trials=10**6, steps=5, observed=10, layers=1)
trials = data.split(data.observations)
model = DCL(3, max_iter=50, random_state=0).fit(trials)
z = model.transform(trials)
assert len(z) == 10**6 and z[0].shape == (5, 3)
"""

WIDE = """
import numpy as np
from dynacl import DCL
rng = np.random.default_rng(0)
x = np.cumsum(rng.standard_normal((5_000, 3)), axis=0).astype(np.float32)
y = x @ rng.standard_normal((3, 10_000), dtype=np.float32)
y += rng.standard_normal(y.shape, dtype=np.float32)
model = DCL(3, max_iter=50, random_state=0).fit(y)
assert model.transform(y).shape == (5_000, 3)
"""

ROWS = """
import numpy as np
from dynacl import DCL
rng = np.random.default_rng(0)
y = rng.standard_normal((10**7, 20), dtype=np.float32)
np.cumsum(y, axis=0, out=y)
model = DCL(3, max_iter=50, random_state=0).fit(y)
assert model.transform(y).shape == (10**7, 3)
"""


def large_file(path: Path, size: int) -> None:
    """Rows of a rotation, in stretches that are spread evenly through a file of holes."""
    from dynacl import simulate

    rows, filled = size // (4 * COLUMNS), min(FILLED, size) // (4 * COLUMNS)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, COLUMNS))
    stretches = filled // STRETCH
    starts = np.linspace(0, rows // STRETCH - 1, stretches).astype(int) * STRETCH
    data = simulate.lds(
        rng=np.random.default_rng(0), trials=stretches, steps=STRETCH, observed=COLUMNS
    )
    for start, trial in zip(starts, data.split(data.observations), strict=True):
        array[start : start + STRETCH] = trial
    array.flush()


def watched(code: str, *arguments: str) -> dict[str, float]:
    """Seconds, and the most anonymous memory of a process that runs this code, in MB."""
    started, most = time.perf_counter(), 0
    limits = (LIMIT, LIMIT)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limits),
        stdout=subprocess.DEVNULL,
    )
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            most = max(most, int(status.split("RssAnon:")[1].split()[0]))
        except (OSError, IndexError):  # it has just ended
            pass
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"ended with {process.returncode} after {most / 1024:.0f} MB")
    return {"anonymous_mb": round(most / 1024), "seconds": round(time.perf_counter() - started)}


def of_map(*arguments: str, code: str = MAP, size: int = FILE) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        large_file(Path(folder) / "large.npy", size)
        return watched(code, folder, *arguments)


CASES: dict[str, Any] = {
    "nothing": lambda: watched("import dynacl, torch, sklearn.base, dynacl.estimator"),
    "map": of_map,
    "map-trials": lambda: of_map(str(STRETCH)),
    "map-modes": lambda: of_map("z.npz", "z.parquet", code=MODES, size=FILE // 4),
    "forecast": lambda: of_map(str(STRETCH), code=FORECAST, size=4 * COLUMNS * STRETCH * FORECASTS),
    "trials": lambda: watched(TRIALS),
    "columns": lambda: watched(WIDE),
    "rows": lambda: watched(ROWS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    for case in parser.parse_args().cases:
        print(json.dumps({"what": case, **CASES[case]()}), flush=True)


if __name__ == "__main__":
    main()
