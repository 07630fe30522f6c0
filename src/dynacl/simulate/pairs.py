"""Pairs on the sphere whose marginal is not uniform: where a density correction is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import vonmises_fisher

from dynacl.data import Array, InputError, TimeSeries, Truth
from dynacl.simulate.mixing import draw_mixing, mix


def sphere_pairs(
    *,
    rng: np.random.Generator,
    d: int = 3,
    concentration: float = 0.0,
    pair_concentration: float = 16.0,
    trials: int = 500_000,
    steps: int = 2,
    mixing: str = "mlp",
    layers: int = 4,
    observed: int = 50,
) -> TimeSeries:
    """x ~ vMF(e1, κ) and x' ~ vMF(x, κ_p), a trial of two steps each (paper, Appendix "Kernel
    density estimate correction"). κ = 0 is the uniform distribution.

    The pair is no dynamical system, so the truth carries latents only. κ_p should be large beside
    κ: then x' is spread as x is, and both serve as negatives.
    """
    for name, value, least in (("d", d, 2), ("trials", trials, 1)):
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name}: got {value!r}; wanted a whole number of at least {least}")
    if steps != 2:
        raise InputError(f"steps: got {steps!r}; a pair has 2")
    if not 0 <= concentration < np.inf or not 0 < pair_concentration < np.inf:
        raise InputError(
            f"concentration, pair_concentration: got {concentration!r} and {pair_concentration!r}; "
            "wanted a number of at least 0 and a positive one"
        )
    weights = draw_mixing(d, mixing, layers, observed, rng)
    first = around(np.tile(np.eye(d)[0], (trials, 1)), concentration, rng)
    latents = np.stack([first, around(first, pair_concentration, rng)], axis=1).reshape(-1, d)
    bounds = np.arange(0, 2 * trials + 1, 2, dtype=np.int64)
    return TimeSeries(mix(latents, weights), bounds, None, Truth(latents.astype(np.float32)))


def around(centres: Array, kappa: float, rng: np.random.Generator) -> Array:
    """A draw of vMF(centre, κ) for each row: drawn around e1, then reflected there."""
    n, d = centres.shape
    if kappa == 0:
        x: Any = rng.standard_normal((n, d))
        uniform: Array = x / np.linalg.norm(x, axis=1, keepdims=True)
        return uniform
    pole = np.eye(d)[0]
    draws = np.reshape(vonmises_fisher(pole, kappa).rvs(n, random_state=rng), (n, d))
    v = pole - centres
    length = (v * v).sum(1, keepdims=True)
    along = 2 * v * (v * draws).sum(1, keepdims=True)
    reflected: Array = draws - along / np.where(length > 0, length, 1)
    return reflected
