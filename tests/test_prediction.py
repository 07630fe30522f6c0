"""What is missed of held-out observations: one function for the model and what stands beside it."""

import warnings

import numpy as np
import pytest
import torch

import dynacl
from dynacl import DCL, InputError, TimeSeries, held_out_prediction, simulate
from dynacl.linear_models import ARX
from dynacl.prediction import HeldOut


@pytest.fixture(scope="module")
def system():
    """A linear system that is seen through a linear map, so that all linear models are right."""
    return simulate.lds(rng=np.random.default_rng(0), d=3, trials=30, steps=200, observed=6,
                        mixing="linear", angle=10.0, noise=0.05)  # fmt: skip


@pytest.fixture(scope="module")
def fresh(system):
    return simulate.again(system, rng=np.random.default_rng(1), trials=10)


@pytest.fixture(scope="module")
def model(system):
    return DCL(3, max_iter=60, batch_size=128, random_state=0).fit(system)


def test_each_predictor_misses_what_brute_force_says(model, fresh):
    """By hand: the encoder, powers of A, the readout; VAR of the training data; y itself."""
    found = held_out_prediction(model, fresh, (1, 7))
    A = model.run_.dynamics.linear_maps()[0].detach().numpy().astype(float)
    trials = list(zip(model.transform(fresh), fresh.split(fresh.observations), strict=True))
    starts = np.concatenate([y[1 : len(y) - 7] for _, y in trials])
    variance = starts.var(0).sum()
    for i, h in enumerate((1, 7)):
        states = [x[1 : len(x) - 7] @ np.linalg.matrix_power(A, h).T for x, _ in trials]
        ahead = model.readout_(torch.from_numpy(np.concatenate(states)).float()).numpy()
        true = np.concatenate([y[1 + h : len(y) - 7 + h] for _, y in trials])
        still = np.concatenate([x[1 : len(x) - 7] for x, _ in trials])
        still = model.readout_(torch.from_numpy(still)).numpy()
        for name, predicted in (("model", ahead), ("persistence", starts),
                                ("identity control", still)):  # fmt: skip
            missed = np.square(predicted - true).sum(1).mean() / variance
            assert found.missed[name][i] == pytest.approx(missed, rel=1e-3)


def test_models_of_a_linear_system_miss_its_noise_and_no_more(model, fresh):
    """One step: the share of the noise. All linear models of it are alike."""
    found = held_out_prediction(model, fresh, (1,))
    assert set(found.missed) == {
        "model", "linear start", "VAR", "identity control", "persistence",
    }  # fmt: skip
    best = np.square(_noise(fresh)).sum() / fresh.observations.var(0).sum()
    for name in ("model", "linear start", "VAR"):
        assert found.missed[name][0] == pytest.approx(best, rel=0.1), name
    assert found.missed["persistence"][0] > 1.2 * best


def _noise(series):
    """The standard deviation of what the noise of a step does to each observation."""
    x, y = series.truth.latents.astype(float), series.observations.astype(float)
    mixing, *_ = np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=None)
    return 0.05 * np.sqrt(np.square(mixing).sum(0))


def test_the_floor_is_fitted_to_training_data_and_not_to_what_is_judged(model, system, fresh):
    """Other held-out data, the same predictions: nothing is fitted to the data that are judged."""
    one = held_out_prediction(model, fresh.select([0, 1]), (1, 4))
    both = held_out_prediction(model, fresh.select([0, 1, 2, 3]), (1, 4))
    assert not np.allclose(one.missed["VAR"], both.missed["VAR"])
    arx = model.run_.arx
    assert arx.n_controls == 0
    again = ARX((0,)).fit(fresh.select([0, 1]))
    assert not np.allclose(arx.weights, again.weights)


