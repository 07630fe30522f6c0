"""Your own dynamics with modes, in twenty lines: regimes that only rotate.

    python examples/custom_modes.py

A module that has modes says how many (`n_modes`) and what each of them predicts (`bank`). The rest
follows: the soft choice in training, `modes`, `predict`, `forecast`, `evaluate`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dynacl import DCL, TimeSeries, evaluate, simulate


class Rotations(nn.Module):
    """f(x) = exp(S_k − S_kᵀ) x: regimes that turn the state, and neither grow nor decay."""

    identifies = True  # its form identifies the state, so the encoder may start at a linear map
    wishes = {"horizon": 4, "refit_after": 0.2}  # what it asks of the training  # noqa: RUF012

    def __init__(self, d: int, n_modes: int) -> None:
        super().__init__()
        self.n_modes = n_modes
        self.S = nn.Parameter(0.01 * torch.randn(n_modes, d, d))

    def linear_maps(self) -> Tensor:
        return torch.linalg.matrix_exp(self.S - self.S.mT)

    def bank(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        """The prediction of every mode, (n, K, d)."""
        return torch.einsum("kij,nj->nki", self.linear_maps(), x)


def data() -> TimeSeries:
    """Three regimes of a system with three hidden dimensions, seen through ten observations."""
    return simulate.slds(
        rng=np.random.default_rng(0), d=3, modes=3, angle=20, noise=1e-3, switch_probability=5e-3,
        trials=40, steps=200, mixing="linear", observed=10,
    )  # fmt: skip


def main() -> None:
    series = data()
    torch.manual_seed(0)  # the module draws its own first weights
    model = DCL(3, Rotations(3, 3), random_state=0).fit(series)
    found = evaluate(model, series)
    print(f"R² {found['r2']:.3f}   modes {found['mode_accuracy_sequence']:.3f}   "
          f"dynR² of 10 steps {found['dyn_r2_10']:.3f}")  # fmt: skip
    regimes = model.modes(series)[0]
    future = model.forecast(series, steps=20)[0]
    print(f"first trial: regimes {np.unique(regimes).tolist()}, {len(future)} steps ahead; largest "
          f"|λ| of each regime {np.round(model.spectral_radius_, 3).tolist()}")  # fmt: skip


if __name__ == "__main__":
    main()
