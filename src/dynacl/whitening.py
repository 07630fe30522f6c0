"""The scale of observations, their signal and noise, and how much of a state they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WINDOWS = 20_000  # or pairs that are looked at, at most
ENOUGH = 10  # windows a dimension, to know their covariance
NOISE = 0.1  # a component that follows less than this, against the best, is noise
FAINT = 0.02  # and less than this it is left out
NUMBERS = 1 << 22  # of observations in double precision at a time: bounds the memory
SEEN = 0.1  # a dimension of the past whose correlation with the future is less shows no state


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
        return self.of_frames(self.frames(frames).flatten(-2))

    def frames(self, y: Tensor) -> Tensor:
        """Single observations (..., D), whitened."""
        z: Tensor = (y - self.shift) @ self.frame
        return z

    def unwhitened(self, z: Tensor) -> Tensor:
        """Single observations, from what they are whitened: the nearest that have it."""
        y: Tensor = z @ torch.linalg.pinv(self.frame.double()).to(z) + self.shift
        return y

    def of_frames(self, z: Tensor) -> Tensor:
        """Windows of whitened observations, side by side."""
        return z if self.window is None else z @ self.window


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
    pairs = pairs and (_spread(pairs[0], WINDOWS), _spread(pairs[1], WINDOWS))
    most = len(y) // 2 if pairs is None else len(pairs[0]) // 4
    frame = _components(sample, mean, max(1, 2 * n_signals, most))
    weight = np.ones(frame.shape[1])
    if pairs is not None and len(weight) > 2 * n_signals:
        weight = _signal(y, mean, frame, *pairs)
    best = np.argsort(-weight, kind="stable")[:n_signals]
    kept = (weight > FAINT) | np.isin(np.arange(len(weight)), best)
    weight = np.maximum(weight, FAINT)[kept]
    frame = frame[:, kept] * weight
    if windows is None:
        windows = np.arange(0, len(y), max(1, -(-len(y) // WINDOWS)))[:, None]
    windows, n_frames = _spread(windows, WINDOWS), windows.shape[1]
    few = len(windows) < ENOUGH * n_frames * len(weight)
    if n_frames == 1 or few or weight.min() < 1:
        found = Whitening(_tensor(mean), _tensor(frame), n_frames=n_frames)
        found.order = np.argsort(weight, kind="stable")
        return found
    flat = _windows(y, mean, frame, windows)
    window = _principal(flat.T @ flat / len(flat), 1e-10)
    return Whitening(_tensor(mean), _tensor(frame), _tensor(window), n_frames)


def dimensions(y: Floats, most: int) -> int:
    """How many dimensions rows of observations span, above rounding; `most` + 1: more than `most`.

    Told from some hundred rows, evenly spread: noise of every channel spans as many.
    """
    some = np.asarray(_spread(y, 10 * most + 100), dtype=np.float64)
    spread = np.linalg.svd(some - some.mean(0), compute_uv=False) ** 2
    return min(int((spread > 1e-8 * spread[0]).sum()), most + 1)


def observed_dimensions(scaling: Whitening, y: Floats, past: Ints, future: Ints) -> int | None:
    """How many dimensions of a state the rows `past` (n, lags) show; None: too few windows to tell.

    `future` (n, lags) are the rows after them. Past and future have in common what the state
    carries over, so their canonical correlations that are not 0 number the rank of O (Akaike 1975)
    where system and mixing are linear; a non-linear mixing adds to them. What the noise hides does
    not count: a correlation of less than 0.1, or such as chance gives. Of at most 20,000 windows.
    """
    past, future = _spread(past, WINDOWS), _spread(future, WINDOWS)
    mean, frame = scaling.shift.double().numpy(), scaling.frame.double().numpy()
    n = len(past)
    if n < ENOUGH * past.shape[1] * frame.shape[1]:
        return None
    sides = []
    for rows in (past, future):
        side = _windows(y, mean, frame, rows)
        side -= side.mean(0)
        sides.append(side @ _principal(side.T @ side / n, 1e-10))
    correlations = np.linalg.svd(sides[0].T @ sides[1] / n, compute_uv=False)
    chance = sum(side.shape[1] ** 0.5 for side in sides) / n**0.5
    return int((correlations > max(SEEN, 1.2 * chance)).sum())


def _windows(y: Floats, mean: Doubles, frame: Doubles, rows: Ints) -> Doubles:
    """Whitened observations of rows (n, lags), side by side."""
    flat, size = rows.ravel(), max(1, NUMBERS // y.shape[1])
    parts = [(y[flat[i : i + size]] - mean) @ frame for i in range(0, len(flat), size)]
    return np.concatenate(parts).reshape(len(rows), -1)


def _signal(y: Floats, mean: Doubles, frame: Doubles, before: Ints, after: Ints) -> Doubles:
    """A weight for each component: R² of it by a linear map from all components a step before,
    against the best; or 1 for all, if all are signal or none follows linearly."""
    n, r = len(before), frame.shape[1]
    if n < 4 * r:  # too few to tell
        return np.ones(r)
    chance = r / n
    if n < len(mean):  # fewer numbers than in a covariance of all columns
        lagged = _windows(y, mean, frame, after).T @ _windows(y, mean, frame, before) / n
    else:
        lagged = frame.T @ covariance(y, mean, after, before) @ frame
    follows = (np.square(lagged).sum(1) - chance) / (1 - chance)
    best = follows.max()
    if best < 0.05 or follows.min() > NOISE * best:
        return np.ones(r)
    weight: Doubles = np.clip(follows / best, 0, 1)
    return weight


def _spread(rows: Any, most: int) -> Any:
    """At most so many of the rows, evenly spread."""
    return rows[:: max(1, -(-len(rows) // most))]


def _components(sample: Floats, mean: Doubles, most: int) -> Doubles:
    """The matrix that gives the rows of a sample unit covariance, of their principal components."""
    n, D = sample.shape
    if n >= D:
        return _principal(covariance(sample, mean), 1e-8, most)
    # Products of rows have the eigenvalues of products of columns, and are fewer.
    variance, axes = np.linalg.eigh(row_products(sample, mean) / n)
    keep = _kept(variance, 1e-8, most)
    if not keep.any():
        return np.eye(D)
    return sums_of_rows(sample, mean, axes[:, keep] / (variance[keep] * np.sqrt(n)))


def row_products(y: Any, mean: Doubles) -> Doubles:
    """Of each centred row with each, (n, n), in double precision, some columns at a time."""
    total = np.zeros((len(y), len(y)))
    for part in _column_parts(y):
        centred = y[:, part] - mean[part]
        total += centred @ centred.T
    return total


def sums_of_rows(y: Any, mean: Doubles, weights: Doubles) -> Doubles:
    """Centred rows, weighted (n, k) and summed: (D, k)."""
    return np.concatenate(
        [(y[:, part] - mean[part]).T @ weights for part in _column_parts(y)], axis=0
    )


def _column_parts(y: Any) -> list[slice]:
    size = max(1, NUMBERS // len(y))
    return [slice(i, i + size) for i in range(0, y.shape[1], size)]


def covariance(
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
    keep = _kept(variance, least, most)
    if not keep.any():  # constant observations: nothing to scale by
        return np.eye(len(covariance))
    whiten: Doubles = axes[:, keep] / np.sqrt(variance[keep])
    return whiten


def _kept(variance: Doubles, least: float, most: int | None) -> npt.NDArray[np.bool_]:
    """Which of these rising variances are above `least` of the top, and among the first `most`."""
    keep: npt.NDArray[np.bool_] = variance > least * max(variance[-1], np.finfo(np.float32).tiny)
    if most is not None:
        keep[:-most] = False
    return keep


def _tensor(x: Doubles) -> Tensor:
    """A copy in PyTorch's own memory, which is aligned: products may round by where they lie."""
    return torch.tensor(np.ascontiguousarray(x, dtype=np.float32))
