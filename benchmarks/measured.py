"""Driven systems that were measured: Silverbox and the cascaded tanks, beside linear models.

The folder with the data is named by DYNACL_DATA. A prediction starts from a window of lags 0–3 and
goes on under the known inputs. NRMSE: RMSE over the standard deviation of the output in the test
part, over all starts. The simulation starts once, at the first window, and is in the units of the
data. Silverbox (Wigren & Schoukens 2013): the first 40,000 samples are a sweep of growing amplitude
and the last 20,000 of the multisines are held out too; the rest is trained on. Tanks (Schoukens et
al. 2016): the first half is trained on, the second is held out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from dynacl import DCL, TimeSeries, inference
from dynacl.baselines import ARX, LinearStateSpace
from dynacl.prediction import fit_readout, observed

LAGS = (0, 1, 2, 3)
HORIZONS = (1, 10, 100)
Ahead = Callable[[TimeSeries, Any, int], Any]  # series, starts, steps -> (n, steps, 1)


def silverbox(folder: Path) -> dict[str, TimeSeries]:
    table = np.genfromtxt(folder / "silverbox_SNLS80mV.csv", delimiter=",", skip_header=1)
    u, y = table[:, :1], table[:, 1:2]
    parts = {"train": slice(40_000, -20_000), "sweep": slice(40_000), "late": slice(-20_000, None)}
    return {name: TimeSeries.of(y[rows], u[rows]) for name, rows in parts.items()}


def tanks(folder: Path) -> dict[str, TimeSeries]:
    table = loadmat(folder / "cascaded_tanks.mat")
    u, y = (np.ravel(table[name])[:, None].astype(float) for name in ("X", "y"))
    parts = {"train": slice(1024), "validation": slice(1024, None)}
    return {name: TimeSeries.of(y[rows], u[rows]) for name, rows in parts.items()}


DATA = {"silverbox": silverbox, "tanks": tanks}
# data: arguments of DCL
MODELS: dict[str, list[dict[str, Any]]] = {
    "silverbox": [
        {"n_components": 7, "dynamics": "linear"},
        {"n_components": 7, "dynamics": "polynomial", "degree": 3},
        {"n_components": 7, "dynamics": "mlp"},
        {"n_components": 7, "dynamics": "linear", "control_lags": LAGS},
        {"n_components": 7, "dynamics": "polynomial", "degree": 3, "control_lags": LAGS},
    ],
    "tanks": [
        {"n_components": 7, "dynamics": "linear"},
        {"n_components": 7, "dynamics": "polynomial", "degree": 3},
    ],
}


def persistence(series: TimeSeries, starts: Any, steps: int) -> Any:
    return np.repeat(series.observations[starts][:, None], steps, axis=1)


def by_model(model: DCL, training: TimeSeries) -> Ahead:
    """Latents, as many steps of the dynamics, and the readout that `fit` judges by."""
    run = model.run_
    readout = fit_readout(run, training)

    def ahead(series: TimeSeries, starts: Any, steps: int) -> Any:
        x, past = inference.latents(run, series), run.settings.past  # of one trial
        path = inference.ahead(run.dynamics, series.trimmed(past), x, starts - past, steps, 1)
        u = series.control[starts[:, None] + np.arange(1, steps + 1)]
        return observed(run.encoder, readout, path, u)

    return ahead


def errors(ahead: Ahead, series: TimeSeries, past: int) -> dict[str, float]:
    """NRMSE after 1, 10 and 100 steps, and RMSE of a simulation of the whole series."""
    y = series.observations.astype(float)
    starts, furthest = series.steps(max(HORIZONS), past), max(HORIZONS)
    squares = np.zeros(len(HORIZONS))
    for some in np.array_split(starts, max(1, len(starts) // 5000)):
        path = ahead(series, some, furthest)
        with np.errstate(over="ignore"):
            squares += [np.square(path[:, h - 1] - y[some + h]).sum() for h in HORIZONS]
    found = np.sqrt(squares / len(starts)) / y.std()
    path = ahead(series, np.array([past]), len(series) - past - 1)[0]
    with np.errstate(over="ignore", invalid="ignore"):
        free = float(np.sqrt(np.square(path - y[past + 1 :]).mean()))
    names = (f"nrmse_{h}" for h in HORIZONS)
    return dict(zip(names, found.tolist(), strict=True)) | {"simulation_rmse": free}


def measure(seed: int = 0) -> list[dict[str, Any]]:
    folder = os.environ.get("DYNACL_DATA")
    if not folder:
        print("DYNACL_DATA: not set; wanted the folder that has the recordings")
        return []
    rows = []
    for name, read in DATA.items():
        parts = read(Path(folder))
        training, past = parts["train"], max(LAGS)
        linear = {"ARX": ARX(LAGS).fit(training).ahead}
        linear["ARX, feedthrough"] = ARX(LAGS, feedthrough=True).fit(training).ahead
        for d in (2, 4, 7):
            model = LinearStateSpace(d, LAGS).fit(training)
            linear[f"linear state space, d {d}"] = model.ahead
        for what, ahead in ({"persistence": persistence} | linear).items():
            rows += judged(f"{name}, {what}", ahead, parts, past)
        for arguments in MODELS[name]:
            rows += by_dcl(name, parts, arguments, seed)
    return rows


def by_dcl(
    name: str, parts: dict[str, TimeSeries], arguments: dict[str, Any], seed: int
) -> list[dict[str, Any]]:
    started = time.perf_counter()
    fitted = DCL(**arguments, time_lags=LAGS, random_state=seed).fit(parts["train"])
    seconds = time.perf_counter() - started
    said = ", ".join(str(v) for v in list(arguments.values())[1:])
    what = f"{name}, DCL {said}, d {arguments['n_components']}, seed {seed}"
    more = {"seconds": seconds, "steps": fitted.n_iter_, "verdict": fitted.verdict_}
    return judged(what, by_model(fitted, parts["train"]), parts, max(LAGS), more)


def judged(
    what: str, ahead: Ahead, parts: dict[str, TimeSeries], past: int, more: Any = ()
) -> list[dict[str, Any]]:
    found = [
        {"what": f"{what}: {part}"} | errors(ahead, series, past) | dict(more)
        for part, series in parts.items()
        if part != "train"
    ]
    for row in found:
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return found


if __name__ == "__main__":
    from benchmarks.__main__ import store

    store("measured", measure())
