"""A residual network as dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import AHEAD, LIKELY, Dynamics, control_matrix, driven
from dynacl.dynamics.least_squares import assign, descend, linear_fit
from dynacl.dynamics.whitened import Whitened, seeded
from dynacl.settings import Wish


@final
class ResidualMLP(Dynamics):
    """f(x) = x + R (A z + g(z)) (+ B u), g a small network whose last layer starts near zero.

    lipschitz: bound on g's Lipschitz constant; below 1, f is invertible, and there is no A then.
    Each layer whose largest singular value exceeds its share of the bound is scaled down to it;
    tanh has slope 1 at most.
    """

    options = ("lipschitz",)
    proposed = True
    penalties = (0.0, torch.inf)  # a linear map alone may predict better over several steps

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
        self.linear = nn.Parameter(torch.zeros(d, d)) if lipschitz is None else None
        self.control = control_matrix(d, n_controls)

    def wishes(self) -> Sequence[Wish]:
        return (Wish("linear_start", True, "A network follows any fold that a random start has; "
                     "and a linear model to fall back on is there."),)  # fmt: skip

    def if_seen_whole(self) -> Sequence[Wish]:
        return LIKELY

    def if_read_off_windows(self, driven: bool) -> Sequence[Wish]:
        return AHEAD

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        moved = self.residual(z)
        if self.linear is not None:
            moved = moved + nn.functional.linear(z, self.linear)
        return driven(x + moved @ root.T, self.control, u)

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

    def refit(self, x: Tensor, x_next: Tensor, u: Tensor | None = None, **how: Any) -> None:
        """Least squares for what is linear, beside the network as it is; then all by descent."""
        self.observe(x)
        alone = how.get("penalty", 0.0) == torch.inf
        if self.linear is not None:
            self._fit_linear(x, x_next, u, alone)
        if not alone:
            descend(self, x, x_next, u, how.get("generator"))

    @torch.no_grad()
    def _fit_linear(self, x: Tensor, x_next: Tensor, u: Tensor | None, alone: bool) -> None:
        """A, B and the last bias; alone: without the network."""
        last: nn.Linear = self.layers[-1]  # type: ignore[assignment]
        if alone:
            last.weight.zero_()
        z, root = self.whitened(x)
        target = torch.linalg.solve_triangular(root, (x_next - x).T, upper=False).T
        last.bias.zero_()
        drive = None if self.control is None else u
        fit = linear_fit(z, target - self.residual(z), drive, bias=True)
        last.bias.copy_(fit["bias"])
        assign(self.linear, fit["matrix"])
        if self.control is not None:
            self.control.copy_(root.double() @ fit["control"])

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *how: Any) -> None:
        """Files of earlier versions have no A: it was 0."""
        if self.linear is not None:
            state.setdefault(f"{prefix}linear", torch.zeros_like(self.linear))
        super()._load_from_state_dict(state, prefix, *how)
