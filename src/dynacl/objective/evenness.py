"""What the noise itself says of the encoder's slopes J: in the right state it is even.

    ½ log det E[w J S Jᵀ] − E log |det J|,   S the covariance of the noise as observations show it

The likelihood of the noise under one covariance Σ = J S Jᵀ for all, as heavy-tailed as Student's t,
so that places where S was measured wrongly count little (w). By Theorem 1 its minimum is the state
up to an affine map, for any dynamics, as far as slopes can tell: they do not say how a thin sheet
of states is rolled up. No prediction enters it, so neither encoder nor dynamics needs to be as
precise as the noise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dynacl.objective.limit import log_volume

TAILS = 10.0  # degrees of freedom: where S is wrong it is too large, by up to a thousand times
ROUNDS = 3


def evenness(slopes: Tensor, roots: Tensor) -> Tensor:
    """slopes: (n, d, d); roots: of S, S = R Rᵀ, (n, d, d)."""
    loss: Tensor = shared_noise(slopes @ roots) - log_volume(slopes)
    return loss


def shared_noise(roots: Tensor) -> Tensor:
    """½ log det of one covariance for the noise of all places, of which these are the roots."""
    noise = roots @ roots.mT
    w = _weights(noise.detach())
    even = (w[:, None, None] * noise).mean(0)
    half: Tensor = 0.5 * torch.linalg.slogdet(even.double())[1].to(roots)
    return half


def _weights(noise: Tensor) -> Tensor:
    """Of Student's t: by how much larger noise is there than it is for all."""
    d, noise = noise.shape[-1], noise.double()
    w = torch.ones(len(noise), dtype=torch.double, device=noise.device)
    for _ in range(ROUNDS):
        even = (w[:, None, None] * noise).mean(0)
        size = torch.einsum("ij,nji->n", torch.linalg.inv(even), noise)
        w = (TAILS + d) / (TAILS + size)
    return w.float()
