"""What an encoder says about itself, and any module as an encoder."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from dynacl.encoders.redrawing import Redrawing
from dynacl.settings import Wish


class Encoder(nn.Module, ABC):
    """h, called with windows (n, lags · D); what encodes references, and what the batch offers."""

    symmetric: bool = True  # references and positives live in one space

    @property
    def given(self) -> nn.Module:
        """The encoder as its user knows it."""
        return self

    @classmethod
    def wishes(cls) -> Sequence[Wish]:
        """What it changes in the training settings, and why."""
        return ()

    def be_linear(self, start: Mapping[str, Tensor] | None = None) -> bool:
        """Leave nothing but the linear part, put back to `start`; False where there is none."""
        return False

    def linear_part(self) -> dict[str, Tensor]:
        """The weights of the linear part, copied; none where there is none."""
        return {}

    @property
    def of_observations(self) -> Encoder:
        """What of it sees observations."""
        return self

    def without_inputs(self, x: Tensor, inputs: Tensor) -> Tensor:
        """Latents less what these past inputs add to them: nothing, unless it sees inputs."""
        return x

    def frames(self, y: Tensor) -> Tensor:
        """What it does to single observations (..., D), before windows are cut of them: nothing.

        Neighbouring windows share frames, so what is done here is done once for all of them.
        """
        return y

    def of_frames(self, windows: Tensor) -> Tensor:
        """Latents of windows of `frames`."""
        x: Tensor = self(windows)
        return x

    @property
    def square(self) -> bool:
        """Whether it takes as many numbers as it gives, and can say its slopes."""
        return False

    def with_slopes(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Latents of windows of `frames`, and their derivatives by what it takes, (n, d, d)."""
        raise TypeError(f"{type(self).__name__} does not say its slopes")

    def redraw(self, redrawing: Redrawing | None) -> bool:
        """Redraw all latents from now on, or (None) no more; False where that cannot be."""
        return False

    def undone(self, x: Tensor, y: Tensor) -> Tensor:
        """Observations whose latents are x, from a guess y; the guess, if it cannot be undone."""
        return y

    def references(self, y: Tensor) -> Tensor:
        """Latents from which the dynamics starts."""
        x: Tensor = self(y)
        return x

    def pair(
        self, window: Callable[[Tensor], Tensor], now: Tensor, others: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Latents of steps `now` as references and of `others`; each window is encoded once.

        window: of steps, windows of `frames`.
        """
        x = self.of_frames(window(torch.cat([now, others])))
        left, right = x.tensor_split([len(now)])
        return left, right

    def candidates(self, now: Tensor, following: Tensor) -> tuple[Tensor, ...]:
        """What a batch offers as negatives: its references and its positives."""
        return now, following


@final
class CustomEncoder(Encoder):
    """A module of one's own."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    @property
    def given(self) -> nn.Module:
        return self.module

    @classmethod
    def wishes(cls) -> Sequence[Wish]:
        why = "A module of one's own starts as it was made."
        return Wish("linear_start", False, why), Wish("input_gain", 1.0, why)

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.module(y)
        return x


def as_encoder(module: nn.Module) -> Encoder:
    """An encoder as it is; any other module in a wrapper."""
    return module if isinstance(module, Encoder) else CustomEncoder(module)
