"""dynamics="auto": candidates on a part of the data and of the steps; the one to go on with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynacl import assembly, beside
from dynacl.choosing.folds import PIECES, Fold, fold, span, steps_ahead
from dynacl.choosing.judged import Judged, judge
from dynacl.choosing.rule import Row, Selection, select_among
from dynacl.data import InputError, TimeSeries
from dynacl.dynamics.naming import candidates
from dynacl.dynamics.naming import options as dynamics_options
from dynacl.judging import far_ahead, judge_for
from dynacl.parameters import PARAMETERS
from dynacl.request import Request
from dynacl.settling import settle
from dynacl.training import TrainingError, train

STEPS = 0.3  # share of the steps of a fit that a candidate takes
ROWS = 50_000  # of the data that it is fitted to and judged by, at most
Parameters = Mapping[str, Any]


def choose(given: Parameters, series: TimeSeries, seed: int) -> Selection | None:
    """Which dynamics to take; None where the user has said it.

    given: all parameters of DCL by name.
    """
    names = candidates(given["dynamics"])
    if not names:
        return None
    part = _part(series)
    horizons = steps_ahead(part, given)
    parts = fold(part, 0, span(given, horizons))
    tried, failed = [], []
    for name in names:
        try:
            tried.append(_tried(given, name, parts, horizons, seed))
        except (InputError, TrainingError) as error:
            failed.append(Row({"dynamics": name}, failed=str(error)))
    found = select_among(tried, failed)
    if found.recommended is None:
        found = replace(found, recommended=0, reason=f"{found.reason}; the simplest is taken")
    return found


def settled(given: Parameters, choice: Selection | None) -> dict[str, Any]:
    """The parameters of DCL with what was chosen in the place of "auto"."""
    return dict(given) if choice is None else _with(given, **choice.parameters)


def _with(given: Parameters, dynamics: str) -> dict[str, Any]:
    """Options that only other candidates take are left at their defaults."""
    taken = dynamics_options(dynamics)
    unused = {name: p.default for name, p in PARAMETERS.items()
              if p.group == "dynamics" and p.refused and name not in taken}  # fmt: skip
    return dict(given) | unused | {"dynamics": dynamics}


def _part(series: TimeSeries) -> TimeSeries:
    """Trials evenly spread, or the first rows of a few long ones."""
    if len(series) <= ROWS:
        return series
    if series.n_trials < PIECES:
        return series.head(ROWS)
    n = max(PIECES, series.n_trials * ROWS // len(series))
    return series.select(np.linspace(0, series.n_trials - 1, n).astype(int).tolist())


def _tried(
    given: Parameters, name: str, parts: Fold, horizons: tuple[int, ...], seed: int
) -> Judged:
    """A candidate, trained as `fit` does, only shorter."""
    seen, held = parts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit that follows says them
        run = assembly.begin(Request.of(_with(given, name)), seen, seed)
        steps = max(1, round(STEPS * run.settings.max_iter))
        run.settings = replace(run.settings, max_iter=steps)
        training, within = assembly.held_out(run, seen)
        judging = None if within is None else judge_for(run, training, within, seen)
        train(run, training, judge=judging, verbose=given["verbose"])
        if run.interrupted:
            raise KeyboardInterrupt
        settle(run, seen, far_ahead(run, training, within))
        beside.prepare(run, training, within)
    held = held.within(run.units, run.control_units)
    return judge({"dynamics": name}, run, held, horizons)
