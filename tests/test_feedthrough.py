"""Inputs that act on observations at once: predictions see them where held-out rows gain by it."""

import numpy as np
import pytest
import torch

from dynacl import DCL, TimeSeries, held_out_prediction, metrics
from dynacl.prediction import held_out

LAGS = (0, 1, 2, 3)


def driven(D, seed, trials=8, steps=300):
    """Two states that one input drives, and one output: y_t = C x_t + D u_t."""
    return simulated(D, seed, trials, steps)[0]


def simulated(D, seed, trials=8, steps=300):
    """The series, and its true states (trials, steps, 2)."""
    rng = np.random.default_rng(seed)
    A = 0.95 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    B, C = np.array([1.0, 0.3]), np.array([1.0, 0.5])
    u, x = rng.normal(size=(trials, steps)), np.zeros((trials, steps, 2))
    for t in range(steps - 1):
        noise = 0.02 * rng.normal(size=(trials, 2))
        x[:, t + 1] = x[:, t] @ A.T + u[:, t, None] * B + noise
    y = x @ C + D * u + 0.01 * rng.normal(size=u.shape)
    return TimeSeries.of(list(y[..., None]), list(u[..., None])), x


def fitted(D, **changed):
    usual = {"time_lags": LAGS, "max_iter": 20, "batch_size": 128, "random_state": 0}
    return DCL(2, "linear", **(usual | changed)).fit(driven(D, 0))


@pytest.fixture(scope="module")
def model():
    return fitted(2.0)


def blind(readout):
    """The same readout, which sees no inputs."""
    found = type(readout)(len(readout.shift), len(readout.centre))
    state = readout.state_dict()
    found.load_state_dict({k: v for k, v in state.items() if k in found.state_dict()})
    return found


def test_held_out_prediction_gains_where_there_is_feedthrough(model):
    assert model.readout_.sees_inputs
    assert model.readout_.feedthrough.item() == pytest.approx(2.0, abs=0.05)
    fresh = model._driven(driven(2.0, 1))
    seeing = held_out(model.run_, fresh, (1, 5, 20), beside=False).missed["model"]
    less = held_out(model.run_, fresh, (1, 5, 20), readout=blind(model.readout_), beside=False)
    assert (seeing < 0.95 * less.missed["model"]).all()
    # The input at its step is a third of the variance, and all that is missed one step ahead.
    assert less.missed["model"][0] > 0.25
    assert seeing[0] < 0.01
    beside = held_out_prediction(model, driven(2.0, 1), (1,)).missed
    assert beside["ARX"][0] < 0.01  # which sees the same


def test_without_feedthrough_nothing_changes():
    model = fitted(0.0)
    assert not model.readout_.sees_inputs
    assert not model.run_.arx.feedthrough
    assert {"expected", "feedthrough"}.isdisjoint(model.readout_.state_dict())


def test_saved_models_keep_it(model, tmp_path):
    model.save(tmp_path)
    loaded = DCL.load(tmp_path)
    assert loaded.readout_.sees_inputs
    assert loaded.run_.arx.feedthrough
    fresh = driven(2.0, 1)
    one, two = (held_out_prediction(m, fresh, (1, 5)) for m in (model, loaded))
    assert str(one) == str(two)


def test_forecasts_see_the_inputs_at_their_own_steps(model):
    whole = driven(2.0, 1)
    y, u = whole.split(whole.observations), whole.split(whole.control)
    past = TimeSeries.of([one[:200] for one in y], [one[:200] for one in u])
    ahead = [one[199:204] for one in u]  # from the last observed step to the fourth after it
    found = np.stack(model.forecast(past, 4, u=ahead, observations=True))
    true = np.stack([one[200:204] for one in y])
    assert np.square(found - true)[:, 0].mean() < 0.01 * true.var()
    x = torch.from_numpy(np.stack(model.forecast(past, 4, u=[one[:4] for one in ahead])))
    present = torch.from_numpy(np.stack(ahead)[:, 1:]).float()
    by_hand = model.readout_(x) + model.readout_.fed(x, present)
    np.testing.assert_allclose(found, by_hand.numpy(), atol=1e-5)
    with pytest.warns(UserWarning, match="the last row is held for step 4. Wanted 5 rows"):
        held = model.forecast(past, 4, u=[one[:4] for one in ahead], observations=True)
    np.testing.assert_array_equal(np.stack(held)[:, :3], found[:, :3])


def test_one_input_for_all_trials_may_have_the_last_step_too(model):
    whole = driven(2.0, 1)
    found = [model.forecast(whole, 3, u=u, observations=True)
             for u in (np.ones((4, 1)), np.ones((8 * 4, 1)), [np.ones((4, 1))] * 8)]  # fmt: skip
    for other in found[1:]:
        np.testing.assert_array_equal(np.stack(other), np.stack(found[0]))


