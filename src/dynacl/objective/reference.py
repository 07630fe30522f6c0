"""Row-wise log-sum-exp of pair similarities, written to be read: any dtype, any device.

    s_ij = b_j − c ‖q_i − k_j‖²,  lse_i = log Σ_j exp s_ij,  p_ij = exp(s_ij − lse_i)
    ∂lse_i/∂q_i = −2c Σ_j p_ij (q_i − k_j),  ∂lse_i/∂k_j = 2c p_ij (q_i − k_j),  ∂lse_i/∂b_j = p_ij

The whole (rows, columns) matrix is never there: rows go in chunks, computed again on the way back.
Distances are sums of squared differences; ‖q‖² + ‖k‖² − 2qk would cancel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

CHUNK = 1 << 20  # entries of the similarity matrix that may exist at a time
FAINT = -80.0  # logarithm of a share that changes no sum; exp is slow where it underflows


def row_lse(
    q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """log Σ_j exp(bias_j − scale ‖q_i − k_j‖²) for each row i, over the j not in skip_i; (B,)."""
    out: Tensor = _RowLse.apply(q, k, bias, skip, scale)  # type: ignore[no-untyped-call]
    return out


class _RowLse(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, bias: Tensor | None, skip: Tensor | None, scale: float
    ) -> Tensor:
        lse = q.new_empty(len(q))
        for rows in _chunks(q, k):
            lse[rows] = log_sum(_logits(q[rows], k, bias, _of(skip, rows), scale))
        ctx.save_for_backward(q, k, bias, skip, lse)
        ctx.scale = scale
        return lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, bias, skip, lse = ctx.saved_tensors
        grad_q, grad_k = torch.zeros_like(q), torch.zeros_like(k)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for rows in _chunks(q, k):
            share = _logits(q[rows], k, bias, _of(skip, rows), ctx.scale)
            # A row that leaves out every key has lse −∞ and no gradient.
            share.sub_(lse[rows, None]).clamp_(min=FAINT).exp_().nan_to_num_(0.0)
            share.mul_(upstream[rows, None])
            if grad_bias is not None:
                grad_bias += share.sum(0)
            for i, (q_i, k_i) in enumerate(zip(q[rows].unbind(1), k.unbind(1), strict=True)):
                pull = (q_i[:, None] - k_i).mul_(share).mul_(2 * ctx.scale)
                grad_q[rows, i] = -pull.sum(1)
                grad_k[:, i] += pull.sum(0)
        return grad_q, grad_k, grad_bias, None, None


def log_sum(z: Tensor) -> Tensor:
    """log Σ_j exp z_ij for each row i: logsumexp, but fast where terms are far apart, too."""
    top = z.amax(1)
    total = top + (z - top[:, None]).clamp_(min=FAINT).exp_().sum(1).log()
    return total.where(top.isfinite(), top)


def _chunks(q: Tensor, k: Tensor) -> Iterator[slice]:
    size = max(1, CHUNK // max(1, len(k)))
    return (slice(i, i + size) for i in range(0, len(q), size))


def _of(skip: Tensor | None, rows: slice) -> Tensor | None:
    return None if skip is None else skip[rows]


def _logits(q: Tensor, k: Tensor, bias: Tensor | None, skip: Tensor | None, scale: float) -> Tensor:
    logits = q.new_zeros(len(q), len(k))
    for q_i, k_i in zip(q.unbind(1), k.unbind(1), strict=True):
        difference = q_i[:, None] - k_i
        logits.addcmul_(difference, difference, value=-scale)
    if bias is not None:
        logits += bias
    if skip is not None:
        logits.masked_fill_(left_out(skip, len(k)), -torch.inf)
    return logits


def left_out(skip: Tensor, n_keys: int) -> Tensor:
    """(rows, s) indices of keys to a (rows, n_keys) mask; −1 leaves nothing out."""
    # −1 marks a column past the end, which is cut off again.
    mask = torch.zeros(len(skip), n_keys + 1, dtype=torch.bool, device=skip.device)
    return mask.scatter_(1, torch.where(skip < 0, n_keys, skip), True)[:, :-1]
