"""A residual network as dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import LIKELY, Dynamics, control_matrix, driven
from dynacl.dynamics.whitened import Whitened, seeded
from dynacl.settings import Wish


@final
class ResidualMLP(Dynamics):
    """f(x) = x + R g(z) (+ B u), g a small network whose last layer starts near zero.

    lipschitz: bound on g's Lipschitz constant; below 1, f is invertible. Each layer whose largest
    singular value exceeds its share of the bound is scaled down to it; tanh has slope 1 at most.
    """

    options = ("lipschitz",)
    proposed = True

    def __init__(
        self,
        d: int,
        hidden: tuple[int, ...] = (64, 64),
        lipschitz: float | None = None,
        n_controls: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if lipschitz is not None and not lipschitz > 0:
            raise ValueError(f"lipschitz: got {lipschitz}; wanted a positive number")
        self.whitened = Whitened(d)
        self.lipschitz = lipschitz
        self.layers = nn.ModuleList(
            seeded(nn.Linear(a, b), generator) for a, b in pairwise((d, *hidden, d))
        )
        with torch.no_grad():
            self.layers[-1].weight.mul_(1e-2)  # type: ignore[operator]
            self.layers[-1].bias.zero_()  # type: ignore[operator]
        self.control = control_matrix(d, n_controls)

    def if_seen_whole(self) -> Sequence[Wish]:
        return LIKELY

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        return driven(x + self.residual(z) @ root.T, self.control, u)

    def residual(self, z: Tensor) -> Tensor:
        """g(z); its slope is bounded layer by layer where a bound was asked for."""
        share = None if self.lipschitz is None else self.lipschitz ** (1 / len(self.layers))
        for i, layer in enumerate(self.layers):
            weight: Tensor = layer.weight  # type: ignore[assignment]
            bias: Tensor = layer.bias  # type: ignore[assignment]
            if share is not None:
                weight = weight * (share / torch.linalg.matrix_norm(weight, 2)).clamp(max=1.0)
            z = nn.functional.linear(z, weight, bias)
            if i < len(self.layers) - 1:
                z = torch.tanh(z)
        return z

    def observe(self, x: Tensor) -> None:
        self.whitened.update(x)
