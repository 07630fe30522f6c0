"""The best linear state of windows: canonical variates of a window and the window after it.

What past and future have in common is what the state carries over (Akaike 1975, *SIAM J. Control*
13, 162; Larimore 1990, *CDC* 596). The d directions of the past that correlate most with the future
are the linear state of d dimensions that predicts best; for a linear system and mixing they are the
state. It takes no training: a generalised eigenvalue problem of the size of a window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy import linalg
from scipy.sparse.linalg import svds
from torch import Tensor

from dynacl.data import Array, TimeSeries
from dynacl.settings import Settings
from dynacl.whitening import Whitening

MOST = 20_000  # windows that are looked at, evenly spread
ENOUGH = 0.01  # dimensions per row, below which covariances are taken as they are
FAINT = 1e-10  # share of the largest variance, below which a direction is rounding
WIDE = 500  # dimensions from which decompositions are taken in parts: whole ones take minutes
SHOWN = 20  # correlations that are kept beyond those of the d variates, of wide windows
ROUNDING = float(np.finfo(np.float32).eps)  # of observations, as they come
FURTHER = 5  # steps ahead by which starts are compared, beside one


class LinearState(NamedTuple):
    """x = (p − mean) @ directions, of unit variance; correlations: with the future, falling."""

    mean: Array  # (r,)
    directions: Array  # (r, d)
    correlations: Array  # (min(r, s),), or of wide windows the first d + SHOWN


def canonical_variates(
    past: Array, future: Array, d: int, given: Array | None = None
) -> LinearState:
    """The d directions of `past` (n, r) that correlate most with `future` (n, s).

    given: (n, m), such as the inputs that drive the future. What a linear map tells from them is
    taken out of both sides before these are compared; the directions are of the past as it is.
    With few rows per dimension the covariances are shrunk towards a multiple of the identity, by
    the share (r / n) that chance explains; so more channels than samples work too. Correlations are
    then lower bounds.
    """
    mean = past.mean(0)
    past, future = past - mean, future - future.mean(0)
    sides, n = [past, future], len(past)
    if given is not None:
        sides = [side - fitted(given, side) for side in sides]
    shrinks = [_shrinkage(side.shape[1] / n) for side in sides]
    roots = [
        _inverse_root(side.T @ side / n, shrink)
        for side, shrink in zip(sides, shrinks, strict=True)
    ]
    kept = np.sqrt((1 - shrinks[0]) * (1 - shrinks[1]))
    left, correlations = _leading(kept * roots[0].T @ (sides[0].T @ sides[1] / n) @ roots[1], d)
    directions = roots[0] @ left[:, :d]
    spread = np.sqrt(np.square(past @ directions).mean(0))
    return LinearState(mean, directions / np.where(spread > 0, spread, 1.0), correlations)


def fitted(given: Array, target: Array) -> Array:
    """The least-squares prediction of `target` (n, s) from `given` (n, m) and a constant."""
    return _with_one(given) @ least_squares(_with_one(given), target)


def least_squares(features: Array, target: Array) -> Array:
    """W with features @ W ≈ target, whatever the scales of the features.

    Directions below the rounding of float32, in which observations come, tell nothing.
    """
    scale = np.sqrt(np.square(features).mean(0))
    scale = np.where(scale > 0, scale, 1.0)
    found, *_ = np.linalg.lstsq(features / scale, target, rcond=ROUNDING)
    weights: Array = found / scale[:, None]
    return weights


def _shrinkage(share: float) -> float:
    """How far a covariance of so many dimensions per row goes towards a multiple of I."""
    return min(0.5, share) if share > ENOUGH else 0.0


def _inverse_root(covariance: Array, shrink: float) -> Array:
    """R with Rᵀ C R = I for a shrunk covariance C; directions without variance are left out."""
    size = len(covariance)
    target = np.trace(covariance) / size
    shrunk = (1 - shrink) * covariance + shrink * target * np.eye(size)
    root: Array
    if size > WIDE and shrink * target > 0:  # all directions have variance: any root will do
        lower = np.linalg.cholesky(shrunk)
        root = linalg.solve_triangular(lower, np.eye(size), lower=True).T
        return root
    variance, axes = np.linalg.eigh(shrunk)
    kept = variance > FAINT * max(variance[-1], np.finfo(float).tiny)
    root = axes[:, kept] / np.sqrt(variance[kept])
    return root


def _leading(coupling: Array, d: int) -> tuple[Array, Array]:
    """Left singular vectors and singular values, falling; of a wide matrix the first ones alone."""
    most = d + SHOWN
    if min(coupling.shape) <= max(WIDE, 2 * most):
        left, values, _ = np.linalg.svd(coupling, full_matrices=False)
        return left, values
    start = np.ones(min(coupling.shape))  # not a random one: the same data give the same variates
    left, values, _ = svds(coupling, k=most, v0=start)
    return left[:, ::-1], values[::-1]


class Start(NamedTuple):
    """Where an encoder's linear map starts, (d, inputs), and the canonical correlations."""

    weight: Tensor
    correlations: Array


