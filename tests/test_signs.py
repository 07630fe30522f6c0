"""Signs of a bad fit: each warns, with what to try; good fits do not."""

import warnings

import numpy as np
import pytest
import torch

from dynacl import DCL, simulate

SHORT = {"max_iter": 100, "batch_size": 128, "random_state": 0}


def recording(frames=500, channels=40):
    """Noisy channels that share a slow linear state, without regimes."""
    rng = np.random.default_rng(0)
    decay = np.array([0.98, 0.95, 0.9])
    x = np.zeros((frames, 3))
    for t in range(1, frames):
        x[t] = decay * x[t - 1] + np.sqrt(1 - decay**2) * rng.standard_normal(3)
    y = x @ rng.standard_normal((3, channels)) + rng.standard_normal((frames, channels))
    return y.astype(np.float32)


def warned_of(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(w.message) for w in caught]


def test_modes_that_flip_warn_where_nothing_switches():
    y = recording()
    with pytest.warns(UserWarning, match='these are no regimes.*Try fewer n_modes, or dynamics="l'):
        DCL(3, "switching", 2, **SHORT).fit(y)
    assert warned_of(lambda: DCL(3, **SHORT).fit(y)) == []


def test_modes_that_last_do_not_warn():
    data = simulate.slds(rng=np.random.default_rng(1), d=3, modes=2, trials=20, steps=200,
                         observed=8, mixing="linear", angle=20.0,
                         switch_probability=0.01)  # fmt: skip
    assert warned_of(lambda: DCL(3, "switching", 2, **SHORT | {"max_iter": 300}).fit(data)) == []


def test_tiles_may_change_at_any_step():
    data = simulate.lds(rng=np.random.default_rng(0), d=2, trials=10, steps=100, observed=4)
    assert warned_of(lambda: DCL(2, "tiles", 10, **SHORT).fit(data)) == []


def test_a_collapsed_dimension_warns():
    data = simulate.lds(rng=np.random.default_rng(0), d=2, trials=10, steps=100, observed=4,
                        mixing="linear")  # fmt: skip
    encoder = torch.nn.Linear(4, 3)  # of observations that span two dimensions
    with pytest.warns(UserWarning, match="1 of the 3 latent dimensions collapsed.*fewer n_compon"):
        DCL(3, encoder=encoder, **SHORT | {"max_iter": 10}).fit(data)


def test_predictions_no_better_than_chance_warn():
    y = np.random.default_rng(0).standard_normal((3000, 4)).astype(np.float32)
    with pytest.warns(UserWarning, match="no better than chance.*Try time_lags"):
        DCL(2, **SHORT | {"max_iter": 20}).fit(y)


def test_a_fit_that_was_stopped_is_not_judged():
    y = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    said = warned_of(lambda: DCL(2, **SHORT).fit(y, callback=lambda run, record: run.step >= 5))
    assert not any("chance" in sentence for sentence in said)
