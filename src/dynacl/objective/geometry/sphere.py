"""The sphere: von Mises–Fisher noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from dynacl.objective.geometry.base import Geometry
from dynacl.objective.row_lse import row_lse
from dynacl.settings import Wish

HASTE = 5.0  # log τ = HASTE · θ: it has to go from 0 to −9 while matrices move by less than 1


@final
class Sphere(Geometry):
    """φ(q, k) = (⟨q, k⟩ − 1) / τ of unit vectors: von Mises–Fisher noise with κ = 1/τ, learned.

    As −‖q − k‖² / 2τ, which is the same number with more of its digits; the −1 cancels in the loss.
    τ starts at 1: a sharp start settles on what the dynamics leaves unchanged (docs/log.md).
    """

    kernel = "vmf"
    least_components = 2  # the dimensions around a circle
    scale_free = True

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(math.log(temperature) / HASTE))

    @property
    def temperature(self) -> Tensor:
        return (HASTE * self.theta).exp()

    def project(self, x: Tensor) -> Tensor:
        return normalize(x, dim=-1)

    def wishes(self) -> Sequence[Wish]:
        return (
            Wish("emphasis", 0.0, "On the sphere the temperature is a result, 1/κ, which more "
                 "weight on alignment would change."),
            Wish("horizon", 1, "A map is free in its scale here, so its powers are not those of "
                 "the true map."),
            Wish("refit_after", None, "A map is free in its scale here, so least squares would fit "
                 "another map."),
            Wish("refit_at_end", False, "A map is free in its scale here, so least squares would "
                 "fit another map."),
            Wish("linear_start", False, "Principal components lose the sphere: the encoder starts "
                 "at random weights (docs/log.md)."),
            Wish("control_lags", (), "What is added to a unit vector is none."),
        )  # fmt: skip

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -(self.scaled(q) - self.scaled(k)).square().sum(-1)

    def log_sum(
        self, q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        return row_lse(self.scaled(q), self.scaled(k), bias, skip)

    def scaled(self, x: Tensor) -> Tensor:
        """On the sphere of radius (2τ)^(−1/2), where −‖q − k‖² is the similarity."""
        return self.project(x) * (2 * self.temperature).rsqrt()
