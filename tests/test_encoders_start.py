"""Where the encoder starts: at a linear map of the input, or at random weights."""

import numpy as np
import torch

from dynacl import metrics
from dynacl.encoders import MLP
from dynacl.whitening import whitening


def test_linear_start_is_near_the_largest_principal_components():
    y = np.random.default_rng(0).standard_normal((2000, 5)).astype(np.float32)
    y *= np.float32([3, 1, 0.5, 0.01, 2])
    generator = torch.Generator().manual_seed(0)
    encoder = MLP(5, 3, whitening=whitening(y), linear_start=True, generator=generator)
    x = encoder(torch.from_numpy(y)).detach().numpy()
    assert metrics.r2(x, y[:, [0, 4, 1]]) > 0.95  # the three largest, and nothing else
    assert metrics.r2(x, y[:, [2, 3]]) < 0.05
    few = MLP(2, 3, linear_start=True, generator=generator)  # fewer inputs than latents
    assert few(torch.from_numpy(y[:, :2])).shape == (2000, 3)


def test_a_free_f_and_the_sphere_have_no_linear_start(trials, small):
    assert small(dynamics="identity", max_iter=1).fit(trials).encoder_.linear is not None
    assert small(similarity="dot", max_iter=1).fit(trials).encoder_.inner.linear is None
    assert small(protocol="paper-slds", max_iter=1).fit(trials).encoder_.linear is None
