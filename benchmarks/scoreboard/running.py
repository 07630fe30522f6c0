"""One tool on one task, in a process of its own; and rows that are kept as they come."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scoreboard import environments
from benchmarks.scoreboard.judging import judged
from benchmarks.scoreboard.tasks import Task
from benchmarks.zoo import keeping

ROWS = keeping.RUNS.parent / "scoreboard" / "rows.jsonl"
KEY = ("task", "size", "tool", "method", "budget", "seed", "version")
# task: tool, methods of its script
METHODS: dict[str, dict[str, tuple[str, ...]]] = {
    "lds": {"dynacl": ("linear",), "cebra": ("time", "offset10"), "deeptime": ("vamp", "tica"),
            "components": ("pca",)},
    "slds": {"dynacl": ("switching",), "cebra": ("time", "offset10"), "deeptime": ("vamp",),
             "components": ("pca",)},
    "lorenz": {"dynacl": ("flow",), "pysindy": ("given", "pca"), "cebra": ("time",),
               "deeptime": ("vamp",), "components": ("pca",)},
    "slds-linear": {"dynacl": ("switching",), "dynamax": ("hmm", "arhmm"), "deeptime": ("hmm",)},
    "mocap6": {"dynacl": ("switching",), "dynamax": ("hmm", "arhmm"), "deeptime": ("hmm",)},
    "silverbox": {"dynacl": ("arx", "machine", "cubic"), "nfoursid": ("n4sid",),
                  "sysidentpy": ("narx",)},
    "tanks": {"dynacl": ("arx", "machine", "cubic"), "nfoursid": ("n4sid",),
              "sysidentpy": ("narx",)},
}  # fmt: skip
ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}  # fmt: skip


def run(task: Task, size: str, tool: str, method: str, budget: float, seed: int) -> dict[str, Any]:
    """A row: what the judge found, or why there is nothing to judge."""
    row = key(task.name, size, tool, method, budget, seed) | {"words": task.words}
    script = environments.SCRIPTS / f"with_{tool}.py"
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "task.npz", Path(folder) / "out.npz"
        np.savez(given, **task.given, seconds=budget, seed=seed)
        command = [environments.python(tool), script, given, out, method]
        done = subprocess.run(
            [str(word) for word in command], env=os.environ | ONE_THREAD, capture_output=True,
            text=True,
        )  # fmt: skip
        if done.returncode:
            return row | {"failed": (done.stderr.strip() or "no message").splitlines()[-1][:200]}
        with np.load(out) as file:
            found = {name: file[name] for name in file.files}
    row["seconds"], row["compiled"] = float(found["fit_seconds"]), float(found["apart_seconds"])
    return row | judged(task, found)


def key(task: str, size: str, tool: str, method: str, budget: float, seed: int) -> dict[str, Any]:
    version = keeping.recipe() if tool == "dynacl" else environments.version(tool)
    values = (task, size, tool, method, budget, seed, version)
    return dict(zip(KEY, values, strict=True))


def rows() -> list[dict[str, Any]]:
    """Those that are whole; of rows with one key the last."""
    found = {}
    for line in ROWS.read_text().splitlines() if ROWS.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:  # cut off
            continue
        found[tuple(row[name] for name in KEY)] = row
    return list(found.values())


def is_there(wanted: dict[str, Any]) -> bool:
    return any(all(row[n] == wanted[n] for n in KEY) and "failed" not in row for row in rows())


def add(row: dict[str, Any]) -> None:
    """A line at the end, its own also where the last one was cut off."""
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    cut_off = ROWS.exists() and not ROWS.read_text().endswith("\n")
    with ROWS.open("a") as end:
        end.write("\n" * cut_off + json.dumps(row) + "\n")
