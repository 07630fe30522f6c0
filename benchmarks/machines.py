"""Machines drawn at random: one input, one output, a hidden state, and a bend somewhere.

python -m benchmarks.machines               seed 0, which is reported, into docs/machines.md
python -m benchmarks.machines --seed 1000   a seed to tune on: only printed

Each of six kinds is drawn twice, without noise on its output and with noise of 3 % of its spread.
Models see lags 0–3 of the output and 1–3 of the input, train on 5,000 samples and predict 2,000
fresh ones, beside ARX of the same lags.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measured import HORIZONS, LAGS, by_model, errors
from dynacl import DCL, TimeSeries
from dynacl.baselines import ARX
from dynacl.data import Array

PAGE = Path(__file__).parents[1] / "docs" / "machines.md"
STEPS, FRESH, SETTLING = 5000, 2000, 200
PARTS = 20  # Runge-Kutta steps per sample
NOISES = (0.0, 0.03)  # of the output, as a share of its spread
MODELS: dict[str, dict[str, Any]] = {
    "linear": {"dynamics": "linear"},
    "polynomial": {"dynamics": "polynomial", "degree": 3},
    "mlp": {"dynamics": "mlp"},
}
D = 7  # the width of the window


class Machine(NamedTuple):
    """A sampled system: how its state moves under an input, and what is seen of it."""

    name: str
    field: Callable[[Array, float], Array]
    output: Callable[[Array], float]
    d: int
    dt: float
    slow: float  # correlation of the input from one sample to the next


def draw(kind: str, rng: np.random.Generator) -> Machine:
    a, b, c = rng.uniform(0.5, 1.5, 3)
    if kind == "pendulum":
        return Machine(
            kind, lambda x, u: np.array([x[1], -a * np.sin(x[0]) - 0.3 * b * x[1] + 0.8 * u]),
            lambda x: float(np.sin(x[0])), 2, 0.4, 0.7,
        )  # fmt: skip
    if kind == "hardening spring":
        return Machine(
            kind, lambda x, u: np.array([x[1], -a * x[0] - 2 * b * x[0] ** 3 - 0.3 * c * x[1] + u]),
            lambda x: float(x[0]), 2, 0.5, 0.8,
        )  # fmt: skip
    if kind == "motor with dry friction":
        return Machine(
            kind, lambda x, u: np.array([x[1], 2 * a * u - 0.4 * b * x[1] - 0.5 * np.tanh(8 * x[1])
                                         - 0.3 * c * x[0]]),
            lambda x: float(x[0]), 2, 0.4, 0.9,
        )  # fmt: skip
    if kind == "hysteresis":
        return Machine(
            kind, lambda x, u: np.array([
                x[1], -a * x[0] - 0.4 * x[1] - b * x[2] + 1.5 * u,
                x[1] - 0.8 * np.abs(x[1]) * x[2] - 0.4 * x[1] * np.abs(x[2])]),
            lambda x: float(x[0]), 3, 0.4, 0.8,
        )  # fmt: skip
    if kind == "filter, bend, filter":
        return Machine(
            kind, lambda x, u: np.array([
                x[1], u - a * x[0] - 0.8 * x[1], b * (np.tanh(2 * x[0]) - x[2])]),
            lambda x: float(x[2]), 3, 0.4, 0.8,
        )  # fmt: skip
    assert kind == "two tanks"
    return Machine(
        kind, lambda x, u: np.array([
            0.6 * (1 + 0.7 * np.tanh(u)) - 0.5 * a * np.sqrt(max(x[0], 0.0)),
            0.5 * a * np.sqrt(max(x[0], 0.0)) - 0.4 * b * np.sqrt(max(x[1], 0.0))]),
        lambda x: float(min(x[1], 6.0)), 2, 0.5, 0.95,
    )  # fmt: skip


KINDS = ("pendulum", "hardening spring", "motor with dry friction", "hysteresis",
         "filter, bend, filter", "two tanks")  # fmt: skip


def simulated(machine: Machine, rng: np.random.Generator, steps: int) -> tuple[Array, Array]:
    """Outputs (steps, 1) and inputs (steps, 1), from rest on; the beginning is left out."""
    x, u = np.zeros(machine.d), 0.0
    h, rows = machine.dt / PARTS, []
    for _ in range(SETTLING + steps):
        u = machine.slow * u + np.sqrt(1 - machine.slow**2) * rng.standard_normal()
        rows.append((machine.output(x), u))
        for _ in range(PARTS):
            middle = x + h / 2 * machine.field(x, u)
            x = x + h * machine.field(middle, u)
    y, u = np.array(rows[SETTLING:]).T[:, :, None]
    return y, u


def judge(seed: int, index: int) -> list[dict[str, Any]]:
    """Rows of a machine: ARX, and a default fit of each model."""
    rng = np.random.default_rng([seed, index])
    machine = draw(KINDS[index % len(KINDS)], rng)
    noise = NOISES[index // len(KINDS)]
    (y, u), (fresh, v) = (simulated(machine, rng, n) for n in (STEPS, FRESH))
    spread = y.std()
    y, fresh = (z + noise * spread * rng.standard_normal(z.shape) for z in (y, fresh))
    train, test = TimeSeries.of(y, u), TimeSeries.of(fresh, v)
    rows = [{"model": "ARX"} | errors(ARX(LAGS).fit(train).ahead, test, max(LAGS))]
    for name, arguments in MODELS.items():
        started = time.process_time()
        model = DCL(D, **arguments, time_lags=LAGS, random_state=0).fit(train)
        seconds = round(time.process_time() - started, 1)
        out = "start" if "linear start is handed out" in model.verdict_ else "trained"
        rows.append({"model": name, "handed_out": out, "seconds": seconds}
                    | errors(by_model(model, train), test, max(LAGS)))  # fmt: skip
    return [{"index": index, "machine": machine.name, "noise": noise} | row for row in rows]


def page(rows: list[dict[str, Any]]) -> str:
    """A table of all machines, and what the ratios to ARX come to."""
    names = [f"nrmse_{h}" for h in HORIZONS]
    arx = {row["index"]: row for row in rows if row["model"] == "ARX"}
    told = ["| | noise | model | 1 step | 10 | 100 | handed out |", "|" + "---|" * 7]
    for row in rows:
        first = row["model"] == "ARX"
        told.append(" | ".join([
            f"| {row['machine'] if first else ''}", f"{row['noise']:.0%}" if first else "",
            row["model"], *(f"{row[n]:.3f}" for n in names), f"{row.get('handed_out', '–')} |",
        ]))  # fmt: skip
    short = ["| | median, 1 step | 10 | 100 | worst, 1 step | 10 | 100 |", "|" + "---|" * 7]
    for model in MODELS:
        found = np.array([[row[n] / arx[row["index"]][n] for n in names]
                          for row in rows if row["model"] == model])  # fmt: skip
        figures = [*np.median(found, axis=0), *found.max(0)]
        short.append(f"| {model} | " + " | ".join(f"{v:.2f}" for v in figures) + " |")
    return "\n".join([*short, "", "Each machine:", "", *told])


def main(arguments: list[str] | None = None) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m benchmarks.machines", description=__doc__, formatter_class=plain
    )
    parser.add_argument("--seed", type=int, default=0, help="tune on 1000 and above")
    every = range(len(KINDS) * len(NOISES))
    parser.add_argument("--machines", type=int, nargs="*", default=every, help="only these")
    options = parser.parse_args(arguments)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in options.machines:
            rows += judge(options.seed, index)
            for row in rows[-1 - len(MODELS) :]:
                print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()},
                      flush=True)  # fmt: skip
    told = page(rows)
    print(told)
    if options.seed == 0 and len(rows) == len(every) * (1 + len(MODELS)):
        head, _, rest = PAGE.read_text().partition("<!-- tables -->\n")
        foot = rest.partition("<!-- end of tables -->\n")[2]
        PAGE.write_text(f"{head}<!-- tables -->\n\n{told}\n<!-- end of tables -->\n{foot}")


if __name__ == "__main__":
    main()
