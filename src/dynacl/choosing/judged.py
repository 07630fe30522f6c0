"""What a choice misses of held-out data, in decibels.

A signal-to-noise ratio: 10 log10 of the variance of observations that is predicted over the
variance that is missed, averaged over several numbers of steps ahead. It is one scale for clean
data, where little is missed, and for noisy data, where little is predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynacl.data import Array, TimeSeries
from dynacl.prediction import MODEL, squares
from dynacl.run import Run

FAINT = 1e-3  # share of the variance; who predicts less predicts nothing
GROUPS = 4  # over which a standard error is taken, at least
LOST = 1e6  # share of the variance that a prediction which diverged misses


@dataclass(frozen=True, eq=False)
class Judged:
    """A choice, and what it misses of held-out data."""

    choice: Mapping[str, Any]  # parameters of DCL
    size: tuple[int, int]  # latents, and numbers in the dynamics: fewer is simpler
    horizons: tuple[int, ...]
    counts: Array  # (groups,), predictions in each group
    missed: Mapping[str, Array]  # by name, "model" first; (groups, H), summed shares of variance
    about: Mapping[str, Any] = field(default_factory=dict)  # what else is shown

    def share(self, name: str = MODEL) -> Array:
        """Of the variance that is missed, one number per horizon."""
        total: Array = self.missed[name].sum(0) / self.counts.sum()
        return total

    def decibels(self, name: str = MODEL) -> float:
        return float(decibels(self.share(name)))

    def by_group(self, name: str = MODEL) -> Array:
        """As one number per group: their mean is `decibels`, and their spread its error.

        Those are Tukey's jackknife, from all groups but one at a time.
        """
        missed, n = self.missed[name], len(self.counts)
        without = decibels((missed.sum(0) - missed) / (self.counts.sum() - self.counts)[:, None])
        values: Array = self.decibels(name) + (n - 1) * (without.mean() - without)
        return values

    def error(self, name: str = MODEL) -> float:
        """Standard error of the decibels over the groups."""
        return float(self.by_group(name).std(ddof=1) / np.sqrt(len(self.counts)))

    def predicts(self) -> bool:
        """Whether it predicts more of the variance than chance does, at any horizon."""
        n, share = len(self.counts), self.share()
        off = self.missed[MODEL] - share * self.counts[:, None]
        error = np.sqrt(n / (n - 1) * np.square(off).sum(0)) / self.counts.sum()
        return bool((1 - share - 2 * error > FAINT).any())


def decibels(missed: Any) -> Array:
    """Of shares of the variance, the mean over the last axis; from −30 to 60."""
    share = np.clip(np.asarray(missed, dtype=float), 1e-6, 1 - FAINT)
    ratio: Array = (10 * np.log10((1 - share) / share)).mean(-1)
    return ratio


def judge(choice: Mapping[str, Any], run: Run, held: TimeSeries, horizons: Sequence[int]) -> Judged:
    """What this run misses of data that it was not trained on; each trial is a group."""
    found = squares(run, held, horizons)
    trial = np.searchsorted(held.bounds, found.starts, side="right") - 1
    which = np.unique(trial, return_inverse=True)[1]
    if which[-1] + 1 < GROUPS:  # a few long trials: parts of them vary too
        which = np.arange(len(trial)) * GROUPS // len(trial)
    scale = max(found.variance, float(np.finfo(np.float32).tiny))

    def summed(errors: Array) -> Array:
        share = np.where(np.isfinite(errors), errors / scale, LOST)
        return np.stack([np.bincount(which, column) for column in share.T], axis=1)

    numbers = sum(p.numel() for p in run.dynamics.parameters())
    return Judged(
        choice=choice,
        size=(int(choice.get("n_components", 0)), numbers),
        horizons=found.horizons,
        counts=np.bincount(which),
        missed={name: summed(errors) for name, errors in found.errors.items()},
    )


def together(folds: Sequence[Judged], **about: Any) -> Judged:
    """The folds of one choice, as one."""
    first = folds[0]
    names = [n for n in first.missed if all(n in one.missed for one in folds)]
    return replace(
        first,
        counts=np.concatenate([one.counts for one in folds]),
        missed={n: np.concatenate([one.missed[n] for one in folds]) for n in names},
        about=about,
    )
