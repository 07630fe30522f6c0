"""Trials through a scikit-learn `Pipeline`: transformers of rows that keep the bounds of trials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from dynacl.data import TimeSeries
from dynacl.shapes import like


class OnSteps(TransformerMixin, BaseEstimator):
    """A transformer of (n, features) arrays that is fitted to the steps of all trials together.

    scikit-learn's transformers take one array, in which the bounds of trials would be lost. With
    this around them, trials go in and trials come out.

    Parameters
    ----------
    transformer : a transformer of scikit-learn, such as StandardScaler() or PCA(20).

    Attributes
    ----------
    transformer_ : the same, fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, OnSteps
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> trials = [np.random.default_rng(i).standard_normal((50, 4)) for i in range(3)]
    >>> model = make_pipeline(OnSteps(StandardScaler()), DCL(2, max_iter=2, random_state=0))
    >>> [z.shape for z in model.fit(trials).transform(trials)]
    [(50, 2), (50, 2), (50, 2)]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to the steps of X: a (T, D) array, a list of them, or a TimeSeries."""
        self.transformer_ = clone(self.transformer).fit(TimeSeries.of(X).given())
        return self

    def transform(self, X: Any) -> Any:
        """The same trials, with every step transformed; a TimeSeries keeps all that it carries."""
        check_is_fitted(self)
        series = TimeSeries.of(X)
        values = np.asarray(self.transformer_.transform(series.given()))
        if not isinstance(X, TimeSeries):
            return like(X, series, values, np.arange(len(series)))
        made = TimeSeries.of({"observations": values, "bounds": series.bounds})
        return replace(series, observations=made.observations, units=made.units, names=None)
