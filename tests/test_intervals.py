"""Observations to come, and intervals that hold as many of them as they say."""

import warnings

import numpy as np
import pytest
import torch

from dynacl import DCL, InputError, TimeSeries, simulate
from dynacl.forecasting import Forecast
from dynacl.intervals import Errors


@pytest.fixture(scope="module")
def system():
    return simulate.lds(rng=np.random.default_rng(0), d=3, trials=80, steps=60, observed=6,
                        mixing="linear", angle=10.0, noise=0.05)  # fmt: skip


@pytest.fixture(scope="module")
def model(system):
    return DCL(3, max_iter=60, batch_size=128, validation=0.4, random_state=0).fit(system)


@pytest.fixture(scope="module")
def fresh(system):
    return simulate.again(system, rng=np.random.default_rng(1), trials=300)


def cut(series, steps):
    """The past of each trial, and the steps that follow it."""
    trials = series.split(series.given())
    return [y[:-steps] for y in trials], np.stack([y[-steps:] for y in trials])


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_hold_as_many_new_observations_as_they_say(model, fresh, coverage):
    past, future = cut(fresh, 12)
    found = model.forecast(past, 12, observations=True, interval=coverage)
    inside = (np.stack(found.lower) <= future) & (future <= np.stack(found.upper))
    # 32 trials were held out, so the share is known to a few hundredths: at each step, and for
    # each channel over all steps.
    np.testing.assert_allclose(inside.mean((0, 2)), coverage, atol=0.08)
    np.testing.assert_allclose(inside.mean((0, 1)), coverage, atol=0.08)
    assert inside.mean() == pytest.approx(coverage, abs=0.04)


def test_intervals_of_a_random_walk_widen_as_the_root_of_its_steps():
    """Theory: after h steps of variance σ² the error is Gaussian with variance hσ²."""
    walk = np.random.default_rng(0).normal(0, 0.1, (4000, 40, 1)).cumsum(1)
    horizons = np.arange(1, 31)
    found = Errors.of(horizons, walk[:, horizons - 1] - 0.0)
    lower, upper = found.around(np.zeros((30, 1)), 0.9)
    wanted = 1.645 * 0.1 * np.sqrt(horizons)
    np.testing.assert_allclose(upper[:, 0], wanted, rtol=0.08)
    np.testing.assert_allclose(lower[:, 0], -wanted, rtol=0.08)


def test_few_errors_give_the_ends_of_what_was_seen_and_cautious_ranks():
    """Of 9 errors 1 to 9, a tenth of those to come lies below 1 and a tenth above 9."""
    found = Errors.of(np.array([1]), np.arange(1.0, 10)[:, None, None])
    lower, upper = found.around(np.zeros((1, 1)), 0.8)
    assert (lower[0, 0], upper[0, 0]) == (1, 9)
    lower, upper = found.around(np.zeros((1, 1)), 0.6)
    assert (lower[0, 0], upper[0, 0]) == (2, 8)


def test_steps_between_those_that_are_kept_are_interpolated_and_those_beyond_unknown():
    errors = np.linspace(-1, 1, 999)[:, None, None] * np.array([1.0, 3.0])[:, None]
    found = Errors.of(np.array([1, 3]), errors)
    with pytest.warns(UserWarning, match="up to 3 steps ahead; there is none for the steps from 4"):
        found.check(0.9, 4)
    _, upper = found.around(np.zeros((4, 1)), 0.9)
    _, later = found.around(np.zeros((2, 1)), 0.9, before=2)
    np.testing.assert_array_equal(later, upper[2:])
    np.testing.assert_allclose(upper[:3, 0], [0.9, 1.8, 2.7], rtol=0.01)
    assert np.isnan(upper[3, 0])


def test_observations_are_the_readout_of_the_latents_to_come(model, fresh):
    past, _ = cut(fresh.select([0, 1]), 5)
    states = model.forecast(past, 5)
    found = model.forecast(past, 5, observations=True)
    by_readout = model.readout_(torch.from_numpy(np.stack(states))).numpy()
    np.testing.assert_allclose(np.stack(found), by_readout, atol=1e-2)
    for z, y in zip(states, found, strict=True):  # and exact: their latents are those forecast
        np.testing.assert_allclose(model.transform(y), z, atol=1e-3)
    for z, y in zip(states, found, strict=True):
        np.testing.assert_allclose(model.reconstruct(z), y, rtol=1e-5, atol=1e-6)
    band = model.forecast(past, 5, observations=True, interval=0.9)
    assert isinstance(band, Forecast)
    np.testing.assert_array_equal(band.observations, found)
    assert (np.stack(band.lower) < np.stack(band.upper)).all()


