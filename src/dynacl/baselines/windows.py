"""Short windows of a series that stay inside one trial and one mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynacl.data import Array, InputError, Ints, TimeSeries


def windows(series: TimeSeries, modes: Any = None, length: int = 3) -> Ints:
    """First rows s of all windows s … s + length − 1 in one trial and, with modes, in one mode.

    modes: (T_total,), as in Truth: modes[t] moves row t to row t + 1, and −1 is no mode. So the
    label of a window's last row has no say in it.
    """
    if not isinstance(length, int | np.integer) or length < 2:
        raise InputError(f"length: got {length!r}; wanted a whole number of at least 2")
    starts = series.steps(length - 1, allow_short=True)
    if modes is not None:
        labels = checked_labels(series, modes)
        one = labels[starts] >= 0
        for i in range(1, length - 1):
            one &= labels[starts + i] == labels[starts]
        starts = starts[one]
    if len(starts) == 0:
        raise InputError(
            f"series: has no window of {length} steps inside one trial"
            + ("" if modes is None else " and one mode")
        )
    return starts


def checked_labels(series: TimeSeries, labels: Any, name: str = "modes") -> Ints:
    array: Array = np.asarray(labels)
    if array.shape != (len(series),) or array.dtype.kind not in "iu":
        raise InputError(
            f"{name}: got {array.dtype} of shape {array.shape}; wanted whole numbers, one for "
            f"each of the {len(series)} rows"
        )
    return array.astype(np.int64)
