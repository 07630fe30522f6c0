"""Encoders h: observations (n, D), or windows of them (n, lags · D), to latents (n, d).

Where past inputs are seen too, they stand behind the observations of a window (`Driven`). An
encoder says what encodes references: itself, or a second one. `Encoder` lists what it may say.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import cast, final

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.objective.geometry.base import Geometry
from dynacl.settings import Wish
from dynacl.whitening import Whitening

NEWTON = 6  # steps by which an encoder is undone: each doubles the digits, once it is near
FEW = 3  # inputs that sharp first features fold


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
        """gain: the most by which the first layer's initial weights grow, for sharper features from
        the start. Measured with six inputs (an SLDS fitted to its true latents: 1 − R² 0.0046 →
        0.0026); with three, a fit of Lorenz folded (docs/log.md). In between it grows by one for
        each input, which no measurement supports.

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
        with torch.no_grad():
            self.layers[0].weight.mul_(float(np.clip(n_inputs - FEW, 1, gain)))  # type: ignore[operator]
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
        return x if self.linear is None else x + self.linear(z)

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
        return x, slopes.mT

    def undone(self, x: Tensor, y: Tensor) -> Tensor:
        """By Newton's method, where a frame has as many dimensions as the state."""
        if self.whitening is None or self.whitening.n_frames > 1 or not self.square:
            return y
        z = self.whitening.frames(y)
        found, slopes = self.with_slopes(z)
        for _ in range(NEWTON):
            step, failed = torch.linalg.solve_ex(slopes, (x - found)[..., None])
            tried = z + step[..., 0]
            there, after = self.with_slopes(tried)
            nearer = (there - x).square().sum(-1) < (found - x).square().sum(-1)
            nearer &= failed == 0
            z, found = z.where(~nearer[:, None], tried), found.where(~nearer[:, None], there)
            slopes = slopes.where(~nearer[:, None, None], after)
        return self.whitening.unwhitened(z)


@final
class Driven(Encoder):
    """x = h(y window) + C (past inputs): the state of a driven system with few outputs.

    For a linear system behind any observations that can be undone this is exact: what inputs have
    added to outputs since the window began is linear in them. As they are added, a contrast can
    hold them fixed (`without_inputs`), so that latents do not gain by storing inputs.
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


@final
class Projected(Encoder):
    """An encoder whose latents are projected to where they live, such as the unit sphere."""

    def __init__(self, inner: Encoder, geometry: Geometry) -> None:
        super().__init__()
        self.inner = inner
        self.project = geometry.project

    def forward(self, y: Tensor) -> Tensor:
        return self.project(self.inner(y))

    def frames(self, y: Tensor) -> Tensor:
        return self.inner.frames(y)

    def of_frames(self, windows: Tensor) -> Tensor:
        return self.project(self.inner.of_frames(windows))


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


@final
class Asymmetric(Encoder):
    """h₁ = `reference` for references, h₂ = `target` for positives and negatives.

    Called like any encoder it is h₂, the one that recovers the latents.
    """

    symmetric = False

    def __init__(self, reference: nn.Module, target: nn.Module) -> None:
        """Both do the same to single frames."""
        super().__init__()
        self.reference, self.target = as_encoder(reference), as_encoder(target)

    @classmethod
    def wishes(cls) -> Sequence[Wish]:
        return (
            Wish("horizon", 1, "f leads from the space of h₁ to that of h₂ and cannot be applied "
                 "twice."),
            Wish("refit_after", None, "A fit of f between two encoders was not tried."),
            Wish("refit_at_end", False, "A fit of f between two encoders was not tried."),
            Wish("emphasis", 0.0, "f after h₁ is as free as h₁, so a small prediction error is no "
                 "sign of the right state."),
            Wish("linear_start", False, "Two encoders that start alike were not tried."),
            Wish("control_lags", (), "Past inputs with two encoders were not tried."),
        )  # fmt: skip

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.target(y)
        return x

    def references(self, y: Tensor) -> Tensor:
        x: Tensor = self.reference(y)
        return x

    def pair(
        self, window: Callable[[Tensor], Tensor], now: Tensor, others: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.reference.of_frames(window(now)), self.target.of_frames(window(others))

    def frames(self, y: Tensor) -> Tensor:
        return self.target.frames(y)

    def candidates(self, now: Tensor, following: Tensor) -> tuple[Tensor, ...]:
        """References live in another space, so only the positives serve."""
        return (following,)


def as_encoder(module: nn.Module) -> Encoder:
    """An encoder as it is; any other module in a wrapper."""
    return module if isinstance(module, Encoder) else CustomEncoder(module)


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
