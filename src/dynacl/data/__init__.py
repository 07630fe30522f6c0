"""Data at the door: a series of trials, the checks that it passes, the files that it comes from.

Input is checked here, once. Everything behind it trusts its arrays.
"""

from dynacl.data.arrays import Array, Floats, Ints
from dynacl.data.checks import in_order
from dynacl.data.errors import InputError, InputTypeError, UnlikeFitError
from dynacl.data.formats.npz import write_npz
from dynacl.data.labels import is_categorical, is_missing
from dynacl.data.series import TimeSeries, spread_lags
from dynacl.data.steps import Steps
from dynacl.data.truth import Truth
from dynacl.data.units import Units, exchange

__all__ = [
    "Array",
    "Floats",
    "InputError",
    "InputTypeError",
    "Ints",
    "Steps",
    "TimeSeries",
    "Truth",
    "Units",
    "UnlikeFitError",
    "exchange",
    "in_order",
    "is_categorical",
    "is_missing",
    "spread_lags",
    "write_npz",
]
