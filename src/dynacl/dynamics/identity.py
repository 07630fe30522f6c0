"""Identity dynamics: the state stays where it is. This is the baseline without dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from dynacl.dynamics.base import SHARP, Dynamics
from dynacl.settings import Wish


@final
class Identity(Dynamics):
    """f(x) = x: contrastive learning without dynamics."""

    identifies = True

    def __init__(
        self, d: int, *, n_controls: int = 0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.d = d

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        return x

    def wishes(self) -> Sequence[Wish]:
        return (
            SHARP,
            Wish("validation", 0.0, "It predicts that nothing changes, whatever the training."),
            Wish("control_lags", (), "It has no use for a control input."),
        )

    def linear_maps(self) -> Tensor:
        return torch.eye(self.d)[None]
