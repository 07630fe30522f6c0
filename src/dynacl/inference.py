"""What a trained run says about data: latents, modes, predictions, roll-outs. It never trains.

Arrays in and out, a bounded number of rows at a time; what `make` gives for those that have a row
per step may lie on a disk. x is always one row per step of a series that
was trimmed to the steps with a full window; `now` has the latents from which the dynamics starts,
which are x unless references have an encoder of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynacl import decoding
from dynacl.data import Array, InputError, Steps, TimeSeries, exchange
from dynacl.dynamics.ahead import follow, rollout
from dynacl.dynamics.base import Dynamics
from dynacl.parameters import FORECASTS
from dynacl.run import Run
from dynacl.spectrum import Spectrum, radius

ROWS = 1 << 15  # rows in work at a time: bounds the memory
NUMBERS = 1 << 22  # of their observations, where rows are wide
DIVERGED = 10.0  # times the largest distance from 0 in the data, from which a forecast warns
Project = Callable[[Tensor], Tensor]
Make = Callable[[tuple[int, ...], Any], Array]  # an array of this shape and kind, to be filled
HOLD, MARKOV, READ = FORECASTS
# Which models can go on in which way.
GOES_ON: dict[str, Callable[[Dynamics], bool]] = {
    HOLD: lambda f: f.infers_modes,
    MARKOV: lambda f: f.infers_modes,
    READ: lambda f: f.reads_modes,
}


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


def forecast(
    run: Run,
    series: TimeSeries,
    x: Array,
    steps: int,
    control: Tensor | None,
    chain: Array | None = None,
    make: Make = np.empty,
) -> Array:
    """From the last row of each trial, (trials, steps, d), under the control to come.

    A hidden mode is held; with a `chain` (K, K) the modes drift apart as a Markov chain does, and
    the prediction is the mean over them.
    """
    f, offset = run.dynamics, run.settings.time_offset
    last = series.bounds[1:] - 1
    held = held_modes(f, series, x, x, offset, "sequence", make)
    move = None if chain is None else tensor(chain, f)
    found = make((len(last), steps, x.shape[1]), np.float32)
    state, chosen = None, None
    for trials, ahead in parts_of(len(last), steps, x.shape[1]):
        if ahead.start == 0:
            state = state_at(f, series, x, last[trials], offset)
            chosen = None if held is None else one_hot(held[last[trials]], f)
        weights: list[Tensor] | None = None if chosen is None else []
        for _ in range(ahead.start, ahead.stop):
            if chosen is not None and weights is not None:
                chosen = chosen if move is None else chosen @ move
                weights.append(chosen)
        drive = [None if control is None else control[trials, j].to(run.device)
                 for j in range(ahead.start, ahead.stop)]  # fmt: skip
        assert state is not None
        with torch.inference_mode():
            path = rollout(f, state, drive, weights, run.geometry.project)
            for following in path[:, -1 - f.context :].unbind(1):
                state = follow(state, following)
        found[trials, ahead] = path.cpu().numpy()
    return found


def parts_of(trials: int, steps: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Parts of a table (trials, steps, width) that fit into memory: some trials and some steps.

    All steps of some trials come before the next trials.
    """
    several = max(1, min(ROWS, NUMBERS // width))
    for i in range(0, trials, several):
        some = slice(i, min(i + several, trials))
        size = max(1, NUMBERS // (width * (some.stop - some.start)))
        for j in range(0, steps, size):
            yield some, slice(j, min(j + size, steps))


def check_forecast(run: Run, modes: str | None) -> None:
    """Whether the model can be rolled out, and its modes go on in this way."""
    f = run.dynamics
    if not run.encoder.symmetric:
        raise InputError("asymmetric: the encoder of references sees observations only; a "
                         "forecast needs dynamics from latents to latents")  # fmt: skip
    if modes is not None and modes not in GOES_ON:
        raise InputError(f"modes: got {modes!r}; wanted one of {', '.join(GOES_ON)}")
    if modes is not None and not GOES_ON[modes](f):
        raise InputError(f'modes: {modes!r} does not fit {f.given_name}; "{HOLD}" and "{MARKOV}" '
                         f'are for dynamics with hidden modes, "{READ}" for those that read them '
                         "off the state")  # fmt: skip


def future_control(run: Run, u: Any, steps: int, n: int, n_trials: int) -> Tensor | None:
    """The control to come of every trial, (n_trials, steps, n), from rows for one or for each.

    With one row more where that was given: the input at the last step, which acts on what follows,
    and on the observation there.
    """
    if u is None:
        if n and run.dynamics.takes_control:
            raise InputError("u: missing; this model forecasts with its control input, from "
                             "the last observed step on")  # fmt: skip
        return None
    if n == 0:
        raise InputError("u: given, but this model was fitted without a control input")
    future = TimeSeries.of(u, name="u")
    rows, lengths = future.observations, future.lengths.tolist()
    wanted = (f"wanted ({steps}, {n}), once or for each of the {n_trials} trials; or one row "
              "more, the input at the last step")  # fmt: skip
    if len(lengths) not in (1, n_trials):
        raise InputError(f"u: got {len(lengths)} trials; {wanted}")
    for i, length in enumerate(lengths):
        if len(lengths) > 1 and (length != lengths[0] or length - steps not in (0, 1)):
            raise InputError(f"u[{i}]: got shape {(length, rows.shape[1])}; {wanted}")
    few = (steps, steps + 1) if len(lengths) == 1 else (lengths[0],)
    given = next((k for k in few if rows.shape in ((k, n), (n_trials * k, n))), None)
    if given is None:
        raise InputError(f"u: got shape {rows.shape}; {wanted}")
    rows = exchange(rows, future.units, run.control_units, "u")
    control = rows.reshape(-1, given, n)
    return torch.from_numpy(control.copy()).expand(n_trials, -1, -1)


def warn_of_divergence(f: Dynamics, x: Array, out: Array) -> None:
    """A roll-out (trials, steps, d) that leaves the data x far behind."""
    size = max(1, NUMBERS // x.shape[1])
    norms = (np.linalg.norm(x[i : i + size], axis=1).max() for i in range(0, len(x), size))
    reach, gone = DIVERGED * max(norms), np.zeros(len(out), dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for trials, ahead in parts_of(*out.shape):
            far = np.linalg.norm(out[trials, ahead].astype(float), axis=2).max(axis=1)
            gone[trials] |= ~(far <= reach)
    if gone.any():
        radius = spectral_radius(f)
        listed = "not known" if radius is None else ", ".join(f"{r:.4f}" for r in radius)
        warnings.warn(
            f"the roll-out of {gone.sum()} of {len(gone)} trials leaves the data behind (more "
            f"than {DIVERGED:g} times as far from 0); spectral radius: {listed}",
            stacklevel=4,
        )


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
