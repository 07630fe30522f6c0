"""InfoNCE and its limit, the geometry of latents, density correction; a fast path behind it.

Parts are loaded when they are first asked for: `geometry.BY_NAME` can be read without PyTorch. The
loss never knows which dynamics made a prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynacl._lazy import lazy

if TYPE_CHECKING:
    from dynacl.objective.density import log_density
    from dynacl.objective.emphasis import Emphasis
    from dynacl.objective.geometry.base import Geometry
    from dynacl.objective.geometry.flat import Flat
    from dynacl.objective.geometry.sphere import Sphere
    from dynacl.objective.infonce import Loss, info_nce
    from dynacl.objective.limit import likelihood
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Emphasis": "emphasis",
            "Flat": "geometry.flat",
            "Geometry": "geometry.base",
            "Loss": "infonce",
            "Sphere": "geometry.sphere",
            "info_nce": "infonce",
            "likelihood": "limit",
            "log_density": "density",
        },
        gone={
            "Dot": "objective.Sphere has its place",
            "Euclidean": "objective.Flat has its place",
            "log_sum": "a geometry has it as a method",
        },
    )

__all__ = [
    "Emphasis",
    "Flat",
    "Geometry",
    "Loss",
    "Sphere",
    "info_nce",
    "likelihood",
    "log_density",
]
