"""Polynomial dynamics."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import (
    AHEAD,
    GENTLY,
    LIKELY,
    Dynamics,
    Library,
    Request,
    control_matrix,
    driven,
)
from dynacl.dynamics.least_squares import linear_fit
from dynacl.dynamics.monomials import REACH, Monomials, least_weights
from dynacl.dynamics.whitened import Whitened
from dynacl.settings import Wish

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

    @classmethod
    def least_weights(cls, request: Request) -> int:
        return least_weights(request.d, int(request.options["degree"]))

    def __init__(
        self,
        d: int,
        degree: int = 2,
        n_controls: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.degree, self.reach = degree, REACH
        self.monomials = Monomials(d, degree)
        self.whitened = Whitened(d)
        self.weight = nn.Parameter(torch.zeros(d, len(self.monomials)))
        self.control = control_matrix(d, n_controls)

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        within = self.monomials(z.clamp(-self.reach, self.reach))
        features = within if self.training else self.features(z)
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

    def if_seen_whole(self) -> Sequence[Wish]:
        return LIKELY

    def if_read_off_windows(self, driven: bool) -> Sequence[Wish]:
        return (*AHEAD, GENTLY) if driven else ()

    def features(self, z: Tensor) -> Tensor:
        """The monomials, bounded but for the linear ones."""
        return self.monomials.bounded(z, self.reach)

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
        penalty[self.monomials.linear] = 0
        fit = linear_fit(features, target, None if self.control is None else u, False, penalty)
        self.weight.copy_(fit["matrix"])
        if self.control is not None:
            self.control.copy_(root.double() @ fit["control"])

    def library(self) -> Library:
        """All monomials; the model is the polynomial itself, also where no data are."""
        unbounded = copy.deepcopy(self)
        unbounded.reach = float("inf")
        return Library(self.monomials.names, self.monomials, unbounded)
