"""Switching linear systems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynacl.data import Array, InputError, TimeSeries
from dynacl.simulate.base import System, simulated
from dynacl.simulate.checks import finite, whole
from dynacl.simulate.paths import planes, roll, rotation, unit_starts

if TYPE_CHECKING:
    from dynacl.dynamics import Oracle


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SLDS(System):
    """x' = A_k x + ε with k a Markov chain, from anywhere on the unit sphere."""

    kind = "slds"
    switches = True
    matrices: Array  # A_k, (K, d, d)
    switch_probability: float  # for each other mode, per step

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        return unit_starts(trials, self.d, rng)

    def move(self, x: Array, modes: Any = None) -> Array:
        K, d, _ = self.matrices.shape
        if x.ndim == 1:
            following: Array = self.matrices[modes] @ x
        else:
            every = x @ self.matrices.reshape(-1, d).T  # one product for all modes
            following = every.reshape(-1, K, d)[np.arange(len(x)), modes]
        return following

    def run(self, x: Array, noise: Array, rng: np.random.Generator) -> tuple[Array, Array | None]:
        modes = self._modes(x.size // self.d, len(noise), rng).T.reshape(noise.shape[:-1])
        return roll(x, noise, lambda x, t: self.move(x, modes[t]) + noise[t]), modes

    def oracle(self) -> Oracle:
        import torch

        from dynacl.dynamics import Oracle, SwitchingLinear

        model = SwitchingLinear(self.d, len(self.matrices))
        model.matrices.data = torch.tensor(self.matrices, dtype=torch.float32)
        return Oracle(model)

    def _modes(self, trials: int, steps: int, rng: np.random.Generator) -> Array:
        """A Markov chain for each trial, (trials, steps)."""
        K = len(self.matrices)
        jumps = np.zeros((trials, steps), dtype=np.int64)
        if K > 1:
            leaves = rng.random((trials, steps)) < (K - 1) * self.switch_probability
            jumps = leaves * rng.integers(1, K, (trials, steps))
            jumps[:, 0] = rng.integers(0, K, trials)
        return np.cumsum(jumps, axis=1) % K


def slds(
    *,
    rng: np.random.Generator,
    d: int = 6,
    modes: int = 5,
    angle: float = 10.0,
    switch_probability: float = 1e-4,
    noise: Any = 1e-4,
    **shared: Any,
) -> TimeSeries:
    """x' = A_k x + ε; the angles of A_k are uniform in [0, angle] degrees, one for each plane.

    The mode k is a Markov chain that leaves for each other mode with switch_probability per step.
    """
    whole("modes", modes, 1)
    if not 0 <= switch_probability * max(modes - 1, 1) <= 1:
        raise InputError(
            f"switch_probability: got {switch_probability} for each of {modes - 1} other modes; "
            "their sum must lie in [0, 1]"
        )
    finite("angle", angle)
    A = np.stack([rotation(d, rng.uniform(0, angle, planes(d))) for _ in range(modes)])
    make = partial(SLDS, matrices=A, switch_probability=float(switch_probability))
    return simulated(make, d, noise, rng, **shared)
