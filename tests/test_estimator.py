"""DCL: scikit-learn's conventions, shapes in and out, nothing from the future, save and load."""

import json
import pickle

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dynacl import DCL, TimeSeries, __version__, simulate
from dynacl.dynamics import SwitchingLinear
from dynacl.persistence import save_checkpoint


def expected_failures(estimator):
    """Checks that cannot hold, each with its reason."""
    if estimator.dynamics != "switching":
        return {}
    reason = "predict holds the mode of the step before: rows of a time series are not exchangeable"
    return {
        "check_methods_subset_invariance": reason,
        "check_methods_sample_order_invariance": reason,
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


@pytest.fixture(scope="module")
def data():
    return simulate.slds(
        rng=np.random.default_rng(2), d=3, modes=2, trials=10, steps=40, observed=8, layers=2
    )


@pytest.fixture(scope="module")
def switching(data):
    return DCL(3, "switching", 2, max_iter=30, batch_size=64, random_state=0).fit(data)


@pytest.fixture(scope="module")
def linear(data):
    return DCL(3, "linear", max_iter=30, batch_size=64, random_state=0).fit(data)


def test_array_in_array_out_and_list_in_list_out(data, switching):
    y = data.observations
    trials = [y[:40], y[40:70]]
    for method, lengths, width in (
        (switching.transform, (40, 30), (3,)),
        (switching.predict, (40, 30), (3,)),
        (switching.modes, (39, 29), ()),
    ):
        assert method(y[:40]).shape == (lengths[0], *width)
        out = method(trials)
        assert isinstance(out, list)
        assert [v.shape for v in out] == [(n, *width) for n in lengths]
        assert {k: v.shape for k, v in method({"a": y[:40]}).items()} == {"a": out[0].shape}
        np.testing.assert_array_equal(out[0], method(y[:40]))
    assert switching.forecast(y[:40], 7).shape == (7, 3)
    assert [v.shape for v in switching.forecast(trials, 7)] == [(7, 3), (7, 3)]
    assert isinstance(switching.transform([y[:40]]), list)


@pytest.mark.parametrize(("limit", "rows"), [("ROWS", 7), ("NUMBERS", 7 * 8)])
def test_transform_does_not_depend_on_its_batches(data, linear, monkeypatch, limit, rows):
    whole = linear.transform(data.observations)
    monkeypatch.setattr(f"dynacl.inference.{limit}", rows)
    sizes = []
    hook = linear.encoder_.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    with hook:
        linear.transform(data.observations)
    assert max(sizes) <= 7
    np.testing.assert_allclose(linear.transform(data.observations), whole, rtol=1e-4, atol=1e-5)


def test_prediction_at_t_does_not_see_the_next_observation(data, switching, linear):
    y = data.observations[:40].copy()
    changed = y.copy()
    changed[21:] += np.random.default_rng(0).standard_normal(changed[21:].shape)
    for model in (switching, linear):
        before, after = model.predict(y), model.predict(changed)
        np.testing.assert_array_equal(before[:21], after[:21])
        assert not np.allclose(before[21:], after[21:])


def test_modes_are_the_argmin_over_the_bank(data, switching):
    x = switching.transform(data.observations[:40])
    W = switching.dynamics_.matrices.detach().numpy()
    errors = np.stack([((x[:-1] @ w.T - x[1:]) ** 2).sum(1) for w in W], axis=1)
    np.testing.assert_array_equal(
        switching.modes(data.observations[:40], decode="step"), errors.argmin(1)
    )


def test_predict_holds_the_mode_of_the_step_before(data, switching):
    y = data.observations[:40]
    x, modes = switching.transform(y), switching.modes(y, decode="step")
    W = switching.dynamics_.matrices.detach().numpy()
    expected = [W.mean(0) @ x[0]] + [W[modes[t - 1]] @ x[t] for t in range(1, 40)]
    np.testing.assert_allclose(switching.predict(y), expected, rtol=1e-4, atol=1e-5)


def test_forecast_rolls_the_last_mode_out(data, switching, linear):
    y = data.observations[:40]
    x, modes = switching.transform(y), switching.modes(y)
    W = switching.dynamics_.matrices.detach().numpy()[modes[-1]]
    expected = [np.linalg.matrix_power(W, n) @ x[-1] for n in (1, 2, 3)]
    np.testing.assert_allclose(switching.forecast(y, 3), expected, rtol=1e-4, atol=1e-5)
    A = linear.dynamics_.matrix.detach().numpy()
    expected = [np.linalg.matrix_power(A, n) @ linear.transform(y)[-1] for n in (1, 2, 3)]
    np.testing.assert_allclose(linear.forecast(y, 3), expected, rtol=1e-4, atol=1e-5)


def test_forecast_works_from_a_single_observation(data, switching):
    assert switching.forecast(data.observations[:1], 4).shape == (4, 3)


def test_score_is_deterministic_bounded_and_equals_its_definition(data, linear):
    y = data.observations
    assert linear.score(data) == linear.score(data)
    x = linear.transform(y).astype(float)
    predicted = linear.predict(y).astype(float)
    others = x[np.linspace(0, len(x) - 1, min(len(x), 2048)).astype(int)]
    bits = []
    for t in data.steps():
        p = np.exp(-((predicted[t] - x[t + 1]) ** 2).sum())
        q = np.exp(-((predicted[t] - others) ** 2).sum(1)).sum()
        bits.append(np.log2((len(others) + 1) * 0.99 * p / (p + q) + 0.01))
    assert linear.score(data) == pytest.approx(np.mean(bits), rel=1e-4)
    assert np.log2(0.01) <= linear.score(data) <= np.log2(len(others) + 1)


def test_better_trained_model_scores_higher_on_held_out_trials(data):
    held_out = simulate.again(data, rng=np.random.default_rng(5), trials=5)
    short = DCL(3, "linear", max_iter=2, random_state=0).fit(data)
    long = DCL(3, "linear", max_iter=200, random_state=0).fit(data)
    assert long.score(held_out) > short.score(held_out) + 0.5


def test_partial_fit_continues_and_uses_the_new_data(data):
    def fitted():
        return DCL(3, "linear", max_iter=10, batch_size=32, random_state=0).fit(data)

    model, same, other = fitted(), fitted(), fitted()
    shifted = TimeSeries.of([2 * y for y in data.split(data.observations)])
    same.partial_fit(data)
    other.partial_fit(shifted)
    assert (model.n_iter_, same.n_iter_) == (10, 20)
    assert len(same.history_) == 20
    assert not torch.equal(model.encoder_.layers[0].weight, same.encoder_.layers[0].weight)
    assert not torch.equal(other.encoder_.layers[0].weight, same.encoder_.layers[0].weight)
    assert torch.equal(other.encoder_.whitening.shift, model.encoder_.whitening.shift)
    assert torch.equal(other.encoder_.whitening.frame, model.encoder_.whitening.frame)


def test_partial_fit_starts_a_model_that_is_not_fitted(data):
    assert DCL(3, max_iter=2, random_state=0).partial_fit(data).n_iter_ == 2


def test_saved_model_is_the_same_model(data, switching, tmp_path):
    switching.save(tmp_path)
    loaded = DCL.load(tmp_path, device="cpu")
    for name in ("transform", "modes", "predict"):
        for a, b in zip(getattr(switching, name)(data), getattr(loaded, name)(data), strict=True):
            np.testing.assert_array_equal(a, b)
    assert loaded.score(data) == switching.score(data)
    assert loaded.history_ == switching.history_
    assert json.loads((tmp_path / "config.json").read_text())["dynacl"] == __version__
    parameters = {k: v for k, v in switching.get_params().items() if k != "device"}
    assert parameters == {k: v for k, v in loaded.get_params().items() if k != "device"}
    loaded.partial_fit(data)
    assert loaded.n_iter_ == 60


def test_saved_files_hold_no_code(switching, tmp_path):
    switching.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads((tmp_path / "model.safetensors").read_bytes())
    json.loads((tmp_path / "config.json").read_text())


def test_numpy_scalars_are_parameters_like_any_other(data, tmp_path):
    scalars = {"n_components": np.int64(3), "max_iter": np.int32(2), "batch_size": np.int64(16),
               "learning_rate": np.float32(0.01), "standardize": np.bool_(True),
               "density_correction": "euclidean", "bandwidth": np.float32(0.5),
               "n_support": np.int64(8)}  # fmt: skip
    model = DCL(**scalars, random_state=np.int64(0)).fit(data)
    model.save(tmp_path)
    save_checkpoint(model.run_, tmp_path / "checkpoint")
    loaded = DCL.load(tmp_path)
    assert {k: getattr(loaded, k) for k in scalars} == scalars
    assert loaded.settings_ == model.settings_


def test_what_cannot_be_saved_leaves_nothing_behind(data, tmp_path):
    model = DCL(3, max_iter=2, random_state=0).fit(data)
    model.history_ = [object()]
    with pytest.raises(TypeError):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_custom_parts_are_given_again_at_load(data, tmp_path):
    model = DCL(8, torch.nn.Identity(), encoder=torch.nn.Linear(8, 8), max_iter=2)
    model.dynamics = Shift()
    model.fit(data)
    model.save(tmp_path)
    with pytest.raises(ValueError, match=r"DCL\.load\(path, encoder=module\)"):
        DCL.load(tmp_path, dynamics=Shift())
    loaded = DCL.load(tmp_path, encoder=torch.nn.Linear(8, 8), dynamics=Shift())
    np.testing.assert_array_equal(loaded.predict(data)[0], model.predict(data)[0])


class Shift(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.zeros(8))

    def forward(self, x, x_next=None, u=None):
        return x + self.by


def test_fit_does_not_train_the_modules_that_it_was_given(data):
    """scikit-learn: fit leaves parameters alone, so a clone starts from where the user's was."""
    given = Shift()
    model = DCL(8, given, encoder=torch.nn.Linear(8, 8), max_iter=5, random_state=0).fit(data)
    assert torch.equal(given.by, torch.zeros(8))
    assert not torch.equal(model.dynamics_.by, torch.zeros(8))


def test_oracle_trains_with_the_true_system(data, tmp_path):
    model = DCL(3, "truth", max_iter=3, random_state=0).fit(data)
    np.testing.assert_allclose(
        model.dynamics_.matrices.numpy(), data.truth.system["matrices"], rtol=1e-6
    )
    model.save(tmp_path)
    assert isinstance(DCL.load(tmp_path).dynamics_, SwitchingLinear)


def test_clone_and_pipeline_work(data):
    model = clone(DCL(3, "switching", 2, max_iter=2, random_state=0))
    z = make_pipeline(StandardScaler(), model).fit_transform(data.observations)
    assert z.shape == (len(data), 3)


def test_time_offset_pairs_steps_that_far_apart(data):
    model = DCL(3, "switching", 2, max_iter=2, time_offset=4, random_state=0).fit(data)
    assert model.modes(data.observations[:40]).shape == (36,)
    y = data.observations[:40].copy()
    changed = y.copy()
    changed[21:] += 1
    np.testing.assert_array_equal(model.predict(y)[:21], model.predict(changed)[:21])


def test_control_input_reaches_fit_predict_forecast_and_score():
    rng = np.random.default_rng(0)
    y, u = rng.standard_normal((60, 4)), rng.standard_normal((60, 2))
    model = DCL(3, "linear", max_iter=5, random_state=0).fit(y, u=u)
    assert model.dynamics_.control.shape == (3, 2)
    assert not np.allclose(model.predict(y, u=u), model.predict(y, u=2 * u))
    assert model.forecast(y, 5, u=u[:5]).shape == (5, 3)
    assert np.isfinite(model.score(y, u=u))


def test_control_in_a_dict_is_that_of_the_trial_of_the_same_name():
    y, u = np.random.default_rng(0).standard_normal((2, 3, 30, 4))
    X, drive = dict(zip("abc", y, strict=True)), dict(zip("cba", u[::-1], strict=True))
    model = DCL(2, max_iter=5, batch_size=16, random_state=0).fit(X, u=drive)
    listed = DCL(2, max_iter=5, batch_size=16, random_state=0).fit(list(y), u=list(u))
    named = model.predict(X, u=drive)
    ahead = model.forecast(X, 5, u={k: v[:5] for k, v in drive.items()})
    np.testing.assert_array_equal(list(named.values()), listed.predict(list(y), u=list(u)))
    np.testing.assert_array_equal(
        list(ahead.values()), listed.forecast(list(y), 5, u=list(u[:, :5]))
    )


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("form", [lambda u: u[0], list, tuple, lambda u: dict(enumerate(u))])
def test_control_in_the_place_of_y_warns(method, form):
    y, u = np.random.default_rng(0).standard_normal((2, 3, 30, 4))
    model = DCL(2, max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match="y is not used; a control input is passed as u=") as said:
        getattr(model, method)(list(y), form(u))
    assert said[0].filename == __file__


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


def test_device_auto_takes_what_is_there(linear):
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    if torch.backends.mps.is_available():
        expected = "mps"
    assert next(linear.encoder_.parameters()).device.type == expected
