"""A system of your own in the benchmark, as a function or as a class, without editing the package.

    python examples/own_system.py

It is drawn, fitted, compared with its truth by every metric, and stands in a table of results.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dynacl import DCL, TimeSeries, evaluate, simulate
from dynacl.experiments.benchmark import Row, Table, benchmark
from dynacl.simulate.base import System, simulated

SIZE = {"trials": 40, "steps": 400, "observed": 10, "layers": 2}


# As a function of states (n, d), with parameters by name.
def van_der_pol(x: np.ndarray, dt: float, mu: float) -> np.ndarray:
    position, speed = x.T
    flow = np.stack([speed, mu * (1 - position**2) * speed - position], axis=-1)
    return x + dt * flow


# As a class, where trials begin in their own way or the settings are arrays.
@dataclass(frozen=True, eq=False, kw_only=True)
class Pendulum(System):
    kind = "pendulum"
    dt: float
    friction: float

    def starts(self, trials: int, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-2, 2, (trials, 2))

    def move(self, x: np.ndarray, modes: Any = None) -> np.ndarray:
        angle, speed = x[..., 0], x[..., 1]
        force = -np.sin(angle) - self.friction * speed
        return np.stack([angle + self.dt * speed, speed + self.dt * force], axis=-1)


def pendulum(*, rng: np.random.Generator, friction: float = 0.05, **shared: Any) -> TimeSeries:
    return simulated(partial(Pendulum, dt=0.1, friction=friction), 2, 0.02, rng, **shared)


# Their names: of a system in files, and of data sets in tables.
simulate.SYSTEMS[Pendulum.kind] = Pendulum
simulate.PRESETS["pendulum"] = (pendulum, {})
simulate.PRESETS["van-der-pol"] = (
    partial(simulate.own, van_der_pol, d=2, dt=0.1, noise=0.02),
    {"parameters": {"dt": 0.1, "mu": 1.0}},
)


def table(out: str, max_iter: int | None = None) -> Table:
    """Both systems beside each other, each without dynamics and with polynomial ones."""
    cells = ("r2", "dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control")
    kinds: tuple[dict[str, Any], ...] = (
        {"dynamics": "identity"},
        {"dynamics": "polynomial", "degree": 3},
    )
    rows = [
        Row(f"{system}, {kind['dynamics']}", {"system": system} | SIZE, {"n_components": 2} | kind,
            cells, our_training={"max_iter": max_iter} if max_iter else {})
        for system in ("van-der-pol", "pendulum")
        for kind in kinds
    ]  # fmt: skip
    return benchmark(rows, out=out)


def main() -> None:
    data = simulate.preset("van-der-pol", rng=np.random.default_rng(0), **SIZE)
    model = DCL(2, "polynomial", degree=3, random_state=0).fit(data)
    found = evaluate(model, simulate.again(data, rng=np.random.default_rng(1), trials=10))
    for name, value in found.items():
        if isinstance(value, float):
            print(f"{name}: {value:.3f}")
    for name, why in found["reasons"].items():
        print(f"{name}: does not apply, as {why}")
    with tempfile.TemporaryDirectory() as out:
        print(table(out))


if __name__ == "__main__":
    main()
