"""Row-wise log-sum-exp of pair similarities, written to be read: any dtype, any device.

The whole (rows, columns) matrix is never there: rows go in chunks, each recomputed in the backward
pass. Distances are sums of squared differences; ‖a‖² + ‖b‖² − 2ab would cancel.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK = 1 << 22  # entries of the similarity matrix that may exist at a time


def row_lse(
    q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """log Σ_j exp(bias_j − scale ‖q_i − k_j‖²) for each row i, over the j not in skip_i; (B,)."""
    rows = max(1, CHUNK // max(1, len(k)))
    return torch.cat(
        [
            checkpoint(
                _row_lse,
                q[i : i + rows],
                k,
                bias,
                None if skip is None else skip[i : i + rows],
                scale,
                use_reentrant=False,
                preserve_rng_state=False,
            )
            for i in range(0, len(q), rows)
        ]
    )


def _row_lse(
    q: Tensor, k: Tensor, bias: Tensor | None, skip: Tensor | None, scale: float
) -> Tensor:
    distance = q.new_zeros(len(q), len(k))
    for q_i, k_i in zip(q.unbind(1), k.unbind(1), strict=True):
        distance = distance + (q_i[:, None] - k_i).square()
    logits = -scale * distance
    if bias is not None:
        logits = logits + bias
    if skip is not None:
        # −1 leaves nothing out: it marks a column past the end, which is cut off again.
        left_out = torch.zeros(len(q), len(k) + 1, dtype=torch.bool, device=q.device)
        left_out.scatter_(1, torch.where(skip < 0, len(k), skip), True)
        logits = logits.masked_fill(left_out[:, :-1], -torch.inf)
    return logits.logsumexp(1)
