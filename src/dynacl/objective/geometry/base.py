"""What a geometry says about itself.

A geometry must implement
    forward(q, k)           φ of a predicted state and another, each (..., d), broadcast to (...)

It may say (here with the defaults)
    project(x)              back to where states live (nothing to do)
    log_sum(q, k, …)        log Σ_j exp φ(q_i, k_j), faster than in chunks of rows
    temperature             the width of its kernel (1)
    kernel                  the kernel of density estimates that fits ("euclidean")
    least_components        the fewest dimensions that make sense (1)
    scale_free              whether only directions count, so that maps are free in their scale
    has_density             whether noise is Gaussian there, so that likelihoods are known
    stretch(errors)         a map of states after which errors are alike in all directions (None)
    wishes()                what it changes in the training settings, and why
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dynacl.objective import reference
from dynacl.settings import Wish


class Geometry(nn.Module, ABC):
    """Where latents live, and the similarity φ there."""

    kernel: str = "euclidean"
    least_components: int = 1
    scale_free: bool = False
    has_density: bool = False

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """φ(q, k)."""

    def project(self, x: Tensor) -> Tensor:
        return x

    @property
    def temperature(self) -> Tensor:
        return torch.ones(())

    @property
    def given(self) -> nn.Module:
        """The similarity as its user knows it."""
        return self

    def stretch(self, errors: Tensor) -> Tensor | None:
        """(d, d); None where φ has no such map, as states cannot be stretched."""
        return None

    def wishes(self) -> Sequence[Wish]:
        return ()

    def log_sum(
        self, q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        """log Σ_j exp(bias_j + φ(q_i, k_j)) for each row i, over the j not in skip_i; (B,)."""
        rows = max(1, reference.CHUNK // k.numel())

        def chunk(q: Tensor, k: Tensor, skip: Tensor | None) -> Tensor:
            logits = self(q[:, None], k)
            if bias is not None:
                logits = logits + bias
            if skip is not None:
                logits = logits.masked_fill(reference.left_out(skip, len(k)), -torch.inf)
            total: Tensor = logits.logsumexp(1)
            return total

        parts = []
        for i in range(0, len(q), rows):
            mine = None if skip is None else skip[i : i + rows]
            part: Tensor = checkpoint(
                chunk, q[i : i + rows], k, mine, use_reentrant=False, preserve_rng_state=False
            )
            parts.append(part)
        return torch.cat(parts)
