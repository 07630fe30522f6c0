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


def fed(x, u, missed):
    """A readout of one output that makes 0 of x, and is fed what it misses."""
    readout = fitted(x, torch.zeros(len(x), 1))
    readout.feed(x, u, missed)
    return readout


def slow(n, seed, keep=0.98):
    noise = torch.randn(n, generator=torch.Generator().manual_seed(seed))
    found = [noise[0]]
    for e in noise[1:]:
        found.append(keep * found[-1] + (1 - keep**2) ** 0.5 * e)
    return torch.stack(found)[:, None]


def test_feedthrough_is_recovered_beyond_what_latents_tell_of_inputs(states):
    """u = 0.1 x₁ + e and what is missed 3 e: D is 3, and without u nothing is added."""
    e = torch.randn(len(states), 1, generator=torch.Generator().manual_seed(2))
    u = 0.1 * states[:, :1] + e
    readout = fed(states, u, 3 * e)
    assert readout.sees_inputs
    assert readout.feedthrough.item() == pytest.approx(3, abs=1e-3)
    # Three numbers tell u from latents; each takes its share of what is missed, by theory 3² / n.
    assert (readout.fed(states, u) - 3 * e).square().mean() < 4 * 3 * 3**2 / len(states)
    torch.testing.assert_close(readout(states), torch.zeros(len(states), 1))


def test_inputs_that_tell_nothing_are_not_seen(states):
    """Neither fast ones nor slow ones, which go with what is missed for a while by chance."""
    n = 2_000
    seen = [fed(states[:n], slow(n, s), slow(n, 100 + s)).sees_inputs for s in range(20)]
    white = torch.randn(20, n, 2, generator=torch.Generator().manual_seed(3))
    seen += [fed(states[:n], *w.split(1, dim=1)).sees_inputs for w in white]
    assert sum(seen) <= 2
    assert not fed(states[:100], white[0, :100, :1], white[0, :100, :1]).sees_inputs  # too few


def test_constant_latents_and_observations_give_the_mean():
    x, y = torch.ones(50, 3), torch.full((50, 2), 4.0)
    assert torch.allclose(fitted(x, y)(x), y)


def test_many_columns_are_fitted_some_at_a_time_as_at_once(states, monkeypatch):
    y = states @ torch.randn(2, 30, generator=torch.Generator().manual_seed(1))
    whole = fitted(states, y)
    monkeypatch.setattr("dynacl.readout.NUMBERS", 4 * len(states))
    parts = fitted(states, y)
    torch.testing.assert_close(parts(states), whole(states), rtol=1e-5, atol=1e-4)
    assert r2(y, parts(states)) > 0.99999
