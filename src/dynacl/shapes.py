"""Results in the shape of the input: an array for an array, a list or dict of trials for those.

A data frame, a tensor or an object of pynapple goes out as it came in, with its index.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from dynacl.data import Array, TimeSeries, UnlikeFitError
from dynacl.data.frames import alike, as_frame, is_framed

SHOWN = 5  # names in an error, at most


def is_one(X: Any) -> bool:
    """Whether X is one array, for which one array goes out."""
    if isinstance(X, TimeSeries | Mapping | str | os.PathLike):
        return False
    return not (isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) >= 2)


def like(
    X: Any,
    series: TimeSeries,
    values: Any,
    rows: Array | None = None,
    columns: Sequence[str] = (),
    kind: str = "default",
) -> Any:
    """values: an array with one row per step of the series, or a list with one array per trial.

    rows: which rows of X these are, where they are any. columns: names for those of the values.
    kind: as `set_output` of scikit-learn has it.
    """
    trials = series.split(values) if isinstance(values, np.ndarray) else values
    if is_one(X):
        if rows is None and len(trials) > 1:
            return trials  # what comes after each of several epochs
        whole = values if isinstance(values, np.ndarray) else _whole(trials)
        return _as(X, whole, rows, columns, kind)
    named = isinstance(X, Mapping) and "observations" not in X
    given = list(X.values()) if named else X
    if isinstance(given, list | tuple) and is_framed(given):
        if rows is None:
            pairs = zip(given, trials, strict=False)
            found = [_as(x, part, None, columns, kind) for x, part in pairs]
        else:  # an item may have several trials
            starts = np.cumsum([0, *map(len, given)])
            cuts, whole = np.searchsorted(rows, starts), _whole(trials)
            found = [
                _as(x, whole[a:b], rows[a:b] - start, columns, kind)
                for x, start, (a, b) in zip(given, starts, pairwise(cuts), strict=False)
            ]
    elif kind == "default":
        found = trials
    else:
        found = [_as(None, trial, None, columns, kind) for trial in trials]
    return dict(zip(X, found, strict=True)) if named else found


def _rows(X: Any, series: TimeSeries, past: int, offset: int = 0) -> Array | None:
    """Rows with a full past, and one `offset` later in their trial; frames alone need them."""
    if not is_framed(X):
        return None
    inside = [np.arange(a + past, max(a + past, b - offset)) for a, b in series.spans()]
    return np.concatenate(inside)


def _as(x: Any, values: Array, rows: Array | None, columns: Sequence[str], kind: str) -> Any:
    """In the kind of x, or in that which was asked for."""
    if kind == "default" or len(columns) == 0:
        return alike(x, values, rows, columns or _numbered(values))
    frame = as_frame(values, columns, kind)
    if kind == "pandas" and rows is not None and hasattr(x, "columns") and hasattr(x, "index"):
        frame.index = x.index[rows]
    return frame


def _numbered(values: Array) -> list[str]:
    return ["x"] if values.ndim == 1 else [f"x{i + 1}" for i in range(values.shape[1])]


def _whole(trials: Sequence[Array]) -> Array:
    return trials[0] if len(trials) == 1 else np.concatenate(trials)


class Shaped(ClassNamePrefixFeaturesOutMixin, BaseEstimator):
    """What `DCL` inherits: names of features, and the kind of container that results go out in."""

    n_features_in_: int
    n_components: int
    feature_names_in_: Array
    _sklearn_output_config: dict[str, str]

    def set_output(self, *, transform: str | None = None) -> Self:
        """The container of `transform`: "default" (as X is), "pandas" or "polars"."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self, "encoder_")
        return int(self.n_components)

    def _latents_like(self, X: Any, series: TimeSeries, values: Array, past: int) -> Any:
        """Latents of the steps after the first `past` of each trial, as the user wants them."""
        kind = _get_output_config("transform", self)["dense"]
        names = list(self.get_feature_names_out())
        return like(X, series.trimmed(past), values, _rows(X, series, past), names, kind)

    def _modes_like(
        self, X: Any, series: TimeSeries, values: list[Array], past: int, offset: int
    ) -> Any:
        """Modes of the steps that have one, in the kind of X."""
        rows = _rows(X, series, past, offset)
        return like(X, series.trimmed(past), values, rows, ["mode"])

    def _remember_features(self, series: TimeSeries) -> None:
        self.n_features_in_ = series.n_features
        if hasattr(self, "feature_names_in_"):  # of a fit before
            del self.feature_names_in_
        if series.names is not None:
            self.feature_names_in_ = np.array(series.names, dtype=object)
        self.interval_ = series.interval

    def _check_features(self, series: TimeSeries) -> None:
        """That there are as many columns as in the fit, of the same names."""
        if series.n_features != self.n_features_in_:
            raise UnlikeFitError(
                f"X has {series.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        known, mine = hasattr(self, "feature_names_in_"), type(self).__name__
        if known and series.names is None:
            warnings.warn(f"X does not have valid feature names, but {mine} was fitted with "
                          "feature names", stacklevel=5)  # fmt: skip
        elif not known and series.names is not None:
            warnings.warn(f"X has feature names, but {mine} was fitted without feature names",
                          stacklevel=5)  # fmt: skip
        self._check_names(series.names)

    def _check_names(self, names: Sequence[str] | None) -> None:
        """That columns with names are those of the fit, in their order."""
        known = getattr(self, "feature_names_in_", None)
        if known is not None and names is not None and tuple(names) != tuple(known):
            raise UnlikeFitError(_differ(list(known), list(names)))


def _differ(known: list[str], came: list[str]) -> str:
    """In the words of scikit-learn, which people look for."""
    said = "The feature names should match those that were passed during fit.\n"
    if set(known) == set(came):
        return said + "Feature names must be in the same order as they were in fit.\n"
    for what, names in (
        ("Feature names unseen at fit time:", sorted(set(came) - set(known))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(known) - set(came))),
    ):
        if names:
            said += what + "\n" + "".join(f"- {name}\n" for name in names[:SHOWN])
            said += "- ...\n" if len(names) > SHOWN else ""
    return said


def check_control_names(known: Sequence[str] | None, names: Sequence[str] | None) -> None:
    """That inputs with names are those of the fit, in their order."""
    if known and names and tuple(known) != tuple(names):
        raise UnlikeFitError(f"u: its columns are {', '.join(names)}; this model was fitted with "
                         f"{', '.join(known)}, in this order")  # fmt: skip


def warn_of_y(y: Any, u: Any) -> None:
    """scikit-learn's y comes second, where one may think of u."""
    trials = list(y.values()) if isinstance(y, Mapping) else y
    first = trials[0] if isinstance(trials, list | tuple) and len(trials) else trials
    if u is None and len(getattr(first, "shape", ())) == 2:
        warnings.warn("y is not used; a control input is passed as u=…", stacklevel=3)
