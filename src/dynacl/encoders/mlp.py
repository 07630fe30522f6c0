"""The paper's encoder, a network, and beside it the linear map that it starts at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.encoders.base import Encoder
from dynacl.encoders.redrawing import Redrawing
from dynacl.whitening import Whitening

NEWTON = 6  # steps by which an encoder is undone: each doubles the digits, once it is near
FEW = 3  # inputs that sharp first features fold, from a random start


@final
class MLP(Encoder):
    """Linear layers with GELU between them; 30d, 30d and 10d hidden units (paper, Experiments)."""

    def __init__(
        self,
        n_features: int,
        n_components: int,
        hidden: Sequence[int] | None = None,
        whitening: Whitening | None = None,
        gain: float = 1.0,
        linear_start: Tensor | None = None,
        linear_offset: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """gain: how sharply hidden units bend at the start (`sharpen`). From a random start, few
        inputs are folded by it (a fit of Lorenz with three, docs/log.md); so without a linear start
        it is at most the number of inputs beyond three.

        linear_start: (d, inputs), and linear_offset (d,), 0 if None; the layers add to a linear map
        that starts there, and start small beside it.
        """
        super().__init__()
        d = n_components
        self.n_inputs = n_inputs = n_features if whitening is None else whitening.n_outputs
        sizes = [n_inputs, *(hidden or (30 * d, 30 * d, 10 * d)), d]
        self.whitening = whitening
        parts: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            parts += [_linear(n_in, n_out, generator), nn.GELU()]
        self.layers = nn.Sequential(*parts[:-1])
        if linear_start is None:
            gain = float(np.clip(n_inputs - FEW, 1, gain))
        sharpen(cast(Sequence[nn.Linear], self.layers[:-1:2]), gain)
        self.redrawing: Redrawing | None = None  # of the latents, at the end of a training
        self.linear = None if linear_start is None else _linear(n_inputs, d, generator)
        if self.linear is not None and linear_start is not None:
            with torch.no_grad():
                self.linear.weight.copy_(linear_start)
                self.linear.bias.copy_(torch.zeros(d) if linear_offset is None else linear_offset)
                self.layers[-1].weight.mul_(0.1)  # type: ignore[operator]

    @staticmethod
    def least_weights(d: int, n_inputs: int) -> int:
        """How many numbers it has of the usual size, at least."""
        return 30 * d * (n_inputs + 30 * d)

    @torch.no_grad()
    def be_linear(self, start: Mapping[str, Tensor] | None = None) -> bool:
        if self.linear is None or not self.linear.weight.any(1).all():
            return False  # with fewer inputs than latents some would be constant
        if start is not None:
            self.linear.load_state_dict(start)
        for parameter in self.layers[-1].parameters():
            parameter.zero_()
        self.redrawing = None
        return True

    def linear_part(self) -> dict[str, Tensor]:
        state = {} if self.linear is None else self.linear.state_dict()
        return {name: weight.detach().clone() for name, weight in state.items()}

    def forward(self, y: Tensor) -> Tensor:
        return self._of_whitened(y if self.whitening is None else self.whitening(y))

    def frames(self, y: Tensor) -> Tensor:
        return y if self.whitening is None else self.whitening.frames(y)

    def of_frames(self, windows: Tensor) -> Tensor:
        return self._of_whitened(
            windows if self.whitening is None else self.whitening.of_frames(windows)
        )

    def _of_whitened(self, z: Tensor) -> Tensor:
        x: Tensor = self.layers(z)
        x = x if self.linear is None else x + self.linear(z)
        return x if self.redrawing is None else self.redrawing(x)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *more: Any) -> None:
        """Latents are redrawn if they were when these weights were kept."""
        theta, last = state.get(f"{prefix}redrawing.theta"), cast(nn.Linear, self.layers[-1])
        found = None if theta is None else Redrawing.like(theta, last.out_features)
        self.redrawing = None if found is None else found.to(last.weight.device)
        super()._load_from_state_dict(state, prefix, *more)

    @property
    def square(self) -> bool:
        return self.n_inputs == self.layers[-1].out_features

    def with_slopes(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Forward mode: the derivatives pass through the layers beside the values."""
        z = windows if self.whitening is None else self.whitening.of_frames(windows)
        x, slopes = z, torch.eye(self.n_inputs).to(z).expand(len(z), -1, -1)
        *hidden, last = cast(Sequence[nn.Linear], list(self.layers)[::2])
        for layer in hidden:
            x, slopes = layer(x), slopes @ layer.weight.T
            below = torch.special.ndtr(x)  # GELU is x Φ(x)
            slopes = slopes * (below + x * _density(x))[:, None]
            x = x * below
        x, slopes = last(x), slopes @ last.weight.T
        if self.linear is not None:
            x, slopes = x + self.linear(z), slopes + self.linear.weight.T
        slopes = slopes.mT
        return (x, slopes) if self.redrawing is None else self.redrawing.with_slopes(x, slopes)

    def redraw(self, redrawing: Redrawing | None) -> bool:
        self.redrawing = redrawing
        return True

    def undone(self, x: Tensor, y: Tensor) -> Tensor:
        """By Newton's method, where a frame has as many dimensions as the state."""
        if self.whitening is None or self.whitening.n_frames > 1 or not self.square:
            return y
        z = self.whitening.frames(y).clone()
        left, now, (found, slopes) = torch.arange(len(z), device=z.device), z, self.with_slopes(z)
        for _ in range(NEWTON):
            step, failed = torch.linalg.solve_ex(slopes, (x - found)[..., None])
            tried = now + step[..., 0]
            there, after = self.with_slopes(tried)
            nearer = (there - x).square().sum(-1) < (found - x).square().sum(-1)
            nearer &= failed == 0
            # A row that comes no nearer would take the same step again: it is there.
            left, now, found, slopes, x = (v[nearer] for v in (left, tried, there, after, x))
            if len(left) == 0:
                break
            z[left] = now
        return self.whitening.unwhitened(z)


@torch.no_grad()
def sharpen(hidden: Sequence[nn.Linear], gain: float) -> None:
    """Make units bend within a `gain`-th of the distance: all they see grows by it, and so do the
    offsets at which they bend."""
    hidden[0].weight.mul_(gain)
    for layer in hidden:
        layer.bias.mul_(gain)


def _density(x: Tensor) -> Tensor:
    """Of the standard normal distribution."""
    density: Tensor = torch.exp(-0.5 * x * x) * (2 * torch.pi) ** -0.5
    return density


def _linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """PyTorch's own initial distribution, drawn from the generator that was passed in."""
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
    bound = n_in**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
