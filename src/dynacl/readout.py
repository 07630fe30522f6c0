"""The readout: observations from latents, by a map that can bend. Closed form, no training.

It is fitted once, on rows x̂_t → y_t of the training data, never on predicted latents: a flexible
readout would then learn the dynamics itself. A linear readout would favour linear encoders, as
observations bend where latents do not.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

FEATURES = 300  # random functions of the latents, beside the latents themselves
ROWS = 20_000  # most rows that it is fitted to
PENALTIES = tuple(10.0**k for k in range(-8, 3))  # of the ridge, tried on rows left out


@final
class Readout(nn.Module):
    """y ≈ c + W [z, tanh(A z + a)] with z the latents at zero mean and unit variance."""

    shift: Tensor
    scale: Tensor
    inner: Tensor
    offset: Tensor
    weight: Tensor
    centre: Tensor

    def __init__(self, d: int, n_features: int) -> None:
        super().__init__()
        m = FEATURES
        for name, shape in {
            "shift": (d,), "scale": (d,), "inner": (d, m), "offset": (m,),
            "weight": (d + m, n_features), "centre": (n_features,),
        }.items():  # fmt: skip
            self.register_buffer(name, torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.features(x) @ self.weight + self.centre
        return y

    def features(self, x: Tensor) -> Tensor:
        z = (x.to(self.weight.dtype) - self.shift) / self.scale
        return torch.cat([z, torch.tanh(z @ self.inner + self.offset)], dim=-1)

    @torch.no_grad()
    def fit(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Readout:
        """Ridge; the penalty is the one that predicts every fourth row best from the others."""
        some = torch.linspace(0, len(x) - 1, min(len(x), ROWS)).long()
        x, y = x[some].double(), y[some].double()
        self.double()
        self.shift.copy_(x.mean(0))
        spread = x.std(0, correction=0)
        self.scale.copy_(spread.where(spread > 0, torch.ones_like(spread)))
        self.inner.normal_(generator=generator)
        self.offset.uniform_(-2, 2, generator=generator)
        self.centre.copy_(y.mean(0))
        features, target = self.features(x), y - self.centre
        held = torch.arange(len(x)) % 4 == 0
        fitted = _Ridge(features[~held], target[~held])
        errors = [
            (features[held] @ fitted(penalty) - target[held]).square().mean()
            for penalty in PENALTIES
        ]
        best = PENALTIES[int(torch.stack(errors).argmin())]
        self.weight.copy_(_Ridge(features, target)(best))
        return self.float()


class _Ridge:
    """Solutions of one least-squares problem for any penalty, from one decomposition."""

    def __init__(self, features: Tensor, target: Tensor) -> None:
        n = len(features)
        self.variance, self.axes = torch.linalg.eigh(features.T @ features / n)
        self.rotated = self.axes.T @ (features.T @ target / n)

    def __call__(self, penalty: float) -> Tensor:
        floor = penalty * self.variance[-1].clamp(min=torch.finfo(self.variance.dtype).tiny)
        solution: Tensor = self.axes @ (
            self.rotated / (self.variance.clamp(min=0) + floor)[:, None]
        )
        return solution
