"""Time lags: windows, what they show of a state, and what they recover."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import InputError, TimeSeries, evaluate, simulate
from dynacl.whitening import observed_dimensions, whitening
from quick_models import small, tiny


class Remember(nn.Module):
    """An encoder that keeps the windows it saw; row t of the data holds t."""

    def __init__(self, width):
        super().__init__()
        self.map = nn.Linear(width, 2)
        self.seen = []

    def forward(self, y):
        self.seen.append(y.detach().clone())
        return self.map(y / 1000)

    def __deepcopy__(self, memo):
        return self


def test_windows_hold_the_lags_and_never_cross_a_trial():
    lengths = [30, 9, 50]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(bounds[-1], dtype=np.float32)[:, None]
    series, lags = TimeSeries(rows, bounds), (0, 2, 5)
    encoder = Remember(3)
    model = small(2, encoder=encoder, time_lags=lags, max_iter=30, batch_size=64).fit(series)
    trial = np.repeat(np.arange(3), lengths)
    seen = torch.cat(encoder.seen).numpy().astype(int)
    np.testing.assert_array_equal(seen[:, [0]] - seen, np.tile(lags, (len(seen), 1)))
    assert (trial[seen[:, 0]] == trial[seen[:, 2]]).all()
    assert set(range(5, 26)) <= set(seen[:, 0])  # and all that can be used are
    encoder.seen.clear()
    out = model.transform(series)
    assert [len(x) for x in out] == [25, 4, 45]
    seen = torch.cat(encoder.seen).numpy().astype(int)
    np.testing.assert_array_equal(seen[:, 0], np.r_[5:30, 35:39, 44:89])
    assert [len(x) for x in model.transform(series, pad=True)] == lengths
    assert [len(x) for x in model.predict(series)] == [25, 4, 45]
    with pytest.raises(InputError, match="reach 5 steps back"):
        model.transform(rows[:5])


def test_a_single_lag_is_a_lag_too(rotating):
    model = tiny(3, time_lags=(2,)).fit(rotating)
    for x, y in zip(model.transform(rotating), rotating.split(rotating.observations), strict=True):
        with torch.no_grad():
            expected = model.encoder_(torch.from_numpy(y[:-2].copy())).numpy()
        np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "steps", "max_iter"), [("linear", 100, 200), ("mlp", 300, 600)])
def test_lags_recover_what_a_low_rank_mixing_hides(kind, steps, max_iter):
    data = simulate.lds(
        rng=np.random.default_rng(1), d=4, angle=10, noise=1e-3, trials=60, steps=steps, rank=2,
        mixing=kind, observed=20, layers=2,
    )  # fmt: skip
    blind = small(4, time_lags=(0,), max_iter=max_iter)
    if kind == "linear":
        with pytest.warns(UserWarning, match="span 2 dimensions, fewer than the 4 latents"):
            blind.fit(data)
    else:
        blind.fit(data)
    seeing = small(4, time_lags=range(0, 12, 2), max_iter=max_iter).fit(data)
    r2 = {name: evaluate(m, data)["r2"] for name, m in (("blind", blind), ("seeing", seeing))}
    assert r2["seeing"] > 0.9
    assert r2["blind"] < r2["seeing"] - 0.15


@pytest.mark.parametrize(("rank", "lags"), [(1, 9), (2, 6), (3, 4)])
def test_enough_consecutive_lags_see_six_latents_behind_a_mixing_of_low_rank(rank, lags):
    """Each lag shows `rank` numbers of the state: six take 6 / rank of them, and more help."""
    data = simulate.lds(
        rng=np.random.default_rng(1), d=6, angle=40, noise=0.01, trials=100, steps=60, rank=rank,
        mixing="linear", observed=6,
    )  # fmt: skip

    def recovered(k, steps):
        """Whitened windows and a linear map: they are wider than the state, so it must be found."""
        windows = data.with_past(k - 1)[:, None] - np.arange(k)
        scaling = whitening(data.observations, windows)
        torch.manual_seed(0)
        encoder = nn.Sequential(scaling, nn.Linear(scaling.n_outputs, 6))
        model = small(
            6, encoder=encoder, time_lags=range(k), max_iter=steps, batch_size=256,
            dynamics_learning_rate=0.04, settings={"emphasis": 0.0},
        ).fit(data)  # fmt: skip
        return scaling.n_outputs, evaluate(model, data)["r2"]

    width, r2 = recovered(lags, 600)
    assert width == lags * rank > 6
    assert r2 > 0.97
    few = 6 // rank - 1
    width, r2 = recovered(few, 50)
    assert width == few * rank < 6
    assert r2 < width / 6 + 0.05  # of six alike latents it can explain as many

    with pytest.warns(UserWarning, match=f"span {few * rank} dimensions, fewer than the 6 latents"):
        small(6, time_lags=range(few), max_iter=1).fit(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(6, time_lags=range(lags), max_iter=1).fit(data)


def planes(seen, noise=0.01):
    """Three planes that turn at three speeds, and a mixing C of rank 2 that sees some of them."""
    rng = np.random.default_rng(0)
    A = np.zeros((6, 6))
    for i, turn in enumerate((0.3, 0.7, 1.2)):
        A[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [
            [np.cos(turn), -np.sin(turn)],
            [np.sin(turn), np.cos(turn)],
        ]
    C = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 6)) * np.repeat(seen, 2)
    x = np.empty((60, 100, 6))
    x[:, 0] = rng.standard_normal((60, 6))
    for t in range(99):
        x[:, t + 1] = x[:, t] @ A.T + noise * rng.standard_normal((60, 6))
    stacked = np.concatenate([C @ np.linalg.matrix_power(A, -k) for k in range(5)])
    return list((x @ C.T).astype(np.float32)), int(np.linalg.matrix_rank(stacked))


@pytest.mark.parametrize("seen", [(1, 1, 1), (1, 1, 0), (0, 1, 0)])
def test_windows_that_span_enough_but_miss_a_part_of_the_state_are_told(seen):
    """Five lags of rank 2 span ten dimensions, most of them noise; the rank of O is another."""
    trials, rank = planes(seen)
    assert rank == 2 * sum(seen)
    series = TimeSeries.of(trials)
    t, lags = series.steps(5, 4)[:, None], np.arange(5)
    y = series.observations
    scaling = whitening(y)
    assert observed_dimensions(scaling, y, t - lags, t + 1 + lags) == rank
    assert observed_dimensions(scaling, y, (t - lags)[:50], (t + 1 + lags)[:50]) is None

    lagged = {"time_lags": range(5), "max_iter": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(rank, **lagged).fit(trials)
    if rank < 6:
        with pytest.warns(UserWarning, match=f"show {rank} dimensions .* fewer than the 6 latents"):
            small(6, **lagged).fit(trials)
