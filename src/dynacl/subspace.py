"""The best linear state of windows: canonical variates of a window and the window after it.

What past and future have in common is what the state carries over (Akaike 1975, *SIAM J. Control*
13, 162; Larimore 1990, *CDC* 596). The d directions of the past that correlate most with the future
are the linear state of d dimensions that predicts best; for a linear system and mixing they are the
state. It takes no training: a generalised eigenvalue problem of the size of a window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynacl.data import Array


class LinearState(NamedTuple):
    """x = (p − mean) @ directions, of unit variance; correlations: with the future, falling."""

    mean: Array  # (r,)
    directions: Array  # (r, d)
    correlations: Array  # (min(r, s),)


def canonical_variates(past: Array, future: Array, d: int) -> LinearState:
    """The d directions of `past` (n, r) that correlate most with `future` (n, s).

    With few rows per dimension the covariances are shrunk towards a multiple of the identity, by
    the share (r / n) that chance explains; so more channels than samples work too. Correlations are
    then lower bounds.
    """
    mean = past.mean(0)
    past, future = past - mean, future - future.mean(0)
    n = len(past)
    roots = [_inverse_root(side.T @ side / n, side.shape[1] / n) for side in (past, future)]
    left, correlations, _ = np.linalg.svd(roots[0].T @ (past.T @ future / n) @ roots[1])
    directions = roots[0] @ left[:, :d]
    spread = np.sqrt(np.square(past @ directions).mean(0))
    return LinearState(mean, directions / np.where(spread > 0, spread, 1.0), correlations)


def _inverse_root(covariance: Array, share: float) -> Array:
    """R with Rᵀ C R = I for a shrunk covariance C; directions without variance are left out."""
    size = len(covariance)
    shrink = min(0.5, share) if share > ENOUGH else 0.0
    target = np.trace(covariance) / size
    variance, axes = np.linalg.eigh((1 - shrink) * covariance + shrink * target * np.eye(size))
    kept = variance > FAINT * max(variance[-1], np.finfo(float).tiny)
    root: Array = axes[:, kept] / np.sqrt(variance[kept])
    return root


ENOUGH = 0.01  # dimensions per row, below which covariances are taken as they are
FAINT = 1e-10  # share of the largest variance, below which a direction is rounding
