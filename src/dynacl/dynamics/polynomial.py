"""Polynomial dynamics."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb
from typing import Any, final

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import Dynamics, Library, Request, control_matrix, driven
from dynacl.dynamics.least_squares import linear_fit
from dynacl.dynamics.whitened import Whitened
from dynacl.settings import Wish

REACH = 4.0  # standard deviations, beyond which the correction is that of the border
QUADRATIC = 2  # the highest degree that is stable over several steps in training


@final
class Polynomial(Dynamics):
    """f(x) = x + R W m(z) (+ B u), m all monomials of z up to `degree`. W starts at zero.

    Beyond `reach` standard deviations, where hardly any data are, what bends is that of the border:
    a power must not throw a roll-out to infinity. The linear part goes on, as a recording may have
    rare, far states; but not in training, where several steps of dynamics that are not known yet
    run off (docs/log.md).
    """

    identifies = True
    options = ("degree",)
    proposed = True
    # A fit one step ahead likes any power that helps a little; over many steps these run off.
    penalties = (0.0, 0.001, 0.01, 0.1, 1.0)
    powers: Tensor
    linear: Tensor

    @classmethod
    def least_weights(cls, request: Request) -> int:
        d, degree = request.d, int(request.options["degree"])
        few = min(d, degree, 64)  # beyond 64 there are more monomials than any file has numbers
        monomials = comb(d + degree, few)
        # What is multiplied for each is a table that no file holds; a file must be worth it.
        return max(d * monomials, degree * monomials // 100)

    def __init__(
        self,
        d: int,
        degree: int = 2,
        n_controls: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if degree < 1:
            raise ValueError(f"degree: got {degree}; wanted at least 1")
        self.degree, self.reach = degree, REACH
        # Each monomial is a product of `degree` columns of [z, 1]; column d is the 1.
        columns = list(combinations_with_replacement(range(d + 1), degree))
        self.register_buffer("powers", torch.tensor(columns), persistent=False)
        alone = [columns.index((i, *[d] * (degree - 1))) for i in range(d)]
        self.register_buffer("linear", torch.tensor(alone), persistent=False)
        self.whitened = Whitened(d)
        self.weight = nn.Parameter(torch.zeros(d, len(columns)))
        self.control = control_matrix(d, n_controls)

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        bounded = z.clamp(-self.reach, self.reach)
        features = self.monomials(bounded) if self.training else self.features(z)
        return driven(x + features @ self.weight.T @ root.T, self.control, u)

    def wishes(self) -> Sequence[Wish]:
        several = (
            Wish("horizon", 20, "Many redrawings of the state space look quadratic over one small "
                 "step, or over ten; few over one, two, … and twenty."),
            Wish("mixed", True, "So each pair has its own number of steps."),
            Wish("one_step", 0.0, "Short steps first are what folds the state space."),
        )  # fmt: skip
        return (
            *(several if self.degree <= QUADRATIC else ()),  # higher powers run off over several
            Wish("duration", 0.6, "Longer, and quadratic dynamics slowly redraw what they had "
                 "found. Measured on Lorenz: R² on three data sets 0.993, 0.986, 0.978 after 1,750 "
                 "steps, 0.985, 0.975, 0.972 after 3,000."),
        )  # fmt: skip

    def monomials(self, z: Tensor) -> Tensor:
        with_one = torch.cat([z, torch.ones_like(z[..., :1])], -1)
        out = with_one[..., self.powers[:, 0]]
        for column in self.powers.T[1:]:
            out = out * with_one[..., column]
        return out

    def features(self, z: Tensor) -> Tensor:
        """The monomials, bounded but for the linear ones."""
        bounded = self.monomials(z.clamp(-self.reach, self.reach))
        return bounded.index_copy(-1, self.linear, z)

    def observe(self, x: Tensor) -> None:
        self.whitened.update(x)

    @torch.no_grad()
    def refit(self, x: Tensor, x_next: Tensor, u: Tensor | None = None, **how: Any) -> None:
        self.whitened.restart(x)
        z, root = self.whitened(x)
        target = torch.linalg.solve_triangular(root, (x_next - x).T, upper=False).T
        # With a penalty the fit is of what a step does; without one, of the polynomial itself.
        strength = how.get("penalty", 0.0)
        features = self.features(z) if strength else self.monomials(z)
        penalty = strength * features.var(0, correction=0)
        penalty[self.linear] = 0
        fit = linear_fit(features, target, None if self.control is None else u, False, penalty)
        self.weight.copy_(fit["matrix"])
        if self.control is not None:
            self.control.copy_(root.double() @ fit["control"])

    def library(self) -> Library:
        """All monomials; the model is the polynomial itself, also where no data are."""
        unbounded = copy.deepcopy(self)
        unbounded.reach = float("inf")
        names = [f"x{i + 1}" for i in range(len(self.weight))] + [""]
        monomials = ["·".join(n for n in (names[j] for j in term) if n) or "1"
                     for term in self.powers.tolist()]  # fmt: skip
        return Library(monomials, self.monomials, unbounded)
