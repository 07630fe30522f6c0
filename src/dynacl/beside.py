"""What a run keeps besides its weights: its readout, its errors, and the models beside it.

All of it is fitted to the training data when training stops, and saved with the model.
"""

from __future__ import annotations

import numpy as np

from dynacl.data import TimeSeries
from dynacl.intervals import Errors
from dynacl.linear_models import ARX
from dynacl.prediction import NUMBERS, by_run, fit_readout, horizons_for, spread_starts
from dynacl.run import Run, Start

MOST = 20_000  # rows that an autoregression is fitted to …
WORK = 1e9  # … and fewer where they are wide: it keeps a tenth as many components as rows
ERRORS_TO = 100  # steps ahead for which errors are kept, at most, …
ERRORS_AT = 12  # … at so many of these steps; between them they are interpolated
ERRORS_OF = 1_000  # most forecasts that errors are taken of …
FEWEST = 50  # … and fewest, from which a quantile can be told


def prepare(run: Run, seen: TimeSeries, held: TimeSeries | None) -> None:
    """All that `held_out` needs, from what the run trains on; when it stands still."""
    run.readout = fit_readout(run, seen)
    run.horizons = horizons_for(run, seen, seen if held is None else held)
    run.errors = None if held is None else errors(run, held)
    if run.arx is None or run.arx.feedthrough != run.readout.sees_inputs:  # all see the same
        how = run.settings.time_lags, run.readout.sees_inputs
        run.arx = ARX(*how).fit(seen.head(_enough(run, seen)))
    if run.start is None and run.floor is not None:
        before = run.weights()
        run.restore(run.floor.weights)
        run.start = Start(run.encoder.linear_part(), run.floor.weights["dynamics"],
                          fit_readout(run, seen))  # fmt: skip
        run.restore(before)


def _enough(run: Run, series: TimeSeries) -> int:
    """Rows that an autoregression is fitted to: it may take a second, by rows × numbers²."""
    numbers = len(run.settings.time_lags) * series.n_features
    return int(np.clip(WORK / numbers**2, (100 * WORK) ** (1 / 3), MOST))


def errors(run: Run, held: TimeSeries) -> Errors | None:
    """The errors of a run on data that it was not trained on; None: there are too few.

    A hidden mode is taken from the last pair alone; a forecast decodes the trial, and errs less.
    """
    if run.readout is None or not run.encoder.symmetric:
        return None
    offset, past = run.settings.time_offset, run.settings.past
    room = held.lengths - past - 1
    counts = np.maximum(room - offset * np.arange(1, ERRORS_TO + 1)[:, None], 0).sum(1)
    # As far as half of the starts go: the rest would be of the first steps of trials alone.
    enough = int((counts >= max(FEWEST, counts[0] / 2)).sum())
    if enough == 0:
        return None
    horizons = np.unique(np.geomspace(1, enough, min(enough, ERRORS_AT)).round().astype(np.int64))
    most = int(np.clip(2 * NUMBERS // (len(horizons) * held.n_features), FEWEST, ERRORS_OF))
    starts = spread_starts(held, enough * offset, past, most)
    true = held.observations[starts[:, None] + horizons * offset]
    found = true - by_run(run, run.readout, held, starts, horizons.tolist())(slice(None))
    # Forecasts whose steps overlap err alike.
    return Errors.of(horizons, found, np.minimum(len(starts), 1 + counts[0] // horizons))
