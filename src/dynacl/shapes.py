"""Results in the shape of the input: an array for an array, a list or dict of trials for those."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from dynacl.data import TimeSeries


def is_one(X: Any) -> bool:
    """Whether X is one array, for which one array goes out."""
    if isinstance(X, TimeSeries | Mapping | str | os.PathLike):
        return False
    return not (isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) >= 2)


def like(X: Any, series: TimeSeries, values: Any) -> Any:
    """values: an array with one row per step of the series, or a list with one array per trial."""
    if is_one(X):
        return values[0] if isinstance(values, list) else values
    trials = series.split(values) if isinstance(values, np.ndarray) else values
    if isinstance(X, Mapping) and "observations" not in X:
        return dict(zip(X, trials, strict=True))
    return trials


def warn_of_y(y: Any, u: Any) -> None:
    """scikit-learn's y comes second, where one may think of u."""
    trials = list(y.values()) if isinstance(y, Mapping) else y
    first = trials[0] if isinstance(trials, list | tuple) and len(trials) else trials
    if u is None and len(getattr(first, "shape", ())) == 2:
        warnings.warn("y is not used; a control input is passed as u=…", stacklevel=3)
