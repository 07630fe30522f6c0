"""What is held out: each fold another fifth of the trials, or of the pieces of long ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynacl.data import InputError, TimeSeries
from dynacl.prediction import FURTHEST

PIECES = 20  # trials from which whole ones are held out; fewer are cut into about as many pieces
HELD = 5  # one of so many is held out
ROOM = 3  # times the rows of a window and its predictions that a piece has at least

Fold = tuple[TimeSeries, TimeSeries]  # to train on, and to judge by


def fold(series: TimeSeries, k: int, room: int) -> Fold:
    """The k-th of `HELD` folds. room: rows that a window and its predictions span.

    Of a piece that is held out, so many rows at both ends are left out, as its neighbours are
    trained on.
    """
    whole = series.n_trials >= PIECES
    pieces = series if whole else _pieces(series, room)
    held = np.arange(k, pieces.n_trials, HELD)
    kept = np.setdiff1d(np.arange(pieces.n_trials), held)
    judge = pieces.select(held.tolist())
    if not whole:
        judge = judge.cut(judge.lengths - room).cut(np.full(len(held), room), last=True)
    return pieces.select(kept.tolist()), judge


def room_for(given: Mapping[str, Any]) -> int:
    """Rows that a window and its predictions span, by the parameters of DCL."""
    return int(max(given["time_lags"]) + (FURTHEST + 1) * given["time_offset"])


def _pieces(series: TimeSeries, room: int) -> TimeSeries:
    """Trials cut into pieces, each with room for a window and its predictions between its ends."""
    least = ROOM * room + 2
    cut = TimeSeries.of(series, trial_length=max(least, len(series) // PIECES))
    long = np.flatnonzero(cut.lengths >= least)
    if len(long) < HELD:
        raise InputError(f"X: has {len(series)} samples in {series.n_trials} trials; wanted at "
                         f"least {HELD} pieces of {least} samples, one of which is held out"
                         )  # fmt: skip
    return cut.select(long.tolist())
