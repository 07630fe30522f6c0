"""The plane: Gaussian noise."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from dynacl.objective.geometry.base import Geometry
from dynacl.objective.row_lse import row_lse

UNLIKELY = 0.05  # share of errors that may be missed switches, and say nothing of the others' width
ENOUGH = 0.01  # dimensions per row, below which a covariance is taken as it is
FAINT = 1e-8  # of a variance, below which it is rounding


@final
class Flat(Geometry):
    """φ(q, k) = −‖q − k‖² / τ: Gaussian noise. The embedding's own scale makes τ redundant."""

    has_density = True

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.width = temperature

    @property
    def temperature(self) -> Tensor:
        return torch.tensor(self.width)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -(q - k).square().sum(-1) / self.width

    def stretch(self, errors: Tensor) -> Tensor:
        """The inverse root of the covariance of errors, but for the most unlikely ones.

        With few rows per dimension, correlations among them are taken for chance.
        """
        n, d = errors.shape
        scale = errors.square().mean(0).sqrt().clamp(min=torch.finfo(errors.dtype).tiny)
        chance = min(1.0, d / n) if d > ENOUGH * n else 0.0
        z, axes = errors / scale, torch.eye(d, dtype=errors.dtype)
        for _ in range(2):
            far = (z @ axes).square().sum(1)
            kept = z[far <= far.quantile(1 - UNLIKELY)]
            covariance = kept.T @ kept / len(kept)
            alone = covariance.diagonal().diag()
            covariance = (1 - chance) * covariance + chance * alone + FAINT * torch.eye(d)
            variance, vectors = torch.linalg.eigh(covariance)
            axes = vectors / variance.sqrt()
        return axes / scale[:, None]

    def log_sum(
        self, q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        return row_lse(q, k, bias, skip, 1 / self.width)
