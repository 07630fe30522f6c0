"""Encoders h: observations (n, D), or windows of them (n, lags · D), to latents (n, d)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
ENOUGH = 10  # windows a dimension, to know their covariance
NOISE = 0.1  # a component that follows less than this, against the best, is noise
FAINT = 0.02  # and less than this it is left out


class Whitening(nn.Module):
    """Standardises the input: zero mean and unit covariance, first of a frame, then of a window.

    Learned from the training data, not by gradient descent, and part of the model. `shift` (D,) and
    `frame` (D, r) take one observation; `window` (lags · r, s), only with time lags, takes the
    whitened observations of a window, which are much alike and differ in what matters.
    `order` lists outputs (without `window`: of the first frame), what matters most last.
    """

    shift: Tensor
    frame: Tensor
    window: Tensor | None

    def __init__(
        self, shift: Tensor, frame: Tensor, window: Tensor | None = None, n_frames: int = 1
    ) -> None:
        super().__init__()
        self.n_frames = n_frames
        self.order = np.arange(frame.shape[1] if window is None else window.shape[1])
        self.register_buffer("shift", shift)
        self.register_buffer("frame", frame)
        self.register_buffer("window", window)

    @property
    def n_outputs(self) -> int:
        if self.window is None:
            return self.n_frames * self.frame.shape[1]
        return self.window.shape[1]

    def forward(self, y: Tensor) -> Tensor:
        frames = y.reshape(*y.shape[:-1], self.n_frames, len(self.shift))
        z = ((frames - self.shift) @ self.frame).flatten(-2)
        return z if self.window is None else z @ self.window


class MLP(nn.Module):
    """Linear layers with GELU between them; 30d, 30d and 10d hidden units (paper, Experiments)."""

    def __init__(
        self,
        n_features: int,
        n_components: int,
        hidden: Sequence[int] | None = None,
        whitening: Whitening | None = None,
        gain: float = 1.0,
        linear_start: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        """gain: factor on the first layer's initial weights; sharper features from the start.

        linear_start: the layers add to a linear map that starts at the principal components of the
        input, and start small beside it.
        """
        super().__init__()
        d = n_components
        n_inputs = n_features if whitening is None else whitening.n_outputs
        sizes = [n_inputs, *(hidden or (30 * d, 30 * d, 10 * d)), d]
        self.whitening = whitening
        parts: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            parts += [_linear(n_in, n_out, generator), nn.GELU()]
        self.layers = nn.Sequential(*parts[:-1])
        with torch.no_grad():
            self.layers[0].weight.mul_(gain)  # type: ignore[operator]
        self.linear = _linear(n_inputs, d, generator) if linear_start else None
        if self.linear is not None:
            order = np.arange(n_inputs) if whitening is None else whitening.order
            with torch.no_grad():
                self.linear.weight.zero_()
                for i, column in enumerate(order[: -d - 1 : -1].tolist()):
                    self.linear.weight[i, column] = 1
                self.linear.bias.zero_()
                self.layers[-1].weight.mul_(0.1)  # type: ignore[operator]

    def forward(self, y: Tensor) -> Tensor:
        z = y if self.whitening is None else self.whitening(y)
        x: Tensor = self.layers(z)
        return x if self.linear is None else x + self.linear(z)


class OnSphere(nn.Module):
    """An encoder whose latents have unit length, for noise on the sphere."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, y: Tensor) -> Tensor:
        return nn.functional.normalize(self.inner(y), dim=-1)


class Asymmetric(nn.Module):
    """h₁ = `reference` for references, h₂ = `target` for positives and negatives.

    Called like any encoder it is h₂, the one that recovers the latents.
    """

    def __init__(self, reference: nn.Module, target: nn.Module) -> None:
        super().__init__()
        self.reference, self.target = reference, target

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.target(y)
        return x


def references(encoder: nn.Module) -> nn.Module:
    """The encoder of references: h₁ of an asymmetric pair, else the encoder itself."""
    return encoder.reference if isinstance(encoder, Asymmetric) else encoder


