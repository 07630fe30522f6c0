"""InfoNCE: similarity, density correction, and a fast path behind the readable one."""

from dynacl.objective.density import log_density
from dynacl.objective.emphasis import Emphasis
from dynacl.objective.infonce import Loss, info_nce
from dynacl.objective.similarity import Dot, Euclidean, Similarity, log_sum

__all__ = [
    "Dot",
    "Emphasis",
    "Euclidean",
    "Loss",
    "Similarity",
    "info_nce",
    "log_density",
    "log_sum",
]
