"""Steps that have room around them in their trial, without a list of them.

A recording of 10⁸ rows has as many references, and a list of them takes a gigabyte. Which step the
k-th is follows from the bounds of the trials.
"""

from __future__ import annotations

from typing import final

import numpy as np

from dynacl.data.arrays import Ints


@final
class Steps:
    """All t with t − past, t and t + ahead in the same trial, in order; an index gives an array."""

    def __init__(self, bounds: Ints, past: int = 0, ahead: int = 0) -> None:
        self.counts = np.maximum(np.diff(bounds) - past - ahead, 0)
        self.ends = np.cumsum(self.counts)
        self.shifts = bounds[:-1] + past - (self.ends - self.counts)  # of a trial: t = k + shift

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, k: slice | Ints) -> Ints:
        if isinstance(k, slice):
            k = np.arange(*k.indices(len(self)))
        found: Ints = k + self.shifts[np.searchsorted(self.ends, k, side="right")]
        return found

    def all(self) -> Ints:
        """The list."""
        found: Ints = np.arange(len(self)) + np.repeat(self.shifts, self.counts)
        return found

    def spread(self, most: int) -> Ints:
        """At most so many of them, evenly spread."""
        return self[:: max(1, -(-len(self) // most))]

    def stretches(self) -> Ints:
        """Where runs of consecutive steps begin among them, and their end."""
        return np.concatenate([[0], np.cumsum(self.counts[self.counts > 0])])
