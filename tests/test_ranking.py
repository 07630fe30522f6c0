"""Choosing among models: prediction of held-out observations, and the one-standard-error rule."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from dynacl import (
    DCL,
    InputError,
    held_out_prediction,
    one_standard_error,
    prediction_score,
    simplest,
    simulate,
)


def test_the_first_candidate_within_one_standard_error_of_the_best_is_chosen():
    """The best has mean 0.9 and a standard error of 0.1 / √4 · √(4/3) = 0.0577."""
    best = [0.8, 0.8, 1.0, 1.0]
    assert one_standard_error(np.array([[0.2] * 4, [0.85] * 4, best, [0.88] * 4])) == 1
    assert one_standard_error(np.array([[0.2] * 4, [0.84] * 4, best, [0.88] * 4])) == 2


def test_candidates_that_diverged_are_left_out():
    scores = np.array([[0.1, 0.2], [-np.inf, 0.9], [0.5, 0.6]])
    assert one_standard_error(scores) == 2
    with pytest.raises(InputError, match="scores: got shape"):
        one_standard_error(scores[1:2])
    with pytest.raises(InputError, match="scores: got shape"):
        one_standard_error(scores[0])


def test_grid_search_finds_the_dimensions_of_a_linear_system():
    """Three dimensions; seen through a linear map with noise, more latents cost nothing."""
    data = simulate.lds(rng=np.random.default_rng(1000), d=3, trials=16, steps=250, observed=8,
                        mixing="linear", angle=8.0, noise=0.05)  # fmt: skip
    noise = 0.02 * np.random.default_rng(0).standard_normal(data.observations.shape)
    trials = data.split((data.observations + noise).astype(np.float32))
    model = DCL(max_iter=60, batch_size=128, random_state=0)
    search = GridSearchCV(model, {"n_components": [1, 2, 3, 4, 5]}, scoring=prediction_score,
                          refit=simplest, cv=4)  # fmt: skip
    search.fit(trials)
    assert search.best_params_ == {"n_components": 3}


def test_the_score_is_the_mean_r2_over_the_steps_ahead():
    data = simulate.lds(rng=np.random.default_rng(0), trials=12, steps=100, observed=5)
    model = DCL(3, max_iter=20, batch_size=64, random_state=0).fit(data)
    found = held_out_prediction(model, data, (1, 5))
    expected = 1 - found.missed["model"].mean()
    assert model.prediction_score(data, horizons=(1, 5)) == pytest.approx(expected, rel=1e-12)
    assert prediction_score(model, data) == model.prediction_score(data)
