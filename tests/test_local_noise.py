"""Noise that is measured where it acts, and what it says of the encoder's slopes."""

import numpy as np
import pytest
import torch

from dynacl.local_noise import FEWEST, local_noise
from dynacl.objective.evenness import evenness
from dynacl.objective.limit import log_volume

ROOT = np.array([[0.003, 0.0], [0.002, 0.001]])  # of the covariance of the noise


def states(rng, n=40_000, bend=0.3):
    """Pairs of states of a bent map with noise, laid out as trials of two steps."""
    x = rng.uniform(-1, 1, (n, 2))
    after = 0.9 * x[:, ::-1] * [1, -1] + bend * x**2 + rng.standard_normal((n, 2)) @ ROOT.T
    both = np.stack([x, after], axis=1).reshape(-1, 2)
    return both, np.arange(0, 2 * n, 2)


def sizes(found, true):
    """Standard deviations by which what was found differs from the truth, along its own axes."""
    return np.sqrt(np.linalg.eigvals(np.linalg.solve(true, found)).real)


def scaled(found, true):
    """Covariances come in units of their own: only how they differ from place to place counts."""
    off = sizes(found, true)
    return off / np.median(off)


def test_noise_is_found_beside_a_bent_map():
    x, steps = states(np.random.default_rng(0))
    found = local_noise(x, steps)
    true = np.broadcast_to(ROOT @ ROOT.T, found.covariances.shape)
    off = scaled(found.covariances, true)
    assert np.mean((off > 0.4) & (off < 2.5)) > 0.95


def kinked(x):
    """A bijection with a kink along each of two lines, and its slopes."""
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    z = x @ turn.T
    return np.where(z > 0, z, 0.2 * z), np.where(z > 0, 1.0, 0.2)[:, :, None] * turn


def test_noise_is_found_behind_a_mixing_with_kinks():
    x, steps = states(np.random.default_rng(1))
    y, slopes = kinked(x)
    found = local_noise(y, steps)
    arrived = slopes[found.steps]
    true = arrived @ ROOT @ ROOT.T @ arrived.swapaxes(1, 2)
    off = scaled(found.covariances, true)
    assert np.mean((off > 0.5) & (off < 2)) > 0.9  # without slopes, noise differs by up to 25


def test_noise_below_the_bends_of_the_map_is_not_seen():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (4000, 3))
    after = np.sin(6 * x[:, ::-1]) + 1e-5 * rng.standard_normal(x.shape)
    both = np.stack([x, after], axis=1).reshape(-1, 3)
    assert local_noise(both, np.arange(0, 8000, 2)) is None


def test_noise_along_one_direction_has_roots_too():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (5000, 2))
    after = x @ [[0.9, 0.1], [-0.1, 0.9]] + [0.01, 0.0] * rng.standard_normal((5000, 1))
    both = np.stack([x, after], axis=1).reshape(-1, 2)
    found = local_noise(both, np.arange(0, 10_000, 2))
    roots = np.linalg.cholesky(found.covariances.astype(np.float32))
    assert (np.diagonal(roots, axis1=1, axis2=2) > 0).all()


def test_few_steps_show_no_noise():
    x, steps = states(np.random.default_rng(0), n=FEWEST)
    assert local_noise(x, steps) is None


def test_steps_that_cross_trials_are_never_followed():
    x, steps = states(np.random.default_rng(0))
    found = local_noise(x, steps)
    assert (found.steps % 2 == 1).all()


def test_evenness_does_not_change_with_an_affine_map_of_latents():
    rng = torch.Generator().manual_seed(0)
    slopes = torch.eye(3) + 0.2 * torch.randn(500, 3, 3, generator=rng)
    roots = torch.randn(500, 3, 3, generator=rng)
    map_ = torch.randn(3, 3, generator=rng)
    assert float(evenness(map_ @ slopes, roots)) == pytest.approx(
        float(evenness(slopes, roots)), rel=1e-3
    )


def test_evenness_is_least_where_the_noise_is_even():
    rng = torch.Generator().manual_seed(0)
    true = torch.eye(3) + 0.3 * torch.randn(2000, 3, 3, generator=rng)
    true = true[torch.linalg.det(true) > 0.2]
    roots = torch.linalg.inv(true)
    roots[::10] *= 300  # wrong measurements hardly move it
    least = float(evenness(true, roots))
    for _ in range(5):
        other = true @ (torch.eye(3) + 0.1 * torch.randn(len(true), 3, 3, generator=rng))
        assert float(evenness(other, roots)) > least


def test_evenness_charges_volume():
    slopes = torch.eye(2).expand(50, 2, 2)
    roots = torch.eye(2).expand(50, 2, 2)
    wide = slopes * torch.linspace(0.5, 2, 50)[:, None, None]
    volume = float(log_volume(wide))
    found = float(evenness(wide, roots))
    assert found == pytest.approx(float(evenness(wide * 3, roots)), abs=1e-4)
    assert found > float(evenness(slopes, roots)) - volume - 1
