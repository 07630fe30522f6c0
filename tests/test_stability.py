"""Models that are kept stable: roll-outs stay, training goes on as if nothing had been changed."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone

from dynacl import DCL, InputError, simulate
from dynacl.dynamics import Linear
from dynacl.persistence import load_checkpoint, save_checkpoint
from dynacl.stability import Stability
from quick_models import tiny


@pytest.fixture(scope="module")
def growing():
    """Two regimes of a state that grows by 4 % per step, in trials of 40 steps."""
    rng = np.random.default_rng(0)
    x, trials = rng.standard_normal((12, 2)), []
    turns = [1.04 * np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in (0.1, 0.5)]
    for i in range(40):
        trials.append(x)
        x = x @ turns[i // 20 % 2].T + 0.01 * rng.standard_normal(x.shape)
    return list(np.stack(trials, 1).astype(np.float32))


def fitted(as_it_is, data, dynamics="switching", **changed):
    """The state is seen as it is, and the dynamics fitted to it when training ends."""
    usual = {"encoder": as_it_is(2), "n_modes": 2, "learning_rate": 1e-9,
             "dynamics_learning_rate": 1e-9, "settings": {"refit_at_end": True}}  # fmt: skip
    return tiny(2, dynamics, **(usual | changed)).fit(data)


@pytest.mark.parametrize("dynamics", ["linear", "switching", "tiles"])
def test_forecasts_of_a_stable_model_stay_where_others_leave(as_it_is, growing, dynamics):
    free = fitted(as_it_is, growing, dynamics)
    with pytest.warns(UserWarning, match="leaves the data behind"):
        free.forecast(growing, 300)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fitted(as_it_is, growing, dynamics, stable=True)
    # One map misses two regimes by more than what growth adds; two maps do not.
    assert [str(w.message).startswith("stable: made stable") for w in said] == (
        [True] if dynamics != "linear" else []
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for modes in [None] + (["markov"] if dynamics != "linear" else []):
            ahead = np.stack(model.forecast(growing, 2000, modes=modes))
            assert np.isfinite(ahead).all()
    told = model.stability_
    assert told.norm > 1.02
    assert max(told.radius_before) > 1.02
    np.testing.assert_allclose(told.radius_before, free.spectral_radius_, rtol=1e-4)
    np.testing.assert_allclose(told.radius_after, model.spectral_radius_, rtol=1e-6)
    assert max(told.radius_after) <= 1 + 1e-5
    assert told.error_after > told.error_before
    assert told.cost == pytest.approx(told.error_after / told.error_before - 1)
    assert free.stability_ is None


def test_a_rotation_is_left_alone_and_says_so(as_it_is):
    data = simulate.lds(rng=np.random.default_rng(0), d=2, trials=20, steps=100, mixing="none",
                        noise=1e-3)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free, model = (fitted(as_it_is, data, "linear", stable=s) for s in (False, True))
    before, after = (m.dynamics_.matrix.detach().numpy() for m in (free, model))
    assert np.linalg.norm(after - before) < 2e-3 * np.linalg.norm(before)
    assert abs(model.stability_.cost) < 0.1
    assert model.spectral_radius_[0] <= 1 + 1e-6


def test_training_goes_on_with_what_it_had_learned(growing, weights, assert_equal, tmp_path):
    """A stable model that was stopped and resumed is the one that was not stopped, in every bit."""
    usual = {"n_modes": 2, "max_iter": 12, "batch_size": 64, "random_state": 0, "stable": True,
             "n_components": 2, "dynamics": "switching", "dynamics_learning_rate": 0.1}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = DCL(**usual).fit(growing)
        assert whole.stability_.norm > 1.001  # something was changed
        half = DCL(**usual)
        half.fit(growing, callback=lambda run, record: run.step >= 6)
        half.save(tmp_path)
        save_checkpoint(half.run_, tmp_path / "checkpoint")
        loaded = DCL.load(tmp_path)
        load_checkpoint(loaded.run_, tmp_path / "checkpoint")
        for model in (half, loaded):
            model.resume(growing)
            assert_equal(weights(model), weights(whole))
        assert loaded.stability_ == whole.stability_


def test_parameters_and_report_survive(as_it_is, growing, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DCL(2, "linear", stable=True, sampling_interval=0.1, max_iter=3).fit(growing)
    model.save(tmp_path)
    loaded = DCL.load(tmp_path)
    for same in (loaded, clone(model)):
        assert same.stable is True
        assert same.sampling_interval == 0.1
    assert loaded.stability_ == model.stability_
    assert loaded.run_.dynamics.stable
    np.testing.assert_array_equal(loaded.spectral_radius_, model.spectral_radius_)


def test_a_module_and_its_name_are_one_model(growing):
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dynamics in ({"dynamics": "linear", "stable": True},
                         {"dynamics": Linear(2, stable=True)}):  # fmt: skip
            made.append(tiny(2, max_iter=5, **dynamics).fit(growing))
    torch.testing.assert_close(*(m.dynamics_.matrix for m in made), rtol=0, atol=0)
    assert made[1].stability_ is not None


@pytest.fixture(scope="module")
def turning():
    """Rotations with noise that do not grow, in trials of 120 steps."""
    return simulate.lds(rng=np.random.default_rng(0), d=2, trials=20, steps=120, mixing="none",
                        noise=0.02, angle=10.0)  # fmt: skip


def as_told(as_it_is, data, growth, **changed):
    """A model whose dynamics is the best linear one of the data, made to grow by so much."""
    x = np.stack(data.split(data.observations))
    now, following = x[:, :-1].reshape(-1, 2), x[:, 1:].reshape(-1, 2)
    f = Linear(2, stable="auto")
    f.matrix.data = torch.from_numpy(growth * np.linalg.lstsq(now, following)[0].T).float()
    usual = {"encoder": as_it_is(2), "learning_rate": 1e-9, "dynamics_learning_rate": 1e-9}
    return tiny(2, f, **(usual | changed)).fit(data)


def test_held_out_data_choose_bounded_maps_where_trained_ones_run_off(as_it_is, turning, tmp_path):
    model = as_told(as_it_is, turning, 1.05)
    told = model.stability_
    assert not told.left
    assert max(told.radius_before) > 1.04
    assert model.spectral_radius_[0] <= 1 + 1e-6
    assert told.missed_after < told.missed_before
    assert str(told).startswith("made stable: the largest spectral radius was 1.0")
    assert "of held-out observations it misses" in str(told)
    model.save(tmp_path)
    loaded = DCL.load(tmp_path, encoder=as_it_is(2), dynamics=Linear(2, stable="auto"))
    assert loaded.stability_ == told


def test_held_out_data_choose_growth_where_the_data_grow(as_it_is):
    """One regime: where modes switch, a held one is wrong far ahead, and growth makes it worse."""
    x = np.random.default_rng(0).standard_normal((12, 2))
    turn = 1.04 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    data = list(np.stack([x @ np.linalg.matrix_power(turn.T, t) for t in range(40)], 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free, model = (
            fitted(as_it_is, data, "linear", stable=s, validation=0.4) for s in (False, "auto")
        )
    told = model.stability_
    assert told.left
    assert told.missed_after > told.missed_before
    assert told.cost == 0
    np.testing.assert_array_equal(model.spectral_radius_, free.spectral_radius_)
    assert str(told).startswith("left as it was trained: the largest spectral radius is 1.04")


def test_what_does_not_grow_or_cannot_be_judged_is_left_alone(as_it_is, turning):
    assert as_told(as_it_is, turning, 0.9).stability_.norm <= 1
    unjudged = as_told(as_it_is, turning, 1.05, validation=False)
    assert unjudged.stability_ is None
    assert unjudged.spectral_radius_[0] > 1.04


def test_driven_models_keep_their_input_map(as_it_is):
    rng = np.random.default_rng(0)
    u, x = rng.standard_normal((8, 60, 1)), np.zeros((8, 60, 2))
    A, B = 1.03 * np.array([[0.9, -0.43], [0.43, 0.9]]), np.array([[1.0], [0.5]])
    for t in range(59):
        x[:, t + 1] = x[:, t] @ A.T + u[:, t] @ B.T
    trials, drive = list(x.astype(np.float32)), list(u.astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual = {"encoder": as_it_is(2), "learning_rate": 1e-9, "dynamics_learning_rate": 1e-9,
                 "settings": {"refit_at_end": True}, "stable": True}  # fmt: skip
        model = tiny(2, **usual).fit(trials, u=drive)
    np.testing.assert_allclose(model.dynamics_.control.detach(), B, atol=1e-3)
    assert model.stability_.radius_before[0] == pytest.approx(1.03 * np.hypot(0.9, 0.43), abs=1e-3)
    assert model.spectral_radius_[0] <= 1 + 1e-6


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"dynamics": "mlp"}, "stable: got True, .* one of these names: linear, switching, tiles"),
        ({"similarity": "dot"}, "stable: got True, which has no effect here; .* the sphere"),
        ({"asymmetric": True}, "stable: got True, which has no effect here; .* one encoder"),
        ({"stable": "yes"}, "stable: got 'yes'; wanted True, False or \"auto\""),
        ({"stable": "auto", "similarity": "dot"}, "stable: got 'auto', which has no effect here"),
    ],
)
def test_what_cannot_be_kept_stable_is_refused(rotating, changed, match):
    with pytest.raises(InputError, match=match):
        tiny(3, **({"dynamics": "linear", "stable": True} | changed)).fit(rotating)


def test_the_report_is_one_sentence():
    alone = Stability(0.99, [0.98, 0.7], [0.98, 0.7], 1.0, 1.0)
    assert str(alone) == "stable as it was trained: the largest spectral radius is 0.9800"
    changed = Stability(1.2, [1.01, 0.7], [0.99, 0.7], 1.0, 1.034)
    assert str(changed) == ("made stable: the largest spectral radius was 1.0100 and is 0.9900; "
                            "the error of one step has changed by +3.4%")  # fmt: skip
