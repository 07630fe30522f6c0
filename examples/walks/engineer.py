"""Engineer: identify a driven machine, then simulate its held-out output, beside ARX.

python examples/walks/engineer.py --out walks/engineer              # made-up data, seconds
DYNACL_DATA=… python examples/walks/engineer.py tanks --out …       # or silverbox
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dynacl import DCL, TimeSeries, plots
from dynacl.baselines import ARX
from dynacl.data import Array

LAGS = (0, 1, 2, 3)
MODELS: dict[str, dict[str, Any]] = {
    "dynacl, linear": {"dynamics": "linear"},
    "dynacl, cubic": {"dynamics": "polynomial", "degree": 3},
    "dynacl, mlp": {"dynamics": "mlp"},
}


def parts(series: TimeSeries, at: int, first_is_test: bool = False) -> list[TimeSeries]:
    """One recording, cut in two: what is trained on, and what is simulated."""
    y, u = series.given(), series.given_control()
    assert u is not None
    two = [TimeSeries.of(y[:at], u[:at]), TimeSeries.of(y[at:], u[at:])]
    return two[::-1] if first_is_test else two


def tanks(folder: Path) -> list[TimeSeries]:
    """Cascaded tanks (Schoukens et al. 2016): pump voltage and level, 4 s; half is held out."""
    return parts(TimeSeries.read(folder / "cascaded_tanks.mat", key="y", control_key="X"), 1024)


def silverbox(folder: Path) -> list[TimeSeries]:
    """Silverbox (Wigren & Schoukens 2013), 610 Hz: the sweep of the first 40,000 is held out."""
    file = folder / "silverbox_SNLS80mV.csv"
    return parts(TimeSeries.read(file, key="V2", control_key="V1"), 40_000, first_is_test=True)


def made_up(seed: int = 0) -> list[TimeSeries]:
    """A damped spring that grows stiffer, pushed by a random force that is held for a while."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.standard_normal(150), 8)
    x, v, y = 0.0, 0.0, []
    for force in u:
        y.append(x)
        v += 0.3 * (force - x - 0.5 * x**3 - 0.4 * v)
        x += 0.3 * v
    return parts(TimeSeries.of(np.array(y)[:, None], u[:, None]), 900)


def simulated(model: DCL | ARX, test: TimeSeries) -> Array:
    """The output after the first window, from that window and the inputs alone."""
    past, steps = max(LAGS), len(test) - max(LAGS) - 1
    if isinstance(model, ARX):
        return model.ahead(test, np.array([past]), steps)[0, :, 0]
    y, u = test.given(), test.given_control()
    assert u is not None
    known = TimeSeries.of(y[: past + 1], u[: past + 1])
    # Row 0 of the input to come acts on the last step that is known, the last row on the last step.
    return np.asarray(model.forecast(known, steps, u=[u[past:]], observations=True)[0])[:, 0]


def walk(train: TimeSeries, test: TimeSeries, d: int = 7, **settings: Any) -> dict[str, Any]:
    """Each model's simulation of the test part, its error, and what it says of itself."""
    true = test.given()[max(LAGS) + 1 :, 0]
    models: dict[str, DCL | ARX] = {"ARX": ARX(LAGS).fit(train)}
    # Predictions of dynacl see the input at their own step, too, where training data gain by it.
    models["ARX, feedthrough"] = ARX(LAGS, feedthrough=True).fit(train)
    for name, kind in MODELS.items():
        models[name] = DCL(d, time_lags=LAGS, random_state=0, **kind, **settings).fit(train)
    found = {}
    for name, model in models.items():
        path = simulated(model, test)
        rmse = float(np.sqrt(np.mean((path - true) ** 2)))
        found[name] = {"path": path, "rmse": rmse, "nrmse": rmse / float(true.std()), "says": ""}
        if isinstance(model, DCL):
            found[name]["says"] = model.verdict_
    best = min(MODELS, key=lambda name: _missed(models[name]))
    return {"true": true, "models": found, "best": best}


def _missed(model: Any) -> float:
    """Of what was held out of the training part, the mean logarithm over steps ahead."""
    return float(np.inf) if model.held_out_ is None else float(model.held_out_.figure())


def draw(found: dict[str, Any], name: str, start: int, steps: int) -> Figure:
    """A stretch of the simulation, which began once, at the first window of the test part."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axis = figure.subplots()
    rows = slice(start, start + steps)
    names = found["best"], "ARX, feedthrough"
    best, arx = (found["models"][name]["path"][rows] for name in names)
    plots.forecast(best, found["true"][rows], beside={"ARX": arx}, name=name, ax=axis)
    axis.set_xlabel(f"time step, from {start:,} after the start of the simulation")
    return figure


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="made-up")
    parser.add_argument("--out", default="walks/engineer")
    parser.add_argument("--max-iter", type=int, help="training steps of dynacl (default: its own)")
    options = parser.parse_args(arguments)
    read = {"tanks": tanks, "silverbox": silverbox}.get(options.data)
    train, test = made_up() if read is None else read(Path(os.environ["DYNACL_DATA"]))
    started = time.process_time()
    found = walk(train, test, max_iter=options.max_iter)
    print(f"{options.data}: {len(train):,} samples trained on, {len(test):,} simulated")
    for name, one in found["models"].items():
        print(f"{name:<16} RMSE {one['rmse']:.4g}  NRMSE {one['nrmse']:.3f}  {one['says']}")
    print(f"drawn is {found['best']}, which misses least of what was held out of the training part")
    print(f"{time.process_time() - started:.0f} s of processor time")
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    steps = min(300, len(found["true"]))
    start = len(found["true"]) - steps
    figure = draw(found, "output", start, steps)
    figure.savefig(out / f"{options.data}.png", dpi=110)


if __name__ == "__main__":
    main()
