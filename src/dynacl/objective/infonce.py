"""The loss of dynamics contrastive learning (paper, Eqs. 2 and 3)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import softplus

from dynacl.objective import native, reference


class Loss(NamedTuple):
    """total = alignment + uniformity: the positive pair's term and the log of the denominator."""

    total: Tensor
    alignment: Tensor
    uniformity: Tensor


def info_nce(
    predicted: Tensor,
    following: Tensor,
    negatives: Tensor,
    *,
    temperature: float = 1.0,
    skip: Tensor | None = None,
) -> Loss:
    """mean_t [ −ψ(t, t+Δ) + log( exp ψ(t, t+Δ) + Σ_m exp ψ(t, m) ) ],  ψ = −‖f(x) − x'‖² / τ.

    predicted, following: (B, d), row i of one belongs to row i of the other; negatives: (M, d).
    skip: (B, s), the negatives that a row leaves out (its own pair, where the batch is the sample
    of negatives too); −1 leaves out none.
    """
    scale = 1 / temperature
    positive = -scale * (predicted - following).square().sum(1)
    path = native if native.supports(predicted, following, negatives) else reference
    rest = path.row_lse(predicted, negatives, skip=skip, scale=scale)
    # log(e^p + e^r) − p, without the difference: once a row is told apart well, its loss and
    # gradient are far below one rounding error of p and r, and yet they are what is left to learn.
    total = softplus(rest - positive, threshold=40).mean()
    alignment = -positive.mean()
    return Loss(total, alignment, total - alignment)
