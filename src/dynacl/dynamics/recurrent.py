"""Recurrent dynamics: a prediction from the last several embeddings, not from one alone."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import Dynamics, control_matrix, driven
from dynacl.dynamics.whitened import Whitened, seeded


@final
class Recurrent(Dynamics):
    """f(x_{t−C..t}) = x_t + R W c_t (+ B u), c_t the state of a GRU run over the last embeddings.

    CPC (van den Oord et al., 2018) is this with the loss unchanged: an autoregressive summary of
    past embeddings and a linear map to the prediction; without the skip connection if skip=False.
    """

    def __init__(
        self,
        d: int,
        context: int = 8,
        hidden: int = 64,
        n_controls: int = 0,
        skip: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.context, self.skip = context, skip
        self.whitened = Whitened(d)
        self.gru = seeded(nn.GRU(d, hidden, batch_first=True), generator)
        self.head = seeded(nn.Linear(hidden, d), generator)
        with torch.no_grad():
            self.head.weight.mul_(1e-2 if skip else 1.0)
            self.head.bias.zero_()
        self.control = control_matrix(d, n_controls)

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """x: (n, steps, d), the present last; (n, d) is a present that nothing led up to."""
        if x.ndim == 2:
            x = x[:, None].expand(-1, self.context + 1, -1)
        z, root = self.whitened(x)
        _, state = self.gru(z)
        now = x[:, -1] if self.skip else self.whitened.mean.expand(len(x), -1)
        return driven(now + self.head(state[0]) @ root.T, self.control, u)

    def observe(self, x: Tensor) -> None:
        self.whitened.update(x)
