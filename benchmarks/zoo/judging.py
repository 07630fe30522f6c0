"""One task: a default fit, its linear start and its ceiling, all judged on fresh trials."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from benchmarks.step import begun
from benchmarks.zoo import tasks
from benchmarks.zoo.tasks import Task
from dynacl import DCL, TimeSeries, inference, metrics
from dynacl.data import Array
from dynacl.memory import kept_memory
from dynacl.run import Run, Weights
from dynacl.sampling import rows


def judge(task: Task, **changed: Any) -> dict[str, Any]:
    """R² of the fit, of its start and of the ceiling; what the judge said.

    changed: arguments of DCL that differ from the default, to try a remedy.
    """
    data, fresh = tasks.data(task)
    arguments = task.arguments() | changed
    last: list[Weights] = []

    def keep(run: Run, record: dict[str, float]) -> None:
        last[:] = [run.weights()]

    started = time.perf_counter()
    model = DCL(**arguments).fit(data, callback=keep)
    fitted = time.perf_counter()
    run = model.run_
    r2 = recovered(run, fresh)
    handed = "the last step" if same(run, last[0]) else "an earlier step"
    if "straightened" in run.verdict:
        handed = "straightened"
    if run.floor is not None and same(run, run.floor.weights):
        handed = "the start"
    run.restore(last[0])
    r2_trained = recovered(run, fresh)
    ceiling_started = time.perf_counter()
    best = ceiling(data, fresh, arguments | {"n_components": task.d}, task.given_d)
    return {
        "r2": r2,
        "ceiling": best,
        "start": linear(data, fresh, arguments),
        "trained": r2_trained,
        "floor_figure": None if run.floor is None else run.floor.figure,
        "figures": [[step, round(figure, 4)] for step, figure in run.judged],
        "handed_out": handed,
        "verdict": run.verdict,
        "loss": run.history[-1]["loss"],
        "steps": run.step,
        "horizon": run.settings.horizon,
        "seconds": round(fitted - started, 1),
        "ceiling_seconds": round(time.perf_counter() - ceiling_started, 1),
    }


def same(run: Run, weights: Weights) -> bool:
    """Whether its encoder has these weights."""
    now, kept = run.weights()["encoder"], weights["encoder"]
    return now.keys() == kept.keys() and all(torch.equal(now[name], kept[name]) for name in now)


def recovered(run: Run, fresh: TimeSeries) -> float:
    """R² of the true latents of fresh trials against the best affine map of the run's."""
    return metrics.r2(_truth(run, fresh), inference.latents(run, fresh))


def linear(data: TimeSeries, fresh: TimeSeries, arguments: dict[str, Any]) -> float:
    """R² of the linear start alone; where there is none, of the whole encoder before training."""
    run = begun(DCL(**arguments), data)
    run.encoder.be_linear()
    return recovered(run, fresh)


def ceiling(
    data: TimeSeries, fresh: TimeSeries, arguments: dict[str, Any], rank: int | None = None
) -> float:
    """R² of the same encoder, trained on the true latents with the fit's own settings.

    It has the start, the optimiser, the schedule, the batch and the number of steps of the fit, and
    all of its data: there is nothing to hold out. rank: only so many directions of its output
    count, the best.
    """
    run = begun(DCL(**arguments), data)
    supervise(run, data)
    true, found = _truth(run, fresh), inference.latents(run, fresh)
    if rank is not None and rank < true.shape[1]:
        found = best_directions(true, found, rank)
    return metrics.r2(true, found)


def supervise(run: Run, series: TimeSeries) -> None:
    """Train the encoder by the mean squared error of latents at zero mean and unit variance."""
    assert series.truth is not None
    truth = torch.from_numpy(series.truth.latents)
    truth = (truth - truth.mean(0)) / truth.std(0)
    data, (encoder_only, *_) = rows(series, run), run.optimizers
    run.wake()
    with kept_memory():
        while run.step < run.settings.max_iter:
            run.set_rates()
            t = data.draw(run.settings.batch_size, run.generator)
            missed = (run.encoder.of_frames(data.window(t)) - truth[t]).square().mean()
            encoder_only.zero_grad()
            missed.backward()
            encoder_only.step()
            run.step += 1
    run.rest()


def best_directions(true: Array, found: Array, rank: int) -> Array:
    """The part of `found` of this rank that explains most of the truth, which R² weighs alike."""
    spread = true.std(0)
    L, b = metrics.affine(found, true / spread)
    explained = found @ L.T + b
    centred = explained - explained.mean(0)
    axes = np.linalg.svd(centred.T @ centred)[0]
    part: Array = centred @ axes[:, :rank]
    return part


def _truth(run: Run, series: TimeSeries) -> Array:
    cut = series.trimmed(run.settings.past)
    assert cut.truth is not None
    return cut.truth.latents