def test_what_is_kept_is_saved_and_small(model, fresh, tmp_path):
    model.save(tmp_path)
    loaded = DCL.load(tmp_path)
    before, after = (held_out_prediction(m, fresh) for m in (model, loaded))
    assert before.horizons == after.horizons == model.held_out_.horizons
    for name, missed in before.missed.items():
        np.testing.assert_array_equal(after.missed[name], missed)
    assert str(loaded.held_out_) == str(model.held_out_)
    assert loaded.prediction_score(fresh) == model.prediction_score(fresh)
    assert loaded.scores_ == model.scores_


def test_wide_recordings_keep_little(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((1200, 3)).cumsum(0) @ rng.standard_normal((3, 800))
    y = (y + rng.standard_normal(y.shape)).astype(np.float32)
    model = DCL(3, max_iter=2, batch_size=64, time_lags=range(5), random_state=0).fit(y)
    model.save(tmp_path)
    kept = sum(v.numel() for k, v in model.readout_.state_dict().items())
    assert kept + sum(v.size for v in model.run_.arx.arrays().values()) < 500_000


def test_the_components_of_few_wide_frames_are_saved(tmp_path):
    """The way into them and the way back were one array, which cannot be written as two."""
    y = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    with warnings.catch_warnings(action="ignore"):
        model = DCL(2, max_iter=2, batch_size=4, random_state=0).fit(y)
    model.save(tmp_path)
    before, after = (m.run_.arx.arrays() for m in (model, DCL.load(tmp_path)))
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_the_table_names_steps_and_predictors(model):
    shown = str(model.held_out_)
    assert "linear start" in shown
    assert "persistence" in shown
    assert f"{max(model.held_out_.horizons):>10}" in shown
    assert model.held_out_.line().startswith("share of variance missed after 1, ")
    again = HeldOut.read(model.held_out_.plain())
    assert str(again) == str(model.held_out_)
    np.testing.assert_allclose(again.r2(), 1 - model.held_out_.missed["model"])


def test_partial_fit_judges_and_compares_anew(system, fresh, model):
    other = DCL(3, max_iter=20, batch_size=128, random_state=0).fit(system)
    first = other.run_.arx.weights.copy(), other.readout_
    other.partial_fit(fresh)
    assert not np.allclose(first[0], other.run_.arx.weights)
    assert other.readout_ is not first[1]
    assert "linear start" not in other.held_out_.missed  # that of other data
    assert np.isfinite(other.prediction_score(fresh))


def test_driven_models_are_compared_with_arx():
    driven = simulate.controlled(rng=np.random.default_rng(0), d=2, trials=12, steps=100,
                                 observed=4, mixing="linear")  # fmt: skip
    model = DCL(2, max_iter=20, batch_size=64, random_state=0).fit(driven)
    found = held_out_prediction(model, driven, (1, 3))
    assert "ARX" in found.missed
    assert found.missed["ARX"][0] < 0.05
    bare = TimeSeries.of(driven.split(driven.observations))
    with pytest.raises(InputError, match="u: missing"):
        held_out_prediction(model, bare)


@pytest.mark.parametrize(
    "arguments", [{"time_offset": 2}, {"time_lags": (0, 3)}, {"dynamics": "recurrent"},
                  {"dynamics": "switching", "n_modes": 2}], ids=str,
)  # fmt: skip
def test_every_kind_of_model_can_be_asked(system, fresh, arguments):
    model = DCL(3, max_iter=10, batch_size=64, random_state=0, **arguments).fit(system)
    found = held_out_prediction(model, fresh, (1, 3))
    assert all(np.isfinite(v).all() and (v > 0).all() for v in found.missed.values())


@pytest.mark.parametrize("horizons", [(0,), (1, 1), (1.5,), 3])
def test_horizons_that_cannot_be_are_named(model, fresh, horizons):
    with pytest.raises(InputError, match="horizons: got"):
        held_out_prediction(model, fresh, horizons)


def test_trials_without_room_are_named(model, fresh):
    with pytest.raises(InputError, match="no trial has room for 2 steps and 500 after them"):
        held_out_prediction(model, fresh, (500,))


def test_it_is_public():
    assert dynacl.held_out_prediction is held_out_prediction
