"""Units of columns: where float32 would lose what a column says, it is kept in units of its own.

float32 holds seven digits, and its squares end at 1e38. A signal of 0.04 on an offset of 1e7 has no
digit left there; beside a column that is a million times larger, one is below what is taken for
rounding. Ordinary data have no units: they are kept as they came.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynacl.data.arrays import Array, Floats

Doubles = npt.NDArray[np.float64]
LOOKS = 10_000  # rows that units are chosen by
BLOCK = 1 << 22  # numbers in work at a time: bounds the memory
FAR = 1e3  # spreads between a column's mean and 0, from which it has an origin
UNEQUAL = 1e3  # ratio of the columns' spreads, from which each has its own scale
LEAST, MOST = 1e-9, 1e9  # spreads that float32 can square without a thought
LOST = 0.01  # share of a column's spread; rounding above it leaves fewer than two digits
SAME = 8 * np.finfo(np.float64).eps  # spread against mean, of what is the same but for rounding
NOTHING = 1e-12  # share of the largest spread, below which a column is rounding


class Units(NamedTuple):
    """A column in its user's units is origin + scale · what we keep."""

    origin: Doubles  # (D,)
    scale: Doubles  # (D,); powers of two, so that scaling costs no digits

    def keep(self, x: Array) -> Floats:
        """From the user's units to what we keep."""
        return _by_rows(lambda part: (part - self.origin) / self.scale, x)

    def restore(self, kept: Array) -> Doubles:
        """From what we keep to the user's units."""
        found: Doubles = self.origin + self.scale * kept
        return found


def exchange(kept: Floats, now: Units | None, wanted: Units | None, name: str) -> Floats:
    """What we keep in some units, in others; None: the user's own. No copy if they are the same.

    A warning where a column lies far from the origin that is wanted.
    """
    if now is wanted or (now and wanted and all(map(np.array_equal, now, wanted))):
        return kept
    plain = Units(np.zeros(kept.shape[1]), np.ones(kept.shape[1]))
    now, wanted = now or plain, wanted or plain
    # The origins first: they are large, and close to each other.
    shift, ratio = (now.origin - wanted.origin) / wanted.scale, now.scale / wanted.scale
    away = now.restore(kept[:LOOKS].mean(0, dtype=np.float64)) - wanted.origin
    if (elsewhere := 2 * np.abs(away) > np.abs(wanted.origin))[wanted.origin != 0].any():
        i = int(np.argmax(elsewhere & (wanted.origin != 0)))
        warnings.warn(
            f"{name}: column {i} lies around {away[i] + wanted.origin[i]:.3g}, in the training "
            f"data around {wanted.origin[i]:.3g}; pass it in the same units (a TimeSeries itself, "
            "not its observations)",
            stacklevel=4,
        )
    return _by_rows(lambda part: ratio * part + shift, kept)


def units_of(trials: Sequence[Array], name: str) -> Units | None:
    """The units that these columns need; None where float32 holds them as they are.

    A warning where digits were lost before they came here.
    """
    mean, spread = _mean_and_spread(_some(trials))
    if not np.isfinite(spread).all():  # nor where no row is whole
        return None
    rounding = np.abs(mean) * max(_epsilon(x) for x in trials)
    spread[spread <= SAME * np.abs(mean)] = 0  # a constant, but for rounding
    largest = spread.max()
    if not 0 < largest < np.finfo(np.float32).max:
        return None
    lost = (spread > 0) & (rounding > LOST * spread)
    if lost.any():
        _warn_of_lost_digits(name, mean, spread, rounding, lost, trials[0].dtype)
    real = (spread > NOTHING * largest) & ~lost
    unequal = real.any() and largest > UNEQUAL * spread[real].min()
    odd = unequal or not LEAST <= largest <= MOST
    far = real & (np.abs(mean) > FAR * spread)
    if not odd and (not far.any() or all(np.can_cast(x.dtype, np.float32) for x in trials)):
        return None
    scale = np.full(len(mean), largest if odd else 1.0)
    if unequal:
        scale[real] = spread[real]
    centred = far | (~real if odd else False)
    # An origin of few digits: differences from it are exact, and data that are alike share it.
    step = np.exp2(np.ceil(np.log2(np.where(spread > 0, spread, 1.0))))
    origin = np.where(spread > 0, step * np.round(mean / step), mean)
    return Units(np.where(centred, origin, 0.0), np.exp2(np.round(np.log2(scale))))


def _mean_and_spread(some: Array) -> tuple[Doubles, Doubles]:
    """Of each column over the rows where nothing is missing; a part of the columns at a time."""
    size = max(1, BLOCK // len(some))
    parts = [slice(i, i + size) for i in range(0, some.shape[1], size)]
    whole = ~np.any([np.isnan(some[:, part]).any(1) for part in parts], axis=0)
    mean, spread = np.full((2, some.shape[1]), np.nan)
    if whole.any():
        for part in parts:
            x = some[:, part][whole].astype(np.float64)
            with np.errstate(all="ignore"):  # what is not finite is refused elsewhere
                moved = x - x[0]  # of a constant it is 0, whatever its digits
                mean[part], spread[part] = x[0] + moved.mean(0), moved.std(0)
    return mean, spread


def _some(trials: Sequence[Array]) -> Array:
    """At most LOOKS rows of all trials, at random, so that no period of the data is in step."""
    bounds = np.cumsum([0, *(len(x) for x in trials)])
    if bounds[-1] <= LOOKS:
        return trials[0] if len(trials) == 1 else np.concatenate(trials)
    rows = np.sort(np.random.default_rng(0).choice(bounds[-1], LOOKS, replace=False))
    cuts = np.searchsorted(rows, bounds)
    found = zip(trials, bounds, cuts[:-1], cuts[1:], strict=False)
    return np.concatenate([x[rows[a:b] - start] for x, start, a, b in found if a < b])


def _epsilon(x: Array) -> float:
    return float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 0.0


def _warn_of_lost_digits(
    name: str, mean: Doubles, spread: Doubles, rounding: Doubles, lost: Array, dtype: object
) -> None:
    i = int(np.argmax(np.where(lost, rounding / np.where(lost, spread, 1.0), 0)))
    digits = max(0, int(np.floor(np.log10(spread[i] / rounding[i]))))
    others = f" (and {lost.sum() - 1} more)" if lost.sum() > 1 else ""
    warnings.warn(
        f"{name}: column {i}{others} has a mean of {mean[i]:.3g} and a spread of {spread[i]:.2g}, "
        f"of which {dtype} keeps {digits} digit{'s' if digits != 1 else ''}; pass it in a higher "
        "precision, or without the offset",
        stacklevel=4,
    )


def _by_rows(change: Callable[[Array], Array], x: Array) -> Floats:
    """A change of rows in double precision, a part at a time."""
    found = np.empty(x.shape, dtype=np.float32)
    size = max(1, BLOCK // x.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # found by the check for finite numbers
        for start in range(0, len(x), size):
            part = slice(start, start + size)
            found[part] = change(np.asarray(x[part], dtype=np.float64))
    return found
