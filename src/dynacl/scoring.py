"""Bits by which predictions tell the true state to come from others.

The likelihood of a state is that of the similarity φ around the prediction, as wide as the errors
are. Nothing in a fitted model says how wide that is: a good contrast needs no calibrated scale. So
the width is estimated, on one half of the steps for the other half, and the other way round.
Predictions that tell nothing then score about 0, even if the data were learned by heart.
"""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dynacl import inference
from dynacl.data import Array, TimeSeries
from dynacl.objective.geometry.base import Geometry
from dynacl.objective.reference import log_sum
from dynacl.run import Run
from dynacl.sampling import steps_apart

JUDGED = 4_096  # most steps that are scored
OTHERS = 2_048  # most states that the true one is told from
WIDTH = 300  # steps from which the width is estimated …
COARSELY = 4  # … every so many of them at first
ROWS = 512  # in work at a time
WRONG = 0.01  # how often the model is taken to be wrong altogether
DIVERGED = 1e6  # times the spread of the states
NEAR_CAP = 0.95  # share of the cap from which a score cannot tell models apart


class Score(NamedTuple):
    """The mean over steps, and the most that it could be: log2(M + 1) with M others."""

    bits: float
    cap: float

    @property
    def capped(self) -> bool:
        return self.bits > NEAR_CAP * self.cap


def score(run: Run, series: TimeSeries, now: Array, x: Array, horizon: int | None = None) -> Score:
    """Of predictions `horizon` steps ahead, from the past alone.

    None: the fewest after which a window shares no frame with the one before, if trials have room.
    """
    s = run.settings
    if horizon is None:
        room = max(1, (int(series.lengths.max()) - 1) // s.time_offset)
        apart = steps_apart(s.time_lags, s.time_offset) if run.encoder.symmetric else 1
        horizon = min(apart, room)
    reach = horizon * s.time_offset
    t = series.steps(reach, allow_short=True)
    t = _spread(t if len(t) else series.steps(reach), JUDGED)  # which says that there are none
    predicted = inference.ahead_of(run, series, now, x, t, horizon)[:, -1]
    others = _spread(np.arange(len(x)), OTHERS)
    own = t[:, None] + reach == others
    return bits(run.geometry, predicted, x[t + reach], x[others], own)


def bits(
    geometry: Geometry, predicted: Array, following: Array, others: Array, own: Array | None = None
) -> Score:
    """Mean log2 of (M + 1) p(following | predicted, M others), rows in the order of time.

    own: (n, M), which of the others are the state that follows: it is not told from itself.
    """
    q, k, m = (torch.from_numpy(a).double() for a in (predicted, following, others))
    # A roll-out that diverged tells nothing, as one that ends in the middle of all states.
    lost = ~((q - m.mean(0)).abs() <= DIVERGED * m.std(0, correction=0).max()).all(1)
    q = torch.where(lost[:, None], m.mean(0), q)
    same = torch.zeros(1, len(m), dtype=torch.bool) if own is None else torch.from_numpy(own)
    same = same.expand(len(q), -1)
    phi = copy.deepcopy(geometry).cpu().float()
    half = len(q) // 2
    parts = slice(half), slice(half, None)
    total = 0.0
    with torch.inference_mode():
        for mine, other in (parts, parts[::-1]):
            if len(q[other]) == 0:
                mine = other = slice(None)  # a single row has no other half
            stretch = phi.stretch(k[other] - q[other])
            a, b, c = (_stretched(z, m, stretch) for z in (q, k, m))
            sharpness = _sharpness(phi, a[other], b[other], c, same[other])
            for rows in torch.split(torch.arange(len(q))[mine], ROWS):
                total += float(_bits(*_phi(phi, a[rows], b[rows], c, same[rows]), sharpness).sum())
            if mine == other:
                break
    return Score(total / len(q), math.log2(len(m) + 1))


def _stretched(x: Tensor, others: Tensor, stretch: Tensor | None) -> Tensor:
    """In float32, about the middle of the others where only differences count."""
    mapped: Tensor = x if stretch is None else (x - others.mean(0)) @ stretch
    return mapped.float()


def _phi(
    phi: Geometry, q: Tensor, k: Tensor, others: Tensor, same: Tensor
) -> tuple[Tensor, Tensor]:
    """φ of the true states (n,) and of the others (n, M)."""
    return phi(q, k), phi(q[:, None], others).masked_fill(same, -torch.inf)


def _sharpness(phi: Geometry, q: Tensor, k: Tensor, others: Tensor, same: Tensor) -> float:
    """The factor on φ that tells these states best from others: coarsely, then finely."""
    rows = torch.from_numpy(_spread(np.arange(len(q)), WIDTH))
    true, rest = _phi(phi, q[rows], k[rows], others, same[rows])
    # φ is largest where a prediction is right; how far errors fall below that is their width.
    width = float((phi(k[rows], k[rows]) - true).median().clamp(min=1e-30))
    few = slice(None, None, COARSELY)
    _, near = max(_tried(true[few], rest[few], 4.0**n / width) for n in range(-9, 4))
    best = _tried(true, rest, near)
    for finer in (2.0, 2**0.5):
        best = max(best, *(_tried(true, rest, best[1] * s) for s in (1 / finer, finer)))
    return max(best, _tried(true, rest, 0.0))[1]


def _tried(true: Tensor, rest: Tensor, sharpness: float) -> tuple[float, float]:
    return float(_bits(true, rest, sharpness).mean()), sharpness


def _bits(true: Tensor, rest: Tensor, sharpness: float) -> Tensor:
    """One number per row; 0 times infinity is what is left out all the same."""
    there = rest > -torch.inf
    others = there.sum(1)
    rest = log_sum(sharpness * rest) if sharpness else others.log()
    p = torch.exp(sharpness * true - torch.logaddexp(sharpness * true, rest))
    return torch.log2((others + 1) * (1 - WRONG) * p + WRONG)


def _spread(rows: Array, most: int) -> Array:
    """At most so many rows, evenly spread."""
    chosen: Array = rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]
    return chosen
