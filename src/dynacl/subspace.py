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
AFAR = 30.0  # standard deviations, how far from the mean of the data a start may lie
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
    if given is not None:
        directions = _apart(past.T @ past / n, directions, d)
    spread = np.sqrt(np.square(past @ directions).mean(0))
    return LinearState(mean, directions / np.where(spread > 0, spread, 1.0), correlations)


def _apart(covariance: Array, directions: Array, d: int) -> Array:
    """These directions made uncorrelated, one after the other; then principal axes, up to d.

    What the given tell of the past is a part of it all the same: without that part directions may
    be nearly alike, and fewer than the past has.
    """
    variance, axes = np.linalg.eigh(covariance)
    axes = axes[:, variance > FAINT * variance[-1]][:, ::-1]
    found: list[Array] = []
    for direction in np.concatenate([directions, axes], axis=1).T:
        apart = direction
        for other in [*found, *found]:  # twice: once leaves rounding
            apart = apart - other * (other @ covariance @ apart)
        left = apart @ covariance @ apart
        if len(found) < d and left > FAINT * (direction @ covariance @ direction):
            found.append(apart / np.sqrt(left))
    return np.array(found).reshape(len(found), len(covariance)).T


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
    """Where an encoder's linear map starts, and the canonical correlations."""

    weight: Tensor  # (d, whitened observations)
    correlations: Array
    inputs: Tensor | None = None  # (d, whitened past inputs), where windows have them
    offset: Tensor | None = None  # (d,)


