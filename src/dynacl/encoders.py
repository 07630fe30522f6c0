"""Encoders h: observations (n, D) to latents (n, d)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with GELU between them; 30d, 30d and 10d hidden units (paper, Experiments).

    `shift` and `whiten` standardise the input: z = (y − shift) whiten. They are learned from the
    training data, not by gradient descent, and are part of the model; without a `whitening` they
    are not there.
    """

    shift: Tensor | None
    whiten: Tensor | None

    def __init__(
        self,
        n_features: int,
        n_components: int,
        hidden: Sequence[int] | None = None,
        whitening: tuple[Tensor, Tensor] | None = None,
        gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        """gain: factor on the first layer's initial weights; sharper features from the start."""
        super().__init__()
        d = n_components
        shift, whiten = whitening or (None, None)
        n_inputs = n_features if whiten is None else whiten.shape[1]
        sizes = [n_inputs, *(hidden or (30 * d, 30 * d, 10 * d)), d]
        self.register_buffer("shift", shift)
        self.register_buffer("whiten", whiten)
        parts: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            parts += [_linear(n_in, n_out, generator), nn.GELU()]
        self.layers = nn.Sequential(*parts[:-1])
        with torch.no_grad():
            self.layers[0].weight.mul_(gain)  # type: ignore[operator]

    def forward(self, y: Tensor) -> Tensor:
        if self.whiten is not None and self.shift is not None:
            y = (y - self.shift) @ self.whiten
        x: Tensor = self.layers(y)
        return x


def whitening(y: npt.NDArray[np.float32], rows: int = 200_000) -> tuple[Tensor, Tensor]:
    """Shift and matrix that give observations zero mean and unit covariance, (D,) and (D, r).

    Principal components below 1e-4 of the largest variance are noise or nothing: they are dropped.
    Estimated from at most `rows` rows, evenly spread.
    """
    sample = np.asarray(y[:: max(1, len(y) // rows)], dtype=np.float64)
    mean = sample.mean(0)
    centred = sample - mean
    variance, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    keep = variance > 1e-4 * max(variance[-1], np.finfo(np.float32).tiny)
    if not keep.any():  # constant observations: nothing to scale by
        return _tensor(mean), torch.eye(y.shape[1])
    return _tensor(mean), _tensor(axes[:, keep] / np.sqrt(variance[keep]))


def _tensor(x: npt.NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))


def _linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """PyTorch's own initial distribution, drawn from the generator that was passed in."""
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
    bound = n_in**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
