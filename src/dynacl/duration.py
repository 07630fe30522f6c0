"""How long a training will take, from steps that are timed and undone."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import Any

from dynacl.data import TimeSeries
from dynacl.progress import say
from dynacl.run import Run, make_optimizers
from dynacl.sampling import rows
from dynacl.training import step_of

LONG = 120.0  # seconds, from which a training is announced
SLOW = 5.0  # seconds of a step, from which one on fewer rows tells enough
FEWER = 8
LARGE = 10_000_000  # weights of a model, from which timing a step may take a minute itself


def announce(run: Run, series: TimeSeries, until: int) -> None:
    """Say how many minutes the steps to `until` will take, where they take minutes."""
    weights = sum(p.numel() for part in run.parts.values() for p in part.parameters())
    if weights > LARGE and run.step < until:
        say(f"{weights:,} weights to train: this may take hours. Timing a step; fewer components "
            "make fewer weights")  # fmt: skip
    if (left := until - run.step) > 0 and (each := seconds_per_step(run, series)) * left > LONG:
        about = "roughly" if each > SLOW else "about"
        say(f"training will take {about} {each * left / 60:,.0f} minutes: {left:,} steps of "
            f"{each:.2g} s; fewer components, modes, negatives or steps take less")  # fmt: skip


def seconds_per_step(run: Run, series: TimeSeries) -> float:
    """Of a step with the full horizon. The run is left as it was, its randomness too.

    A slow one is told roughly, from a step on an eighth of the rows: its contrast takes longer than
    eight times that, its optimisers less.
    """
    run.go_on()
    weights, random = run.weights(), run.generator.get_state()
    trial = copy.copy(run)
    trial.optimizers, trial.emphasis = make_optimizers(run), None
    trial.step = max(run.step, run.settings.several_from)
    step = step_of(run.settings)
    data, found = rows(series, run), 0.0
    for part in (FEWER, FEWER, 1):  # the first loads and warms what later ones find ready
        trial.settings = replace(run.settings, **_rows(run, part))
        started = time.perf_counter()
        step(trial, data)
        warm, found = found > 0, part * (time.perf_counter() - started)
        if warm and found > SLOW:
            break
    for module in run.parts.values():
        module.zero_grad(set_to_none=True)
    run.restore(weights)
    run.generator.set_state(random)
    return found


def _rows(run: Run, part: int) -> dict[str, Any]:
    """A part of the rows that a step draws."""
    s = run.settings
    drawn = {"batch_size": s.batch_size, "n_negatives": s.n_negatives}
    return {name: max(2, n // part) for name, n in drawn.items() if n is not None}
