"""Public names that are imported when they are first used (PEP 562).

A package that exports its names this way costs milliseconds to import, where PyTorch and
scikit-learn cost seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str], gone: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; homes: its names, and the submodule of each.

    gone: names that it once had, and what takes their place.

    Any other name may be a submodule. So no name in `homes` may also be that of a submodule:
    Python would put the submodule in its place, whenever somebody imports it.
    """

    def find(name: str) -> Any:
        if name in gone:
            raise ImportError(f"{package}.{name} is gone: {gone[name]}")
        module = f"{package}.{homes.get(name, name)}"
        try:
            found = import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        if name in homes:
            found = getattr(found, name)
        setattr(sys.modules[package], name, found)  # the next time, Python finds it without us
        return found

    def names() -> list[str]:
        module = sys.modules[package]
        return sorted({*vars(module), *module.__all__})

    return find, names
