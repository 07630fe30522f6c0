"""What is held out, and how far ahead it is predicted.

Each fold holds out another fifth of the trials, or of the pieces of long ones. Predictions go as
far as observations are correlated, a third of that, and three times that. A missing dimension or
mode shows only when the dynamics are followed for long: one step ahead, observations hardly move,
and superfluous latents help the readout more than the dynamics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynacl.data import InputError, TimeSeries
from dynacl.prediction import FURTHEST
from dynacl.recipe import correlation_time

PIECES = 20  # trials from which whole ones are held out; fewer are cut into about as many pieces
HELD = 5  # one of so many is held out
SPAN = 4  # times the rows of a window and its predictions that a piece has, at least
FEWEST = 3  # rows that those are, at least

Fold = tuple[TimeSeries, TimeSeries]  # to train on, and to judge by


def steps_ahead(series: TimeSeries, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Numbers of steps by which choices are judged. given: all parameters of DCL by name."""
    if given["asymmetric"]:
        return (1,)  # f leads from one space to another and cannot be applied twice
    offset = given["time_offset"]
    # Known inputs carry a prediction on, beyond what observations tell of each other.
    far = FURTHEST if series.n_controls else correlation_time(series, offset, FURTHEST)
    whole = series.n_trials >= PIECES
    longest = int(series.lengths.max()) if whole else len(series) // PIECES
    most = max(1, (longest // SPAN - max(given["time_lags"])) // offset)
    top = min(3 * far, most)
    return tuple(sorted({max(1, top // 9), max(1, top // 3), top}))


def span(given: Mapping[str, Any], horizons: tuple[int, ...]) -> int:
    """Rows from the first of a window to the last that is predicted from it."""
    return max(FEWEST, int(max(given["time_lags"]) + max(horizons) * given["time_offset"] + 1))


def fold(series: TimeSeries, k: int, rows: int) -> Fold:
    """The k-th of `HELD` folds. rows: the `span` of a prediction.

    Of a piece that is held out, so many rows at both ends are left out, as its neighbours are
    trained on.
    """
    whole = series.n_trials >= PIECES
    pieces = series if whole else _pieces(series, rows)
    held = np.arange(k, pieces.n_trials, HELD)
    kept = np.setdiff1d(np.arange(pieces.n_trials), held)
    judge = pieces.select(held.tolist())
    if not whole:
        judge = judge.cut(judge.lengths - rows).cut(np.full(len(held), rows), last=True)
    return pieces.select(kept.tolist()), judge


def _pieces(series: TimeSeries, rows: int) -> TimeSeries:
    """Trials cut into pieces, each with room for predictions between its ends."""
    least = SPAN * rows
    length = max(least, len(series) // PIECES)
    starts = [a + length * np.arange(max(1, (b - a) // length)) for a, b in series.spans()]
    cut = replace(series, bounds=np.append(np.concatenate(starts), len(series)))
    long = np.flatnonzero(cut.lengths >= least)
    if len(long) < HELD:
        raise InputError(f"X: has {len(series)} samples in {series.n_trials} trials; wanted at "
                         f"least {HELD} pieces of {least} samples, one of which is held out"
                         )  # fmt: skip
    return cut.select(long.tolist())
