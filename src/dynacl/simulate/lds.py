"""Linear systems, free or driven."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynacl.data import Array, TimeSeries
from dynacl.simulate.base import System, simulated
from dynacl.simulate.checks import finite
from dynacl.simulate.control import Control, control_named
from dynacl.simulate.paths import planes, rotation, unit_starts

if TYPE_CHECKING:
    from dynacl.dynamics import Oracle


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class LDS(System):
    """x' = A x + B u + ε, from anywhere on the unit sphere."""

    kind = "lds"
    matrix: Array  # A, (d, d)

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        return unit_starts(trials, self.d, rng)

    def move(self, x: Array, modes: Any = None) -> Array:
        return x @ self.matrix.T

    def oracle(self) -> Oracle:
        return linear_oracle(self.matrix, self.control)


def linear_oracle(matrix: Array, control: Control | None = None) -> Oracle:
    """A x + B u as dynamics."""
    import torch

    from dynacl.dynamics import Linear, Oracle

    model = Linear(len(matrix), n_controls=0 if control is None else control.matrix.shape[1])
    model.matrix.data = torch.tensor(matrix, dtype=torch.float32)
    if control is not None and model.control is not None:
        model.control.data = torch.tensor(control.matrix, dtype=torch.float32)
    return Oracle(model)


def lds(
    *, rng: np.random.Generator, d: int = 3, angle: float = 5.0, noise: Any = 0.01, **shared: Any
) -> TimeSeries:
    """x' = A x + ε, A the product over all planes of rotations by ± angle (degrees)."""
    A = rotation(d, finite("angle", angle) * rng.choice([-1.0, 1.0], planes(d)))
    return simulated(partial(LDS, matrix=A), d, noise, rng, **shared)


def controlled(
    *,
    rng: np.random.Generator,
    d: int = 5,
    angle: float = 10.0,
    control: str = "step",
    noise: Any = 1e-3,
    **shared: Any,
) -> TimeSeries:
    """x' = A x + B u + ε with angles uniform in [0, angle] degrees and B ~ N(0.01, variance 0.01).

    control: "step" (one dimension), "lds" (d dimensions, a system of the same kind) or "none".
    """
    source = control_named(control)
    finite("angle", angle)
    A = rotation(d, rng.uniform(0, angle, planes(d)))
    u = None if source is None else source.random(d, angle, rng)
    return simulated(partial(LDS, matrix=A, control=u), d, noise, rng, **shared)
