"""The plane: Gaussian noise."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from dynacl.objective.geometry.base import Geometry
from dynacl.objective.row_lse import row_lse


@final
class Flat(Geometry):
    """φ(q, k) = −‖q − k‖² / τ: Gaussian noise. The embedding's own scale makes τ redundant."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.width = temperature

    @property
    def temperature(self) -> Tensor:
        return torch.tensor(self.width)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -(q - k).square().sum(-1) / self.width

    def log_sum(
        self, q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        return row_lse(q, k, bias, skip, 1 / self.width)
