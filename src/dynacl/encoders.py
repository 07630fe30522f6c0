"""Encoders h: observations (n, D), or windows of them (n, lags · D), to latents (n, d)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.whitening import Whitening


class MLP(nn.Module):
    """Linear layers with GELU between them; 30d, 30d and 10d hidden units (paper, Experiments)."""

    def __init__(
        self,
        n_features: int,
        n_components: int,
        hidden: Sequence[int] | None = None,
        whitening: Whitening | None = None,
        gain: float = 1.0,
        linear_start: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        """gain: factor on the first layer's initial weights; sharper features from the start.

        linear_start: the layers add to a linear map that starts at the principal components of the
        input, and start small beside it.
        """
        super().__init__()
        d = n_components
        n_inputs = n_features if whitening is None else whitening.n_outputs
        sizes = [n_inputs, *(hidden or (30 * d, 30 * d, 10 * d)), d]
        self.whitening = whitening
        parts: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            parts += [_linear(n_in, n_out, generator), nn.GELU()]
        self.layers = nn.Sequential(*parts[:-1])
        with torch.no_grad():
            self.layers[0].weight.mul_(gain)  # type: ignore[operator]
        self.linear = _linear(n_inputs, d, generator) if linear_start else None
        if self.linear is not None:
            order = np.arange(n_inputs) if whitening is None else whitening.order
            with torch.no_grad():
                self.linear.weight.zero_()
                for i, column in enumerate(order[: -d - 1 : -1].tolist()):
                    self.linear.weight[i, column] = 1
                self.linear.bias.zero_()
                self.layers[-1].weight.mul_(0.1)  # type: ignore[operator]

    def forward(self, y: Tensor) -> Tensor:
        z = y if self.whitening is None else self.whitening(y)
        x: Tensor = self.layers(z)
        return x if self.linear is None else x + self.linear(z)


class OnSphere(nn.Module):
    """An encoder whose latents have unit length, for noise on the sphere."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, y: Tensor) -> Tensor:
        return nn.functional.normalize(self.inner(y), dim=-1)


class Asymmetric(nn.Module):
    """h₁ = `reference` for references, h₂ = `target` for positives and negatives.

    Called like any encoder it is h₂, the one that recovers the latents.
    """

    def __init__(self, reference: nn.Module, target: nn.Module) -> None:
        super().__init__()
        self.reference, self.target = reference, target

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.target(y)
        return x


def references(encoder: nn.Module) -> nn.Module:
    """The encoder of references: h₁ of an asymmetric pair, else the encoder itself."""
    return encoder.reference if isinstance(encoder, Asymmetric) else encoder


def _linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """PyTorch's own initial distribution, drawn from the generator that was passed in."""
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
    bound = n_in**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
