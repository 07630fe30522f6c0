"""Missing values: where they are, and series without them.

Trials are cut where something is missing, or short gaps are bridged by a straight line. Rows of
control and labels go with those of the observations.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dynacl.data.arrays import Array, Floats, Ints
from dynacl.data.errors import InputError

WAYS = ("error", "split", "interpolate")
MAX_GAP = 5  # steps that are bridged, at most
LATE = 1.5  # times the usual step of time, from which samples are missing in between
SOME = 0.05  # of the steps may be odd, and time still even


def check_way(missing: str, max_gap: int, min_length: int) -> None:
    if missing not in WAYS:
        raise InputError(f"missing: got {missing!r}; wanted one of {', '.join(WAYS)}")
    for name, value in (("max_gap", max_gap), ("min_length", min_length)):
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name}: got {value!r}; wanted a whole number of at least 1")


class Mended(NamedTuple):
    """A series without missing values: new arrays, the rows of them that stay, and its trials."""

    observations: Floats
    control: Floats | None
    rows: Ints | slice
    lengths: list[int]


def mended(
    observations: Floats,
    control: Floats | None,
    bounds: Ints,
    times: Array | None,
    *,
    max_gap: int,
    name: str,
) -> Mended:
    """Gaps of at most max_gap steps are bridged (0: none), and trials are cut at the others.

    They are cut as well where times leave samples out. What that changed is said.
    """
    gone, filled = np.zeros(len(observations), dtype=bool), 0

    def without(values: Floats) -> Floats:
        nonlocal gone, filled
        before = after = np.isnan(values).any(1)
        if before.any() and max_gap:
            values = bridged(values, bounds, max_gap)
            after = np.isnan(values).any(1)
        filled += int((before & ~after).sum())
        gone |= after
        return values

    observations = without(observations)
    control = None if control is None else without(control)
    late = late_rows(times, bounds)
    if filled:
        warnings.warn(f"{name}: values were missing at {filled} step{'s' * (filled > 1)}, and are "
                      "bridged by a line", stacklevel=5)  # fmt: skip
    if not gone.any() and not len(late):
        return Mended(observations, control, slice(None), np.diff(bounds).tolist())
    rows, lengths = pieces(gone, bounds, late)
    if not lengths:
        raise InputError(f"{name}: something is missing at every step, or at every other; nothing "
                         "is left")  # fmt: skip
    cuts = [f"{n} {what}{'s' * (n > 1)}{more}" for n, what, more in (
        (int(gone.sum()), "step", " with missing values"), (len(late), "gap", " in time")
    ) if n]  # fmt: skip
    warnings.warn(f"{name}: cut at {' and '.join(cuts)}: {len(lengths)} trials from "
                  f"{len(bounds) - 1}, {len(rows)} steps of {len(gone)}", stacklevel=5)  # fmt: skip
    return Mended(observations, control, rows, lengths)


def bridged(values: Floats, bounds: Ints, max_gap: int) -> Floats:
    """Gaps of at most so many steps inside a trial, filled by a line from end to end."""
    found = np.array(values)
    for a, b in pairwise(bounds):
        for column in np.flatnonzero(np.isnan(values[a:b]).any(0)):
            part = found[a:b, column]
            known = np.flatnonzero(~np.isnan(part))
            for before, after in pairwise(known):
                if 1 < after - before <= max_gap + 1:
                    inside = np.arange(before + 1, after)
                    part[inside] = np.interp(inside, [before, after], part[[before, after]])
    return found


def pieces(gone: Array, bounds: Ints, late: Ints) -> tuple[Ints, list[int]]:
    """The rows that stay, and the lengths of the trials that they make.

    gone: whether a row has something missing. late: rows before which samples are missing. Single
    rows are left out: no step starts and ends in one.
    """
    starts = np.zeros(len(gone) + 1, dtype=bool)
    starts[bounds] = True
    starts[late] = True
    starts[:-1] |= gone
    starts[1:] |= gone
    edges = np.flatnonzero(starts)
    lengths = np.diff(edges)
    whole = (lengths > 1) & ~gone[edges[:-1]]
    spans = zip(edges[:-1][whole], edges[1:][whole], strict=True)
    rows = [np.arange(a, b) for a, b in spans]
    return np.concatenate([*rows, np.arange(0)]), lengths[whole].tolist()


def late_rows(times: Array | None, bounds: Ints) -> Ints:
    """Rows that come later than one step after the row before, in the same trial."""
    if times is None or len(times) < 3:
        return np.arange(0)
    steps = np.diff(times).astype(np.float64)
    inside = np.ones(len(steps), dtype=bool)
    inside[bounds[1:-1] - 1] = False
    if not inside.any():
        return np.arange(0)
    return np.flatnonzero(inside & (steps > LATE * np.median(steps[inside]))) + 1


def interval_of(times: Array | None, bounds: Ints) -> float | None:
    """Seconds from one row to the next inside trials; None without times, or where they vary."""
    if times is None:
        return None
    steps = np.diff(times)
    seconds = steps / np.timedelta64(1, "s") if steps.dtype.kind == "m" else steps
    inside = np.delete(seconds.astype(np.float64), bounds[1:-1] - 1)
    if not len(inside):
        return None
    middle = float(np.median(inside))
    odd = np.abs(inside - middle) > (LATE - 1) * middle
    return middle if middle > 0 and odd.mean() <= SOME else None


def where(values: Array, names: tuple[str, ...] | None = None, first: int = 0) -> str:
    """Which steps and columns have something missing."""
    bad = ~np.isfinite(values)
    t, i = np.argwhere(bad)[0]
    columns = np.flatnonzero(bad.any(0))
    called = [str(j) if names is None else repr(names[j]) for j in columns[:3]]
    more = f" and {len(columns) - 3} more" if len(columns) > 3 else ""
    return (
        f"at {bad.any(1).sum()} of {len(values)} steps, in feature{'s' * (len(columns) > 1)} "
        f"{', '.join(called)}{more} (first at step {first + t}, feature {i}: {values[t, i]})"
    )
