"""Polynomial flows: a vector field in continuous time, followed by Runge-Kutta steps."""

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

CORRECTIONS = 3  # of a fit by least squares, for what a finite step adds to the field


@final
class Flow(Dynamics):
    """dz/dt = W m(z), m all monomials of z up to `degree`; f(x) is where a time step leads, + B u.

    A sampled flow is no polynomial, however simple its field: over a step of a twelfth of a radian,
    products of the field with itself are some per mille of the state. Where the noise is smaller
    than that, they decide. W starts at zero. Beyond `reach` standard deviations the field bends no
    more (docs: `Polynomial`).
    """

    identifies = True
    options = ("degree",)
    proposed = True
    penalties = (0.0, 0.001, 0.01, 0.1)

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
        self.reach = REACH
        self.monomials = Monomials(d, degree)
        self.whitened = Whitened(d)
        self.weight = nn.Parameter(torch.zeros(d, len(self.monomials)))
        self.control = control_matrix(d, n_controls)

    def field(self, z: Tensor) -> Tensor:
        """dz/dt, per time step."""
        within = z.clamp(-self.reach, self.reach)
        features = self.monomials(within) if self.training else self.features(z)
        return features @ self.weight.T

    def features(self, z: Tensor) -> Tensor:
        """The monomials, bounded but for the linear ones."""
        return self.monomials.bounded(z, self.reach)

    def moved(self, z: Tensor) -> Tensor:
        """A Runge-Kutta step of fourth order, one time step long."""
        a = self.field(z)
        b = self.field(z + a / 2)
        c = self.field(z + b / 2)
        d = self.field(z + c)
        return z + (a + 2 * b + 2 * c + d) / 6

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        return driven(self.moved(z) @ root.T + self.whitened.mean, self.control, u)

    def leap(self, x: Tensor, steps: int) -> Tensor | None:
        if self.control is not None:
            return None
        z, root = self.whitened(x)
        for _ in range(steps):
            z = self.moved(z)
        end: Tensor = z @ root.T + self.whitened.mean
        return end

    def wishes(self) -> Sequence[Wish]:
        return (
            Wish("horizon", 10, "Many redrawings of the state space look alike over one small "
                 "step; few over one, two, … and ten."),
            Wish("mixed", True, "So each pair has its own number of steps."),
            Wish("one_step", 0.0, "Short steps first are what folds the state space."),
        )  # fmt: skip

    def if_seen_whole(self) -> Sequence[Wish]:
        return LIKELY

    def if_read_off_windows(self, driven: bool) -> Sequence[Wish]:
        return (*AHEAD, GENTLY) if driven else ()

    def if_noise_shows(self) -> Sequence[Wish]:
        return (
            Wish("evenness", 2.0, "The noise can be seen by itself, and tells slopes of the "
                 "encoder long before encoder and dynamics are as precise as it."),
        )  # fmt: skip

    def observe(self, x: Tensor) -> None:
        self.whitened.update(x)

    @torch.no_grad()
    def refit(self, x: Tensor, x_next: Tensor, u: Tensor | None = None, **how: Any) -> None:
        """Least squares on the mean of m(z) over a step, then on what a whole step still misses."""
        self.whitened.restart(x)
        z, root = self.whitened(x)
        after = torch.linalg.solve_triangular(root, (x_next - self.whitened.mean).T, upper=False).T
        features = (self.features(z) + self.features(after)) / 2
        penalty = how.get("penalty", 0.0) * features.var(0, correction=0)
        penalty[self.monomials.linear] = 0
        drive = None if self.control is None else u
        self.weight.zero_()
        pushed = torch.zeros(len(root), 0 if u is None else u.shape[1]).double()
        for _ in range(1 + CORRECTIONS):
            missed = after - self.moved(z)
            if drive is not None:
                missed = missed - drive @ pushed.T.to(drive)
            if not missed.isfinite().all():  # a field that runs off has nothing to correct
                break
            fit = linear_fit(features, missed, drive, False, penalty)
            self.weight.add_(fit["matrix"].to(self.weight))
            if drive is not None:
                pushed += fit["control"]
        if self.control is not None:
            self.control.copy_(root.double() @ pushed)

    def field_terms(self) -> Monomials | None:
        return self.monomials

    def library(self) -> Library:
        """All monomials; the model is the flow itself, also where no data are."""
        unbounded = copy.deepcopy(self)
        unbounded.reach = float("inf")
        return Library(self.monomials.names, self.monomials, unbounded)