def test_latents_of_whole_frames_still_tell_observations_exactly():
    """One output and one latent: the encoder is undone, and y_t is in the latent already."""
    data = driven(2.0, 0)
    model = DCL(1, "linear", max_iter=20, batch_size=128, random_state=0).fit(data)
    again = model.reconstruct(model.transform(data))
    np.testing.assert_allclose(np.concatenate(again), data.observations, atol=1e-2)
    assert model.readout_.sees_inputs  # predictions do not know u_{t+1}


def test_inputs_that_first_trials_do_not_tell_apart_are_told_by_later_ones():
    """Two inputs, the same but for a thousandth at first; only one of them acts at once."""
    whole = driven(2.0, 0, trials=24, steps=250)
    u = whole.control
    rng = np.random.default_rng(7)
    second = rng.normal(size=u.shape)
    second[:4_500] = u[:4_500] + 1e-3 * second[:4_500]  # 18 trials of 24
    data = TimeSeries(whole.observations, whole.bounds, np.hstack([u, second]).astype(np.float32))
    model = DCL(2, "linear", time_lags=LAGS, max_iter=20, batch_size=128, random_state=0).fit(data)
    assert model.readout_.sees_inputs
    one, other = model.readout_.feedthrough.ravel().tolist()
    assert one == pytest.approx(2.0, abs=0.05)
    assert other == pytest.approx(0.0, abs=0.05)


# -- the input of its own step, taken out of a latent ----------------------------------------------


@pytest.fixture(scope="module")
def bare():
    return fitted(2.0, control_lags=LAGS)


def missed_of_truth(model, seed=1):
    """Share of the true state that no affine map of the latents tells."""
    series, x = simulated(2.0, seed)
    latents = np.concatenate(model.transform(series))
    return 1 - metrics.r2(x[:, max(LAGS) :].reshape(-1, 2), latents)


def test_a_state_without_its_own_input_is_nearer_to_the_truth(model, bare):
    assert missed_of_truth(bare) < 0.5 * missed_of_truth(model)


def test_many_steps_ahead_predictions_miss_little_more_than_noise(model, bare):
    """Noise of 0.02 in both states, that adds up for ever, and of 0.01 in the output."""
    fresh = driven(2.0, 1)
    seeing, less = (
        held_out(m.run_, m._driven(fresh), (1, 5, 20), beside=False).missed["model"]
        for m in (bare, model)
    )
    noise = 0.02**2 * (1 + 0.5**2) / (1 - 0.95**2) + 0.01**2
    assert (seeing < 2 * noise / fresh.observations.var()).all()
    assert (seeing[1:] < 0.001 * less[1:]).all()


def test_a_latent_less_its_own_input_does_not_gain_by_inputs(bare):
    """What is left of u_t in x_t is chance: the two are independent in truth."""
    series = driven(2.0, 1)
    latents = np.concatenate(bare.transform(series))
    present = np.concatenate([u[max(LAGS) :] for u in series.split(series.control)])
    assert metrics.r2(latents, present) < 0.01
    blended = np.concatenate(fitted(2.0).transform(series))
    assert metrics.r2(blended, present) > 0.02


def test_inputs_far_from_zero_and_of_several_columns_are_taken_out_too():
    rng = np.random.default_rng(3)
    series, x = simulated(2.0, 0)
    second = rng.normal(size=series.control.shape) + 50
    u = np.hstack([100 * series.control - 30, second])
    y = series.observations + 0.5 * (second - 50)
    both = TimeSeries(y.astype(np.float32), series.bounds, u.astype(np.float32))
    model = DCL(2, "linear", time_lags=LAGS, control_lags=LAGS, max_iter=1, random_state=0)
    latents = np.concatenate(model.fit(both).transform(both))
    present = np.concatenate([v[max(LAGS) :] for v in both.split(both.control)])
    assert metrics.r2(x[:, max(LAGS) :].reshape(-1, 2), latents) > 0.97
    assert metrics.r2(latents, present) < 0.01


def test_a_single_frame_may_be_less_its_own_input():
    """A state that a frame shows whole, but for what the input adds: y = x + D u, two channels."""
    rng = np.random.default_rng(0)
    A = 0.95 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    u, x = rng.normal(size=(3000, 1)), np.zeros((3000, 2))
    for t in range(2999):
        x[t + 1] = A @ x[t] + u[t, 0] * np.array([1.0, 0.3]) + 0.02 * rng.normal(size=2)
    series = TimeSeries.of(x + u * np.array([1.0, -2.0]), u)
    for dynamics in ("linear", "flow"):
        asked = {"max_iter": 20, "batch_size": 128, "random_state": 0}
        model = DCL(2, dynamics, control_lags=(0,), **asked).fit(series)
        assert metrics.r2(x, np.concatenate(model.transform(series))) > 0.999
        assert np.isfinite(model.held_out_.figure())
