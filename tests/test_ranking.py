"""Choosing among models: prediction of held-out observations, and the one-standard-error rule."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold

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
    data = simulate.lds(rng=np.random.default_rng(1000), d=3, trials=16, steps=120, observed=8,
                        mixing="linear", angle=8.0, noise=0.05)  # fmt: skip
    noise = 0.02 * np.random.default_rng(0).standard_normal(data.observations.shape)
    trials = data.split((data.observations + noise).astype(np.float32))
    model = DCL(max_iter=30, batch_size=128, random_state=0)
    search = GridSearchCV(model, {"n_components": [2, 3, 4]}, scoring=prediction_score,
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


def test_grid_search_takes_control_input_and_groups_of_trials():
    """Without its input, the state of a driven system cannot be predicted."""
    data = simulate.controlled(rng=np.random.default_rng(0), d=2, trials=8, steps=60, observed=4,
                               mixing="linear", noise=0.01)  # fmt: skip
    trials, u = data.split(data.observations), data.split(data.control)
    groups = [i // 2 for i in range(8)]
    seen = []

    class Noted(DCL):
        def fit(self, X, y=None, *, u=None, callback=None):
            seen.append({trial.tobytes() for trial in X})
            assert len(u) == len(X)
            return super().fit(X, u=u)

    with config_context(enable_metadata_routing=True):
        model = Noted(max_iter=5, batch_size=64, random_state=0).set_fit_request(u=True)
        search = GridSearchCV(model, {"n_components": [1, 2]}, scoring=prediction_score,
                              refit=simplest, cv=GroupKFold(2), error_score="raise")  # fmt: skip
        search.fit(trials, u=u, groups=groups)
    assert search.best_estimator_.n_controls_in_ == 1
    for fitted in seen[:-1]:  # both trials of a group, or none
        kept = [trial.tobytes() in fitted for trial in trials]
        assert kept[::2] == kept[1::2]


def test_a_score_that_is_no_r2_is_refused():
    with pytest.raises(InputError, match="scoring: got 3; wanted prediction_score"):
        simplest({"split0_test_score": np.array([1.0, 3.0]), "split1_test_score": np.ones(2)})
