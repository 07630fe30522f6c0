"""Linear dynamics: x' = A x (+ b) (+ B u)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import AHEAD, SEVERAL, SHARP, Dynamics, Request, control_matrix, driven
from dynacl.dynamics.least_squares import assign, linear_fit
from dynacl.dynamics.stable import bound
from dynacl.settings import Wish


@final
class Linear(Dynamics):
    """f(x) = A x (+ b) (+ B u). A starts at the identity."""

    identifies = True
    options = ("bias", "stable")
    proposed = True

    @classmethod
    def least_weights(cls, request: Request) -> int:
        return request.d**2

    def __init__(
        self,
        d: int,
        bias: bool = False,
        n_controls: int = 0,
        generator: torch.Generator | None = None,
        stable: bool | str = False,
    ) -> None:
        super().__init__()
        self.stable = stable
        self.matrix = nn.Parameter(torch.eye(d))
        self.bias = nn.Parameter(torch.zeros(d)) if bias else None
        self.control = control_matrix(d, n_controls)

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        return driven(nn.functional.linear(x, self.matrix, self.bias), self.control, u)

    def wishes(self) -> Sequence[Wish]:
        return (SHARP, *SEVERAL)

    def if_read_off_windows(self, driven: bool) -> Sequence[Wish]:
        return AHEAD if driven else ()

    def refit(self, x: Tensor, x_next: Tensor, u: Tensor | None = None, **how: Any) -> None:
        fit = linear_fit(x, x_next, None if self.control is None else u, self.bias is not None)
        for name, value in fit.items():
            assign({"matrix": self.matrix, "bias": self.bias, "control": self.control}[name], value)

    def bound(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> float:
        bias = None if self.bias is None else self.bias.data[None]
        only = torch.zeros(len(x), dtype=torch.long)
        return bound(self.matrix.data[None], bias, x, only)

    def linear_maps(self) -> Tensor:
        return self.matrix[None]

    @torch.no_grad()
    def unit_scale(self, x: Tensor) -> None:
        scale = (x @ self.matrix.T).norm(dim=-1).mean()
        for parameter in (self.matrix, self.bias, self.control):
            if parameter is not None and parameter.requires_grad:
                parameter.div_(scale)
