"""What a trained run says about data: latents, modes, predictions. It never trains.

Arrays in and out, a bounded number of rows at a time; what `make` gives for those that have a row
per step may lie on a disk. x is always one row per step of a series that was trimmed to the steps
with a full window; `now` has the latents from which the dynamics starts, which are x unless
references have an encoder of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynacl import decoding
from dynacl.data import Array, InputError, Steps, TimeSeries
from dynacl.dynamics.ahead import rollout
from dynacl.dynamics.base import Dynamics
from dynacl.run import Run
from dynacl.spectrum import Spectrum, radius

ROWS = 1 << 15  # rows in work at a time: bounds the memory
NUMBERS = 1 << 22  # of their observations, where rows are wide
Project = Callable[[Tensor], Tensor]
Make = Callable[[tuple[int, ...], Any], Array]  # an array of this shape and kind, to be filled


def latents(
    run: Run,
    series: TimeSeries,
    *,
    of_references: bool = False,
    pad: bool = False,
    make: Make = np.empty,
) -> Array:
    """Latents of all steps with a full window, (n, d); of references by their own encoder.

    pad: of all steps, as if each trial had stood still before its start.
    """
    encode = run.encoder.references if of_references else run.encoder
    lags, inputs = run.settings.time_lags, run.settings.past_inputs
    t = series.windowed(0 if pad else run.settings.past)
    size = max(1, min(ROWS // len(lags), NUMBERS // (len(lags) * series.n_features)))
    x: Array = np.empty((0, 0))
    for i in range(0, len(t), size):
        some = slice(i, min(i + size, len(t)))
        if lags == (0,) and not inputs:  # a slice of a memory map is read in one go
            window = np.array(series.observations[some])
        else:
            window = series.windows(t[some], lags, inputs, pad=pad)
        with torch.inference_mode():
            part: Array = encode(torch.from_numpy(window).to(run.device)).cpu().numpy()
        if not np.isfinite(part).all():
            raise InputError("X: its embedding is not finite; was the model trained to an end?")
        if i == 0:
            x = make((len(t), part.shape[1]), part.dtype)
        x[some] = part
    return x


def references(
    run: Run, series: TimeSeries, x: Array, *, pad: bool = False, make: Make = np.empty
) -> Array:
    """The latents from which the dynamics starts: x, unless references have their own encoder."""
    if run.encoder.symmetric:
        return x
    return latents(run, series, of_references=True, pad=pad, make=make)


def placed(series: TimeSeries, x: Array, past: int) -> TimeSeries:
    """Latents as a series: the trials that they are in, and the inputs at their steps."""
    control = series.control
    if control is not None and past:
        control = control[series.with_past(past)]
    return TimeSeries(x, np.concatenate([[0], np.cumsum(series.lengths - past)]), control)


# -- modes -----------------------------------------------------------------------------------------


def modes(
    f: Dynamics,
    series: TimeSeries,
    now: Array,
    x: Array,
    offset: int,
    decode: str = "step",
    make: Make = np.empty,
) -> Array:
    """The mode of each step, −1 at the end of a trial.

    decode: from the pair (t, t + Δ) alone ("step"), or the likeliest given all pairs ("sequence"),
    which holds an error for each pair and mode. A model that reads its modes does so off the state
    at t.
    """
    check_modes(f)
    found = make((len(x),), np.int64)
    found.fill(-1)
    t = series.references(offset, allow_short=True)
    if len(t) == 0:
        return found
    if decode == "sequence" and f.infers_modes:
        errors = _of_pairs(f.errors, f, series, now, x, t, offset, make)
        told = decoding.decode(errors, t.stretches(), x.shape[1], make=make)
    else:
        told = _of_pairs(f.modes, f, series, now, x, t, offset, make)
    for i in range(0, len(t), ROWS):
        found[t[i : i + ROWS]] = told[i : i + ROWS]
    return found


def check_modes(f: Dynamics) -> None:
    if not f.n_modes:
        raise InputError(f"dynamics: {f.given_name} has no modes; wanted a model that has, such as "
                         "a switching or gated one")  # fmt: skip


def mode_probabilities(
    f: Dynamics, series: TimeSeries, now: Array, x: Array, offset: int, stickiness: float = 1.0
) -> tuple[Array, Array]:
    """How likely each mode is at each step given its whole trial, (m, K), and the rows of these.

    Of a model that reads its modes off the state: how it weighs them there. stickiness: as in
    `decoding.decode`.
    """
    t = series.references(offset, allow_short=True)
    if not f.infers_modes:
        if stickiness != 1:
            raise InputError("stickiness: these modes are read off the state and not decoded as a "
                             "chain; wanted 1, or min_duration instead")  # fmt: skip
        weights = _of_pairs(lambda now, *_: f.mode_weights(now), f, series, now, x, t, offset)
        return weights, t.all()
    errors = _of_pairs(f.errors, f, series, now, x, t, offset)
    found = np.empty_like(errors)
    decoding.decode(errors, t.stretches(), x.shape[1], found, stickiness)
    return found, t.all()


def _of_pairs(
    ask: Callable[[Tensor, Tensor, Tensor | None], Tensor],
    f: Dynamics,
    series: TimeSeries,
    now: Array,
    x: Array,
    t: Steps,
    offset: int,
    make: Make = np.empty,
) -> Array:
    """What f says of the pairs (t, t + Δ), some at a time."""
    told: Array = np.empty(0)
    for i in range(0, len(t), ROWS):
        rows = t[i : i + ROWS]
        u = None if series.control is None else tensor(series.control[rows], f)
        with torch.no_grad():
            part = ask(tensor(now[rows], f), tensor(x[rows + offset], f), u).cpu().numpy()
        if i == 0:
            told = make((len(t), *part.shape[1:]), part.dtype)
        told[i : i + len(part)] = part
    return told


def held_modes(
    f: Dynamics,
    series: TimeSeries,
    now: Array,
    x: Array,
    offset: int,
    decode: str = "step",
    make: Make = np.empty,
) -> Array | None:
    """The mode known at each step: that of the pair that ends there, −1 if none does.

    From that pair alone, or by decoding, which is of the past only at the last step of a trial.
    None where no mode is hidden.
    """
    if not f.infers_modes:
        return None
    held = make((len(x),), np.int64)
    held.fill(-1)
    found = modes(f, series, now, x, offset, decode, make)
    t = series.steps(offset, allow_short=True)
    for i in range(0, len(t), ROWS):
        rows = t[i : i + ROWS]
        held[rows + offset] = found[rows]
    return held


def one_hot(modes: Array, f: Dynamics) -> Tensor:
    """Weights (n, K) of modes; where the mode is not known (−1), all alike."""
    K = f.n_modes
    weights = np.where(modes[:, None] < 0, 1 / K, modes[:, None] == np.arange(K))
    return tensor(weights.astype(np.float32), f)


# -- steps ahead -----------------------------------------------------------------------------------


def predict(run: Run, series: TimeSeries, now: Array, x: Array) -> Array:
    """One step ahead of every row, from that row and what came before it only."""
    return ahead_of(run, series, now, x, np.arange(len(x)), 1)[:, 0]


def ahead_of(run: Run, series: TimeSeries, now: Array, x: Array, rows: Array, steps: int) -> Array:
    """1 to `steps` steps of a run from these rows, (n, steps, d), from the past alone.

    A hidden mode is that of the pair that ends where a prediction starts, and is held.
    """
    offset = run.settings.time_offset
    held = held_modes(run.dynamics, series, now, x, offset)
    modes = None if held is None else np.repeat(held[rows][:, None], steps, axis=1)
    return ahead(run.dynamics, series, now, rows, steps, offset, run.geometry.project, modes)


def ahead(
    f: Dynamics,
    series: TimeSeries,
    x: Array,
    rows: Array,
    steps: int,
    offset: int,
    project: Project | None = None,
    modes: Array | None = None,
    states: Array | None = None,
) -> Array:
    """1 to `steps` steps of f from these rows, (n, steps, d), under the control of the series.

    modes: (n, steps), the mode of each step, where f does not know its own. states: where the rows
    start, if not at x; what came before them is x all the same.
    """
    out = np.empty((len(rows), steps, x.shape[1]), dtype=x.dtype)
    for i in range(0, len(rows), ROWS):
        mine = slice(i, i + ROWS)
        t = rows[mine]
        state = state_at(f, series, x, t, offset)
        if states is not None:
            (state[:, -1] if f.context else state).copy_(tensor(states[mine], f))
        at = range(0, steps * offset, offset)
        drive = [None if series.control is None else tensor(series.control[t + j], f) for j in at]
        chosen = None if modes is None else [one_hot(m, f) for m in modes[mine].T]
        with torch.inference_mode():
            path = rollout(f, state, drive, chosen, project)
        out[mine] = path.cpu().numpy()
    return out


def windows(f: Dynamics, series: TimeSeries, x: Array, rows: Array, offset: int) -> Tensor:
    """What the dynamics sees at these rows, (n, context + 1, d), the present last.

    Before the first step of a trial nothing is known: the window repeats that step.
    """
    first = np.repeat(series.bounds[:-1], series.lengths)[rows]
    back = offset * np.arange(f.context, -1, -1)
    return tensor(x[np.maximum(rows[:, None] - back, first[:, None])], f)


def state_at(f: Dynamics, series: TimeSeries, x: Array, rows: Array, offset: int) -> Tensor:
    """What the dynamics starts from at these rows: a window, or the state alone."""
    window = windows(f, series, x, rows, offset)
    return window if f.context else window[:, 0]


# -- figures ---------------------------------------------------------------------------------------


def spread(rows: Array, most: int) -> Array:
    """At most so many rows, evenly spread."""
    chosen: Array = rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]
    return chosen


def spectral_radius(f: Dynamics) -> Array | None:
    """|λ| of the largest eigenvalue of each mode; above 1 a long roll-out grows. None: not known"""
    maps = f.linear_maps()
    return None if maps is None else radius(maps.detach().cpu().numpy())


def spectrum(run: Run, interval: float | None) -> Spectrum | None:
    """What each mode does to a state; None: its dynamics has no linear maps."""
    maps = run.dynamics.linear_maps()
    if maps is None:
        return None
    return Spectrum.of(maps.detach().cpu().numpy(), run.settings.time_offset, interval)


def tensor(x: Array, f: Dynamics) -> Tensor:
    """An array where the dynamics lives, in its precision."""
    like = next(f.parameters(), None)
    found = torch.from_numpy(np.ascontiguousarray(x))
    return found if like is None else found.to(like.device, like.dtype)
