"""DCL: scikit-learn's conventions, nothing from the future, scores and devices."""

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dynacl import DCL, TimeSeries, simulate


def expected_failures(estimator):
    """Checks that cannot hold, each with its reason."""
    order = "check_methods_sample_order_invariance"
    if estimator.dynamics != "switching":
        return {order: "it asks for 1e-7 of numbers that float32 rounds to 1.2e-7, by their place"}
    reason = "predict holds the mode of the step before: rows of a time series are not exchangeable"
    return {
        "check_methods_subset_invariance": reason,
        order: reason,
    }


@parametrize_with_checks(
    [
        DCL(2, "linear", max_iter=3, batch_size=16, random_state=0),
        DCL(2, "switching", 2, max_iter=3, batch_size=16, random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_rows_in_another_order_give_the_same_but_for_rounding(two_modes, d):
    X = two_modes.observations[:200]
    model = DCL(d, "linear", max_iter=3, batch_size=16, random_state=0).fit(X)
    order = np.random.default_rng(0).permutation(len(X))
    for method in (model.transform, model.predict):
        whole = method(X)
        np.testing.assert_allclose(method(X[order]), whole[order], rtol=0, atol=1e-6 * whole.std())


@pytest.mark.parametrize(("limit", "rows"), [("ROWS", 7), ("NUMBERS", 7 * 8)])
def test_transform_does_not_depend_on_its_batches(
    two_modes, linear_model, monkeypatch, limit, rows
):
    whole = linear_model.transform(two_modes.observations)
    monkeypatch.setattr(f"dynacl.inference.{limit}", rows)
    sizes = []
    hook = linear_model.encoder_.register_forward_pre_hook(
        lambda _, inputs: sizes.append(len(inputs[0]))
    )
    with hook:
        linear_model.transform(two_modes.observations)
    assert max(sizes) <= 7
    np.testing.assert_allclose(
        linear_model.transform(two_modes.observations), whole, rtol=1e-4, atol=1e-5
    )


def test_prediction_at_t_does_not_see_the_next_observation(
    two_modes, switching_model, linear_model
):
    y = two_modes.observations[:40].copy()
    changed = y.copy()
    changed[21:] += np.random.default_rng(0).standard_normal(changed[21:].shape)
    for model in (switching_model, linear_model):
        before, after = model.predict(y), model.predict(changed)
        np.testing.assert_array_equal(before[:21], after[:21])
        assert not np.allclose(before[21:], after[21:])


def test_modes_are_the_argmin_over_the_bank(two_modes, switching_model):
    x = switching_model.transform(two_modes.observations[:40])
    W = switching_model.dynamics_.matrices.detach().numpy()
    errors = np.stack([((x[:-1] @ w.T - x[1:]) ** 2).sum(1) for w in W], axis=1)
    np.testing.assert_array_equal(
        switching_model.modes(two_modes.observations[:40], decode="step"), errors.argmin(1)
    )


def test_predict_holds_the_mode_of_the_step_before(two_modes, switching_model):
    y = two_modes.observations[:40]
    x, modes = switching_model.transform(y), switching_model.modes(y, decode="step")
    W = switching_model.dynamics_.matrices.detach().numpy()
    expected = [W.mean(0) @ x[0]] + [W[modes[t - 1]] @ x[t] for t in range(1, 40)]
    np.testing.assert_allclose(switching_model.predict(y), expected, rtol=1e-4, atol=1e-5)


def test_score_is_deterministic_and_bounded(two_modes, linear_model):
    score = linear_model.score(two_modes)
    assert score == linear_model.score(two_modes)
    assert np.log2(0.01) <= score <= np.log2(len(two_modes.observations) + 1)


def test_better_trained_model_scores_higher_on_held_out_trials(two_modes):
    held_out = simulate.again(two_modes, rng=np.random.default_rng(5), trials=5)
    short = DCL(3, "linear", max_iter=2, random_state=0).fit(two_modes)
    long = DCL(3, "linear", max_iter=200, random_state=0).fit(two_modes)
    assert long.score(held_out) > short.score(held_out) + 0.5


def test_partial_fit_continues_and_uses_the_new_data(two_modes):
    def fitted():
        return DCL(3, "linear", max_iter=10, batch_size=32, random_state=0).fit(two_modes)

    model, same, other = fitted(), fitted(), fitted()
    shifted = TimeSeries.of([2 * y for y in two_modes.split(two_modes.observations)])
    same.partial_fit(two_modes)
    other.partial_fit(shifted)
    assert (model.n_iter_, same.n_iter_) == (10, 20)
    assert len(same.history_) == 20
    assert not torch.equal(model.encoder_.layers[0].weight, same.encoder_.layers[0].weight)
    assert not torch.equal(other.encoder_.layers[0].weight, same.encoder_.layers[0].weight)
    assert torch.equal(other.encoder_.whitening.shift, model.encoder_.whitening.shift)
    assert torch.equal(other.encoder_.whitening.frame, model.encoder_.whitening.frame)


def test_partial_fit_starts_a_model_that_is_not_fitted(two_modes):
    assert DCL(3, max_iter=2, random_state=0).partial_fit(two_modes).n_iter_ == 2


def test_clone_and_pipeline_work(two_modes):
    model = clone(DCL(3, "switching", 2, max_iter=2, random_state=0))
    z = make_pipeline(StandardScaler(), model).fit_transform(two_modes.observations)
    assert z.shape == (len(two_modes), 3)


def test_time_offset_pairs_steps_that_far_apart(two_modes):
    model = DCL(3, "switching", 2, max_iter=2, time_offset=4, random_state=0).fit(two_modes)
    assert model.modes(two_modes.observations[:40]).shape == (36,)
    y = two_modes.observations[:40].copy()
    changed = y.copy()
    changed[21:] += 1
    np.testing.assert_array_equal(model.predict(y)[:21], model.predict(changed)[:21])


def test_cross_validation_cuts_the_control_with_the_trials():
    rng = np.random.default_rng(0)
    X, u = [], []
    for steps in (60, 60, 60, 60, 80, 70):
        drive = rng.uniform(-1, 1, (steps, 1)).astype(np.float32)
        walk = np.cumsum(np.r_[np.zeros((1, 1)), drive[:-1]], 0) @ [[1.0, 0.5, -1.0]]
        X.append((walk + 0.05 * rng.standard_normal((steps, 3))).astype(np.float32))
        u.append(drive)
    model = DCL(1, max_iter=100, batch_size=64, random_state=0)
    by_hand = []
    for train, test in KFold(2).split(X):
        fitted = clone(model).fit([X[i] for i in train], u=[u[i] for i in train])
        by_hand.append(fitted.score([X[i] for i in test], u=[u[i] for i in test]))
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(u=True).set_score_request(u=True)
        right = cross_val_score(model, X, params={"u": u}, cv=2)
        # Trials of the same length, so that nothing but the scores can tell.
        wrong = cross_val_score(model, X, params={"u": u[1:4] + u[:1] + u[4:]}, cv=2)
    np.testing.assert_array_equal(right, by_hand)
    assert wrong.mean() < right.mean() - 0.5  # bits


def test_device_auto_takes_what_is_there(linear_model):
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    if torch.backends.mps.is_available():
        expected = "mps"
    assert next(linear_model.encoder_.parameters()).device.type == expected
