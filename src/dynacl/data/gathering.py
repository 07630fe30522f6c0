"""From the entries of a file to the fields of a series."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynacl.data.arrays import Array, Ints
from dynacl.data.errors import InputError
from dynacl.data.fields import LABEL, OBSERVATIONS
from dynacl.data.formats import NUMBERS, entries, format_of, read_entries
from dynacl.data.roles import Keys, Roles, roles_of
from dynacl.data.trials import bounds_from, epochs_from

BESIDE = ("times", "names", "bounds")  # what may belong to an array, as "y.times" does
EVEN = 1e-4  # share of a step by which times that count steps may be off, for rounding
FEWEST = 10  # rows that must rise evenly to be taken for time, whatever their name


class Gathered(NamedTuple):
    """What was found in a file."""

    roles: Roles
    fields: dict[str, Any]


def read_fields(path: Path, keys: Keys, transpose: bool = False) -> dict[str, Any]:
    """The fields of a series, from a file."""
    return gather(path, keys, transpose).fields


def gather(path: Path, keys: Keys, transpose: bool = False) -> Gathered:
    """The fields of a series, and the entries of the file that they come from."""
    there, table = entries(path), format_of(path).table
    roles = roles_of(there, keys, table, path)
    beside = {f"{name}.{part}" for name in roles.names() for part in BESIDE}
    more = [entry.name for entry in there if entry.name in beside and not roles.ours]
    # A bin that was asked for ("units@0.1") is not listed, and has what the listed one has.
    more += [f"{name}.{part}" for name in roles.names() if "@" in name for part in BESIDE[:2]]
    arrays = read_entries(path, list(dict.fromkeys([*roles.names(), *more])))
    if transpose:
        arrays = {n: x.T if x.ndim == 2 and n not in beside else x for n, x in arrays.items()}
    roles = checked(roles, arrays, table and keys.key is None)
    return Gathered(roles, fields_from(roles, arrays, table, path))


def checked(roles: Roles, arrays: Mapping[str, Array], everything: bool) -> Roles:
    """Roles without times that do not rise, and with those that do under another name.

    everything: whether observations are all that nobody asked for; only then a column is moved.
    """
    name = roles.times
    if name is not None and name in roles.guessed and not _rises(arrays[name], roles, arrays):
        numbers = everything and arrays[name].dtype.kind in NUMBERS
        return replace(roles, times=None, observations=(*roles.observations, *[name] * numbers))
    if everything and name is None and len(roles.observations) > 1:
        for name in roles.observations:
            if rises_evenly(arrays[name]):
                others = tuple(other for other in roles.observations if other != name)
                guessed = roles.guessed | {name}
                return replace(roles, times=name, observations=others, guessed=guessed)
    return roles


def fields_from(
    roles: Roles, arrays: Mapping[str, Array], table: bool, path: Path
) -> dict[str, Any]:
    """Named arrays as a series is made of, from entries in their roles."""
    for name in (roles.times, roles.trials):
        if name in roles.guessed:
            is_time = name == roles.times
            what, other = ("time", "key") if is_time else ("the trial of each step", "trial_key")
            warnings.warn(f"{path}: {name!r} is taken for {what}, not for a feature; {other}=… "
                          "says otherwise", stacklevel=4)  # fmt: skip
    if roles.left:
        warnings.warn(f"{path}: holds no numbers in {', '.join(roles.left)}, which is left "
                      "out; label_key=… keeps it beside the data", stacklevel=4)  # fmt: skip
    fields: dict[str, Any] = {name: arrays[name] for name in roles.ours}
    values, bounds = _side_by_side(roles.observations, arrays, path)
    if (names := _names(roles.observations, arrays, values.shape[-1], table)) is not None:
        fields["names"] = names
    T, first = len(values), roles.observations[0]
    times = arrays.get(f"{first}.times" if roles.times is None else roles.times)
    bounds = arrays.get(f"{first}.bounds", bounds)
    rows: Ints | slice = slice(None)
    if roles.trials is not None:
        given, name = arrays[roles.trials], f"{path}: {roles.trials}"
        if given.ndim == 2 and given.shape[1] == 2 and len(given) != T:
            rows, bounds = epochs_from(given, times, T, name)
        else:
            bounds = bounds_from(given, T, name)
    if bounds is not None:
        fields["bounds"] = bounds
    if times is not None:
        fields["times"] = times[rows]
    fields[OBSERVATIONS] = values[rows]
    held = {name: _held(name, arrays, times, T, path) for name in (*roles.control, *roles.labels)}
    if roles.control:
        control = _side_by_side(roles.control, held, path)[0][rows]
        names = _names(roles.control, arrays, control.shape[1], table)
        fields |= {"control": control, "control_names": names, "control_units": None}
    return fields | {f"{LABEL}{name}": held[name][rows] for name in roles.labels}


def _side_by_side(
    names: Iterable[str], arrays: Mapping[str, Array], path: Path
) -> tuple[Array, Ints | None]:
    """Vectors and tables as one table; of three dimensions the first is trials."""
    tables, bounds = [], None
    for name in names:
        array = arrays[name]
        if array.ndim == 3:
            n, T, _ = array.shape
            bounds = np.arange(n + 1) * T
            array = array.reshape(n * T, -1)
            warnings.warn(f"{path}: {name!r} is taken for {n} trials of {T} steps: its dimensions "
                          "are trials, time and features", stacklevel=5)  # fmt: skip
        tables.append(array[:, None] if array.ndim == 1 else array)
    if len({len(table) for table in tables}) > 1:
        sizes = ", ".join(f"{n!r} has {len(x)}" for n, x in zip(names, tables, strict=True))
        raise InputError(f"{path}: {sizes} rows; wanted as many in each")
    return tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1), bounds


def _names(
    names: Sequence[str], arrays: Mapping[str, Array], width: int, table: bool
) -> Array | None:
    """Names of the columns, where entries have any."""
    if (own := arrays.get(f"{names[0]}.names")) is not None and len(names) == 1:
        return own
    numbered = table and names[0].isdigit()  # a table without a header
    return None if numbered or len(names) != width or not (table or width > 1) else np.array(names)


def _held(name: str, arrays: Mapping[str, Array], times: Array | None, T: int, path: Path) -> Array:
    """An array of one row per step; what has times of its own is held until it changes."""
    array, own = arrays[name], arrays.get(f"{name}.times")
    if array.ndim == 3:
        array = array.reshape(-1, array.shape[2])
    if len(array) == T or own is None or times is None:
        return array
    warnings.warn(f"{path}: {name!r} has {len(array)} samples for {T} steps; each step has the "
                  "last one before it", stacklevel=5)  # fmt: skip
    held: Array = array[np.maximum(np.searchsorted(own, times, side="right") - 1, 0)]
    return held


def _rises(times: Array, roles: Roles, arrays: Mapping[str, Array]) -> bool:
    """Whether times never fall inside a trial."""
    stamps = times if times.dtype.kind == "M" else times.astype(np.float64)
    steps = np.diff(stamps)
    falls = ~(steps >= np.zeros((), steps.dtype))  # of what is missing, too
    if roles.trials is not None and len(arrays[roles.trials]) == len(times):
        falls &= arrays[roles.trials][1:] == arrays[roles.trials][:-1]
    return len(times) > 1 and not falls.any() and bool((stamps[1:] != stamps[:-1]).any())


def rises_evenly(column: Array) -> bool:
    """Whether a column rises by the same step everywhere."""
    if column.ndim != 1 or len(column) < FEWEST or column.dtype.kind not in "fiu":
        return False
    steps = np.diff(column.astype(np.float64))
    return bool((steps > 0).all() and np.ptp(steps) <= EVEN * steps.mean())
