"""Dynamics fitted to latents that are there already: the paper's baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import Dynamics
from dynacl.dynamics.custom import Custom


def fit_post_hoc(
    model: nn.Module,
    x: Tensor,
    x_next: Tensor,
    u: Tensor | None = None,
    *,
    restarts: int | None = None,
    rounds: int | None = None,
    penalty: float = 0.0,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Fit dynamics to pairs of latents, each (n, d), in the way that suits the model.

    Linear and polynomial: closed form. Banks: alternate argmin and closed form until the modes
    stand still or for so many rounds, best of several starts. Anything else: Adam on the mean
    squared error. A model without parameters stays as it is. penalty: one of the model's own.
    """
    f = model if isinstance(model, Dynamics) else Custom(model)
    finite = x.isfinite().all() and x_next.isfinite().all()  # else they ran off in training
    if finite and f.learns and any(True for _ in f.parameters()):
        how = {"restarts": restarts, "rounds": rounds, "penalty": penalty}
        f.refit(x, x_next, u, **how, generator=generator)
    return model
