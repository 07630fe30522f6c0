"""From what a user gives to checked arrays; an error names the argument it is about."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynacl.data.arrays import Array, Floats, Ints
from dynacl.data.errors import InputError, InputTypeError
from dynacl.data.frames import untracked
from dynacl.data.missing import where
from dynacl.data.units import Units, units_of

Names = tuple[str, ...] | None
_BLOCK = 1 << 24  # entries per look when scanning for NaN: bounds memory on memory maps


def to_trials(X: Any, name: str) -> list[Array]:
    """A (T, D) array or a sequence of them, as a list of arrays in the precision that they have."""
    many = isinstance(X, list | tuple) and any(_is_table(x) for x in X[:2])
    trials = [shaped(x, f"{name}[{i}]") for i, x in enumerate(X)] if many else [shaped(X, name)]
    for i, trial in enumerate(trials):
        if trial.shape[1] != trials[0].shape[1]:
            raise InputError(
                f"{name}[{i}]: has {trial.shape[1]} features, {name}[0] has "
                f"{trials[0].shape[1]}; wanted the same number in every trial"
            )
    return trials


def joined(
    trials: Sequence[Array], name: str, *, gaps: bool = False, names: Names = None
) -> tuple[Floats, Units | None]:
    """Trials one after the other, as finite float32, in units where they need some.

    No copy of a single array that is float32 already and needs none. gaps: NaN may stay. names: of
    the columns, for what is said of them.
    """
    units = units_of(trials, name)
    if len(trials) == 1:
        return rounded(trials[0], name, units, gaps=gaps, names=names), units
    bounds = bounds_of([len(x) for x in trials])
    kept = np.empty((bounds[-1], trials[0].shape[1]), dtype=np.float32)
    # Some trials at a time: one at a time takes minutes where there are a million.
    blocks = np.searchsorted(bounds, np.arange(0, bounds[-1], max(1, _BLOCK // kept.shape[1])))
    for first, end in itertools.pairwise(sorted({*blocks.tolist(), len(trials)})):
        some = np.concatenate(trials[first:end])
        kept[bounds[first] : bounds[end]] = to_float32(some, units)
    if (bad := _not_finite(kept, gaps)) is not None:
        i = int(np.searchsorted(bounds, bad[0], side="right")) - 1
        rounded(trials[i], f"{name}[{i}]", units, gaps=gaps, names=names)  # which says where
    return kept, units


def to_table(x: Any, name: str) -> Floats:
    """One finite (T, D) float32 array; no copy if it is one already."""
    return rounded(shaped(x, name), name)


def shaped(x: Any, name: str) -> Array:
    """A (T, D) array of real numbers that is not empty."""
    numbers = _numbers(x, name)
    if numbers.ndim != 2:
        hint = (
            "Reshape your data: X.reshape(-1, 1) for one feature"
            if numbers.ndim == 1
            else "pass trials as a list of (time, features) arrays"
        )
        raise InputError(f"{name}: got shape {numbers.shape}; wanted (time, features). {hint}")
    if numbers.shape[0] == 0:
        raise InputError(f"{name}: got 0 sample(s) (shape={numbers.shape}) while a minimum of 1 "
                         "is required")  # fmt: skip
    if numbers.shape[1] == 0:
        raise InputError(f"{name}: got 0 feature(s) (shape={numbers.shape}) while a minimum of 1 "
                         "is required.")  # fmt: skip
    return numbers


def rounded(
    numbers: Array,
    name: str,
    units: Units | None = None,
    *,
    gaps: bool = False,
    names: Names = None,
) -> Floats:
    """Finite float32, in these units; with gaps, NaN where it was given."""
    values = to_float32(numbers, units)
    if (bad := _not_finite(values, gaps)) is not None:
        t, i = bad
        if not gaps and np.isnan(numbers[t, i]):
            raise InputError(
                f"{name}: holds NaN or infinity {where(values, names)}; wanted finite numbers, or "
                'TimeSeries.of(X, missing="split" | "interpolate")'
            )
        raise InputError(
            f"{name}: holds NaN or infinity (first at step {t}, feature {i}: {numbers[t, i]}); "
            "wanted finite numbers that fit float32"
        )
    return values


def to_float32(numbers: Array, units: Units | None) -> Floats:
    """In these units; what does not fit becomes infinite, and is found by a check."""
    with np.errstate(over="ignore"):
        kept = np.asarray(numbers, dtype=np.float32) if units is None else units.keep(numbers)
    # PyTorch cannot look at an array that runs backwards.
    return kept if min(kept.strides) >= 0 else kept.copy()


def _not_finite(values: Floats, gaps: bool = False) -> tuple[int, int] | None:
    """Where the first number is that is not finite; with gaps, that is infinite."""
    rows = max(1, _BLOCK // values.shape[1])
    for start in range(0, len(values), rows):
        part = values[start : start + rows]
        bad = np.isinf(part) if gaps else ~np.isfinite(part)
        if bad.any():
            t, i = np.argwhere(bad)[0]
            return start + int(t), int(i)
    return None


def to_bounds(bounds: Any, T: int, name: str) -> Ints:
    """Given bounds of trials, which must cut all T samples into trials that are not empty."""
    given: Array = np.asarray(bounds)
    if given.ndim == 1 and len(given) > 1 and given.dtype.kind in "iu":
        cuts: Ints = given.astype(np.int64)  # differences of unsigned numbers wrap around
        if cuts[0] == 0 and cuts[-1] == T and (np.diff(cuts) > 0).all():
            return cuts
    raise InputError(f"{name}: bounds must rise from 0 to {T} (the number of samples)")


def bounds_of(lengths: Sequence[int], trial_length: int | None = None) -> Ints:
    """Bounds of trials of these lengths; with a trial_length, of one series cut into equal ones."""
    if trial_length is not None:
        if not isinstance(trial_length, int | np.integer) or trial_length < 1:
            raise InputError(
                f"trial_length: got {trial_length!r}; wanted a whole number of at least 1"
            )
        if len(lengths) != 1:
            raise InputError(
                f"trial_length: got {trial_length}, but X already has {len(lengths)} trials"
            )
        whole, rest = divmod(lengths[0], int(trial_length))
        if whole and rest:
            warnings.warn(
                f"trial_length: {trial_length} does not divide the {lengths[0]} samples of the "
                f"data; the last trial has {rest}",
                stacklevel=4,
            )
        lengths = [int(trial_length)] * whole + [rest] * (rest > 0)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def to_control(
    u: Any, lengths: Sequence[int], *, gaps: bool = False
) -> tuple[Floats, Units | None]:
    """Control input, one row per step, for observations in trials of these lengths."""
    trials = to_trials(u, "u")
    if len(trials) > 1 and [len(x) for x in trials] != list(lengths):
        raise InputError("u: its trials differ in number or length from those of X")
    if (n := sum(map(len, trials))) != sum(lengths):
        raise InputError(f"u: has {n} samples, X has {sum(lengths)}")
    return joined(trials, "u", gaps=gaps)


def to_modes(modes: Any, name: str) -> Ints:
    """Given modes, one whole number per step."""
    given: Array = np.asarray(modes)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InputError(f"{name}: modes must be a vector of whole numbers, got "
                         f"{given.dtype} of shape {given.shape}")  # fmt: skip
    return given.astype(np.int64)


def to_names(names: Any, n_features: int, name: str) -> tuple[str, ...]:
    """Given names of columns, each different."""
    found = tuple(str(x) for x in np.asarray(names).ravel())
    if len(found) != n_features or len(set(found)) != n_features:
        raise InputError(f"{name}: its names are {len(found)} ({len(set(found))} different ones); "
                         f"wanted one for each of the {n_features} columns")  # fmt: skip
    return found


def to_times(times: Any, T: int, name: str) -> Array:
    """Given times, one per step: numbers or dates."""
    found: Array = np.asarray(times)
    if found.shape != (T,) or found.dtype.kind not in "fiuM":
        raise InputError(f"{name}: its times are {found.dtype} of shape {found.shape}; wanted a "
                         f"number or a date for each of the {T} steps")  # fmt: skip
    return found if found.dtype.kind == "M" else found.astype(np.float64)


def in_order(u: Any, X: Any) -> Any:
    """The control of named trials, as a list in the order of the trials of X."""
    if not isinstance(u, Mapping):
        return u
    if not isinstance(X, Mapping) or set(u) != set(X):
        raise InputError("u: got a dict; wanted arrays, or a dict of trials named as those of X")
    return [u[name] for name in X]


def _is_table(x: Any) -> bool:
    try:
        return np.ndim(x) >= 2
    except ValueError:  # rows of unequal length: a table, if a bad one
        return True


def _numbers(x: Any, name: str) -> Array:
    """An array of real numbers, of any shape and precision."""
    x = untracked(x)
    if np.ma.is_masked(x):
        raise InputError(f"{name}: has masked values; wanted finite numbers")
    try:
        numbers: Array = np.asarray(x)
    except ValueError as error:
        raise InputError(
            f"{name}: rows of unequal length; wanted a (time, features) array"
        ) from error
    if np.iscomplexobj(numbers):
        raise InputError(
            f"{name}: got {numbers.dtype}; wanted real numbers. Complex data not supported"
        )
    if numbers.dtype == object:
        try:
            numbers = numbers.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputTypeError(
                f"{name}: got an object array; wanted real numbers: argument must be a string or "
                "a real number"
            ) from error
    if numbers.dtype.kind not in "fiub":
        raise InputError(f"{name}: got dtype {numbers.dtype}; wanted real numbers")
    return numbers
