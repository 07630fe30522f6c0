"""The mathematics that systems share: rotations, starts on the unit sphere, the loop over steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from dynacl.data import Array
from dynacl.simulate.checks import whole


def planes(d: int) -> int:
    """Planes that two of d axes span."""
    whole("d", d, 1)
    return d * (d - 1) // 2


def rotation(d: int, angles: Array) -> Array:
    """Product over all planes of rotations by these angles, in degrees."""
    A = np.eye(d)
    for (i, j), angle in zip(combinations(range(d), 2), np.deg2rad(angles), strict=True):
        G = np.eye(d)
        G[[i, i, j, j], [i, j, i, j]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
        A = G @ A
    return A


def unit_starts(trials: int, d: int, rng: np.random.Generator) -> Array:
    """Uniform on the unit sphere, (trials, d)."""
    x = rng.standard_normal((trials, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


def roll(x: Array, shocks: Array, following: Callable[[Array, int], Array]) -> Array:
    """The path x, following(x, 0), …, written over the shocks, (steps, *x.shape).

    Step t may look at shocks[t]. To write over them saves an array as large as the latents.
    """
    for t in range(len(shocks)):
        shocks[t], x = x, following(x, t)
    return shocks
