"""What a setting of a simulator must be, said in one sentence if it is not."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynacl.data import Array, InputError


def whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}: got {value!r}; wanted a whole number of at least {least}")


def finite(name: str, value: Any) -> Array:
    try:
        number = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: got {value!r}; wanted numbers") from error
    if not np.isfinite(number).all():
        raise InputError(f"{name}: got {value!r}; wanted finite numbers")
    return number
