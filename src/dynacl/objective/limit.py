"""What the contrast becomes with infinitely many negatives: the likelihood of what follows.

    −log p(y' | y) = ½ log det Σ − log |det ∂h/∂y (y')| + const,   Σ = Cov(h(y') − f(h(y)))

With α = log q and ever more negatives, InfoNCE tends to this (docs/method.md). It needs no
negatives, so it still teaches where every negative is told from the positive with certainty. It
does not change with an affine map of the latents. By Jensen, its minimum has the same noise
everywhere, which is what makes h ∘ g affine. It takes as many observed dimensions as latents.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dynacl.objective.infonce import Loss

BENT = 0.1  # share of the median volume, below which its logarithm goes on as a straight line


def likelihood(errors: Tensor, slopes: Tensor, most: float = math.inf) -> Loss:
    """errors: of the predictions, (B, d); slopes: ∂h/∂y at what they predict, (B, d, d).

    most: what a fold may cost at a single row, in nats, where the figure is to judge and not to
    teach.

    The width of the errors is free: Σ is that of the batch. Alignment is ½ log det Σ, uniformity
    minus the mean logarithm of the volume.
    """
    r = errors.double()
    alignment = (0.5 * torch.linalg.slogdet(r.T @ r / len(r))[1]).to(errors.dtype)
    uniformity = -log_volume(slopes, most)
    return Loss(alignment + uniformity, alignment, uniformity)


def log_volume(slopes: Tensor, most: float = math.inf) -> Tensor:
    """The mean of log det, as far as h keeps its orientation.

    A bijection has one sign of its determinant everywhere. Where a fold begins, log |det| would
    have no bound on its slope and no memory of the side it came from. So below a small share of the
    median it goes on as a straight line, to negative volumes too: folds cost more, the wider they
    are.
    """
    volume = torch.linalg.det(slopes)
    with torch.no_grad():
        median = volume.median()
        scale: Tensor = median.abs().clamp(min=torch.finfo(volume.dtype).tiny)
    share = volume / (scale * median.sign())
    bent = share / BENT - 1 + torch.log(torch.tensor(BENT))
    logarithm = torch.where(share > BENT, share.clamp(min=BENT).log(), bent)
    mean: Tensor = logarithm.clamp(min=-most).mean()
    return mean + scale.log()
