"""Gated dynamics: the state itself tells which mode acts, so forecasts can switch."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import Dynamics, Request, control_matrix, driven
from dynacl.dynamics.whitened import Whitened, seeded


@final
class Gated(Dynamics):
    """f(x) = x + R Σ_k p_k(z) (W_k z + b_k) (+ B u): the state itself says which mode it is in.

    p = softmax of a small network, so f needs no x_next and can forecast through a switch.
    """

    reads_modes = True
    options = ("n_modes",)

    @classmethod
    def least_weights(cls, request: Request) -> int:
        return int(request.options["n_modes"]) * request.d**2

    def __init__(
        self,
        d: int,
        n_modes: int,
        hidden: int = 64,
        n_controls: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.whitened = Whitened(d)
        self.matrices = nn.Parameter(1e-3 * torch.randn(n_modes, d, d, generator=generator))
        self.bias = nn.Parameter(torch.zeros(n_modes, d))
        self.gate = nn.Sequential(
            seeded(nn.Linear(d, hidden), generator),
            nn.Tanh(),
            seeded(nn.Linear(hidden, n_modes), generator),
        )
        self.control = control_matrix(d, n_controls)

    @property
    def n_modes(self) -> int:  # type: ignore[override]
        return len(self.matrices)

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        share = self.gate(z).softmax(-1) if weights is None else weights
        correction = (share[..., None] * self._flow(z)).sum(-2)
        return driven(x + correction @ root.T, self.control, u)

    def bank(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        bank = x[:, None] + self._flow(z) @ root.T
        return driven(bank, self.control, None if u is None else u[:, None])

    def _flow(self, z: Tensor) -> Tensor:
        """W_k z + b_k of every mode, (n, K, d)."""
        flow = (z @ self.matrices.flatten(0, 1).T).view(*z.shape[:-1], *self.bias.shape)
        return flow + self.bias

    def mode_weights(self, x: Tensor) -> Tensor:
        weights: Tensor = self.gate(self.whitened(x)[0]).softmax(-1)
        return weights

    def linear_maps(self) -> Tensor:
        root = torch.linalg.cholesky(self.whitened.covariance)
        turned: Tensor = root @ self.matrices @ torch.linalg.inv(root)
        return torch.eye(len(root)).to(root) + turned

    def observe(self, x: Tensor) -> None:
        self.whitened.update(x)
