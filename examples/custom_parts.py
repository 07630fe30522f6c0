"""Your own dynamics, similarity and encoder: each is a small nn.Module, passed to DCL as it is.

    python examples/custom_parts.py

A part says what it computes; sampling, loss, training, prediction and metrics stay as they are.
`fit` trains a copy. Files hold weights, not code: DCL.load takes custom parts again.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dynacl import DCL, TimeSeries, evaluate, simulate


class Rotation(nn.Module):
    """f(x) = exp(S − Sᵀ) x: linear dynamics that neither grow nor decay."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.S = nn.Parameter(torch.zeros(d, d))

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        return x @ torch.linalg.matrix_exp(self.S - self.S.T).T


class Laplace(nn.Module):
    """φ(q, k) = −‖q − k‖₁, for (..., d) each: noise with heavier tails than Gaussian."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -(q - k).abs().sum(-1)


class Corrected(nn.Module):
    """h(y) = W y + c(y): a linear guess and a small network that corrects it."""

    def __init__(self, n_features: int, d: int) -> None:
        super().__init__()
        self.guess = nn.Linear(n_features, d)
        self.correction = nn.Sequential(nn.Linear(n_features, 32), nn.GELU(), nn.Linear(32, d))

    def forward(self, y: Tensor) -> Tensor:
        return self.guess(y) + self.correction(y)


def data() -> TimeSeries:
    """A plane that turns by 5° a step, seen through 10 linear observations."""
    return simulate.lds(
        rng=np.random.default_rng(0), d=2, angle=5, noise=0.02, trials=40, steps=100,
        mixing="linear", observed=10,
    )  # fmt: skip


def fit(series: TimeSeries, **parts: nn.Module) -> DCL:
    return DCL(2, **parts, max_iter=200, batch_size=128, random_state=0).fit(series)


def main() -> None:
    series = data()
    torch.manual_seed(0)  # the parts below draw their own first weights
    dynamics, similarity, encoder = Rotation(2), Laplace(), Corrected(10, 2)
    for name, parts in {
        "built in": {},
        "dynamics": {"dynamics": dynamics},
        "similarity": {"similarity": similarity},
        "encoder": {"encoder": encoder},
        "all three": {"dynamics": dynamics, "similarity": similarity, "encoder": encoder},
    }.items():
        found = evaluate(fit(series, **parts), series)
        print(f"{name:<11} R² {found['r2']:.3f}   dynR² of 10 steps {found['dyn_r2_10']:.3f}")


if __name__ == "__main__":
    main()
