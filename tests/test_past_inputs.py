"""Past inputs in windows: what the encoder sees of them, and that storing them gains nothing."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, InputError, TimeSeries, assembly, metrics
from dynacl.dynamics.least_squares import linear_fit
from dynacl.judging import judge_for
from dynacl.objective.infonce import info_nce
from dynacl.persistence import load_checkpoint, save_checkpoint
from dynacl.request import Request
from dynacl.sampling import encoded_pairs, rows
from dynacl.training import training_step
from quick_models import small, tiny

LAGS = (0, 1, 3)


def driven(trials=5, steps=60, mean=0.0, noise=0.1, bend=False, seed=0):
    """Two states that turn, pushed by one input and seen through one output; the states."""
    rng = np.random.default_rng(seed)
    A, B = 0.97 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]]), [0.5, 1.0]
    x, u = np.zeros((trials, steps, 2)), rng.standard_normal((trials, steps, 1)) + mean
    for t in range(steps - 1):
        x[:, t + 1] = x[:, t] @ A.T + u[:, t] * B + noise * rng.standard_normal((trials, 2))
    y = np.arcsinh(x[:, :, :1]) if bend else x[:, :, :1]
    return TimeSeries.of(list(y), list(u)), x


def test_by_default_the_lags_of_inputs_are_those_of_observations_but_now():
    series, _ = driven()
    for asked, found in (
        ({"time_lags": LAGS}, (1, 3)),
        ({}, ()),
        ({"time_lags": LAGS, "control_lags": ()}, ()),
        ({"time_lags": LAGS, "control_lags": [2, 5.0]}, (2, 5)),
        ({"time_lags": LAGS, "asymmetric": True}, ()),
        ({"time_lags": LAGS, "similarity": "dot"}, ()),
        ({"time_lags": LAGS, "dynamics": "identity"}, ()),
        ({"time_lags": LAGS, "protocol": "paper-lds", "n_negatives": 16}, ()),
    ):
        model = tiny(2, **asked).fit(series)
        assert model.settings_.past_inputs == found
        assert [len(x) for x in model.transform(series)] == [60 - model.settings_.past] * 5
    free = TimeSeries(series.observations, series.bounds)
    assert tiny(2, time_lags=LAGS).fit(free).settings_.past_inputs == ()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"similarity": "dot"}, r"control_lags: got \(1,\); wanted \(\) with latents on a sphere"),
        ({"asymmetric": True}, r"control_lags: got \(1,\); wanted \(\) with asymmetric encoders"),
    ],
)
def test_where_past_inputs_have_no_place_they_are_refused(asked, said):
    series, _ = driven()
    with pytest.raises(InputError, match=said):
        tiny(2, control_lags=(1,), **asked).fit(series)


def test_without_a_control_input_there_is_none_to_look_back_at():
    series, _ = driven()
    with pytest.raises(InputError, match=r"control_lags: got \(1,\); wanted data with a control"):
        tiny(2, control_lags=(1,)).fit(series.observations)
    with pytest.raises(InputError, match=r"control_lags: got \(-1, 1\); wanted distinct whole"):
        tiny(2, control_lags=(-1, 1)).fit(series)


@pytest.mark.parametrize("of_inputs", [(1, 3), (0, 1, 3)])
def test_latents_are_h_of_observations_plus_a_linear_map_of_these_inputs(of_inputs):
    series, _ = driven()
    asked = {"time_lags": LAGS, "encoder": nn.Linear(3, 2), "standardize": False}
    model = tiny(2, control_lags=of_inputs, **asked).fit(series)
    h, C = model.run_.encoder.inner, model.encoder_.control.detach().numpy()
    assert np.abs(C).max() > 0
    for x, (a, b) in zip(model.transform(series), series.spans(), strict=True):
        t = np.arange(a + 3, b)
        y = series.observations[t[:, None] - np.array(LAGS), 0]
        u = series.control[t[:, None] - np.array(of_inputs), 0]
        with torch.no_grad():
            expected = h(torch.from_numpy(y)).numpy() + u @ C.T
        np.testing.assert_allclose(x, expected, atol=1e-5)


def test_a_latent_does_not_see_the_input_of_its_own_step():
    series, _ = driven()
    model = tiny(2, time_lags=LAGS).fit(series)
    u = np.array(series.control)
    u[30:60] += 1  # of the first trial
    one, two = model.transform(series)[0], model.transform(TimeSeries.of(series, u))[0]
    assert (one[: 31 - 3] == two[: 31 - 3]).all()  # up to and with step 30
    assert (one[31 - 3] != two[31 - 3]).any()


@pytest.mark.parametrize("of_inputs", [(1, 3), (0, 1, 3)])
def test_every_candidate_of_a_step_has_the_inputs_of_that_step(of_inputs):
    """The loss is that of negatives h(y_m) + C u(after), one set for each reference."""
    series, _ = driven()
    model = tiny(2, time_lags=LAGS, control_lags=of_inputs, n_negatives=20).fit(series)
    run, data = model.run_, rows(series, model.run_)
    with torch.no_grad():
        run.encoder.control.normal_(generator=torch.Generator().manual_seed(0))
    state, s = run.generator.get_state(), run.settings
    t = data.steps[torch.randint(len(data.steps), (s.batch_size,), generator=run.generator)]
    m = data.draw(s.n_negatives, run.generator)
    after = t + run.horizon
    with torch.no_grad():
        x = run.encoder.of_frames(data.window(t))
        for step in range(run.horizon):
            x = run.dynamics(x, None, data.u[t + step])
        following = run.encoder.of_frames(data.window(after))
        h = run.encoder.inner.of_frames(data.y[m[:, None] - data.lags].flatten(1))
        total = []
        for i in range(len(t)):
            negatives = h + run.encoder.added(data.inputs(after[i : i + 1]))
            total.append(info_nce(x[i : i + 1], following[i : i + 1], negatives).total)
    run.generator.set_state(state)
    assert float(training_step(run, data).total) == pytest.approx(float(torch.stack(total).mean()))


@pytest.mark.parametrize("of_inputs", [(1, 3), (0, 1, 3)])
def test_a_store_of_inputs_tells_no_positive_from_negatives(of_inputs):
    series, _ = driven()
    silent = nn.Linear(3, 2)
    nn.init.zeros_(silent.weight)
    asked = {"time_lags": LAGS, "control_lags": of_inputs, "encoder": silent, "max_iter": 1}
    model = tiny(2, **asked).fit(series)
    run = model.run_
    with torch.no_grad():
        for p in run.encoder.inner.parameters():
            p.zero_()
        run.encoder.control.normal_(generator=torch.Generator().manual_seed(0))
        run.dynamics.matrix.zero_()
        run.dynamics.control.copy_(run.encoder.control[:, :1] * 0)
    loss = training_step(run, rows(series, run))
    assert float(loss.total) >= math.log(run.n_negatives + 1) - 1e-4


@pytest.mark.parametrize("bend", [False, True])
def test_past_inputs_show_the_state_behind_one_output_and_latents_are_no_copy_of_them(bend):
    series, x = driven(trials=20, steps=500, bend=bend)
    truth = x[:, 3:].reshape(-1, 2)
    missed = []
    for lags in ((), None):
        model = small(2, time_lags=range(4), control_lags=lags, max_iter=300).fit(series)
        latents = np.concatenate(model.transform(series))
        missed.append(1 - metrics.r2(truth, latents))
    assert missed[1] < 0.3 * missed[0]
    t = series.with_past(3)
    past = series.control[t[:, None] - np.arange(1, 4), 0]
    assert metrics.r2(latents, past) < metrics.r2(truth, past) + 0.05


def test_inputs_that_are_not_zero_on_average_need_no_bias():
    series, _ = driven(trials=10, steps=400, mean=2.0, noise=0.0)
    model = DCL(2, time_lags=(0, 1, 2), random_state=0, max_iter=1, settings={"validation": 0.1})
    floor = model.fit(series).run_.floor
    assert math.exp(floor.figure) < 1e-3  # of the variance, 1 to several steps ahead


# -- everything else follows -------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    series, _ = driven()
    return tiny(2, time_lags=LAGS).fit(series), series


def test_u_is_taken_beside_x_and_missed_where_it_is_not(fitted):
    model, series = fitted
    y, u = (series.split(v) for v in (series.observations, series.control))
    for x, z in zip(model.transform(series), model.transform(y, u=u), strict=True):
        assert (x == z).all()
    assert len(model.transform(y[0], u=u[0], pad=True)) == 60
    assert len(model.predict(y[0], u=u[0])) == 57
    assert np.isfinite(model.score(y, u=u))
    for ask in (model.transform, model.predict, model.score):
        with pytest.raises(InputError, match="u: missing; this model was fitted with a control"):
            ask(y)
    with pytest.raises(InputError, match=r"X: the state to start from .* TimeSeries.of\(X, past_u"):
        model.forecast(y[0], 5, u=u[0][:5])
    past = TimeSeries.of(y[0], u[0])
    assert model.forecast(past, 5, u=u[0][:5])[0].shape == (5, 2)


def test_the_first_step_of_a_forecast_is_the_prediction_of_the_last_row(fitted):
    model, series = fitted
    y, u = series.observations[:50], series.control[:50]
    ahead = model.forecast(TimeSeries.of(y, u), 1, u=u[-1:])[0]
    np.testing.assert_allclose(ahead[0], model.predict(y, u=u)[-1], rtol=1e-5)


@pytest.mark.parametrize(
    "asked",
    [{}, {"encoder": nn.Linear(3, 2)}, {"standardize": False}, {"control_lags": (0, 2)}],
)
def test_a_saved_model_gives_the_same_latents(asked, tmp_path):
    series, _ = driven()
    model = tiny(2, time_lags=LAGS, **asked).fit(series)
    model.save(tmp_path)
    loaded = DCL.load(tmp_path, **{k: v for k, v in asked.items() if k == "encoder"})
    assert loaded.settings_.past_inputs == asked.get("control_lags", (1, 3))
    for x, z in zip(model.transform(series), loaded.transform(series), strict=True):
        assert (x == z).all()


@pytest.mark.parametrize("dynamics", ["linear", "switching", "recurrent", "polynomial"])
def test_a_resumed_run_equals_one_that_was_not_stopped(dynamics, tmp_path):
    series, _ = driven()
    asked = {"dynamics": dynamics, "n_modes": 2, "time_lags": LAGS, "max_iter": 8}
    whole = small(2, **asked, batch_size=32).fit(series)
    stopped = small(2, **asked, batch_size=32)
    stopped.fit(series, callback=lambda run, record: run.step == 4)
    save_checkpoint(stopped.run_, tmp_path / "checkpoint")
    stopped.save(tmp_path)
    again = DCL.load(tmp_path)
    load_checkpoint(again.run_, tmp_path / "checkpoint")
    again.resume(series)
    for x, z in zip(whole.transform(series), again.transform(series), strict=True):
        assert (x == z).all()


def test_hidden_modes_are_told_under_past_inputs():
    series, _ = driven()
    model = tiny(2, "switching", n_modes=2, time_lags=LAGS).fit(series)
    assert [len(k) for k in model.modes(series)] == [56] * 5
    density = tiny(2, time_lags=LAGS, density_correction="euclidean").fit(series)
    assert np.isfinite(density.history_[-1]["loss"])


def test_the_judge_looks_far_where_inputs_are_known_and_the_floor_takes_all_data():
    series, _ = driven(trials=1, steps=2000)
    whole = TimeSeries(series.observations, series.bounds)  # turns, so it loses its correlation
    model = tiny(2, time_lags=LAGS)
    long, _ = driven(trials=1, steps=6000)
    for data, least, most in ((series, 40, 70), (long, 100, 100), (whole, 2, 10)):
        run = assembly.begin(Request.of(model.get_params(deep=False)), data, 0)
        judge = judge_for(run, *assembly.held_out(run, data), data)
        assert least <= max(judge.horizons) <= most  # a quarter of what is held out, or 100
    run = assembly.begin(Request.of(model.get_params(deep=False)), series, 0)
    judge = judge_for(run, *assembly.held_out(run, series), series)
    judge.begin(run)
    run.restore(run.floor.weights)
    run.rest()
    with torch.no_grad():
        now, following, u = encoded_pairs(run, data := rows(series, run), data.steps)
    fit = linear_fit(now, following, u, bias=False)
    torch.testing.assert_close(run.dynamics.matrix.double(), fit["matrix"], atol=1e-4, rtol=0)
