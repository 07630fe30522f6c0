"""K true regimes, each linear, each lasting for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from dynacl.dynamics.bank import Bank
from dynacl.dynamics.base import SEVERAL, SHARP
from dynacl.dynamics.linear import Linear
from dynacl.settings import Wish


@final
class SwitchingLinear(Bank):
    """f(x) = W_k x (+ b_k) (+ B u): K regimes, each of which lasts for many steps, any K."""

    identifies = True
    proposed = True
    restarts, rounds = 4, 200

    def one_regime(self) -> Linear:
        d, n_controls = (
            self.matrices.shape[-1],
            0 if self.control is None else self.control.shape[1],
        )
        return Linear(d, self.bias is not None, n_controls)

    def wishes(self) -> Sequence[Wish]:
        return (
            SHARP,
            *SEVERAL,
            Wish("refit_after", 0.2, "Gradient descent may leave two modes merged; least squares "
                 "and argmin in turn, on latents that are nearly there, part them."),
            *self.asked(),
        )  # fmt: skip
