"""Intervals around forecasts, from errors on held-out data.

The only assumption is that errors to come are like errors so far. Their quantiles are kept by
channel and number of steps ahead, on the cautious side of what so many errors tell (as in conformal
prediction, Vovk et al. 2005).
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from dynacl.data import Array, InputError
from dynacl.values import Number

TAILS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
LEVELS = np.array([*TAILS, 0.5, *(1 - p for p in reversed(TAILS))])
WIDEST = 1 - 2 * TAILS[0]
TINY = 1e-6  # of a rank: rounding


class Errors(NamedTuple):
    """Quantiles of held-out errors, truth minus prediction, in the units of the run."""

    horizons: Array  # (H,), steps ahead
    levels: Array  # (L,), rising
    quantiles: Array  # (H, L, D)

    @classmethod
    def of(cls, horizons: Array, errors: Array, independent: Array | None = None) -> Errors:
        """From errors (n, H, D).

        independent: of these, how many say something of their own at each horizon, (H,); all, if it
        is not given. Of m such errors, a level takes the next of m + 1 ranks away from the middle.
        """
        n, ordered = len(errors), np.sort(errors, axis=0)
        m = np.full((1, len(horizons)), n) if independent is None else independent[None]
        p = LEVELS[:, None]
        below = np.floor(np.floor((m + 1) * p) / m * n + TINY)
        above = np.ceil(np.ceil((m + 1) * p) / m * n - TINY)
        ranks = np.clip(np.where(p < 0.5, below, above), 1, n).astype(int) - 1
        found = ordered[ranks, np.arange(len(horizons))].swapaxes(0, 1)
        return cls(np.asarray(horizons), LEVELS, np.ascontiguousarray(found, dtype=np.float32))

    def around(self, y: Array, coverage: float, before: int = 0) -> tuple[Array, Array]:
        """The lower and upper ends around forecasts y (..., steps, D), after `before` other steps.

        Steps that held-out data do not reach have none: NaN.
        """
        ahead = before + np.arange(1, y.shape[-2] + 1)
        by_step = _between(self.horizons, self.quantiles, ahead)
        tails = np.array([(1 - coverage) / 2, (1 + coverage) / 2])
        lower, upper = _between(self.levels, by_step.swapaxes(0, 1), tails)
        return y + lower, y + upper

    def check(self, coverage: float, steps: int) -> None:
        """That there are such intervals; a warning where they end before the last step."""
        if not Number(0, WIDEST, above=True).accepts(coverage):
            raise InputError(f"interval: got {coverage!r}; wanted the share of observations that "
                             f"it is to hold, above 0 and at most {WIDEST}")  # fmt: skip
        if steps > (furthest := int(self.horizons[-1])):
            warnings.warn(f"interval: held-out data tell errors up to {furthest} steps ahead; "
                          f"there is none for the steps from {furthest + 1} on",
                          stacklevel=5)  # fmt: skip


def _between(grid: Array, values: Array, at: Array) -> Array:
    """Values along their first axis, interpolated; NaN beyond the grid."""
    i = np.clip(np.searchsorted(grid, at) - 1, 0, max(0, len(grid) - 2))
    j = np.minimum(i + 1, len(grid) - 1)
    share = (at - grid[i]) / np.maximum(grid[j] - grid[i], np.finfo(float).tiny)
    share = np.where((at > grid[-1]) | (at < grid[0]), np.nan, share)
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    found: Array = values[i] + share * (values[j] - values[i])
    return found
