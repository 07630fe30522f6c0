"""More weight on alignment, where telling positives from negatives has become too easy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynacl.objective.infonce import Loss

EASY = 0.6  # nats, from where weight is added; all of it from half of that
MEMORY = 0.97  # of the running mean


class Emphasis(nn.Module):
    """total + w · alignment, with w from 0 to `most` as the loss falls.

    Where the noise is far smaller than the distance between samples, a positive is told from its
    negatives long before the encoder is right. The loss is then that of a few rows, and all others
    teach nothing; alignment, the squared error of the prediction, is of every row. Weight on it
    from the start would make latents collapse, so the loss has to be low first: `level` is its
    running mean. Where noise keeps the loss high, w stays 0 and the loss is the paper's.
    """

    level: Tensor

    def __init__(self, most: float) -> None:
        super().__init__()
        self.most = most
        self.register_buffer("level", torch.tensor(10.0))

    @property
    def weight(self) -> Tensor:
        return self.most * (2 - 2 * self.level / EASY).clamp(0, 1)

    def forward(self, loss: Loss) -> Tensor:
        self.level.lerp_(loss.total.detach(), 1 - MEMORY)
        return loss.total + self.weight * loss.alignment
