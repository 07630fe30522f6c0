"""A smooth redrawing of latents: ψ(x) = x + R θ m(z), x = R z + mean, of few coefficients θ."""

from __future__ import annotations

from math import comb
from typing import final

import torch
from torch import Tensor, nn

from dynacl.dynamics.monomials import Monomials

DEGREES = (2, 3, 4, 5)
MOST = 126  # products


def degree(d: int, most: int = MOST) -> int:
    """The highest up to five, and two at least, that has so few products."""
    return max(p for p in DEGREES if p == 2 or comb(d + p, p) <= most)


@final
class Redrawing(nn.Module):
    """m: all products of two to `degree` components of z, each divided by its spread.

    Far out, where no latents were, products are those of the border.
    """

    bent: Tensor
    mean: Tensor
    root: Tensor
    theta: Tensor  # (terms, d)
    spread: Tensor  # (terms,)

    def __init__(self, d: int, degree: int = 5) -> None:
        super().__init__()
        self.monomials = Monomials(d, degree)
        bent = (self.monomials.factors < d).sum(1) > 1
        self.register_buffer("bent", bent, persistent=False)
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("root", torch.eye(d))
        self.register_buffer("theta", torch.zeros(int(bent.sum()), d))
        self.register_buffer("spread", torch.ones(int(bent.sum())))

    @classmethod
    def like(cls, theta: Tensor, d: int) -> Redrawing | None:
        """One of d latents whose coefficients have this shape; None: none has."""
        shapes: dict[tuple[int, ...], int] = {(comb(d + p, p) - d - 1, d): p for p in DEGREES}
        p = shapes.get(tuple(theta.shape))
        return None if p is None else cls(d, p)

    def forward(self, x: Tensor) -> Tensor:
        drawn: Tensor = x + self.features(self.whitened(x)) @ self.theta @ self.root.T
        return drawn

    def with_slopes(self, x: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
        """ψ of x, and its derivatives by what x has these derivatives by."""
        z = self.whitened(x)
        bend = torch.einsum("nmd,mk->nkd", self.slopes(z), self.theta)
        along = torch.linalg.solve_triangular(self.root, slopes, upper=False)
        return self(x), slopes + self.root @ bend @ along

    def whitened(self, x: Tensor) -> Tensor:
        z: Tensor = torch.linalg.solve_triangular(self.root, (x - self.mean).mT, upper=False).mT
        return z

    def features(self, z: Tensor) -> Tensor:
        features: Tensor = self.monomials.bounded(z)[..., self.bent] / self.spread
        return features

    def slopes(self, z: Tensor) -> Tensor:
        """Of the features, (n, terms, d)."""
        axes = torch.eye(z.shape[1]).to(z)
        along = [torch.func.jvp(self.features, (z,), (axis.expand_as(z),))[1] for axis in axes]
        return torch.stack(along, -1)
