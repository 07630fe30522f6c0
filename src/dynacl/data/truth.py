"""Truth: what a simulator knows of a series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dynacl.data.arrays import Array, Floats, Ints


@dataclass(frozen=True)
class Truth:
    """What a simulator knows and an experimenter does not.

    latents: (T_total, d). modes: (T_total,), the mode that moves step t to t+1, -1 at a trial's
    end. system: everything needed to draw again from the same system, as a flat dict of arrays.
    """

    latents: Floats
    modes: Ints | None = None
    system: Mapping[str, Array] = field(default_factory=dict)

    def at(self, rows: Ints | slice) -> Truth:
        modes = None if self.modes is None else self.modes[rows]
        return Truth(self.latents[rows], modes, self.system)
