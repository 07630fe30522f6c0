"""Encoders made of encoders: on a sphere, or one for references and one for targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from torch import Tensor, nn

from dynacl.encoders.base import Encoder, as_encoder
from dynacl.objective.geometry.base import Geometry
from dynacl.settings import Wish


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
