"""Forecasts: modes that are held, that move, or that are read; and roll-outs that diverge."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import InputError, TimeSeries, simulate
from dynacl.dynamics import BY_NAME
from dynacl.parameters import FORECASTS
from dynacl.settling import transition_matrix
from quick_models import small, tiny


@pytest.fixture(scope="module")
def switching():
    data = simulate.slds(
        rng=np.random.default_rng(1), d=2, modes=2, trials=20, steps=100, observed=6, layers=1,
        switch_probability=0.05,
    )  # fmt: skip
    return small(2, "switching", n_modes=2, max_iter=50, batch_size=64).fit(data), data


def test_transition_matrix_counts_moves_inside_trials():
    series = TimeSeries(np.zeros((9, 1), np.float32), np.array([0, 5, 9]))
    modes = np.array([0, 0, 1, 1, -1, 1, 1, 1, -1])
    # moves: 0→0, 0→1, 1→1 | 1→1, 1→1; and one more for staying
    expected = [[2 / 3, 1 / 3], [0, 1]]
    np.testing.assert_allclose(transition_matrix(modes, series, 2, 1), expected, rtol=1e-6)


def test_markov_forecast_is_the_mean_over_modes_that_move(switching):
    model, data = switching
    np.testing.assert_allclose(model.transitions_.sum(1), 1, rtol=1e-5)
    held = model.forecast(data, 3)[0]
    mean = model.forecast(data, 3, modes="markov")[0]
    x = model.transform(data)[0][-1].astype(float)
    p = np.eye(2)[model.modes(data)[0][-1]]
    W = model.dynamics_.matrices.detach().numpy().astype(float)
    still = x.copy()
    for j in range(3):
        p = p @ model.transitions_
        x = np.einsum("k,kij,j->i", p, W, x)
        still = W[model.modes(data)[0][-1]] @ still
        np.testing.assert_allclose(mean[j], x, rtol=1e-4)
        np.testing.assert_allclose(held[j], still, rtol=1e-4)
    assert np.abs(mean - held).max() > 0


def test_forecast_modes_must_fit_the_model(switching):
    model, data = switching
    with pytest.raises(InputError, match="'gated' does not fit SwitchingLinear"):
        model.forecast(data, 3, modes="gated")
    with pytest.raises(InputError, match="wanted one of hold, markov, gated"):
        model.forecast(data, 3, modes="guess")
    gated = small(2, "gated", n_modes=2, max_iter=5, batch_size=64).fit(data)
    default, named = gated.forecast(data, 3), gated.forecast(data, 3, modes="gated")
    np.testing.assert_array_equal(np.stack(default), np.stack(named))
    with pytest.raises(InputError, match="'markov' does not fit Gated"):
        gated.forecast(data, 3, modes="markov")


def test_diverging_forecast_warns_and_names_the_spectral_radius(switching):
    model, data = switching
    before = model.dynamics_.matrices.detach().clone()
    try:
        with torch.no_grad():
            model.dynamics_.matrices.copy_(1.5 * torch.eye(2).expand(2, 2, 2))
        np.testing.assert_allclose(model.spectral_radius_, [1.5, 1.5], rtol=1e-6)
        with pytest.warns(UserWarning, match=r"20 of 20 trials leaves .* 1.5000, 1.5000"):
            model.forecast(data, 30)
    finally:
        with torch.no_grad():
            model.dynamics_.matrices.copy_(before)


def test_forecast_from_rest_does_not_warn_where_the_fit_has_been(as_it_is):
    """x_{t+1} = 0.9 x_t + u_t, seen as it is; from nearly 0 the same input leads to its spread."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((400, 1)).astype(np.float32)
    y = np.zeros((401, 1), np.float32)
    for t in range(400):
        y[t + 1] = 0.9 * y[t] + u[t]
    model = tiny(1, encoder=as_it_is(1), standardize=False).fit(y[:-1], u=u)
    with torch.no_grad():
        model.dynamics_.matrix.fill_(0.9)
        model.dynamics_.control.fill_(1)
    rest, push = np.full((1, 1), 1e-3, np.float32), u[:50]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.forecast(rest, 50, u=push)
    with pytest.warns(UserWarning, match="leaves the data behind"):
        model.forecast(rest, 50, u=1000 * push)


# How the modes of each named dynamics can go on; the truth is that of a switching system.
GOES_ON = {
    "switching": {"hold", "markov"},
    "tiles": {"hold", "markov"},
    "truth": {"hold", "markov"},
    "gated": {"gated"},
}


@pytest.mark.parametrize("modes", FORECASTS)
@pytest.mark.parametrize("name", BY_NAME)
def test_forecast_refuses_ways_to_go_on_that_do_not_fit(two_modes, name, modes, short_descents):
    model = tiny(3, name, n_modes=2).fit(two_modes)
    if modes in GOES_ON.get(name, ()):
        ahead = np.stack(model.forecast(two_modes, 3, modes=modes))
        assert ahead.shape == (10, 3, 3)
        assert np.isfinite(ahead).all()
        default = np.stack(model.forecast(two_modes, 3))
        assert modes == "markov" or np.array_equal(ahead, default)
        return
    with pytest.raises(InputError, match=f"modes: '{modes}' does not fit {BY_NAME[name][1]}"):
        model.forecast(two_modes, 3, modes=modes)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.full((2, 1), 3.0))

    def forward(self, x, x_next=None, u=None):
        return x * self.matrix[:, 0]


def test_a_matrix_of_your_own_dynamics_is_not_taken_for_theirs(switching):
    _, data = switching
    model = small(2, Scaled(), max_iter=2, batch_size=16).fit(data)
    assert model.spectral_radius_ is None
    with pytest.warns(UserWarning, match="spectral radius: not known"):
        model.forecast(data, 30)


def test_forecast_rolls_the_last_mode_out(two_modes, switching_model, linear_model):
    y = two_modes.observations[:40]
    x, modes = switching_model.transform(y), switching_model.modes(y)
    W = switching_model.dynamics_.matrices.detach().numpy()[modes[-1]]
    expected = [np.linalg.matrix_power(W, n) @ x[-1] for n in (1, 2, 3)]
    np.testing.assert_allclose(switching_model.forecast(y, 3), expected, rtol=1e-4, atol=1e-5)
    A = linear_model.dynamics_.matrix.detach().numpy()
    expected = [np.linalg.matrix_power(A, n) @ linear_model.transform(y)[-1] for n in (1, 2, 3)]
    np.testing.assert_allclose(linear_model.forecast(y, 3), expected, rtol=1e-4, atol=1e-5)


def test_forecast_works_from_a_single_observation(two_modes, switching_model):
    assert switching_model.forecast(two_modes.observations[:1], 4).shape == (4, 3)
