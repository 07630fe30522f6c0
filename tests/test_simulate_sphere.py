"""The sphere: its draws against the von Mises–Fisher distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ive

from dynacl import InputError, simulate


@pytest.mark.parametrize("sigma", [0.01, 0.1])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_sphere_draws_from_the_von_mises_fisher_distribution_around_the_rotated_state(sigma, d):
    data = simulate.sphere(
        rng=np.random.default_rng(0), d=d, noise=sigma, trials=50, steps=200, mixing="none"
    )
    x, t = data.truth.latents.astype(float), data.steps()
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-5)
    mean = x[t] @ data.truth.system["matrix"].T
    cosine = (mean * x[t + 1]).sum(1)
    # Mean resultant length A_d(κ) of a von Mises–Fisher distribution, a ratio of Bessel functions.

    kappa = 1 / sigma**2
    assert cosine.mean() == pytest.approx(
        ive(d / 2, kappa) / ive(d / 2 - 1, kappa), abs=5 * cosine.std() / len(t) ** 0.5
    )
    # Around the mean direction no tangent direction is preferred.
    tangent = x[t + 1] - cosine[:, None] * mean
    assert np.abs(tangent.mean(0)).max() < 6 * tangent.std() / len(t) ** 0.5


@pytest.mark.parametrize("kappa", [0.0, 8.0])
def test_pairs_on_the_sphere_have_the_means_of_their_distributions(kappa):
    pairs = simulate.sphere(rng=np.random.default_rng(0), angle=0, concentration=kappa,
                            noise=50**-0.5, trials=20_000, steps=2, observed=5)  # fmt: skip
    x = pairs.truth.latents.reshape(-1, 2, 3).astype(float)
    assert np.allclose(np.linalg.norm(x, axis=2), 1, atol=1e-6)
    assert (pairs.lengths == 2).all()

    def length(k):  # of the mean of vMF in three dimensions: coth κ − 1/κ
        return 1 / np.tanh(k) - 1 / k if k else 0.0

    assert np.allclose(x[:, 0].mean(0), [length(kappa), 0, 0], atol=0.02)
    assert (x[:, 0] * x[:, 1]).sum(1).mean() == pytest.approx(length(50.0), abs=1e-3)


def test_sphere_without_noise_is_refused():
    with pytest.raises(InputError, match="noise"):
        simulate.sphere(rng=np.random.default_rng(0), noise=0.0)
