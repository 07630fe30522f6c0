"""What the contrast becomes with infinitely many negatives: the likelihood of what follows.

    −log p(y' | y) = ½ log det Σ − log |det ∂h/∂y (y')| + const,   Σ = Cov(h(y') − f(h(y)))

With α = log q and ever more negatives, InfoNCE tends to this (docs/method.md). It needs no
negatives, so it goes on teaching where every negative is told from the positive with certainty. It
does not change with an affine map of the latents. By Jensen, its minimum has the same noise
everywhere, which is what makes h ∘ g affine. It takes as many observed dimensions as latents.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dynacl.objective.infonce import Loss

CREASE = 10.0  # nats below the median that the volume of a single row may be, to a judge
BENT = 0.1  # share of the median volume, below which its logarithm goes on as a straight line


def likelihood(
    errors: Tensor, slopes: Tensor, volume: Callable[[Tensor], Tensor] | None = None
) -> Loss:
    """errors: of the predictions, (B, d); slopes: ∂h/∂y at what they predict, (B, d, d).

    volume: the mean logarithm of these; `log_volume`, which teaches, or `judged_volume`.

    The width of the errors is free: Σ is that of the batch. Alignment is ½ log det Σ, uniformity
    minus the mean logarithm of the volume.
    """
    r = errors.double()
    alignment = (0.5 * torch.linalg.slogdet(r.T @ r / len(r))[1]).to(errors.dtype)
    uniformity = -(volume or log_volume)(slopes)
    return Loss(alignment + uniformity, alignment, uniformity)


def log_volume(slopes: Tensor) -> Tensor:
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
    mean: Tensor = logarithm.mean() + scale.log()
    return mean


def judged_volume(slopes: Tensor) -> Tensor:
    """The mean of log |det|, less what folds are worth: log 2 at rows of the other orientation.

    Where h folds, two observations share their latents, and p(h(y')) |det| counts them twice: the
    density is at most 2 too large. So a fold costs a judge little, however much it costs a pupil.
    No single row at a crease decides: its volume is at least e^−10 of the median.
    """
    volume = torch.linalg.det(slopes)
    size = volume.abs()
    scale = size.median().clamp(min=torch.finfo(volume.dtype).tiny)
    logarithm = (size / scale).clamp(min=math.exp(-CREASE)).log().mean() + scale.log()
    other = (volume.sign() != volume.median().sign()).to(volume.dtype).mean()
    judged: Tensor = logarithm - math.log(2) * other
    return judged
