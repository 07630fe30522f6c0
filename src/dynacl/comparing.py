"""Which predictions are better than which: paired over blocks of held-out data, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynacl.data import Array, TimeSeries
from dynacl.judging import CLEARLY
from dynacl.prediction import IDENTITY, MODEL, PERSISTENCE, START, Squares, own_readout, squares
from dynacl.run import Run

HORIZONS = (1, 10, 100)
BLOCKS = 20  # that held-out data are cut into, at most
ERRORS = 2.0  # standard errors over blocks by which a gain must differ from 0
MEAN = "mean"
TRIVIAL = (MEAN, PERSISTENCE, IDENTITY)  # know nothing of what comes next
LINEAR = (START, "VAR", "ARX")


class Gain(NamedTuple):
    """How much less one prediction misses than another: the mean logarithm of their ratio."""

    mean: float
    error: float  # standard error of the mean, over blocks

    @property
    def clear(self) -> bool:
        return self.mean > max(CLEARLY, ERRORS * self.error)

    @property
    def share(self) -> float:
        """Of what the other misses, how much this one does not; below 0, it misses more."""
        return 1 - float(np.exp(-self.mean))


class Comparison(NamedTuple):
    """What a run and others miss of data, by block."""

    squares: Squares
    missed: dict[str, Array]  # by name, with the mean of the training data; (blocks, horizons)

    def gain(self, name: str, over: Sequence[str]) -> Gain:
        """Of one prediction over the best of others, at each number of steps ahead."""
        rivals = np.stack([self.missed[other] for other in over if other in self.missed])
        best = rivals.mean(1).argmin(0)
        rival = rivals[best, :, np.arange(len(best))].T
        ratio = np.log(rival / self.missed[name]).mean(1)
        spread = ratio.std(ddof=1) / np.sqrt(len(ratio)) if len(ratio) > 1 else np.inf
        return Gain(float(ratio.mean()), float(spread))

    def has(self, *names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name in self.missed)

    @property
    def over_trivial(self) -> dict[str, Gain]:
        """What each that could know something gains over those that know nothing."""
        return {name: self.gain(name, TRIVIAL) for name in self.has(MODEL, *LINEAR)}

    @property
    def over_linear(self) -> Gain | None:
        """What the model gains over the best linear one; None: it is compared with none."""
        linear = self.has(*LINEAR)
        return self.gain(MODEL, linear) if linear else None


def compared(run: Run, series: TimeSeries, horizons: Sequence[int]) -> Comparison:
    """A run beside what it is compared with, on data that it was not trained on."""
    found = squares(run, series, horizons)
    after = np.array(found.horizons) * run.settings.time_offset
    centre = own_readout(run).centre.numpy().astype(float)
    errors = dict(found.errors)
    errors[MEAN] = np.stack(
        [np.square(series.observations[found.starts + h] - centre).sum(1) for h in after], axis=1
    )
    scale = max(found.variance, float(np.finfo(np.float32).tiny))
    blocks = _blocks(series, found.starts)
    tiny, huge = 1e-12, 1e12  # a perfect prediction, and one that ran off
    missed = {}
    for name, values in errors.items():
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.stack([values[block].mean(0) / scale for block in blocks])
        missed[name] = np.clip(np.nan_to_num(means, nan=huge, posinf=huge), tiny, huge)
    return Comparison(found, missed)


def horizons_in(run: Run, series: TimeSeries, wanted: Sequence[int]) -> tuple[int, ...]:
    """Those numbers of steps that half of the longest trial has room for; in place of those that
    it has not, as many as it has."""
    if not run.encoder.symmetric:
        return (1,)
    room = int(series.lengths.max()) - 2 - run.settings.past
    most = max(1, room // 2 // run.settings.time_offset)
    return tuple(sorted({min(int(h), most) for h in wanted}))


def _blocks(series: TimeSeries, starts: Array) -> list[Array]:
    """Starts of the same trials, or of the same stretch where trials are few."""
    trial = np.searchsorted(series.bounds, starts, side="right") - 1
    kinds, number = np.unique(trial, return_inverse=True)
    if len(kinds) >= 5:
        block = number * min(BLOCKS, len(kinds)) // len(kinds)
    else:
        n = max(1, min(BLOCKS, len(starts) // 10))
        block = np.arange(len(starts)) * n // len(starts)
    return [np.flatnonzero(block == b) for b in np.unique(block)]
