"""Polynomial flows: any vector field that is a sum of products of the state's components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynacl.data import Array, InputError, TimeSeries
from dynacl.simulate.base import System, simulated
from dynacl.simulate.checks import finite, whole

if TYPE_CHECKING:
    from dynacl.dynamics import Oracle

# One side of dx/dt: {components that are multiplied: coefficient}. (0, 2) is x1 x3, () is 1.
Equation = Mapping[tuple[int, ...], float]
ROSSLER: tuple[Equation, ...] = (
    {(1,): -1.0, (2,): -1.0},
    {(0,): 1.0, (1,): 0.2},
    {(): 0.2, (0, 2): 1.0, (2,): -5.7},
)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Flow(System):
    """Runge-Kutta steps of dx/dt = Σ_j c_j Π_i x_i^p_ji, plus ε."""

    kind = "flow"
    powers: Array  # p, (terms, d), whole numbers
    coefficients: Array  # c, (terms, d)
    dt: float
    warmup: int  # steps from N(0, I) to where a trial begins

    @property
    def time_step(self) -> float:
        return self.dt

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        x = rng.standard_normal((trials, self.d))
        with np.errstate(over="ignore", invalid="ignore"):  # found by `draw`
            for _ in range(self.warmup):
                x = self.move(x)
        return x

    def field(self, x: Array) -> Array:
        """dx/dt at one state (d,) or many (n, d)."""
        padded = np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)
        product: Array = padded[..., self._factors[0]]
        for columns in self._factors[1:]:
            product = product * padded[..., columns]
        flow: Array = product @ self.coefficients
        return flow

    def move(self, x: Array, modes: Any = None) -> Array:
        """A Runge-Kutta step of fourth order."""
        following: Array = runge_kutta(self.field, x, self.dt)
        return following

    def oracle(self) -> Oracle:
        import torch
        from torch import Tensor

        from dynacl.dynamics.oracle import Oracle, TrueMap

        factors = torch.from_numpy(self._factors)
        coefficients = torch.from_numpy(np.array(self.coefficients))

        def field(x: Tensor) -> Tensor:
            padded = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
            product: Tensor = padded[..., factors.to(x.device)].prod(-2)
            return product @ coefficients.to(x)

        return Oracle(TrueMap(lambda x: runge_kutta(field, x, self.dt)))

    @cached_property
    def _factors(self) -> Array:
        """Each term as a product of as many columns of [x, 1] as the degree, (degree, terms)."""
        degree = max(1, int(self.powers.sum(1).max()))
        columns = [np.repeat(np.arange(self.d), p) for p in self.powers]
        padded = [np.pad(c, (0, degree - len(c)), constant_values=self.d) for c in columns]
        return np.stack(padded, axis=1)


def runge_kutta(field: Any, x: Any, dt: float) -> Any:
    """One step of fourth order along a field, of arrays or tensors."""
    a = field(x)
    b = field(x + dt / 2 * a)
    c = field(x + dt / 2 * b)
    d = field(x + dt * c)
    return x + dt / 6 * (a + 2 * b + 2 * c + d)


def flow(
    *,
    rng: np.random.Generator,
    equations: Sequence[Equation] = ROSSLER,
    dt: float = 0.1,
    noise: Any = 1e-3,
    warmup: int = 1000,
    trials: int = 10,
    steps: int = 10_000,
    **shared: Any,
) -> TimeSeries:
    """dx/dt by one equation for each component, {components that are multiplied: coefficient}.

    The default is Rössler's: x1' = −x2 − x3, x2' = x1 + 0.2 x2, x3' = 0.2 + x1 x3 − 5.7 x3. A trial
    begins where `warmup` steps from N(0, I) lead.
    """
    if finite("dt", dt) <= 0:
        raise InputError(f"dt: got {dt}; wanted a positive number")
    whole("warmup", warmup, 0)
    powers, coefficients = terms(equations)
    make = partial(Flow, powers=powers, coefficients=coefficients, dt=float(dt), warmup=int(warmup))
    return simulated(make, len(equations), noise, rng, trials=trials, steps=steps, **shared)


def terms(equations: Sequence[Equation]) -> tuple[Array, Array]:
    """Powers and coefficients, each (terms, d), of a field that is written out."""
    d = len(equations)
    if not any(equations):
        raise InputError("equations: all are empty; wanted a term in one of them at least")
    columns: dict[tuple[int, ...], Array] = {}
    for i, equation in enumerate(equations):
        for factors, coefficient in equation.items():
            if not all(isinstance(j, int) and 0 <= j < d for j in factors):
                raise InputError(
                    f"equations: got the product {factors} in number {i + 1} of {d}; wanted "
                    f"components from 0 to {d - 1}"
                )
            power = tuple(np.bincount(factors, minlength=d).tolist() if factors else [0] * d)
            columns.setdefault(power, np.zeros(d))[i] += float(finite("equations", coefficient))
    return np.array(list(columns), dtype=np.int64), np.stack(list(columns.values()))
