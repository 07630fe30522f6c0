"""The readout: observations from latents, by a map that can bend. Closed form, no training.

It is fitted once, on rows x̂_t → y_t of the training data, never on predicted latents: a flexible
readout would then learn the dynamics itself. A linear readout would favour linear encoders, as
observations bend where latents do not.

A prediction may also see the input at its own step (`feed`). With feedthrough, an input acts on an
observation at once, y_t = g(x_t) + D u_t. Latents of a window that contains y_t know that already;
predicted ones do not. What is added is linear in the input alone, so it cannot learn the dynamics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

FEATURES = 300  # random functions of the latents, beside the latents themselves …
SHARPNESS = 2.0  # … and the variance of what they bend, whatever the number of latents
ROWS = 20_000  # most rows that it is fitted to, …
NUMBERS = 1 << 22  # … so many numbers of them at a time: bounds the memory
PENALTIES = tuple(10.0**k for k in range(-8, 3))  # of the ridge, tried on rows left out
STRETCHES = 16  # of rows; every fourth is left out, says which penalty …
FEWEST = 20  # … and, of so many rows at least, whether predictions see the input: …
CLEARLY = 0.02  # … by this share of the squared error
FAINT = 0.03  # share of what is new in inputs; a direction of them with less tells nothing
TINY = torch.finfo(torch.float64).tiny


@final
class Readout(nn.Module):
    """y ≈ c + W [z, tanh(A z + a)] with z the latents at zero mean and unit variance.

    And, of predicted latents, + D (u − U [z, 1]) where `feed` found it: what the present input
    adds, beyond what latents tell of it.
    """

    shift: Tensor
    scale: Tensor
    inner: Tensor
    offset: Tensor
    weight: Tensor
    centre: Tensor
    expected: Tensor
    feedthrough: Tensor

    def __init__(self, d: int, n_features: int, n_controls: int = 0) -> None:
        """n_controls: inputs that predictions see, of a readout that is read from a file."""
        super().__init__()
        m = FEATURES
        for name, shape in {
            "shift": (d,), "scale": (d,), "inner": (d, m), "offset": (m,),
            "weight": (d + m, n_features), "centre": (n_features,),
        }.items():  # fmt: skip
            self.register_buffer(name, torch.zeros(shape))
        self._see(torch.zeros(d + 1, n_controls), torch.zeros(n_controls, n_features))

    def _see(self, expected: Tensor, feedthrough: Tensor) -> None:
        kept = len(feedthrough) > 0  # files without it are read, and written, as they were
        self.register_buffer("expected", expected, persistent=kept)
        self.register_buffer("feedthrough", feedthrough, persistent=kept)

    @property
    def sees_inputs(self) -> bool:
        return len(self.feedthrough) > 0

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.features(x) @ self.weight + self.centre
        return y

    def features(self, x: Tensor) -> Tensor:
        z = self._scaled(x)
        return torch.cat([z, torch.tanh(z @ self.inner + self.offset)], dim=-1)

    def _scaled(self, x: Tensor) -> Tensor:
        return (x.to(self.weight.dtype) - self.shift) / self.scale

    def fed(self, x: Tensor, u: Tensor) -> Tensor:
        """What present inputs u (n, d_u) add to the observations of predicted latents x (n, d)."""
        z = self._scaled(x)
        added: Tensor = (u.to(z) - z @ self.expected[:-1] - self.expected[-1]) @ self.feedthrough
        return added

    @torch.no_grad()
    def fit(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Readout:
        """Ridge; the penalty is the one that predicts every fourth stretch of rows, which are in
        the order of time, best from the others. Single rows would be told by their neighbours."""
        if len(x) > ROWS:
            some = torch.linspace(0, len(x) - 1, ROWS).long()
            x, y = x[some], y[some]
        x = x.double()
        self.double()
        self.shift.copy_(x.mean(0))
        spread = x.std(0, correction=0)
        self.scale.copy_(spread.where(spread > 0, torch.ones_like(spread)))
        self.inner.normal_(generator=generator).mul_((SHARPNESS / x.shape[1]) ** 0.5)
        self.offset.uniform_(-2, 2, generator=generator)
        self.centre.copy_(torch.cat([y[:, part].double().mean(0) for part in _columns(y)]))
        features = self.features(x)
        held = STRETCHES * torch.arange(len(x)) // len(x) % 4 == 0
        seen, unseen = (_Products.of(features, y, self.centre, rows) for rows in (~held, held))
        missed = [unseen.missed(W) for W in seen.ridge(PENALTIES)]
        best = int(torch.stack(missed).argmin())
        self.weight.copy_(next((seen + unseen).ridge(PENALTIES[best : best + 1])))
        return self.float()

    @torch.no_grad()
    def feed(self, x: Tensor, u: Tensor, missed: Tensor) -> None:
        """Let predictions see the present inputs, where rows left out gain clearly by it.

        x: predicted latents (n, d), in the order of time. u: the inputs at the steps that they are
        of. missed: what observations are there, less what the readout makes of x.
        """
        n = len(x)
        if n < STRETCHES * FEWEST or not (x.isfinite().all() and missed.isfinite().all()):
            return
        z = torch.cat([self._scaled(x), torch.ones(n, 1)], dim=1).double()
        u, missed = u.double(), missed.double()

        def solved(rows: Tensor) -> tuple[Tensor, Tensor]:
            expected = _least_squares(z[rows], u[rows])
            return expected, _least_squares((u - z @ expected)[rows], missed[rows], FAINT)

        stretch = STRETCHES * torch.arange(n) // n
        held = stretch % 4 == 0
        expected, D = solved(~held)
        left = (missed - (u - z @ expected) @ D).square().sum(1)
        before, after = (
            torch.stack([e[stretch == k].mean() for k in range(0, STRETCHES, 4)])
            for e in (missed.square().sum(1), left)
        )
        # In each stretch: what is slow may go with a slow input for a while, by chance.
        if (after < before).all() and after.mean() < (1 - CLEARLY) * before.mean():
            self._see(*(found.float() for found in solved(torch.ones_like(held))))


def _least_squares(features: Tensor, target: Tensor, least: float | None = None) -> Tensor:
    """The smallest solution, where inputs or latents depend on each other.

    least: share of the largest spread below which a direction of the features is left out.
    """
    found: Tensor = torch.linalg.lstsq(features, target, rcond=least, driver="gelsd").solution
    return found


def _columns(y: Tensor) -> list[slice]:
    size = max(1, NUMBERS // len(y))
    return [slice(i, i + size) for i in range(0, y.shape[1], size)]


class _Products(NamedTuple):
    """All that least squares needs to know of rows; products of several sets of rows add up."""

    n: int
    inner: Tensor  # (m, m): features with features, summed over rows
    outer: Tensor  # (m, D): features with targets

    @classmethod
    def of(cls, features: Tensor, y: Tensor, centre: Tensor, rows: Tensor) -> _Products:
        """Of these rows (a mask), with y − centre; some columns of y at a time."""
        features = features[rows]
        outer = [features.T @ (y[:, k][rows].double() - centre[k]) for k in _columns(y)]
        return cls(len(features), features.T @ features, torch.cat(outer, dim=1))

    def __add__(self, other: _Products) -> _Products:  # type: ignore[override]
        return _Products(self.n + other.n, self.inner + other.inner, self.outer + other.outer)

    def ridge(self, penalties: Sequence[float]) -> Iterator[Tensor]:
        """The solution for each penalty, as shares of the largest variance, from one
        decomposition; one in memory at a time."""
        variance, axes = torch.linalg.eigh(self.inner)
        rotated, top = axes.T @ self.outer, variance[-1].clamp(min=self.n * TINY)
        for penalty in penalties:
            yield axes @ (rotated / (variance.clamp(min=0) + penalty * top)[:, None])

    def missed(self, W: Tensor) -> Tensor:
        """The squared error of these rows, but for what no solution changes."""
        return ((self.inner @ W - 2 * self.outer) * W).sum()
