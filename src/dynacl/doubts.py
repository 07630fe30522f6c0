"""Data that cannot be right, or are hardly meant to be so: said at once, in one sentence."""

from __future__ import annotations

import warnings

import numpy as np

from dynacl.data import Array, Floats, InputError, TimeSeries
from dynacl.data.gathering import rises_evenly

FEW = 50  # samples; fewer of ten times as many features are hardly meant
PLENTY = 5  # times the pairs that a mode takes at least; with fewer, a warning
ROWS = 4096  # at a time
LOOKS = 1000  # rows, and columns, by which smoothness is told


def check_data(series: TimeSeries) -> None:
    """An error where nothing changes; a warning where rows look like columns, or one like time."""
    y = series.observations
    if not _changes(y):
        raise InputError(f"X: nothing changes in it: all {len(y)} samples are the same; wanted "
                         "observations that move")  # fmt: skip
    T, D = y.shape
    if series.n_trials == 1 and 3 < T < D and ((10 * T <= D and T < FEW) or _smoother_across(y)):
        warnings.warn(
            f"X: got {T} samples of {D} features, which looks transposed; wanted (time, "
            "features): pass X.T if rows are channels",
            stacklevel=4,
        )
    first = y[: min(int(series.bounds[1]), LOOKS)]
    for i in range(min(D, LOOKS) if D > 1 else 0):
        if rises_evenly(first[:, i]):
            name = i if series.names is None else repr(series.names[i])
            warnings.warn(f"X: column {name} rises by the same step everywhere, which looks like "
                          "time, and not like a feature", stacklevel=4)  # fmt: skip


def check_modes(n_modes: int, d: int, pairs: int) -> None:
    """A linear map of d dimensions takes d + 1 pairs: with fewer per mode, any data fit."""
    got = f"n_modes: got {n_modes} for {pairs} pairs of samples; a map of {d} dimensions takes"
    if n_modes * (d + 1) > pairs:
        raise InputError(f"{got} {d + 1}, so wanted at most {max(1, pairs // (d + 1))}")
    enough = PLENTY * (d + 1)
    if n_modes * enough > pairs:
        warnings.warn(
            f"{got} {d + 1}, and with fewer than {enough} modes may be learned by heart: wanted at "
            f"most {max(1, pairs // enough)}",
            stacklevel=4,
        )


def _changes(y: Floats) -> bool:
    return any((y[i : i + ROWS] != y[0]).any() for i in range(0, len(y), ROWS))


def _smoother_across(y: Floats) -> bool:
    """Whether neighbouring columns are much more alike than neighbouring rows."""
    some = np.asarray(y[:LOOKS, :LOOKS], dtype=np.float64)
    return _roughness(some.T) < 0.1 * _roughness(some)


def _roughness(x: Array) -> float:
    """The mean square of steps along rows, against that of what the columns do at all."""
    moves = np.square(x - x.mean(0)).mean()
    return float(np.square(np.diff(x, axis=0)).mean() / moves) if moves > 0 else np.inf
