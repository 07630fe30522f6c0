"""Canonical variates: the best linear state of a window, without training."""

import numpy as np
import pytest

from dynacl import metrics, simulate
from dynacl.subspace import canonical_variates


def windows(series, lags):
    """Windows and the windows after them, side by side, and the rows that they end at."""
    lags = np.array(lags)
    past = int(lags.max())
    t = series.steps(1 + past, past)
    y = series.observations.astype(float)
    return (
        y[rows].reshape(len(t), -1) for rows in (t[:, None] - lags, t[:, None] + 1 + past - lags)
    ), t


def rank_deficient(rank, seed=1000):
    return simulate.lds(rng=np.random.default_rng(seed), d=6, rank=rank, mixing="linear",
                        observed=8, trials=40, steps=500)  # fmt: skip


def noisy_circle(rows, channels):
    rng = np.random.default_rng(0)
    t = np.arange(rows)
    state = np.stack([np.sin(t / 7), np.cos(t / 7)], axis=1)
    noise = rng.standard_normal((rows, channels))
    return state, state @ rng.standard_normal((2, channels)) + 0.5 * noise


@pytest.mark.parametrize(("rank", "lags"), [(3, range(0, 50, 10)), (2, range(0, 40, 4))])
def test_variates_reach_the_best_linear_map_and_show_the_dimension(rank, lags):
    series = rank_deficient(rank)
    (past, future), t = windows(series, lags)
    found = canonical_variates(past, future, 6)
    latents = series.truth.latents[t]
    ceiling = metrics.r2(latents, past)
    assert metrics.r2(latents, (past - found.mean) @ found.directions) > ceiling - 0.002
    assert found.correlations[5] > 0.8
    assert found.correlations[6] < 0.2


def test_correlations_are_those_of_a_closed_form():
    # y = x + ν with x' = a x + ε: the past and future of one frame correlate by a S / (S + N).
    rng, a, n = np.random.default_rng(0), 0.9, 400_000
    x = np.zeros(n)
    noise = rng.standard_normal(n) * np.sqrt(1 - a * a)
    for t in range(1, n):
        x[t] = a * x[t - 1] + noise[t]
    y = (x + 0.5 * rng.standard_normal(n))[:, None]
    found = canonical_variates(y[:-1], y[1:], 1)
    assert found.correlations[0] == pytest.approx(a / 1.25, abs=0.01)


def test_variates_do_not_depend_on_the_scale_or_mixing_of_channels():
    series = rank_deficient(3)
    (past, future), _ = windows(series, (0, 10, 20))
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((past.shape[1],) * 2) * np.logspace(-3, 3, past.shape[1])
    one, other = (canonical_variates(p, future, 6) for p in (past, past @ mix))
    np.testing.assert_allclose(one.correlations[:6], other.correlations[:6], atol=1e-4)
    x, z = (past - one.mean) @ one.directions, (past @ mix - other.mean) @ other.directions
    assert metrics.r2(x, z) > 0.999


def test_more_channels_than_samples_work():
    state, y = noisy_circle(200, 500)
    found = canonical_variates(y[:-1], y[1:], 2)
    assert np.isfinite(found.directions).all()
    assert metrics.r2(state[:-1], (y[:-1] - found.mean) @ found.directions) > 0.9


def test_constant_and_empty_directions_are_left_out():
    rng = np.random.default_rng(0)
    past = np.concatenate([rng.standard_normal((500, 2)), np.full((500, 3), 7.0)], axis=1)
    found = canonical_variates(past, np.roll(past, -1, axis=0), 4)
    assert np.isfinite(found.directions).all()
    assert found.directions.shape[1] <= 4


def test_correlations_of_few_rows_are_no_more_than_one_and_show_the_state():
    _, y = noisy_circle(400, 150)
    found = canonical_variates(y[:-1], y[1:], 2)
    assert found.correlations.max() <= 1
    assert found.correlations[1] > 2 * found.correlations[2]


def test_wide_windows_have_the_same_variates_as_narrow_ones(monkeypatch):
    _, y = noisy_circle(600, 200)
    whole = canonical_variates(y[:-1], y[1:], 2)
    monkeypatch.setattr("dynacl.subspace.WIDE", 50)
    first = canonical_variates(y[:-1], y[1:], 2)
    assert len(first.correlations) < len(whole.correlations) == 200
    np.testing.assert_allclose(
        first.correlations, whole.correlations[: len(first.correlations)], rtol=1e-6
    )
    x, z = ((y[:-1] - found.mean) @ found.directions for found in (whole, first))
    np.testing.assert_allclose(np.abs(x), np.abs(z), atol=1e-6)
