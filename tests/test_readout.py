"""The readout: latents to observations, able to bend, fitted in closed form."""

import pytest
import torch

from dynacl.readout import Readout


def fitted(x, y, seed=0):
    return Readout(x.shape[1], y.shape[1]).fit(x, y, torch.Generator().manual_seed(seed))


def r2(y, predicted):
    return 1 - (y - predicted).square().sum() / (y - y.mean(0)).square().sum()


@pytest.fixture
def states():
    return 5 + 30 * torch.randn(6000, 2, generator=torch.Generator().manual_seed(0))


def test_a_linear_readout_is_recovered_exactly(states):
    y = states @ torch.tensor([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0]]) + torch.tensor([1.0, -4.0, 1e3])
    readout = fitted(states[:3000], y[:3000])
    assert r2(y[3000:], readout(states[3000:])) > 0.99999


def test_it_bends_where_a_linear_map_cannot(states):
    z = (states - 5) / 30
    y = torch.stack([z[:, 0] * z[:, 1], z[:, 0].square(), z[:, 1].sin()], dim=1)
    readout = fitted(states[:3000], y[:3000])
    assert r2(y[3000:], readout(states[3000:])) > 0.98


def test_noise_is_not_learned_by_heart(states):
    y = torch.randn(400, 5, generator=torch.Generator().manual_seed(1))
    readout = fitted(states[:200], y[:200])
    assert r2(y[200:], readout(states[200:400])) > -0.1


def test_constant_latents_and_observations_give_the_mean():
    x, y = torch.ones(50, 3), torch.full((50, 2), 4.0)
    assert torch.allclose(fitted(x, y)(x), y)
