"""The noise of a system, measured where it acts: what near states do not share of what follows.

    y_{t+1} ≈ c + B (y_t − y) for all t whose y_t are near y;   S = covariance of what it misses

No model of the dynamics is needed. States that are near follow one affine map, and what they miss
of it is noise, as observations show it: S = J⁻¹ Σ J⁻ᵀ, J the slopes of the true encoder where it
arrives. So the noise tells J up to a rotation (Singer & Coifman 2008). It takes a map so smooth,
and states so near, that a bend of the map is not large beside the noise (what bend there is, a
quadratic map takes out); where that is not so, there is no answer.

A mixing has kinks, and neighbours on both of their sides follow two maps: the map is that of the
larger half, the others are left out, and so are places where nothing fits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from dynacl.data import Array

PLACES = 20_000  # where it is measured
PART = 2000  # places in work at a time
TRIES = 30  # maps through a few neighbours, of which the best begins
AGREE = 0.6  # share of the neighbours that must follow one map
CALM = 4.0  # times what it is in the calmer quarter of the places around: more is no noise
AROUND = 30
BENT = 3.0  # times the variance that is left beside a quadratic map: more is a bend and no noise
LEAST = 1e-6  # share of the variance that every direction has: without noise there is only rounding
FEWEST = 500  # places that tell something


class Noise(NamedTuple):
    """Where noise arrived, and its covariance there."""

    steps: Array  # (n,)
    covariances: Array  # (n, d, d), in units of the median


def local_noise(
    y: Array, steps: Array, offset: int = 1, places: int = PLACES, seed: int = 0
) -> Noise | None:
    """The noise in y (T, d) from `steps` to those an offset later; None: it cannot be seen.

    steps: of any trials, such that what is an offset later is in the same trial.
    """
    d, random = y.shape[1], np.random.default_rng(seed)
    k = 8 * (d + 1)
    if len(steps) < FEWEST + k:
        return None
    centred = (y - y[steps].mean(0)) / y[steps].std(0).max()
    tree = cKDTree(centred[steps])
    at = random.choice(steps, min(places, len(steps)), replace=False)
    measured = []
    for part in np.array_split(at, -(-len(at) // PART)):
        near = steps[tree.query(centred[part], k=k)[1]]
        x = centred[near] - centred[part][:, None]
        after = centred[near + offset] - centred[part + offset][:, None]
        measured.append((near, *shared_map(x, after, random)))
    near, covariances, follow, bent = (
        np.concatenate(parts) for parts in zip(*measured, strict=True)
    )
    if np.median(bent) > BENT:
        return None
    arrived = near[np.arange(len(near)), follow.argmax(1)] + offset  # on the side that was fitted
    size = np.trace(covariances, axis1=1, axis2=2)
    good = (follow.mean(1) > AGREE) & (bent < BENT) & np.isfinite(size) & (size > 0)
    arrived, covariances, size = arrived[good], covariances[good], np.log(size[good])
    if len(arrived) < FEWEST:
        return None
    around = cKDTree(centred[arrived]).query(centred[arrived], k=AROUND)[1]
    calm = size < np.quantile(size[around], 0.25, axis=1) + np.log(CALM)
    if calm.sum() < FEWEST:
        return None
    found = covariances[calm] / np.exp(np.median(size[calm])) * d
    return Noise(arrived[calm], found + LEAST * _mean_variance(found) * np.eye(d))


def shared_map(x: Array, after: Array, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """For each place: the covariance of what one map of its neighbours misses, (n, d, d); which of
    them follow it, (n, k); and how much more an affine map misses than a quadratic one.

    x, after: neighbours and what follows them, (n, k, d).
    """
    n, k, d = x.shape
    spread = np.sqrt(np.square(x).mean((1, 2)))[:, None, None]
    terms = np.concatenate([np.ones((n, k, 1)), x / np.maximum(spread, 1e-12)], axis=2)
    best, follow = np.full(n, np.inf), np.zeros((n, k), bool)
    for _ in range(TRIES):
        some = random.random((n, k)).argpartition(d + 3, axis=1)[:, : d + 3]
        at = np.arange(n)[:, None], some
        missed = _missed(terms, after, terms[at], after[at])
        size = np.square(missed).sum(2)
        half = np.partition(size, k // 2, axis=1)[:, k // 2]
        better = half < best
        best[better], follow[better] = half[better], (size <= half[:, None])[better]
    limit = d + 3 * np.sqrt(2 * d)  # of a squared distance, for nearly all that belong
    for _ in range(2):
        missed, covariance = _fit(terms, after, follow)
        inverse = np.linalg.inv(covariance + 1e-9 * _mean_variance(covariance) * np.eye(d))
        distance = np.einsum("nki,nij,nkj->nk", missed, inverse, missed)
        typical = np.median(distance, axis=1, keepdims=True) / (d - 2 / 3)  # that of all, not half
        follow = distance < limit * np.maximum(typical, 1e-12)
    _, covariance = _fit(terms, after, follow)
    left, right = np.triu_indices(d)
    squares = terms[..., 1 + left] * terms[..., 1 + right]
    _, beside = _fit(np.concatenate([terms, squares], axis=2), after, follow)
    bent = _mean_variance(covariance) / _mean_variance(beside)
    return beside, follow, bent[:, 0, 0]


def _fit(terms: Array, after: Array, follow: Array) -> tuple[Array, Array]:
    """What the map of those who follow misses of all, and the covariance of what it misses."""
    w = follow[..., None]
    missed = _missed(terms, after, terms * w, after * w)
    freedom = np.maximum(follow.sum(1) - terms.shape[2], 1)[:, None, None]
    return missed, np.einsum("nki,nkj->nij", missed * w, missed) / freedom


def _missed(terms: Array, after: Array, of: Array, to: Array) -> Array:
    """What the least-squares map from `of` to `to` misses of `after`, from `terms`."""
    gram = of.swapaxes(1, 2) @ of + 1e-9 * np.eye(of.shape[2])
    missed: Array = after - terms @ np.linalg.solve(gram, of.swapaxes(1, 2) @ to)
    return missed


def _mean_variance(covariance: Array) -> Array:
    mean: Array = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / covariance.shape[1]
    return np.maximum(mean, 1e-30)
