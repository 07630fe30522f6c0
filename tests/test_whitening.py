"""The scaling of the input: unit covariance, without the noise, with lags and without."""

import tracemalloc

import numpy as np
import torch

from dynacl import DCL, TimeSeries, metrics, simulate
from dynacl.whitening import (
    _components,
    _principal,
    _windows,
    covariance,
    row_products,
    sums_of_rows,
    whitening,
)


def test_standardised_input_has_mean_0_and_unit_covariance(trials, small):
    model = small(standardize=True, max_iter=1, settings={"validation": 0.0}).fit(trials)
    y = torch.from_numpy(trials.observations)
    z = model.encoder_.whitening(y)
    assert z.shape[1] == 3  # 8 observed dimensions hold 3 latent ones, the rest is nothing
    torch.testing.assert_close(z.mean(0), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(torch.cov(z.T), torch.eye(3), atol=1e-2, rtol=0)


def test_whitening_leaves_out_noise_and_only_noise(turning):
    t = np.arange(1999)
    x, rng = turning(), np.random.default_rng(1)
    noise = rng.standard_normal((2000, 30))

    def both(y):
        y = y.astype(np.float32)
        return whitening(y).frame, whitening(y, pairs=(t, t + 1)).frame

    plain, found = both(np.c_[x, 2 * noise])  # noise as large as the signal, and larger
    assert (plain.shape[1], found.shape[1]) == (32, 2)
    seen = torch.from_numpy(np.c_[x, 2 * noise]).float() @ found
    assert metrics.r2(x, seen.numpy()) > 0.95
    torch.testing.assert_close(seen.std(0), torch.ones(2), atol=0.05, rtol=0)
    assert torch.equal(*both(np.c_[x, 0.01 * x[:, :1] ** 2]))  # all of it follows
    assert torch.equal(*both(noise))  # none of it does: there is nothing to tell apart
    mixed = np.c_[x, 0.5 * noise[:, :2]].astype(np.float32)
    assert whitening(mixed, pairs=(t, t + 1), n_signals=1).n_outputs == 2
    assert whitening(mixed, pairs=(t, t + 1), n_signals=2).n_outputs == 4  # no room for noise


def test_a_component_counts_by_how_well_it_follows_with_lags_too():
    rng, n = np.random.default_rng(2), 20_000
    t, follow = np.arange(n - 1), np.array([0.99, 0.9, 0.7, 0.5, *[0.0] * 6])
    y = np.zeros((n, 10))
    for i in range(1, n):
        y[i] = follow * y[i - 1] + np.sqrt(1 - follow**2) * rng.standard_normal(10)
    y *= 2.0 ** -np.arange(10)  # so that principal components are the channels
    y = y[:, ::-1].astype(np.float32).copy()
    found = whitening(y, pairs=(t, t + 1))
    weight = found(torch.from_numpy(y)).std(0).numpy()[::-1]
    np.testing.assert_allclose(weight, (follow**2 / follow[0] ** 2)[:4], atol=0.03)
    assert found.order.tolist() == [0, 1, 2, 3]
    windows = np.arange(2, n)[:, None] - np.arange(3)
    lagged = whitening(y, windows, (t, t + 1))
    assert lagged.window is None  # whitening them again would undo the weights
    assert lagged.n_outputs == 12
    assert lagged.order.tolist() == [0, 1, 2, 3]  # of the first frame
    assert whitening(y, windows).window is not None
    fewer = np.delete(y, [6, 7], axis=1)  # two that follow, and six of noise
    assert whitening(fewer, pairs=(t, t + 1)).n_outputs == 2
    assert whitening(fewer, pairs=(t, t + 1), n_signals=3).n_outputs == 3  # as many as latents
    assert whitening(y[:60], pairs=(t[:59], t[:59] + 1)).n_outputs <= 14


def test_whitening_takes_any_shape_in_front():
    y = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    scaling = whitening(y)
    rows = torch.from_numpy(y[:6])
    expected = scaling(rows)
    torch.testing.assert_close(scaling(rows[0]), expected[0])
    torch.testing.assert_close(scaling(rows.view(2, 3, 4)), expected.view(2, 3, 4))
    assert scaling(rows[:0]).shape == (0, 4)


def test_noise_of_many_channels_does_not_reach_the_encoder(monkeypatch):
    system = {"d": 2, "angle": 10, "noise": 0.05, "observed": 40, "layers": 2,
              "observation_noise": 0.1, "trials": 30, "steps": 100}  # fmt: skip
    data = simulate.lds(rng=np.random.default_rng(3), **system)
    fresh = simulate.again(data, rng=np.random.default_rng(9))

    def fitted():
        # From random weights: a linear start finds the signal among the noise by itself.
        asked = {"max_iter": 300, "batch_size": 256, "settings": {"linear_start": False}}
        model = DCL(2, random_state=0, **asked).fit(data)
        x = model.transform(fresh.observations)
        return model.encoder_.whitening.n_outputs, metrics.r2(fresh.truth.latents, x)

    width, r2 = fitted()
    monkeypatch.setattr("dynacl.assembly.whitening", lambda y, windows, *_: whitening(y, windows))
    plain_width, plain_r2 = fitted()
    assert (width, plain_width) == (2, 40)
    assert r2 > plain_r2 + 0.02
    driven = TimeSeries.of(data.observations, np.ones((len(data), 1)), trial_length=100)
    monkeypatch.undo()
    model = DCL(2, max_iter=1, random_state=0).fit(driven)
    assert model.encoder_.whitening.n_outputs == 40  # what an input does is no noise


def test_frames_alone_are_whitened_where_windows_are_few(small):
    data = simulate.lds(rng=np.random.default_rng(1), d=3, trials=3, steps=60, observed=8, layers=2)
    lagged = small(dynamics="linear", time_lags=(0, 1, 2, 3, 4, 5, 6), max_iter=1).fit(data)
    assert lagged.encoder_.whitening.window is None
    assert lagged.encoder_.whitening.n_outputs == 7 * 3
    y = torch.from_numpy(data.observations[[6, 5, 4, 3, 2, 1, 0]])
    frames = (y - y.new_tensor(data.observations.mean(0))) @ lagged.encoder_.whitening.frame
    torch.testing.assert_close(
        lagged.encoder_.whitening(y.reshape(1, -1))[0], frames.flatten(), atol=1e-3, rtol=1e-3
    )


def test_constant_feature_does_not_break_standardisation():
    y = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    y[:, 1] = 4.0
    model = DCL(2, max_iter=2, random_state=0).fit(TimeSeries.of(y))
    assert np.isfinite(model.transform(y)).all()


def test_more_columns_than_rows_are_whitened_as_by_their_covariance():
    """The way by products of rows against that by products of columns, up to signs."""
    y = np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32)
    mean = y.mean(0, dtype=np.float64)
    by_rows = _components(y, mean, 20)
    by_columns = _principal(covariance(y, mean), 1e-8, 20)
    assert by_rows.shape == by_columns.shape == (60, 20)
    agreement = np.linalg.inv(by_columns.T @ by_columns) @ by_columns.T @ by_rows
    np.testing.assert_allclose(np.abs(agreement), np.eye(20), atol=1e-8)


def test_wide_rows_are_multiplied_in_parts_as_at_once(monkeypatch):
    """Never a copy of all in double precision: 10,000 columns would take gigabytes."""
    rng = np.random.default_rng(0)
    y, weights = rng.standard_normal((40, 6000)).astype(np.float32), rng.standard_normal((40, 3))
    rows, frame = rng.integers(40, size=(30, 2)), rng.standard_normal((6000, 2))
    mean = y.mean(0, dtype=np.float64)
    centred = y - mean
    monkeypatch.setattr("dynacl.whitening.NUMBERS", 1 << 14)
    tracemalloc.start()
    found = [row_products(y, mean), sums_of_rows(y, mean, weights), _windows(y, mean, frame, rows)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < centred.nbytes / 2
    wanted = [centred @ centred.T, centred.T @ weights, (centred @ frame)[rows].reshape(30, 4)]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9 * np.abs(b).max())
