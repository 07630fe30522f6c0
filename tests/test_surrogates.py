"""Surrogates keep what they say they keep, and lose the rest."""

import numpy as np
import pytest

from dynacl import TimeSeries, simulate
from dynacl.surrogates import phase_randomised, shifted, shifted_control, shuffled


@pytest.fixture(scope="module")
def driven():
    return simulate.controlled(rng=np.random.default_rng(0), d=2, trials=6, steps=101, observed=3)


def spectra(x, y):
    """Cross-spectrum of each pair of columns."""
    return np.fft.rfft(x, axis=0)[:, :, None].conj() * np.fft.rfft(y, axis=0)[:, None, :]


@pytest.mark.parametrize("steps", [100, 101])
def test_random_phases_keep_means_spectra_and_cross_spectra(steps):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((steps, 3)).cumsum(0) @ rng.standard_normal((3, 3)) + 7
    series = TimeSeries.of([x, x[::-1] * 2])
    made = phase_randomised(series, np.random.default_rng(1))
    for old, new in zip(series.split(series.observations), made.split(made.observations),
                        strict=True):  # fmt: skip
        before, after = spectra(old, old), spectra(new, new)
        np.testing.assert_allclose(after, before, rtol=2e-3, atol=1e-4 * np.abs(before).max())
        np.testing.assert_allclose(new.mean(0), old.mean(0), rtol=1e-4)
        assert np.abs(new - old).max() > 0.1 * old.std()


def test_random_phases_keep_how_inputs_drive_what_is_linear(driven):
    """Circular convolutions of inputs and outputs stay: the same phases turn both."""
    made = phase_randomised(driven, np.random.default_rng(1))
    for i, (a, b) in enumerate(driven.spans()):
        before = spectra(driven.control[a:b], driven.observations[a:b])
        after = spectra(made.control[a:b], made.observations[a:b])
        np.testing.assert_allclose(after, before, atol=1e-3 * np.abs(before).max(), err_msg=str(i))


def test_random_phases_lose_what_is_not_linear():
    """Skewed increments of a relaxing walk: the third moment goes, the variance stays."""
    rng, x = np.random.default_rng(0), np.zeros((4000, 1))
    for t in range(1, len(x)):
        x[t] = 0.5 * x[t - 1] + rng.exponential() - 1
    made = phase_randomised(TimeSeries.of(x), np.random.default_rng(1)).observations
    skew = [float((((z - z.mean()) / z.std()) ** 3).mean()) for z in (x, made)]
    assert skew[0] > 1
    assert abs(skew[1]) < 0.3
    assert made.std() == pytest.approx(x.std(), rel=1e-3)


def test_shuffling_keeps_the_rows_over_all_trials_and_nothing_of_their_order(driven):
    made = shuffled(driven, np.random.default_rng(0))
    rows = [sorted(map(tuple, s.observations.tolist())) for s in (driven, made)]
    assert rows[0] == rows[1]
    np.testing.assert_array_equal(made.bounds, driven.bounds)
    np.testing.assert_array_equal(made.control, driven.control)
    y = made.observations - made.observations.mean(0)
    after = (y[1:] * y[:-1]).mean(0) / y.var(0)
    assert np.abs(after).max() < 4 / np.sqrt(len(y))
    first = made.observations[: made.bounds[1]]
    known = {tuple(row) for row in driven.observations[: driven.bounds[1]].tolist()}
    assert len(known & {tuple(row) for row in first.tolist()}) < 50  # of 101: over all trials


def test_shifts_turn_each_trial_in_a_circle_and_never_stand_still():
    values, bounds = np.arange(26), np.array([0, 20, 25, 26])
    for seed in range(30):
        made = shifted(values, bounds, np.random.default_rng(seed))
        for a, b, least in ((0, 20, 2), (20, 25, 1)):
            by = (made[a] - a) % (b - a)
            assert least <= by <= b - a - least
            np.testing.assert_array_equal(made[a:b], a + (np.arange(b - a) + by) % (b - a))


def test_a_shifted_control_leaves_the_observations(driven):
    made = shifted_control(driven, np.random.default_rng(0))
    np.testing.assert_array_equal(made.observations, driven.observations)
    assert not np.array_equal(made.control, driven.control)


@pytest.mark.parametrize("make", [shuffled, phase_randomised, shifted_control])
def test_surrogates_carry_nothing_that_is_of_other_data(driven, make):
    made = make(driven, np.random.default_rng(0))
    assert driven.truth is not None
    assert made.truth is None
    assert made.labels == {}
    assert make(driven, np.random.default_rng(0)).fingerprint() == made.fingerprint()
