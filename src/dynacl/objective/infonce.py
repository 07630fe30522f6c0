"""The loss of dynamics contrastive learning (paper, Eqs. 2 and 3)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import softplus

from dynacl.objective.geometry.flat import Flat
from dynacl.objective.geometry.naming import Similarity, as_geometry


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
    similarity: Similarity | None = None,
    potential: tuple[Tensor, Tensor] | None = None,
    skip: Tensor | None = None,
) -> Loss:
    """mean_t [ −ψ(t, t+Δ) + log( exp ψ(t, t+Δ) + Σ_m exp ψ(t, m) ) ],  ψ = φ(f(x), x') − α(x').

    predicted, following: (B, d), row i of one belongs to row i of the other; negatives: (M, d).
    similarity: φ; None is −‖f(x) − x'‖² / temperature.
    potential: α of `following`, (B,), and of `negatives`, (M,); None is 0.
    skip: (B, s), the negatives that a row leaves out (its own pair, where the batch is the sample
    of negatives too); −1 leaves out none.
    """
    phi = Flat(temperature) if similarity is None else as_geometry(similarity)
    positive, bias = phi(predicted, following), None
    if potential is not None:
        positive, bias = positive - potential[0], -potential[1]
    rest = phi.log_sum(predicted, negatives, bias, skip)
    # log(e^p + e^r) − p, without the difference: once a row is told apart well, its loss and
    # gradient are far below one rounding error of p and r, and yet they are what is left to learn.
    total = softplus(rest - positive, threshold=40).mean()
    alignment = -positive.mean()
    return Loss(total, alignment, total - alignment)
