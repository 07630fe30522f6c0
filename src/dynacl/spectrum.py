"""What linear maps do to a state, without coordinates: eigenvalues, time constants, frequencies.

Latents are known up to an affine map, and eigenvalues do not depend on it: they can be compared
with those of the true system, between runs and between recordings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynacl.data import Array


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Of each mode, by falling |λ|: arrays (K, d).

    time_constants: after this time a component has shrunk to 1/e: −Δ / log|λ|, with Δ the time of
    one step. Infinite where |λ| = 1; negative where it grows: to e times itself after that time.
    frequencies: |angle of λ| / 2πΔ. Two conjugate eigenvalues are one oscillation. A step sees no
    frequency above 1/2Δ: what turns faster appears as something slower.
    step: Δ; in seconds, or in samples if there is no sampling interval.
    """

    eigenvalues: Array
    time_constants: Array
    frequencies: Array
    step: float
    seconds: bool

    @classmethod
    def of(cls, maps: Array, time_offset: int = 1, interval: float | None = None) -> Spectrum:
        """Of maps (K, d, d), each over time_offset samples, an `interval` of seconds apart."""
        step = float(time_offset * (1.0 if interval is None else interval))
        found = eigenvalues(maps)
        with np.errstate(divide="ignore"):
            rate = -np.log(np.abs(found)) / step
            constants = np.where(rate == 0, np.inf, 1 / rate)
        frequencies = np.abs(np.angle(found)) / (2 * np.pi * step)
        return cls(found, constants, frequencies, step, interval is not None)

    def __len__(self) -> int:
        return len(self.eigenvalues)

    @property
    def units(self) -> tuple[str, str]:
        """Of time constants and of frequencies."""
        return ("s", "Hz") if self.seconds else ("samples", "per sample")

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it: an eigenvalue is its real and its imaginary part."""
        time, frequency = self.units
        return {
            "time_unit": time,
            "frequency_unit": frequency,
            "step": self.step,
            "eigenvalues": np.stack([self.eigenvalues.real, self.eigenvalues.imag], -1).tolist(),
            "time_constants": self.time_constants.tolist(),
            "frequencies": self.frequencies.tolist(),
        }

    def __str__(self) -> str:
        """A table, with one line for each real eigenvalue and for each conjugate pair.

        Where a component grows, the time constant is the time after which it is e times itself.
        """
        time, frequency = self.units
        lines = [f"mode      |λ|  time constant ({time})  frequency ({frequency})"]
        width, wide = len(f"time constant ({time})"), len(f"frequency ({frequency})")
        for k, found in enumerate(self.eigenvalues):
            for i in np.flatnonzero(found.imag >= 0):
                lasts = self.time_constants[k, i]
                constant = f"{'grows ' if lasts < 0 else ''}{abs(lasts):.4g}"
                lines.append(
                    f"{k:>4}  {abs(found[i]):7.4f}  {constant:>{width}}  "
                    f"{self.frequencies[k, i]:>{wide}.4g}"
                )
        return "\n".join(lines)


def eigenvalues(maps: Array) -> Array:
    """Of each map, (K, d), by falling |λ|; of a conjugate pair first the one of Im λ > 0."""
    found = np.linalg.eigvals(np.asarray(maps, dtype=float)).astype(complex)
    # |λ| of a pair differs by rounding alone, which must not part it.
    order = np.lexsort((-found.imag, -found.real, -np.abs(found).round(12)), axis=-1)
    ordered: Array = np.take_along_axis(found, order, axis=-1)
    return ordered


def radius(maps: Array) -> Array:
    """|λ| of the largest eigenvalue of each map."""
    largest: Array = np.abs(eigenvalues(maps)).max(1)
    return largest
