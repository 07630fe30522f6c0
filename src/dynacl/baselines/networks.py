"""Leaky-ReLU networks: an ordinary one, and one small network for each latent dimension at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

SLOPE = 0.2


def leaky_mlp(sizes: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers of these sizes with leaky ReLU between them and none after the last."""
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            layer.weight.copy_(he_normal((n_out, n_in), n_in, generator))
            layer.bias.zero_()
        parts += [layer, nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*parts[:-1])


def he_normal(shape: tuple[int, ...], n_in: int, generator: torch.Generator) -> Tensor:
    """Keeps the scale from layer to layer. With PyTorch's own distribution a deep encoder starts
    so nearly constant that PCL may stay at chance."""
    scale: float = (2 / (1 + SLOPE**2) / n_in) ** 0.5
    return torch.randn(shape, generator=generator) * scale


class PerDimensionMLP(nn.Module):
    """d separate networks r_i: (d, n, sizes[0]) to (d, n), as batched matrix products."""

    def __init__(self, d: int, sizes: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for n_in, n_out in pairwise([*sizes, 1]):
            self.weights.append(nn.Parameter(he_normal((d, n_in, n_out), n_in, generator)))
            self.biases.append(nn.Parameter(torch.zeros(d, 1, n_out)))

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = nn.functional.leaky_relu(torch.baddbmm(bias, x, weight), SLOPE)
        return torch.baddbmm(last[1], x, last[0]).squeeze(-1)

    def with_derivative(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """r_i and its derivative by the last input, both (d, n).

        Forward mode: the tangent goes through the same layers without biases, times the slopes
        that the values chose.
        """
        *hidden, last = zip(self.weights, self.biases, strict=True)
        tangent = torch.zeros_like(x)
        tangent[:, :, -1] = 1
        for weight, bias in hidden:
            x = torch.baddbmm(bias, x, weight)
            # The leaky ReLU's own slope, 1 or SLOPE; ten times faster than torch.where.
            slope = torch.sign(x.detach()).mul_((1 - SLOPE) / 2).add_((1 + SLOPE) / 2)
            x, tangent = x * slope, torch.bmm(tangent, weight) * slope
        return torch.baddbmm(last[1], x, last[0]).squeeze(-1), (tangent @ last[0]).squeeze(-1)
