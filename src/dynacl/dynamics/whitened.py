"""Coordinates of zero mean and unit covariance, in which non-linear dynamics compute.

The embedding's scale is set by the noise and grows a thousandfold in training; a power of x must
not notice. So each non-linear model is x plus a correction, computed in these coordinates.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)
SLOWEST = 0.01  # weight of a new batch in the running estimate, once there were many


class Whitened(nn.Module):
    """Running mean and covariance of the states seen in training, as z = R⁻¹ (x − mean).

    They lag behind an embedding that grows. `pace` slows them down as the rates fall: coordinates
    that catch up when the weights stand still already would make other dynamics of these weights.
    """

    mean: Tensor
    covariance: Tensor
    count: Tensor

    def __init__(self, d: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("covariance", torch.eye(d))
        self.register_buffer("count", torch.zeros(()))
        self.pace = 1.0

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates z and the root R that takes them back."""
        root, failed = torch.linalg.cholesky_ex(self.covariance)
        root = root.where(failed == 0, torch.nan)  # states ran off: the loss is NaN and says so
        inverse = torch.linalg.solve_triangular(root, torch.eye(len(root)).to(root), upper=False)
        return (x - self.mean) @ inverse.T, root

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Learn from states of the encoder (not from predictions, which may run off)."""
        x = x.flatten(0, -2)
        if len(x) < 2:
            return
        self.count += 1
        weight = torch.clamp(1 / self.count, min=SLOWEST * self.pace)
        centred = x - x.mean(0)
        covariance = centred.T @ centred / len(x)
        d = len(covariance)
        # A direction that the encoder does not use yet must not make the root singular.
        covariance += 1e-6 * (covariance.trace() / d + 1e-12) * torch.eye(d).to(covariance)
        self.mean.lerp_(x.mean(0), weight)
        self.covariance.lerp_(covariance, weight)

    def restart(self, x: Tensor) -> None:
        """Forget what was seen before these states."""
        self.count.zero_()
        self.update(x)


def seeded(module: M, generator: torch.Generator | None) -> M:
    """PyTorch's own initial distribution for linear and recurrent layers, from this generator."""
    width = int(getattr(module, "hidden_size", 0) or module.in_features)  # type: ignore[arg-type]
    bound = float(width**-0.5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return module
