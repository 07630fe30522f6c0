"""A linear system on the unit sphere, with von Mises–Fisher noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynacl.data import Array, InputError, TimeSeries
from dynacl.simulate.base import System, simulated
from dynacl.simulate.checks import finite, whole
from dynacl.simulate.lds import linear_oracle
from dynacl.simulate.paths import planes, roll, rotation, unit_starts

if TYPE_CHECKING:
    from dynacl.dynamics import Oracle


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Sphere(System):
    """x' ~ vMF(A x, κ), κ = 1 / noise²."""

    kind = "sphere"
    matrix: Array  # A, (d, d), a rotation
    concentration: float = 0.0  # of the starts around e1; 0 is uniform

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        x = unit_starts(trials, self.d, rng)
        if self.concentration:
            x = _around_pole(self.d, self.concentration, trials, rng)
        return x

    def move(self, x: Array, modes: Any = None) -> Array:
        return x @ self.matrix.T

    def run(self, x: Array, noise: Array, rng: np.random.Generator) -> tuple[Array, Array | None]:
        """x' ~ vMF(A x, κ): one draw around e1 for each, reflected so that e1 goes to A x."""
        if not np.allclose(np.linalg.norm(x, axis=-1), 1):
            raise InputError("start: lies off the unit sphere; wanted a vector of length 1")
        kappa = 1 / float(self.noise[0, 0]) ** 2
        draws = _around_pole(self.d, kappa, noise.size // self.d, rng).reshape(noise.shape)
        pole = np.eye(self.d)[0]

        def following(x: Array, t: int) -> Array:
            v = pole - self.move(x)
            length = (v * v).sum(-1, keepdims=True)
            along = (v * draws[t]).sum(-1, keepdims=True)
            x = draws[t] - 2 * v * along / np.where(length > 0, length, 1)
            x /= np.linalg.norm(x, axis=-1, keepdims=True)
            return x

        return roll(x, draws, following), None

    def oracle(self) -> Oracle:
        return linear_oracle(self.matrix)


def sphere(
    *,
    rng: np.random.Generator,
    d: int = 3,
    angle: float = 5.0,
    noise: float = 0.01,
    concentration: float = 0.0,
    **shared: Any,
) -> TimeSeries:
    """x' ~ vMF(A x, κ) on the unit sphere, κ = 1 / noise²; A as for `lds`.

    Trials start uniformly on the sphere, or at vMF(e₁, concentration): with trials of two steps and
    no rotation, that is the marginal of the paper's Figure on density correction.
    """
    if not finite("concentration", concentration) >= 0:
        raise InputError(f"concentration: got {concentration!r}; wanted at least 0")
    whole("d", d, 2)
    if not (np.ndim(noise) == 0 and finite("noise", noise) > 0):
        raise InputError(f"noise: got {noise!r}; wanted one positive number on the sphere")
    A = rotation(d, finite("angle", angle) * rng.choice([-1.0, 1.0], planes(d)))
    make = partial(Sphere, matrix=A, concentration=float(concentration))
    return simulated(make, d, noise, rng, **shared)


def _around_pole(d: int, kappa: float, n: int, rng: np.random.Generator) -> Array:
    """n draws of vMF(e1, κ), (n, d)."""
    from scipy.stats import vonmises_fisher  # slow to import, and needed only here

    draws: Array = vonmises_fisher(np.eye(d)[0], kappa).rvs(n, random_state=rng)
    return draws
