"""How well observations are predicted that a model was not trained on: one function for all.

A prediction starts from a window of observations, goes h steps by the dynamics, and comes back to
observations by the readout. Beside it stands persistence: nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from dynacl import inference
from dynacl.data import Array, TimeSeries
from dynacl.readout import Readout
from dynacl.run import Run

ROWS = 4_000  # most rows that a readout is fitted to, and most starts that are judged


class Judged(NamedTuple):
    """Shares of the variance of held-out observations that are missed, by number of steps."""

    horizons: tuple[int, ...]
    missed: dict[str, Array]  # by name: "model", "persistence", …; one number per horizon

    def figure(self, name: str = "model") -> float:
        """One number, lower is better: the mean logarithm of what is missed."""
        return float(np.log(np.maximum(self.missed[name], 1e-12)).mean())


def fit_readout(run: Run, series: TimeSeries, generator: torch.Generator) -> Readout:
    """Latents to observations, on rows of the training data."""
    s = run.settings
    t = _spread(series.with_past(s.past))
    windows = torch.from_numpy(series.windows(t, s.time_lags, s.past_inputs))
    with torch.inference_mode():
        x = run.encoder(windows.to(run.device)).cpu()
    y = torch.from_numpy(series.observations[t])
    return Readout(x.shape[1], y.shape[1]).fit(x, y, generator)


def held_out_prediction(
    run: Run, readout: Readout, series: TimeSeries, horizons: Sequence[int]
) -> Judged:
    """What the model misses of `series` after so many steps, beside persistence."""
    offset = run.settings.time_offset
    x = inference.latents(run, series)
    series = series.trimmed(run.settings.past)
    starts = _starts(series, max(horizons) * offset)
    held = inference.held_modes(run.dynamics, series, x, x, offset)
    modes = None if held is None else np.repeat(held[starts][:, None], max(horizons), axis=1)
    path = inference.ahead(
        run.dynamics, series, x, starts, max(horizons), offset, run.geometry.project, modes
    )
    y = series.observations
    variance = float(y[starts].var(0, dtype=float).sum())
    missed: dict[str, list[float]] = {"model": [], "persistence": []}
    for h in horizons:
        true = y[starts + h * offset].astype(float)
        with torch.inference_mode():
            predicted = readout(torch.from_numpy(path[:, h - 1])).numpy()
        missed["model"].append(_missed(true, predicted, variance))
        missed["persistence"].append(_missed(true, y[starts], variance))
    return Judged(tuple(horizons), {name: np.array(v) for name, v in missed.items()})


def _missed(true: Array, predicted: Array, variance: float) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        error = float(np.square(true - predicted).sum(1).mean())
    return error / variance if np.isfinite(error) else float("inf")


def _starts(series: TimeSeries, ahead: int) -> Array:
    """Rows with `ahead` more in their trial, evenly spread; not a trial's first, whose modes no
    pair has told yet."""
    return _spread(series.steps(ahead, 1, allow_short=True))


def _spread(rows: Array) -> Array:
    """At most ROWS of them, evenly spread."""
    some: Array = rows[:: max(1, -(-len(rows) // ROWS))]
    return some