def whitening(
    y: Floats,
    windows: Ints | None = None,
    pairs: tuple[Ints, Ints] | None = None,
    n_signals: int = 0,
) -> Whitening:
    """Learn a Whitening from observations (T, D), and from windows (n, lags) of rows of them.

    Principal components of a frame below 1e-8 of the largest variance are rounding: they
    are dropped. In a window they are not: there, the small ones are velocities and accelerations;
    but with few windows a dimension they are chance, and frames alone are whitened.
    pairs: rows and those that follow them. Whitening makes noise as large as what it hides, so
    where some components hardly follow from the step before, each counts by how well it does, and
    frames alone are whitened; up to twice `n_signals` components are all taken for signal. To tell,
    it takes four pairs a component: with fewer pairs, only the largest components are kept.
    Estimated from at most 200,000 frames, 20,000 windows and 20,000 pairs, evenly spread.
    """
    sample = _spread(y, 200_000)
    mean = sample.mean(0, dtype=np.float64)
    pairs = pairs and (_spread(pairs[0], 20_000), _spread(pairs[1], 20_000))
    most = len(y) // 2 if pairs is None else len(pairs[0]) // 4
    frame = _principal(_covariance(sample, mean), 1e-8, most=max(1, 2 * n_signals, most))
    weight = np.ones(frame.shape[1])
    if pairs is not None and len(weight) > 2 * n_signals:
        weight = _signal(y, mean, frame, *pairs)
    best = np.argsort(-weight, kind="stable")[:n_signals]
    kept = (weight > FAINT) | np.isin(np.arange(len(weight)), best)
    weight = np.maximum(weight, FAINT)[kept]
    frame = frame[:, kept] * weight
    windows = np.arange(len(y))[:, None] if windows is None else windows
    windows, n_frames = _spread(windows, 20_000), windows.shape[1]
    few = len(windows) < ENOUGH * n_frames * len(weight)
    if n_frames == 1 or few or weight.min() < 1:
        found = Whitening(_tensor(mean), _tensor(frame), n_frames=n_frames)
        found.order = np.argsort(weight, kind="stable")
        return found
    flat = ((np.asarray(y[windows], dtype=np.float64) - mean) @ frame).reshape(len(windows), -1)
    window = _principal(flat.T @ flat / len(flat), 1e-10)
    return Whitening(_tensor(mean), _tensor(frame), _tensor(window), n_frames)


def _signal(y: Floats, mean: Doubles, frame: Doubles, before: Ints, after: Ints) -> Doubles:
    """A weight for each component: R² of it by a linear map from all components a step before,
    against the best; or 1 for all, if all are signal or none follows linearly."""
    n, r = len(before), frame.shape[1]
    if n < 4 * r:  # too few to tell
        return np.ones(r)
    chance = r / n
    lagged = _covariance(y, mean, after, before)
    follows = (np.square(frame.T @ lagged @ frame).sum(1) - chance) / (1 - chance)
    best = follows.max()
    if best < 0.05 or follows.min() > NOISE * best:
        return np.ones(r)
    weight: Doubles = np.clip(follows / best, 0, 1)
    return weight


def _spread(rows: Any, most: int) -> Any:
    """At most so many of the rows, evenly spread."""
    return rows[:: max(1, -(-len(rows) // most))]


def _covariance(
    y: Floats, mean: Doubles, rows: Ints | None = None, others: Ints | None = None
) -> Doubles:
    """Of rows with others (default: all with themselves), in double precision, a part at a time."""
    n = len(y) if rows is None else len(rows)
    total = np.zeros((len(mean), len(mean)))
    for start in range(0, n, 4096):
        part = slice(start, start + 4096)
        left = y[part if rows is None else rows[part]] - mean
        right = left if others is None else y[others[part]] - mean
        total += left.T @ right
    return total / n


def _principal(covariance: Doubles, least: float, most: int | None = None) -> Doubles:
    """The matrix that gives rows unit covariance, by rising variance: at most so many components,
    none below `least` of the top."""
    variance, axes = np.linalg.eigh(covariance)
    keep = variance > least * max(variance[-1], np.finfo(np.float32).tiny)
    if most is not None:
        keep[:-most] = False
    if not keep.any():  # constant observations: nothing to scale by
        return np.eye(len(covariance))
    whiten: Doubles = axes[:, keep] / np.sqrt(variance[keep])
    return whiten


def _tensor(x: Doubles) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))


def _linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """PyTorch's own initial distribution, drawn from the generator that was passed in."""
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
    bound = n_in**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