def linear_start(series: TimeSeries, scaling: Whitening, s: Settings, d: int) -> Start:
    """The best linear map from whitened windows to d latents.

    Canonical variates, where windows are long enough for them. Of single frames, the data decide
    between these and the principal components: by the prediction of frames that neither was made
    from. Where there are no more inputs than latents, both span the same.
    """
    lags = np.array(s.time_lags)
    reach, offset = int(lags.max()), s.time_offset
    weight = principal_components(scaling, d)
    t = series.steps(offset + reach, reach, allow_short=True)
    t = t[:: max(1, -(-len(t) // MOST))]
    if len(t) < 4 * d or scaling.n_outputs <= d:
        return Start(weight, np.empty(0))
    past = _whitened(series, scaling, t[:, None] - lags)
    future = _whitened(series, scaling, t[:, None] + offset + reach - lags)
    found = canonical_variates(past, future, d)
    variates = torch.zeros_like(weight)
    variates[: found.directions.shape[1]] = torch.from_numpy(found.directions.T).float()
    if len(lags) == 1 and not _predicts_better(series, scaling, offset, variates, weight):
        return Start(weight, found.correlations)
    return Start(variates, found.correlations)


def principal_components(scaling: Whitening, d: int) -> Tensor:
    """The d whitened inputs that matter most, as a map (d, inputs)."""
    weight = torch.zeros(d, scaling.n_outputs)
    for i, column in enumerate(scaling.order[: -d - 1 : -1].tolist()):
        weight[i, column] = 1
    return weight


def _whitened(series: TimeSeries, scaling: Whitening, rows: Array) -> Array:
    windows = torch.from_numpy(series.observations[rows].reshape(len(rows), -1))
    found: Array = scaling(windows).double().numpy()
    return found


def _predicts_better(
    series: TimeSeries, scaling: Whitening, offset: int, one: Tensor, other: Tensor
) -> bool:
    """Whether frames are predicted better from one linear state than from another.

    One and a few steps ahead, by linear dynamics and a linear readout, both least squares on the
    first three quarters of the frames, judged on the last.
    """
    t = series.steps(FURTHER * offset, allow_short=True)
    t = t[:: max(1, -(-len(t) // MOST))]
    if len(t) < 8 * scaling.n_outputs:
        return False
    z = _whitened(series, scaling, t[:, None])
    first = slice(3 * len(t) // 4)
    rest = slice(3 * len(t) // 4, None)
    missed = []
    for weight in (one, other):
        x = z @ weight.T.double().numpy()
        total = 0.0
        for h in (1, FURTHER):
            ahead = _whitened(series, scaling, (t + h * offset)[:, None])
            map_, *_ = np.linalg.lstsq(_with_one(x[first]), ahead[first], rcond=None)
            total += float(np.square(_with_one(x[rest]) @ map_ - ahead[rest]).sum())
        missed.append(total)
    return missed[0] < missed[1]


def _with_one(x: Array) -> Array:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
