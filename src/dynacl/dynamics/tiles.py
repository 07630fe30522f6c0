"""A curved flow, tiled by local linear expansions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from dynacl.dynamics.bank import Bank
from dynacl.settings import Wish


@final
class Tiles(Bank):
    """f(x) = W_k x (+ b_k) (+ B u): K local expansions of a curved flow (paper, Lorenz).

    A state crosses a tile in a few steps. So many maps can follow nearly any redrawing of the state
    space: their form does not identify the state.
    """

    # No start is better than another where maps tile the space, and each takes long.
    restarts, rounds = 1, 15

    def wishes(self) -> Sequence[Wish]:
        return (
            Wish("linear_start", True, "The maps follow nearly any redrawing of the state space, "
                 "so it starts at a linear map."),
            Wish("learning_rate", 1e-3, "For the same reason it is redrawn slowly. Measured on "
                 "Lorenz alone (docs/log.md)."),
            Wish("refit_after", 0.0, "The bank is fitted to that linear map before the first step, "
                 "or all tiles would start alike."),
            Wish("refit_at_end", True, "Gradient descent leaves tiles that fit few pairs and throw "
                 "others far away; least squares do not."),
            Wish("validation", 0.0, "What the user gets is the bank that is fitted when training "
                 "ends, which a look in the middle does not see."),
            Wish("switching_logits", "relative", "Errors of neighbouring tiles differ by a ratio, "
                 "not by a distance."),
            *self.asked(),
        )  # fmt: skip
