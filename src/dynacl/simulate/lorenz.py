"""The Lorenz system."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynacl.data import Array, InputError, TimeSeries
from dynacl.simulate.base import System, simulated
from dynacl.simulate.checks import finite

if TYPE_CHECKING:
    from dynacl.dynamics import Oracle

# Starting points of the paper's five Lorenz data sets.
LORENZ_STARTS = ((0, 1, 0), (1, 0, 0), (2, 2, 2), (0, 0, 1), (3, 3, 3))
CONSTANTS: dict[str, Any] = {"sigma": 10.0, "beta": 8 / 3, "rho": 28.0}


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Lorenz(System):
    """Euler steps of the Lorenz equations, plus ε."""

    kind = "lorenz"
    dt: float
    sigma: float
    beta: float
    rho: float

    @property
    def time_step(self) -> float:
        return self.dt

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((trials, self.d))

    def field(self, x1: Any, x2: Any, x3: Any) -> tuple[Any, Any, Any]:
        """dx/dt, of numbers, arrays or tensors."""
        return self.sigma * (x2 - x1), x1 * (self.rho - x3) - x2, x1 * x2 - self.beta * x3

    def move(self, x: Array, modes: Any = None) -> Array:
        """An Euler step."""
        # Of a single state, numpy's scalars would be slow: the paper's trial has 1M steps.
        now = x.tolist() if x.ndim == 1 else x.T
        return np.array([a + self.dt * b for a, b in zip(now, self.field(*now), strict=True)]).T

    def oracle(self) -> Oracle:
        import torch

        from dynacl.dynamics.oracle import Oracle, TrueMap

        return Oracle(TrueMap(lambda x: x + self.dt * torch.stack(self.field(*x.unbind(-1)), -1)))


def lorenz(
    *,
    rng: np.random.Generator,
    dt: float = 0.01,
    noise: Any = 1e-3,
    start: Any = LORENZ_STARTS[0],
    trials: int = 1,
    steps: int = 1_000_000,
    **shared: Any,
) -> TimeSeries:
    """x' = x + dt [σ(x2 − x1), x1(ρ − x3) − x2, x1 x2 − β x3] + ε.

    The paper prints the field with a misplaced bracket.
    """
    start = finite("start", start)
    if start.shape != (3,):
        raise InputError(f"start: got shape {start.shape}; wanted three numbers")
    if finite("dt", dt) <= 0:
        raise InputError(f"dt: got {dt}; wanted a positive number")
    make = partial(Lorenz, dt=float(dt), **CONSTANTS)
    return simulated(make, 3, noise, rng, trials=trials, steps=steps, start=start, **shared)
