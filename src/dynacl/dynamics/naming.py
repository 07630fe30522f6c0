"""From a name or a module to a model, before anything else looks."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import cast

from torch import nn

from dynacl.data import InputError
from dynacl.dynamics import AUTO, BY_NAME
from dynacl.dynamics.base import Dynamics, Request
from dynacl.dynamics.custom import Custom


def named(name: str) -> type[Dynamics]:
    """The class that a name stands for."""
    if name not in BY_NAME:
        raise InputError(f"dynamics: got {name!r}; wanted one of {', '.join(BY_NAME)}")
    module, cls = BY_NAME[name]
    return cast(type[Dynamics], getattr(import_module(f"dynacl.dynamics.{module}"), cls))


def resolve(what: str | nn.Module, request: Request) -> Dynamics:
    """The model: of this name, or a copy of this module; a plain nn.Module is wrapped."""
    if isinstance(what, str):
        return named(what).build(request)
    what = copy.deepcopy(what)
    return what if isinstance(what, Dynamics) else Custom(what)


def candidates(what: str | nn.Module) -> tuple[str, ...]:
    """The names to choose among, where the choice is left to the data; none where it is made."""
    return tuple(n for n in BY_NAME if named(n).proposed) if what == AUTO else ()


def options(what: str | nn.Module) -> tuple[str, ...]:
    """The parameters of DCL that this dynamics takes; a module was built with its own."""
    return named(what).options if isinstance(what, str) else ()
