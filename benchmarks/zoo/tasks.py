"""A task of the zoo: a random system, what is seen of it, and what the model is told.

Kinds take turns, and so do complications, so that every group has its share of 60 tasks. Everything
else is drawn from one generator of (seed, index): a task can be drawn alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.zoo import flows
from dynacl import TimeSeries, simulate
from dynacl.data import InputError
from dynacl.simulate.base import simulated
from dynacl.simulate.flow import Flow

KINDS = ("lds", "slds", "driven", "flow")
DYNAMICS = {"lds": "linear", "slds": "switching", "driven": "linear", "flow": "flow"}
PLAIN, RANK, NOISY, WRONG_D, WRONG_K = "plain", "rank", "noisy", "wrong d", "wrong K"
COMPLICATIONS = (
    PLAIN, RANK, PLAIN, PLAIN, NOISY, PLAIN, WRONG_D, PLAIN,
    PLAIN, RANK, PLAIN, NOISY, PLAIN, WRONG_K, PLAIN,
)  # fmt: skip
N_TASKS = len(KINDS) * len(COMPLICATIONS)
SAMPLES = {"full": (20_000, 300_000), "quick": (2_000, 3_000)}
STEPS = {"full": (20, 20_000), "quick": (20, 200)}
LEAST_TRIALS = 10  # so that one orbit does not stand for all
FREE = 0.003  # noise below which the radii of one rotation are free


@dataclass(frozen=True, kw_only=True)
class Task:
    """What was drawn."""

    seed: int
    index: int
    kind: str
    d: int
    modes: int  # true ones; 1 where there are none
    observed: int
    layers: int  # of the mixing; 0: linear
    noise: float  # standard deviation, for each step and latent
    angle: float  # degrees; of a flow: 0
    lasting: float  # steps that a mode lasts, on average; 0 without modes
    control: str  # "none", "step" or "lds"
    field: str  # "none", "random" or "lorenz"
    stride: float  # share of the attractor's size by which a flow moves in a step
    trials: int
    steps: int
    rank: int | None  # of a mixing that is not injective
    lags: tuple[int, ...]
    snr: float | None  # variance of the signal over that of the observation noise
    given_d: int
    given_modes: int

    @property
    def samples(self) -> int:
        return self.trials * self.steps

    @property
    def group(self) -> str:
        """Where it is reported; "goal" is what the goal is about."""
        if self.given_d != self.d or self.given_modes != self.modes:
            return "wrong d or K"
        if self.snr is not None:
            return "observation noise"
        if self.kind in ("lds", "slds") and self.modes == 1 and self.noise < FREE:
            return "one quiet rotation"
        return "goal"

    def arguments(self) -> dict[str, Any]:
        """What the model is told."""
        return {"n_components": self.given_d, "dynamics": DYNAMICS[self.kind],
                "n_modes": self.given_modes,
                "time_lags": self.lags, "random_state": self.index}  # fmt: skip

    def words(self) -> str:
        """The task in a line."""
        system = {
            "lds": f"LDS by ±{self.angle:.1f}°",
            "slds": f"SLDS, {self.modes} mode{'s' * (self.modes > 1)} of up to {self.angle:.1f}°"
                    + f", {self.lasting:.0f} steps each" * (self.modes > 1),
            "driven": f"LDS of up to {self.angle:.1f}° with {self.control} input",
            "flow": f"{'Lorenz' if self.field == 'lorenz' else 'random quadratic'} flow, "
                    f"stride {self.stride:.3f}",
        }[self.kind]  # fmt: skip
        seen = "linear" if self.layers == 0 else f"{self.layers}-layer"
        parts = [
            f"{system}, d {self.d}",
            f"σ {self.noise:.2g}",
            f"{seen} mixing to {self.observed}",
            f"{self.trials} × {self.steps}",
        ]
        if self.rank is not None:
            parts.append(f"rank {self.rank}, {len(self.lags)} lags of {self.lags[1]}")
        if self.snr is not None:
            parts.append(f"SNR {self.snr:.0f}")
        if self.given_d != self.d:
            parts.append(f"d given as {self.given_d}")
        if self.given_modes != self.modes:
            parts.append(f"K given as {self.given_modes}")
        return ", ".join(parts)


def draw(seed: int, index: int, scale: str = "full") -> Task:
    """Task `index` of the zoo of this seed. Scale: "quick" has few samples, for a try."""
    if not 0 <= index < N_TASKS:
        raise InputError(f"tasks: got {index}; wanted 0 to {N_TASKS - 1}")
    rng = _generators(seed, index)[0]
    kind = KINDS[index % len(KINDS)]
    complication = COMPLICATIONS[index // len(KINDS)]
    d = int(rng.integers(3 if kind == "flow" else 2, 9))
    modes = round(_log_uniform(rng, 1, 20)) if kind == "slds" else 1
    if complication == WRONG_K and kind == "slds":
        modes = max(2, modes)
    field = "none"
    if kind == "flow":
        field = "lorenz" if rng.random() < 0.2 else "random"
        d = 3 if field == "lorenz" else d
    samples = _log_uniform(rng, *SAMPLES[scale])
    shortest, longest = STEPS[scale]
    steps = round(_log_uniform(rng, shortest, min(longest, samples / LEAST_TRIALS)))
    rank, lags = None, (0,)
    if complication == RANK and kind != "flow":
        # A linear state can be read off past observations: with as many lags as make its
        # dimensions twice over, a few steps apart.
        rank = int(rng.integers(1, d))
        spacing = round(_log_uniform(rng, 1, 6))
        lags = tuple(spacing * i for i in range(-(-2 * d // rank)))
        steps = max(steps, 10 * max(lags))
    given_d, given_modes = d, modes
    if complication == WRONG_K and kind == "slds":
        given_modes += int(rng.choice([-1, 3]))
    elif complication in (WRONG_D, WRONG_K):
        given_d += int(rng.choice([-1, 1, 2])) if d > 2 else 1
    return Task(
        seed=seed,
        index=index,
        kind=kind,
        d=d,
        modes=modes,
        observed=round(_log_uniform(rng, max(5, d), 300)),
        layers=int(rng.integers(0, 6)),
        noise=_log_uniform(rng, 1e-4, 0.1),
        angle=0.0 if kind == "flow" else _log_uniform(rng, 1, 25),
        lasting=_log_uniform(rng, 20, 2000) if modes > 1 else 0.0,
        control=str(rng.choice(["step", "lds"])) if kind == "driven" else "none",
        field=field,
        stride=_log_uniform(rng, 0.02, 0.15) if kind == "flow" else 0.0,
        trials=max(LEAST_TRIALS, round(samples / steps)),
        steps=steps,
        rank=rank,
        lags=lags,
        snr=_log_uniform(rng, 10, 1000) if complication == NOISY else None,
        given_d=given_d,
        given_modes=given_modes,
    )


def data(task: Task, fresh_rows: int = 20_000) -> tuple[TimeSeries, TimeSeries]:
    """What the model is fitted to, and fresh trials of the same system to judge it by."""
    _, making, drawing, judging = _generators(task.seed, task.index)
    system = _system(task, making)
    fresh = max(LEAST_TRIALS, round(fresh_rows / task.steps))
    return system.draw(task.trials, task.steps, drawing), system.draw(fresh, task.steps, judging)


def _system(task: Task, rng: np.random.Generator) -> simulate.System:
    mixing = {"mixing": "mlp" if task.layers else "linear", "layers": max(1, task.layers),
              "observed": task.observed, "rank": task.rank}  # fmt: skip
    shared: dict[str, Any] = {"rng": rng, "d": task.d, "noise": task.noise, "trials": 1,
                              "steps": 2} | mixing  # fmt: skip
    if task.kind == "lds":
        series = simulate.lds(angle=task.angle, **shared)
    elif task.kind == "slds":
        leaves = 1 / (task.lasting * (task.modes - 1)) if task.modes > 1 else 0.0
        series = simulate.slds(modes=task.modes, angle=task.angle, switch_probability=leaves,
                               **shared)  # fmt: skip
    elif task.kind == "driven":
        series = simulate.controlled(angle=task.angle, control=task.control, **shared)
    else:
        field = flows.lorenz() if task.field == "lorenz" else flows.energy_preserving(task.d, rng)
        dt = task.stride * field.turnover
        make = partial(Flow, powers=field.powers, coefficients=field.coefficients, dt=dt,
                       warmup=round(20 / task.stride))  # fmt: skip
        series = simulated(make, shared.pop("d"), shared.pop("noise"), shared.pop("rng"), **shared)
    assert series.truth is not None
    system = simulate.system(series.truth.system)
    if task.snr is None:
        return system
    pilot = system.draw(20, min(task.steps, 500), rng).observations
    signal = float(pilot.var(0, dtype=float).mean())
    return replace(system, observation_noise=float(np.sqrt(signal / task.snr)))


def _generators(seed: int, index: int) -> list[np.random.Generator]:
    """Of the task's settings, its system, its data and its fresh trials."""
    return np.random.default_rng((seed, index)).spawn(4)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
