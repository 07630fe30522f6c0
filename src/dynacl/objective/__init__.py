"""InfoNCE: a short readable reference, and a fast path of the same signature behind one name."""

from dynacl.objective.infonce import Loss, info_nce

__all__ = ["Loss", "info_nce"]
