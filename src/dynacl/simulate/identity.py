"""The random walk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynacl.data import Array, TimeSeries
from dynacl.simulate.base import System, simulated
from dynacl.simulate.checks import whole
from dynacl.simulate.lds import linear_oracle
from dynacl.simulate.paths import unit_starts

if TYPE_CHECKING:
    from dynacl.dynamics import Oracle


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Identity(System):
    """x' = x + ε, from anywhere on the unit sphere."""

    kind = "identity"
    matrix: Array  # the identity, (d, d): so that it can be judged as a linear system

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        return unit_starts(trials, self.d, rng)

    def move(self, x: Array, modes: Any = None) -> Array:
        return x

    def oracle(self) -> Oracle:
        return linear_oracle(self.matrix)


def identity(
    *, rng: np.random.Generator, d: int = 3, noise: Any = 0.01, **shared: Any
) -> TimeSeries:
    """x' = x + ε: a random walk."""
    whole("d", d, 1)
    return simulated(partial(Identity, matrix=np.eye(d)), d, noise, rng, **shared)
