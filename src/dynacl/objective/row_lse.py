"""The sum over negatives, behind one name: the fastest path that the tensors allow."""

from __future__ import annotations

from torch import Tensor

from dynacl.objective import native, reference


def row_lse(
    q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """log Σ_j exp(bias_j − scale ‖q_i − k_j‖²) for each row i, over the j not in skip_i."""
    given = (q, k) if bias is None else (q, k, bias)
    path = native.row_lse if native.supports(*given) else reference.row_lse
    return path(q, k, bias, skip, scale)
