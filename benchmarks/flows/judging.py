"""One flow in one regime: fits, their start and ceiling, and forecasts beside the true map's."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.flows.systems import Attractor, Regime
from benchmarks.zoo import judging
from dynacl import DCL, TimeSeries, inference, metrics
from dynacl.data import Array
from dynacl.dynamics.ahead import rollout

MODELS: dict[str, dict[str, Any]] = {
    "flow": {"dynamics": "flow"},
    "mlp": {"dynamics": "mlp"},
}
STARTS = 400  # of forecasts, over all fresh trials
VALID = 0.4  # error, relative to the spread, up to which a forecast holds (Gilpin 2021)
PERIODS = 3  # that forecasts go on for


def bounds(attractor: Attractor, regime: Regime) -> dict[str, Any]:
    """What any model can have: the ceiling, the start, and the true map's forecasts."""
    drawn = attractor.draw(regime)
    if drawn is None:
        return {"leaves": True}
    data, fresh = drawn
    arguments = {"n_components": 3, "random_state": 0} | MODELS["mlp"]
    true, at, path = _truth(fresh, regime)
    z, ahead = true[at], []
    for _ in range(path.shape[1]):
        z = attractor.move(z, regime)
        ahead.append(z)
    return {
        "leaves": False,
        "degree": attractor.degree(),
        "start": judging.linear(data, fresh, arguments),
        "ceiling": judging.ceiling(data, fresh, arguments),
    } | forecasts(np.stack(ahead, 1), path, attractor, regime)


def judge(attractor: Attractor, regime: Regime, model: str) -> dict[str, Any]:
    """A default fit: R² on fresh trials, and how far its forecasts hold."""
    drawn = attractor.draw(regime)
    assert drawn is not None
    data, fresh = drawn
    started = time.perf_counter()
    fitted = DCL(3, random_state=0, **MODELS[model]).fit(data)
    seconds = time.perf_counter() - started
    run = fitted.run_
    x = inference.latents(run, fresh)
    true, at, path = _truth(fresh, regime)
    L, b = metrics.affine(inference.latents(run, data), data.truth.latents)  # type: ignore[union-attr]
    now = inference.tensor(x[at], run.dynamics)
    ahead = rollout(run.dynamics, now, [None] * path.shape[1]).detach().numpy() @ L.T + b
    return {
        "r2": metrics.r2(true, x),
        "handed_out": "start" if "start is handed out" in run.verdict else "trained",
        "steps": run.step,
        "seconds": round(seconds, 1),
    } | forecasts(ahead, path, attractor, regime)


def forecasts(ahead: Array, path: Array, attractor: Attractor, regime: Regime) -> dict[str, float]:
    """R² after ten samples and after a period, and the median Lyapunov times that forecasts hold.

    ahead, path: (n, steps, 3), forecast and true.
    """
    with np.errstate(all="ignore"):
        missed = np.sqrt(np.square(ahead - path).mean(2))  # the spread is 1
        bad = ~(missed < VALID)
        first = np.where(bad.any(1), bad.argmax(1), bad.shape[1])
        lyapunov = attractor.lyapunov / regime.per_period
        return {
            "r2_10": _r2(path[:, 9], ahead[:, 9]),
            "r2_period": _r2(path[:, regime.per_period - 1], ahead[:, regime.per_period - 1]),
            "valid": float(np.median(first)) * lyapunov,
        }


def _r2(true: Array, found: Array) -> float:
    """R², the mean over dimensions; a forecast that left is as good as none at all, or worse."""
    if not np.isfinite(found).all():
        return -np.inf
    missed = np.square(true - found).sum(0) / np.square(true - true.mean(0)).sum(0)
    return float(1 - missed.mean())


def _truth(fresh: TimeSeries, regime: Regime) -> tuple[Array, Array, Array]:
    """True states, rows that forecasts start at, and where these lead, (n, steps, 3)."""
    assert fresh.truth is not None
    true, steps = fresh.truth.latents, PERIODS * regime.per_period
    at = fresh.steps(steps)
    at = at[:: max(1, len(at) // STARTS)]
    return true, at, true[at[:, None] + np.arange(1, steps + 1)]
