"""Slopes of an encoder between observations that lie near each other.

Derivatives of a network can be rough where its values are right, as nothing in a contrast asks for
smooth ones: here and there they change their orientation. How far neighbours are apart, before and
after, tells the same volume from values alone.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from dynacl.data import Array

NEIGHBOURS = 4  # per dimension; fewer leave a least-squares fit to chance
ROWS = 20_000  # most rows that neighbours are looked for among
LEVEL = 1e-6  # share of the spread of neighbours that a direction is taken to have at least


def between(y: Array, x: Array, at: Array) -> Array:
    """The best linear map from y to x among the neighbours of rows `at`, (n, d, d).

    y, x: (N, d), what goes in and what comes out.
    """
    d = y.shape[1]
    some = np.unique(np.linspace(0, len(y) - 1, min(ROWS, len(y))).astype(np.int64))
    near = cKDTree(y[some]).query(y[at], k=min(NEIGHBOURS * d + 1, len(some)))[1]
    inside, outside = (_centred(z[some][near].astype(float)) for z in (y, x))
    square = np.einsum("nki,nkj->nij", inside, inside)
    level = LEVEL * np.trace(square, axis1=1, axis2=2)[:, None, None] / d
    found: Array = np.linalg.solve(
        square + np.maximum(level, np.finfo(float).tiny) * np.eye(d),
        np.einsum("nki,nkj->nij", inside, outside),
    )
    return found


def _centred(z: Array) -> Array:
    centred: Array = z - z.mean(1, keepdims=True)
    return centred
