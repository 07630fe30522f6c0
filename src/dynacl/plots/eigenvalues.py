"""Eigenvalues of the dynamics: how long each part of a movement lasts, and how fast it turns."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dynacl.data import Array
from dynacl.plots.style import MUTED, TRUE, axes, colours, dressed, legend, logarithmic
from dynacl.spectrum import Spectrum

NAMED = 10  # modes that a legend lists
NEVER = "does not shrink"
MARGIN = 0.15  # of what the eigenvalues span, around them


def eigenvalues(spectrum: Spectrum, *, ax: Axes | None = None) -> Axes:
    """In the complex plane, near where they are: the unit circle, and rings of time constants.

    Outside the circle something grows. On a ring it shrinks to 1/e in the time that is written
    there; the angle is the turn of one step.
    """
    found = spectrum.eigenvalues
    panel = axes(ax, 2.9)
    low, high = _window(found)
    angle = np.linspace(-np.pi, np.pi, 2000)
    circle = np.exp(1j * angle)
    panel.plot(circle.real, circle.imag, color=TRUE, linewidth=1, zorder=1)
    panel.axhline(0, color=MUTED, linewidth=0.4, zorder=0)
    _rings(panel, spectrum, circle, low, high)
    for k, (values, colour) in enumerate(zip(found, colours(len(found)), strict=True)):
        label = f"mode {k}" if 1 < len(found) <= NAMED else None
        panel.plot(values.real, values.imag, "o", color=colour, markersize=4.5,
                   markeredgecolor="white", markeredgewidth=0.4, label=label)  # fmt: skip
    panel.set(xlim=(low.real, high.real), ylim=(low.imag, high.imag))
    panel.set_aspect("equal", "box")
    legend(panel)
    dressed(panel, "Re λ", "Im λ")
    return panel


def time_constants(spectrum: Spectrum, *, ax: Axes | None = None) -> Axes:
    """Time constant against frequency, a dot for each real eigenvalue and each conjugate pair.

    What grows, or stays for ever, has no time in which it shrinks: it is an arrow at the top.
    """
    time, frequency = spectrum.units
    panel = axes(ax, 2.6)
    upper = spectrum.eigenvalues.imag >= 0
    tau = spectrum.time_constants
    shrinks = np.isfinite(tau) & (tau > 0)
    known = tau[shrinks & upper]
    top = 3 * float(known.max()) if len(known) else 1.0
    for k, colour in enumerate(colours(len(spectrum))):
        label = f"mode {k}" if 1 < len(spectrum) <= NAMED else None
        here, gone = upper[k] & shrinks[k], upper[k] & ~shrinks[k]
        panel.plot(spectrum.frequencies[k, here], tau[k, here], "o", color=colour, markersize=4.5,
                   markeredgecolor="white", markeredgewidth=0.4, label=label)  # fmt: skip
        panel.plot(spectrum.frequencies[k, gone], np.full(gone.sum(), top), "^", color=colour,
                   markersize=6)  # fmt: skip
    if (upper & ~shrinks).any():
        panel.plot([], [], "^", color=MUTED, markersize=6, label=NEVER)
    logarithmic(panel, "y")
    if not len(known):  # heights say nothing
        panel.set_ylim(top / 10, 1.2 * top)
        panel.set_yticks([])
        panel.set_yticks([], minor=True)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.grid(color=MUTED, alpha=0.25, linewidth=0.5)
    legend(panel)
    dressed(panel, f"frequency ({frequency})", f"time constant ({time})")
    return panel


def _window(found: Array) -> tuple[complex, complex]:
    """Corners of a square that holds all eigenvalues and a piece of the unit circle.

    It reaches no further from the origin than that takes: outside the circle is little to see.
    """
    points = np.r_[found.ravel(), found.ravel() / np.maximum(np.abs(found.ravel()), 1e-12)]
    span = max(np.ptp(points.real), np.ptp(points.imag), 0.02)
    half = span * (0.5 + MARGIN)

    def centre(values: Array) -> float:
        least, most = values.max() + MARGIN * span - half, values.min() - MARGIN * span + half
        return float(np.clip(0.0, least, max(least, most)))

    middle = complex(centre(points.real), centre(points.imag))
    return middle - half * (1 + 1j), middle + half * (1 + 1j)


def _rings(panel: Axes, spectrum: Spectrum, circle: Array, low: complex, high: complex) -> None:
    """Where a part shrinks to 1/e in 1, 3, 10, … times a step; those that the window shows.

    The time stands on its ring, as heights stand on the lines of a map.
    """
    unit = spectrum.units[0]
    side = high.real - low.real
    for steps in (m * 10**e for e in range(5) for m in (1, 3)):
        ring = np.exp(-1 / steps) * circle
        edge = np.minimum(np.minimum(ring.real - low.real, high.real - ring.real),
                          np.minimum(ring.imag - low.imag, high.imag - ring.imag))  # fmt: skip
        room = ring[edge > 0.13 * side]  # for its words
        if not len(room) or (1 - np.exp(-1 / steps)) / side < 0.05:  # or too near the circle
            continue
        panel.plot(ring.real, ring.imag, color=MUTED, linewidth=0.6, linestyle=":", zorder=0)
        at = room[np.argmin(room.imag - 0.01 * room.real)]
        along = (np.degrees(np.angle(at)) + 180) % 180 - 90  # the tangent, never upside down
        time = steps * spectrum.step
        words = "1 sample" if (time, unit) == (1, "samples") else f"{time:g} {unit}"
        panel.text(at.real, at.imag, words, rotation=along, ha="center",
                   va="center", fontsize="x-small", color=MUTED, zorder=0.5,
                   bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
