"""Which model is better, by predictions of observations that none of them was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted

from dynacl import prediction
from dynacl.choosing.judged import decibels
from dynacl.choosing.rule import CLEARLY, one_standard_error
from dynacl.data import InputError
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


def prediction_score(model: DCL, X: Any, y: Any = None, *, u: Any = None) -> float:
    """`model.prediction_score(X)`, as scikit-learn calls it: `GridSearchCV(…, scoring=…)`.

    Where metadata are routed, it asks for the control input u.
    """
    return model.prediction_score(X, u=u)


def _asks_for_control() -> MetadataRequest:
    asked = MetadataRequest(owner="prediction_score")
    asked.score.add_request(param="u", alias=True)
    return asked


prediction_score.get_metadata_routing = _asks_for_control  # type: ignore[attr-defined]


def simplest(results: Mapping[str, Any]) -> int:
    """The first candidate of `cv_results_` that is not clearly behind the best, as in `select`.

    `GridSearchCV(…, scoring=prediction_score, refit=simplest)`. The candidates of the grid must go
    from simple to complex, such as n_components=[1, 2, 3].
    """
    folds = [k for k in results if k.startswith("split") and k.endswith("_test_score")]
    scores = np.stack([results[k] for k in folds], axis=1)
    if (scores > 1).any():
        raise InputError(f"scoring: got {scores.max():.3g}; wanted prediction_score, "
                         "which is an R²")  # fmt: skip
    ratio = np.where(np.isfinite(scores), decibels(1 - scores[..., None]), -np.inf)
    return one_standard_error(ratio, CLEARLY)