def test_reconstruction_explains_what_is_not_noise(model, fresh):
    found = model.reconstruct(model.transform(fresh))
    missed = np.square(np.concatenate(found) - fresh.observations).mean()
    assert missed < 0.01 * fresh.observations.var(0).mean()  # linear mixing of all latents
    by_name = model.reconstruct({"a": np.zeros((4, 3)), "b": np.ones((2, 3))})
    assert [x.shape for x in by_name.values()] == [(4, 6), (2, 6)]


def test_latents_that_cannot_be_written_to_are_read_without_a_word(model, fresh):
    """As data frames hand them out."""
    z = np.concatenate(model.transform(fresh))
    expected = model.reconstruct(z)
    z.setflags(write=False)
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(model.reconstruct(z), expected)
    finally:
        torch.set_warn_always(always)


def test_observations_come_in_the_units_that_they_were_given_in(fresh):
    """A channel around 1e7, in which float32 has no digits left."""
    y = [x.astype(float) * 0.1 + 1e7 for x in fresh.split(fresh.observations)[:40]]
    model = DCL(3, max_iter=20, batch_size=128, random_state=0).fit(y)
    found = model.forecast(y[:2], 3, observations=True, interval=0.8)
    for i, part in enumerate(found):
        assert np.abs(np.stack(part) - 1e7).max() < 2, i
    assert np.abs(np.stack(found.observations) - 1e7).max() > 0.01
    assert np.abs(model.reconstruct(model.transform(y[0])) - y[0]).max() < 0.2


def test_intervals_are_saved_with_the_model(model, fresh, tmp_path):
    model.save(tmp_path)
    past, _ = cut(fresh.select([0]), 5)
    before, after = (
        m.forecast(past[0], 5, observations=True, interval=0.9) for m in (model, DCL.load(tmp_path))
    )
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_model_that_held_nothing_out_has_no_intervals(system):
    bare = DCL(3, max_iter=3, batch_size=64, validation=False, random_state=0).fit(system)
    assert len(bare.forecast(system, 2, observations=True)) == 80
    with pytest.raises(InputError, match="interval: this model has no errors on held-out data"):
        bare.forecast(system, 2, observations=True, interval=0.9)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"interval": 0.9}, "interval: is of observations; wanted observations=True"),
        ({"observations": True, "interval": 1}, "interval: got 1; wanted the share"),
        ({"observations": True, "interval": 0.0}, "interval: got 0.0; wanted the share"),
        ({"observations": True, "interval": "wide"}, "interval: got 'wide'; wanted the share"),
    ],
)
def test_intervals_that_cannot_be_are_named(model, fresh, asked, said):
    with pytest.raises(InputError, match=said):
        model.forecast(fresh.select([0]), 2, **asked)


def test_latents_of_another_model_are_named(model):
    with pytest.raises(InputError, match="Z: has 2 columns; wanted 3"):
        model.reconstruct(np.zeros((4, 2)))
    with pytest.raises(InputError, match="Z: got shape"):
        model.reconstruct(np.zeros(3))


def test_driven_forecasts_give_observations_too():
    driven = simulate.controlled(rng=np.random.default_rng(0), d=2, trials=30, steps=60,
                                 observed=4, mixing="linear")  # fmt: skip
    model = DCL(2, max_iter=20, batch_size=64, random_state=0).fit(driven)
    trials = zip(driven.split(driven.observations), driven.split(driven.control), strict=True)
    pasts, ahead, true = [], [], []
    for y, u in trials:
        pasts.append(y[:50])
        ahead.append(u[49:59])
        true.append(y[50:])
    past = TimeSeries.of(pasts, [u[:50] for u in driven.split(driven.control)])
    found = model.forecast(past, 10, u=ahead, observations=True, interval=0.9)
    inside = (np.stack(found.lower) <= true) & (true <= np.stack(found.upper))
    assert inside.mean() > 0.8


def test_observations_to_come_of_a_data_frame_have_its_columns(system):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(system.observations[:600], columns=list("abcdef"))
    model = DCL(3, max_iter=3, batch_size=64, random_state=0).fit(frame)
    found = model.forecast(frame, 2, observations=True)
    assert list(found.columns) == list("abcdef")
    plain = model.forecast(frame.to_numpy(), 2, observations=True)
    np.testing.assert_array_equal(found.to_numpy(), plain)
