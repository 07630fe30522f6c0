"""What is in a file, what of it would be used, and what looks wrong with it.

Nothing is refused here: it only reports what `fit` would stop at.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynacl.data import Array, InputError, TimeSeries, is_categorical, is_missing
from dynacl.data.fields import parts_of
from dynacl.data.formats import Entry, entries
from dynacl.data.gathering import gather
from dynacl.data.missing import MAX_GAP, late_rows, where
from dynacl.data.roles import Keys, Roles
from dynacl.doubts import check_data

NAMED = 5  # columns that a sentence names, at most


class Inspection(NamedTuple):
    """What `inspect` finds."""

    entries: list[Entry]
    roles: Roles | None
    series: TimeSeries | None  # as it would be used; values may be missing
    error: str | None  # why nothing would be used
    said: list[str]  # what reading says, and what looks wrong

    def role(self, name: str) -> str:
        """What an entry would be used as; empty where it would not be used."""
        if self.roles is None:
            return ""
        found = {
            "observed": name in self.roles.observations,
            "control": name in self.roles.control,
            "label": name in self.roles.labels,
            "trials": name == self.roles.trials,
            "time": name == self.roles.times,
            "kept": name in self.roles.ours,
        }
        return next((role for role, fits in found.items() if fits), "")


def inspect(
    path: Path,
    keys: Keys,
    *,
    trial_length: int | None = None,
    transpose: bool = False,
    missing: str = "error",
    max_gap: int = MAX_GAP,
) -> Inspection:
    """Look into a file as `TimeSeries.read` would."""
    there, roles, series, error = entries(path), None, None, None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = gather(path, keys, transpose)
            roles = found.roles
            series = TimeSeries(**parts_of(found.fields, trial_length, str(path), gaps=True))
            if missing != "error":
                series = series.mended(missing, max_gap, name=str(path))
            check_data(series)
        except InputError as wrong:
            error = str(wrong)
    sentences = [str(warning.message) for warning in said]
    return Inspection(
        there, roles, series, error, sentences + doubts(series) if series else sentences
    )


def doubts(series: TimeSeries) -> list[str]:
    """What looks wrong with a series, in sentences."""
    found, y = [], series.observations
    with warnings.catch_warnings(action="ignore"):  # a column that is missing altogether
        constant = np.flatnonzero(np.nanmin(y, axis=0) == np.nanmax(y, axis=0))
    if len(constant):
        found.append(f"{_columns(constant, series)} never change{'s' * (len(constant) == 1)}")
    found += [
        f"columns {_name(a, series)} and {_name(b, series)} are the same"
        for a, b in _twins(y, set(constant.tolist()))
    ]
    for what, values, names in (
        ("", y, series.names),
        ("control: ", series.control, series.control_names),
    ):
        if values is not None and np.isnan(values).any():
            gap = _longest(np.any(np.isnan(values), axis=1), series)
            found.append(f"{what}values are missing {where(values, names)}; the longest gap has "
                         f"length {gap}; missing=… says what to do")  # fmt: skip
    if len(late := late_rows(series.times, series.bounds)):
        places = f"at {len(late)} places (first before" if len(late) > 1 else "(before"
        found.append(f"times leave samples out {places} step {late[0]}); "
                     'missing="split" cuts there')  # fmt: skip
    for name, label in series.labels.items():
        if (gone := is_missing(label)).any():
            found.append(f"label {name!r} is missing at {gone.sum()} of {len(label)} steps")
    return found


def summary(series: TimeSeries) -> dict[str, Any]:
    """What would be used, in figures."""
    return {
        "steps": len(series),
        "features": series.n_features,
        "trials": series.n_trials,
        "shortest": int(series.lengths.min()),
        "longest": int(series.lengths.max()),
        "controls": series.n_controls,
        "control_names": series.control_names,
        "labels": {name: _kind(label) for name, label in series.labels.items()},
        "interval": series.interval,
        "truth": series.truth is not None,
    }


def _kind(label: Array) -> str:
    known = label[~is_missing(label)]
    if is_categorical(label):
        return f"{len(np.unique(known))} categories"
    return f"{known.min():.4g} to {known.max():.4g}" if len(known) else "nothing"


def _name(column: int, series: TimeSeries) -> str:
    return str(column) if series.names is None else repr(series.names[column])


def _columns(columns: Array, series: TimeSeries) -> str:
    named = ", ".join(_name(i, series) for i in columns[:NAMED])
    more = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
    return f"column{'s' * (len(columns) > 1)} {named}{more}"


def _twins(y: Array, but: set[int]) -> list[tuple[int, int]]:
    """Some pairs of columns that hold the same, and do change."""
    first: dict[bytes, int] = {}
    found = []
    for i in range(y.shape[1]):
        if i not in but and (before := first.setdefault(y[:, i].tobytes(), i)) != i:
            found.append((before, i))
    return found[:NAMED]


def _longest(gone: Array, series: TimeSeries) -> int:
    """The length of the longest run of missing rows inside a trial."""
    longest = 0
    for part in series.split(gone):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], part, [False]]).astype(int)))
        longest = max(longest, int(np.max(edges[1::2] - edges[::2], initial=0)))
    return longest
