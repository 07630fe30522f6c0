"""α: the log of a kernel density estimate of the embedding (paper, Appendix on kernel density).

    Euclidean: q̂(x) ∝ Σ_i exp(−‖x − x_i‖² / ε)      on the sphere: q̂(x) ∝ Σ_i exp(κ ⟨x, x_i⟩)

Constants do not matter: α is subtracted from every logit. Gradients pass through α, to the points
and to the support: with α a function of the encoder, it is still the one loss that is minimised.
"""

from __future__ import annotations

from torch import Tensor

from dynacl.objective.row_lse import row_lse
from dynacl.settings import KERNELS, Wish

WISHES = (
    Wish("emphasis", 0.0, "The density correction re-weights the contrast already, and was tried "
         "with no other weight."),
)  # fmt: skip


def log_density(
    x: Tensor,
    support: Tensor,
    *,
    kernel: str = "euclidean",
    bandwidth: float = 1.0,
    skip: Tensor | None = None,
) -> Tensor:
    """log q̂ at each row of x, up to a constant; skip: (n, s), support points a row leaves out.

    A point that is in the support itself must be left out: at a small bandwidth its own term would
    be the whole sum. bandwidth: ε, or 1/κ on the sphere.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel: got {kernel!r}; wanted one of {', '.join(KERNELS)}")
    scale = 1 / bandwidth if kernel == "euclidean" else 0.5 / bandwidth
    counted = x.new_full((len(x),), len(support))
    if skip is not None:
        counted = counted - (skip >= 0).sum(1)
    log_sum = row_lse(x, support, skip=skip, scale=scale) - counted.clamp(min=1).log()
    return log_sum.where(counted > 0, 0.0)  # where nothing is left, nothing is known
