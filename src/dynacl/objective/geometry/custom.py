"""A similarity of one's own, on the plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn

from dynacl.objective.geometry.base import Geometry
from dynacl.settings import Wish


@final
class CustomSimilarity(Geometry):
    """Any callable of (q, k), each (..., d), that broadcasts to (...)."""

    def __init__(self, similarity: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.similarity = similarity

    @property
    def given(self) -> nn.Module:
        return self.similarity if isinstance(self.similarity, nn.Module) else self

    @property
    def temperature(self) -> Tensor:
        """Its own, if it has one."""
        return torch.as_tensor(getattr(self.similarity, "temperature", 1.0))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.similarity(q, k)

    def wishes(self) -> Sequence[Wish]:
        return (
            Wish("emphasis", 0.0, "More weight on alignment was tried with distances only."),
            Wish("control_lags", (), "That past inputs do not tell negatives apart holds for "
                 "similarities of a difference; of this one it is not known."),
        )  # fmt: skip