def linear_start(
    series: TimeSeries, scaling: Whitening, inputs: Whitening | None, s: Settings, d: int
) -> Start:
    """The best linear map from whitened windows to d latents.

    Canonical variates, where windows are long enough for them. Of single frames, the data decide
    between these and the principal components: by the prediction of frames that neither was made
    from. Where there are no more inputs than latents, both span the same. A control input between
    the two windows is known, and taken out of both; past inputs are a part of the past.
    """
    seen = _Seen(series, scaling, inputs, s)
    weight = principal_components(scaling, d)
    whole = inputs is None and scaling.n_outputs <= d  # they span the same as their variates
    offset = _at_rest(seen, weight) if whole else None
    windows = -(-d // scaling.n_outputs)  # after the present one, as many as have d dimensions
    after = 1 + max(s.time_lags)
    span = s.time_offset - 1 + windows * after
    t = series.references(span, s.past, allow_short=True).spread(MOST)
    if len(t) < 4 * d:
        return Start(weight, np.empty(0), offset=offset)
    future = [seen.observations(t + span - i * after) for i in range(windows)]
    given = inputs_between(series, t, span)
    found = canonical_variates(seen.all(t), np.concatenate(future, axis=1), d, given)
    if whole:
        return Start(weight, found.correlations, offset=offset)
    variates = torch.zeros(d, len(found.mean))
    variates[: found.directions.shape[1]] = torch.from_numpy(found.directions.T).float()
    for i in range(found.directions.shape[1], d):  # more latents than a window has dimensions
        variates[i] = variates[i - found.directions.shape[1]]
    single = inputs is None and len(s.time_lags) == 1
    if single and not _predicts_better(seen, s.time_offset, variates, weight):
        variates = weight
    if 0 in s.past_inputs:
        variates = _without_present(seen, variates)
    of_observations, of_inputs = variates.tensor_split([scaling.n_outputs], dim=1)
    return Start(
        of_observations, found.correlations, of_inputs if inputs else None, _at_rest(seen, variates)
    )


class _Seen(NamedTuple):
    """Whitened windows of a series, as the encoder's linear map sees them."""

    series: TimeSeries
    scaling: Whitening
    inputs: Whitening | None
    settings: Settings

    def observations(self, t: Array) -> Array:
        windows = self.series.windows(t, self.settings.time_lags)
        found: Array = self.scaling(torch.from_numpy(windows)).double().numpy()
        return found

    def all(self, t: Array) -> Array:
        """With past inputs behind them, where windows have them."""
        y, lags = self.observations(t), self.settings.past_inputs
        if self.inputs is None or self.series.control is None:
            return y
        past = self.series.control[t[:, None] - np.array(lags)].reshape(len(t), -1)
        return np.concatenate([y, self.inputs(torch.from_numpy(past)).double().numpy()], axis=1)


def _without_present(seen: _Seen, weight: Tensor) -> Tensor:
    """The same map, less what the input of a step adds to the latents of that step.

    y_t = g(x_t) + D u_t: what u_{t+1} adds to the next latents is E in x' = A x + B u_t + E u_{t+1}
    + b, least squares. It is known, and no state.
    """
    offset, series = seen.settings.time_offset, seen.series
    t = series.references(offset, seen.settings.past, allow_short=True).spread(MOST)
    if series.control is None or seen.inputs is None or len(t) < 4 * len(weight):
        return weight
    map_, m = weight.T.double().numpy(), series.n_controls
    x, window = seen.all(t) @ map_, seen.all(t + offset)
    now, then = series.control[t].astype(float), series.control[t + offset].astype(float)
    fit = least_squares(_with_one(np.concatenate([x, now, then], axis=1)), window @ map_)
    added = then @ fit[-1 - m : -1]
    known = window[:, seen.scaling.n_outputs :]  # u_{t+1} is among these, in other coordinates
    found = map_.copy()
    found[seen.scaling.n_outputs :] -= least_squares(_with_one(known), added)[:-1]
    spread = (window @ found).std(0)
    return torch.from_numpy((found / np.where(spread > 0, spread, 1.0)).T).float()


def _at_rest(seen: _Seen, weight: Tensor) -> Tensor | None:
    """c, for which x + c needs no constant in its dynamics; None without a control input.

    Inputs need not be 0 on average. Then x' = A x + B u + b has a constant b, which linear dynamics
    have no place for. It is gone where (I − A) c = −b.
    """
    offset, series = seen.settings.time_offset, seen.series
    t = series.references(offset, seen.settings.past, allow_short=True).spread(MOST)
    if series.control is None or len(t) < 4 * len(weight):
        return None
    map_ = weight.T.double().numpy()
    x, following = seen.all(t) @ map_, seen.all(t + offset) @ map_
    fit = least_squares(_with_one(np.concatenate([x, series.control[t]], axis=1)), following)
    d = len(weight)
    still = np.eye(d) - fit[:d].T
    # A state in which inputs add up has no place of rest: what would move it far is left out.
    left, size, right = np.linalg.svd(still)
    along = left.T @ fit[-1] / np.maximum(size, np.finfo(float).tiny)
    c = -(np.where(np.abs(along) < AFAR, along, 0.0) @ right)
    return torch.from_numpy(c).float()


def inputs_between(series: TimeSeries, t: Array, span: int) -> Array | None:
    """The inputs from t on that act within so many steps, (n, m); few enough to be taken out."""
    if series.control is None:
        return None
    most = max(1, len(t) // 20 // series.n_controls)
    ahead = np.unique(np.linspace(0, span - 1, min(span, most)).astype(int))
    found: Array = series.control[t[:, None] + ahead].reshape(len(t), -1).astype(float)
    return found


def principal_components(scaling: Whitening, d: int) -> Tensor:
    """The d whitened inputs that matter most, as a map (d, inputs)."""
    weight = torch.zeros(d, scaling.n_outputs)
    for i, column in enumerate(scaling.order[: -d - 1 : -1].tolist()):
        weight[i, column] = 1
    return weight


def _predicts_better(seen: _Seen, offset: int, one: Tensor, other: Tensor) -> bool:
    """Whether frames are predicted better from one linear state than from another.

    One and a few steps ahead, by linear dynamics, the inputs on the way and a linear readout, all
    least squares on the first three quarters of the frames, judged on the last.
    """
    t = seen.series.references(FURTHER * offset, seen.settings.past, allow_short=True).spread(MOST)
    if len(t) < 8 * seen.scaling.n_outputs:
        return False
    z = seen.observations(t)
    first = slice(3 * len(t) // 4)
    rest = slice(3 * len(t) // 4, None)
    missed = []
    for weight in (one, other):
        x = z @ weight.T.double().numpy()
        total = 0.0
        for h in (1, FURTHER):
            ahead = seen.observations(t + h * offset)
            drive = inputs_between(seen.series, t, h * offset)
            known = _with_one(x if drive is None else np.concatenate([x, drive], axis=1))
            map_, *_ = np.linalg.lstsq(known[first], ahead[first], rcond=None)
            total += float(np.square(known[rest] @ map_ - ahead[rest]).sum())
        missed.append(total)
    return missed[0] < missed[1]


def _with_one(x: Array) -> Array:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
