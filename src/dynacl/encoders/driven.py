"""Latents that past inputs have moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from dynacl.encoders.base import Encoder
from dynacl.whitening import Whitening


@final
class Driven(Encoder):
    """x = h(y window) + C (past inputs): the state of a driven system with few outputs.

    For a linear system behind any observations that can be undone this is exact: what inputs have
    added to outputs since the window began is linear in them. As they are added, a contrast can
    hold them fixed (`without_inputs`), so that latents do not gain by storing inputs. The input of
    a window's own step may be among them, where it acts on outputs at once.
    """

    def __init__(
        self,
        inner: Encoder,
        n_inputs: int,
        n_components: int,
        whitening: Whitening | None = None,
        start: Tensor | None = None,
    ) -> None:
        """n_inputs: past inputs at the end of a window. start: where C begins, (d, whitened
        inputs); None: at 0."""
        super().__init__()
        self.inner, self.n_inputs, self.of_inputs = inner, n_inputs, whitening
        width = n_inputs if whitening is None else whitening.n_outputs
        self.control = nn.Parameter(torch.zeros(n_components, width))
        if start is not None:
            with torch.no_grad():
                self.control.copy_(start)

    @property
    def of_observations(self) -> Encoder:
        return self.inner

    @torch.no_grad()
    def be_linear(self, start: Mapping[str, Tensor] | None = None) -> bool:
        if start is None:
            return self.inner.be_linear()
        self.control.copy_(start["control"])
        return self.inner.be_linear({k: v for k, v in start.items() if k != "control"})

    def linear_part(self) -> dict[str, Tensor]:
        return self.inner.linear_part() | {"control": self.control.detach().clone()}

    def forward(self, window: Tensor) -> Tensor:
        y, inputs = self._split(window)
        x: Tensor = self.inner(y)
        return x + self.added(inputs)

    def frames(self, y: Tensor) -> Tensor:
        return self.inner.frames(y)

    def of_frames(self, windows: Tensor) -> Tensor:
        frames, inputs = self._split(windows)
        return self.inner.of_frames(frames) + self.added(inputs)

    def _split(self, window: Tensor) -> tuple[Tensor, Tensor]:
        """What a window has of observations, and the inputs behind it."""
        y, inputs = window.tensor_split([window.shape[-1] - self.n_inputs], dim=-1)
        return y, inputs

    @property
    def square(self) -> bool:
        return self.inner.square

    def with_slopes(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        frames, inputs = self._split(windows)
        x, slopes = self.inner.with_slopes(frames)
        return x + self.added(inputs), slopes

    def added(self, inputs: Tensor) -> Tensor:
        """What past inputs add to the latents."""
        z = inputs if self.of_inputs is None else self.of_inputs(inputs)
        return nn.functional.linear(z, self.control)

    def without_inputs(self, x: Tensor, inputs: Tensor) -> Tensor:
        return x - self.added(inputs)
