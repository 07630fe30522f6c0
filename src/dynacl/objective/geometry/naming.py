"""From a name, a module or a callable to a geometry."""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from dynacl.data import InputError
from dynacl.objective.geometry import BY_NAME
from dynacl.objective.geometry.base import Geometry
from dynacl.objective.geometry.custom import CustomSimilarity
from dynacl.objective.geometry.flat import Flat

Similarity = Callable[[Tensor, Tensor], Tensor]


def resolve(what: str | nn.Module) -> Geometry:
    """The geometry of this name; or the plane with a copy of this similarity."""
    if not isinstance(what, str):
        return as_geometry(copy.deepcopy(what))
    if what not in BY_NAME:
        raise InputError(f"similarity: got {what!r}; wanted one of {', '.join(BY_NAME)}")
    module, cls = BY_NAME[what]
    made: Any = getattr(import_module(f"dynacl.objective.geometry.{module}"), cls)()
    assert isinstance(made, Geometry)
    return made


def as_geometry(similarity: Similarity | None) -> Geometry:
    if similarity is None:
        return Flat()
    return similarity if isinstance(similarity, Geometry) else CustomSimilarity(similarity)
