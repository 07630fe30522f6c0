"""One judge for all tools: the metrics of dynacl, on arrays that a tool has written."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.scoreboard.tasks import AHEAD, WARMUP, Task
from dynacl import TimeSeries, metrics, simulate


def judged(task: Task, found: dict[str, Any]) -> dict[str, float]:
    return {"latents": latents, "modes": modes, "machine": machine}[task.kind](task, found)


def latents(task: Task, found: dict[str, Any]) -> dict[str, float]:
    """R² of the true latents of fresh trials; dynR² where the tool says what follows."""
    series: TimeSeries = task.truth
    truth, x = series.truth.latents, np.asarray(found["latents"], dtype=float)
    figures = {"r2": metrics.r2(truth, x)}
    if "ahead" in found:
        system, ahead = simulate.system(series.truth.system), np.asarray(found["ahead"])

        def true_ahead(states: Any, rows: Any) -> Any:
            for _ in range(AHEAD):
                states = system.step(states)
            return states

        starts = series.steps(AHEAD)
        scores = metrics.dyn_r2(truth, x, true_ahead, lambda _, rows: ahead[rows], starts)
        figures["dyn_r2_10"], figures["dyn_r2_10_control"] = scores
    if "modes" in found:
        figures |= modes(task, found)
    return figures


def modes(task: Task, found: dict[str, Any]) -> dict[str, float]:
    """Share of steps in the right regime, labels matched; the adjusted Rand index."""
    if isinstance(task.truth, TimeSeries):
        true, lengths = task.truth.truth.modes, task.truth.lengths
    else:
        true, lengths = task.truth, task.given["lengths"]
    # The mode of a step is known where it leads on: all but the last of each trial.
    inside = np.ones(len(true), dtype=bool)
    inside[np.cumsum(lengths) - 1] = False
    named = np.asarray(found["modes"])
    both = inside & (named >= 0) & (true >= 0)
    return {
        "mode_accuracy": metrics.mode_accuracy(true[both], named[both]),
        "adjusted_rand": float(adjusted_rand_score(true[both], named[both])),
    }


def machine(task: Task, found: dict[str, Any]) -> dict[str, float]:
    """Simulated output after the warm-up: RMSE in the units of the data, and R²."""
    y = np.asarray(task.truth, dtype=float)[WARMUP:]
    predicted = np.asarray(found["predicted"], dtype=float).reshape(len(y), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        rmse = float(np.sqrt(np.square(predicted - y).mean()))
    finite = bool(np.isfinite(predicted).all())
    return {"rmse": rmse, "r2": metrics.r2_of(y, predicted) if finite else float("-inf")}
