"""Models that are fitted in a second, and what several files of tests feed them."""

import numpy as np
import torch
from torch import nn

from dynacl import DCL, TimeSeries, assembly, simulate
from dynacl.request import Request


def small(n, dynamics="linear", **changed):
    """A model of n latents, trained for 600 steps unless told otherwise."""
    settings = {"max_iter": 600, "batch_size": 512, "random_state": 0} | changed
    return DCL(n, dynamics, **settings)


def tiny(*args, **changed):
    """A model that is hardly trained."""
    return small(*args, **({"max_iter": 3, "batch_size": 32} | changed))


def begun(model, data):
    """The run with which the fit of a model begins: its parts and settings, and no step taken."""
    return assembly.begin(Request.of(model.get_params(deep=False)), TimeSeries.of(data), 0)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def lorenz(steps):
    return simulate.lorenz(
        rng=np.random.default_rng(1), steps=steps, noise=0.02, observed=20, layers=2
    )


class Laplace(nn.Module):
    """A similarity that the library does not have."""

    def forward(self, q, k):
        return -(q - k).abs().sum(-1)


class Shift(nn.Module):
    """Dynamics that the library does not have: a step of eight numbers, the same everywhere."""

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.zeros(8))

    def forward(self, x, x_next=None, u=None):
        return x + self.by
