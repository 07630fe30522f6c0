"""Where trials begin and end, as files say it."""

from __future__ import annotations

import warnings

import numpy as np

from dynacl.data.arrays import Array, Ints
from dynacl.data.errors import InputError


def bounds_from(given: Array, T: int, name: str) -> Ints:
    """Bounds of trials: where the number or name of a step changes; or bounds, or lengths."""
    flat: Array = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if flat.ndim == 1 and len(flat) == T:
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        return np.concatenate([[0], changes, [T]])
    if flat.ndim == 1 and len(flat) and flat.dtype.kind in "fiu" and (flat == np.round(flat)).all():
        whole: Ints = flat.astype(np.int64)
        if len(whole) > 1 and whole[0] == 0 and whole[-1] == T and (np.diff(whole) > 0).all():
            return whole
        if whole.sum() == T and (whole > 0).all():
            return np.concatenate([[0], np.cumsum(whole)])
    raise InputError(f"{name}: got shape {given.shape} for {T} steps; wanted a trial for each step,"
                     f" bounds that rise from 0 to {T}, lengths that sum to {T}, or epochs as "
                     "(n, 2) starts and ends")  # fmt: skip


def epochs_from(epochs: Array, times: Array | None, T: int, name: str) -> tuple[Ints, Ints]:
    """The rows inside epochs, and the bounds of the trials that they make.

    Epochs are (n, 2) starts and ends: of time, both inside; without times, of rows, the end after
    the last.
    """
    if epochs.dtype.kind not in "fiuM" or (epochs[:, 0] > epochs[:, 1]).any():
        raise InputError(f"{name}: wanted epochs as (n, 2) starts and ends")
    if times is None:
        starts, ends = np.clip(epochs.T, 0, T).astype(np.int64)
    else:
        starts = np.searchsorted(times, epochs[:, 0])
        ends = np.searchsorted(times, epochs[:, 1], side="right")
    some = ends > starts
    if not some.any():
        raise InputError(f"{name}: no step lies in any of the {len(epochs)} epochs")
    if not some.all():
        warnings.warn(
            f"{name}: no step lies in {(~some).sum()} of {len(epochs)} epochs; left out",
            stacklevel=5,
        )
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts[some], ends[some], strict=True)])
    return rows, np.concatenate([[0], np.cumsum((ends - starts)[some])])
