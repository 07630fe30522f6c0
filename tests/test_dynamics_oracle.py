"""The oracle: the true map, frozen, and not told the modes."""

import numpy as np
import pytest
import torch

from dynacl import simulate


@pytest.mark.parametrize("name", ["lds", "slds", "lorenz"])
def test_oracle_moves_true_latents_to_within_the_noise(name):
    noise = 1e-3
    data = simulate.preset(name, rng=np.random.default_rng(0), noise=noise, trials=5, steps=200)
    x = torch.from_numpy(data.truth.latents)
    t = torch.from_numpy(data.steps())
    for mode in (True, False):  # the oracle chooses hard in training too
        oracle = simulate.system(data.truth.system).oracle().train(mode)
        residual = (oracle(x[t], x[t + 1]) - x[t + 1]).detach()
        assert residual.std().item() == pytest.approx(noise, rel=0.1)


def test_oracle_is_frozen_but_for_the_scale_that_lorenz_needs():
    rng = np.random.default_rng(0)
    slds = simulate.slds(rng=rng, trials=2, steps=10)
    lorenz = simulate.lorenz(rng=rng, steps=10)
    assert not any(
        p.requires_grad for p in simulate.system(slds.truth.system).oracle().parameters()
    )
    free = [
        n
        for n, p in simulate.system(lorenz.truth.system).oracle().named_parameters()
        if p.requires_grad
    ]
    assert free == ["log_scale"]


def test_lorenz_oracle_commutes_with_its_scale():
    lorenz = simulate.lorenz(rng=np.random.default_rng(0), steps=10)
    oracle = simulate.system(lorenz.truth.system).oracle()
    x = torch.randn(4, 3)
    plain = oracle(x)
    oracle.log_scale.data += np.log(7.0)
    torch.testing.assert_close(oracle(7 * x) / 7, plain)
