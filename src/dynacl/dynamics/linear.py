"""No dynamics, and linear dynamics."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Identity(nn.Module):
    """f(x) = x: contrastive learning without dynamics, the baseline."""

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        return x


class Linear(nn.Module):
    """f(x) = A x (+ b) (+ B u). A starts at the identity."""

    def __init__(self, d: int, bias: bool = False, n_controls: int = 0) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(d))
        self.bias = nn.Parameter(torch.zeros(d)) if bias else None
        self.control = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        return driven(nn.functional.linear(x, self.matrix, self.bias), self.control, u)


def driven(x: Tensor, control: Tensor | None, u: Tensor | None) -> Tensor:
    """x + B u, where there is a B."""
    if control is None:
        return x
    if u is None:
        raise ValueError("this model was built with a control input; u is missing")
    return x + u @ control.T
