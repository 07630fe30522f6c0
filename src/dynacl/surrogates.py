"""Surrogates: data that keep some properties of a recording and lose the rest, to compare with.

Shuffled time keeps the values and loses every dependence on the past. Random phases keep the
spectra of all channels and between them, so all that is linear, and lose the rest (Theiler et al.
1992; Prichard & Theiler 1994). A circular shift keeps all of one signal and loses its relation to
another; it says nothing about a signal by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dynacl.data import Array, TimeSeries

Surrogate = Callable[[TimeSeries, np.random.Generator], TimeSeries]


def shuffled(series: TimeSeries, rng: np.random.Generator) -> TimeSeries:
    """Observations in any order over the whole recording; the control input stays."""
    return _bare(series, series.observations[rng.permutation(len(series))], series.control)


def phase_randomised(series: TimeSeries, rng: np.random.Generator) -> TimeSeries:
    """Each trial with random phases, the same for all of its channels and inputs."""
    n = series.n_features
    parts = [series.observations] if series.control is None else [series.observations,
                                                                  series.control]  # fmt: skip
    both = np.concatenate(parts, axis=1)
    turned = np.concatenate([_turned(both[a:b], rng) for a, b in series.spans()])
    turned = turned.astype(np.float32)
    return _bare(series, turned[:, :n], None if series.control is None else turned[:, n:])


def shifted_control(series: TimeSeries, rng: np.random.Generator) -> TimeSeries:
    """The control input of each trial, shifted in a circle against its observations."""
    control = None if series.control is None else shifted(series.control, series.bounds, rng)
    return _bare(series, series.observations, control)


def shifted(values: Array, bounds: Array, rng: np.random.Generator) -> Array:
    """Rows of each trial, shifted in a circle by at least a tenth of its length."""
    found = values.copy()
    for a, b in pairwise(bounds.tolist()):
        least = max(1, (b - a) // 10)
        by = rng.integers(least, max(least, b - a - least), endpoint=True)
        found[a:b] = np.roll(values[a:b], by, axis=0)
    return found


NULLS: dict[str, Surrogate] = {
    "shuffle": shuffled,
    "phase": phase_randomised,
    "shift": shifted_control,
}


def _turned(x: Array, rng: np.random.Generator) -> Array:
    """The columns of x with random phases, the same for all: their cross-spectra stay."""
    spectrum = np.fft.rfft(x.astype(float), axis=0)
    phases = rng.uniform(0, 2 * np.pi, len(spectrum))
    phases[0] = 0.0  # the mean
    if len(x) % 2 == 0:  # the highest frequency is real
        phases[-1] = np.pi * rng.integers(2)
    found: Array = np.fft.irfft(spectrum * np.exp(1j * phases)[:, None], n=len(x), axis=0)
    return found


def _bare(series: TimeSeries, observations: Array, control: Array | None) -> TimeSeries:
    """Without truth, labels and times, which are of other data."""
    return replace(
        series, observations=observations, control=control, truth=None, labels={}, times=None
    )
