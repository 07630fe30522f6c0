"""Similarities φ of a predicted state and another, and their log-sum-exp over many others.

A similarity is any callable of (q, k), each (..., d), that broadcasts to (...). The two of the
paper also know how to sum themselves over all keys without holding all pairs; any other is summed
in chunks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

from dynacl.objective import native, reference

Similarity = Callable[[Tensor, Tensor], Tensor]


class Euclidean(nn.Module):
    """φ(q, k) = −‖q − k‖² / τ: Gaussian noise. The embedding's own scale makes τ redundant."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -(q - k).square().sum(-1) / self.temperature

    def row_lse(
        self, q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        return row_lse(q, k, bias, skip, 1 / self.temperature)


class Dot(nn.Module):
    """φ(q, k) = (⟨q, k⟩ − 1) / τ of unit vectors: von Mises–Fisher noise with κ = 1/τ, learned.

    As −‖q − k‖² / 2τ, which is the same number with more of its digits; the −1 cancels in the loss.
    τ starts at 1: a sharp start settles on what the dynamics leaves unchanged (docs/log.md).
    """

    haste = 5.0  # log τ = haste · θ: it has to go from 0 to −9 while matrices move by less than 1

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(math.log(temperature) / self.haste))

    @property
    def temperature(self) -> Tensor:
        return (self.haste * self.theta).exp()

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -(self.scaled(q) - self.scaled(k)).square().sum(-1)

    def row_lse(
        self, q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        return row_lse(self.scaled(q), self.scaled(k), bias, skip)

    def scaled(self, x: Tensor) -> Tensor:
        """On the sphere of radius (2τ)^(−1/2), where −‖q − k‖² is the similarity."""
        radius: Tensor = (2 * self.temperature).rsqrt()
        return normalize(x, dim=-1) * radius


def log_sum(
    similarity: Similarity,
    q: Tensor,
    k: Tensor,
    bias: Tensor | None = None,
    skip: Tensor | None = None,
) -> Tensor:
    """log Σ_j exp(bias_j + φ(q_i, k_j)) for each row i, over the j not in skip_i; (B,)."""
    if isinstance(similarity, Euclidean | Dot):
        return similarity.row_lse(q, k, bias, skip)
    rows = max(1, reference.CHUNK // k.numel())

    def chunk(q: Tensor, k: Tensor, skip: Tensor | None) -> Tensor:
        logits = similarity(q[:, None], k)
        if bias is not None:
            logits = logits + bias
        if skip is not None:
            logits = logits.masked_fill(reference.left_out(skip, len(k)), -torch.inf)
        return logits.logsumexp(1)

    parts = []
    for i in range(0, len(q), rows):
        mine = None if skip is None else skip[i : i + rows]
        part: Tensor = checkpoint(
            chunk, q[i : i + rows], k, mine, use_reentrant=False, preserve_rng_state=False
        )
        parts.append(part)
    return torch.cat(parts)


def row_lse(
    q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """log Σ_j exp(bias_j − scale ‖q_i − k_j‖²), by the fastest path that these tensors allow."""
    given = (q, k) if bias is None else (q, k, bias)
    row_lse = native.row_lse if native.supports(*given) else reference.row_lse
    return row_lse(q, k, bias, skip, scale)
