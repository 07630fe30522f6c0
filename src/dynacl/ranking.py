"""Which model is better: predictions of observations that none of them was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dynacl import prediction
from dynacl.data import Array, InputError
from dynacl.estimator import DCL
from dynacl.prediction import HeldOut


def held_out_prediction(
    model: DCL, data: Any, horizons: Sequence[int] | None = None, *, u: Any = None
) -> HeldOut:
    """Shares of the variance of `data` that are missed, by number of steps ahead.

    By the model and its `readout_`, its linear start (where it had one), an autoregression of the
    same lags, the model with latents that do not change, and persistence; all of them fitted to the
    training data of the model. horizons: None takes those of `fit`, 1 to as far as its observations
    are correlated.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, held_out_prediction, simulate
    >>> rng = np.random.default_rng(0)
    >>> data = simulate.lds(rng=rng, trials=10, steps=100)
    >>> model = DCL(n_components=3, max_iter=10, random_state=0).fit(data)
    >>> found = held_out_prediction(model, simulate.again(data, rng=rng), (1, 5))
    >>> list(found.missed)
    ['model', 'linear start', 'VAR', 'identity control', 'persistence']
    """
    check_is_fitted(model, "encoder_")
    series = model._driven(data, u)
    return prediction.held_out(model.run_, series, horizons or model.run_.horizons)


def prediction_score(model: DCL, X: Any, y: Any = None) -> float:
    """`model.prediction_score(X)`, as scikit-learn calls it: `GridSearchCV(…, scoring=…)`."""
    return model.prediction_score(X)


def one_standard_error(scores: Array) -> int:
    """The first of the candidates whose mean score is within one standard error of the best.

    scores: (candidates, folds), simplest candidate first, higher is better. The standard error is
    that of the best mean over the folds (Breiman et al. 1984, *Classification and regression
    trees*).
    """
    table = np.asarray(scores, dtype=float)
    if table.ndim != 2 or table.shape[1] < 2 or not np.isfinite(table).all(1).any():
        raise InputError(f"scores: got shape {table.shape}; wanted (candidates, folds), at least "
                         "two folds, and a candidate whose scores are finite")  # fmt: skip
    mean = np.where(np.isfinite(table).all(1), table.mean(1), -np.inf)
    best = int(mean.argmax())
    error = table[best].std(ddof=1) / np.sqrt(table.shape[1])
    return int((mean >= mean[best] - error).argmax())


def simplest(results: Mapping[str, Any]) -> int:
    """`one_standard_error` of `cv_results_`: `GridSearchCV(…, refit=simplest)`.

    The candidates of the grid must go from simple to complex, such as n_components=[1, 2, 3].
    """
    folds = [k for k in results if k.startswith("split") and k.endswith("_test_score")]
    return one_standard_error(np.stack([results[k] for k in folds], axis=1))
