"""Encoders h: observations (n, D) to latents (n, d)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with GELU between them; 30d, 30d and 10d hidden units (paper, Experiments).

    `shift` and `scale` standardise the input: they are learned from the training data, not by
    gradient descent, and are part of the model (0 and 1 switch them off).
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        n_features: int,
        n_components: int,
        hidden: Sequence[int] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        d = n_components
        sizes = [n_features, *(hidden or (30 * d, 30 * d, 10 * d)), d]
        self.register_buffer("shift", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))
        parts: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            parts += [_linear(n_in, n_out, generator), nn.GELU()]
        self.layers = nn.Sequential(*parts[:-1])

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.layers((y - self.shift) * self.scale)
        return x


def _linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """PyTorch's own initial distribution, drawn from the generator that was passed in."""
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
    bound = n_in**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
