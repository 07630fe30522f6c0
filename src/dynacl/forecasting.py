"""What comes after the end of each trial: latents, observations, and how far these may be off."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dynacl import inference, prediction
from dynacl.data import Array, InputError, TimeSeries, exchange, in_order
from dynacl.data.frames import names_of
from dynacl.dynamics.ahead import follow, rollout
from dynacl.dynamics.base import Dynamics
from dynacl.parameters import FORECASTS
from dynacl.run import Run
from dynacl.settings import Settings
from dynacl.shapes import check_control_names, is_one, like
from dynacl.values import Whole

DIVERGED = 10.0  # times the largest distance from 0 in the data, from which a forecast warns
FURTHEST = 4.0  # times the root mean square of distances, where only that is known
HOLD, MARKOV, READ = FORECASTS
# Which models can go on in which way.
GOES_ON: dict[str, Callable[[Dynamics], bool]] = {
    HOLD: lambda f: f.infers_modes,
    MARKOV: lambda f: f.infers_modes,
    READ: lambda f: f.reads_modes,
}


class Forecast(NamedTuple):
    """Observations to come, and the ends of the interval around each, in the shape of the input."""

    observations: Any
    lower: Any
    upper: Any


class Forecasting:
    """What `DCL` inherits: forecasts, and the way back from latents to observations."""

    run_: Run
    settings_: Settings
    transitions_: Array | None
    n_features_in_: int
    n_controls_in_: int
    control_names_in_: tuple[str, ...] | None

    @abstractmethod
    def _series(self, X: Any, u: Any = None, reset: bool = False) -> TimeSeries: ...

    def forecast(
        self,
        X: Any,
        steps: int,
        *,
        u: Any = None,
        modes: str | None = None,
        observations: bool = False,
        interval: float | None = None,
    ) -> Any:
        """Roll out from the end of each trial: (steps, d), or (steps, D) with `observations`.

        u: the control input, (steps, d_u), for models that have one: one row per forecast step. Row
        0 acts on the last observed step: it is the last row of the past u. One row more is the
        input at the last forecast step, for observations that see it (`readout_.sees_inputs`). A
        model with `control_lags` or hidden modes needs the past u too: as TimeSeries.of(X, past_u).
        modes: how a model with hidden modes goes on: "hold" the last inferred mode (the default),
        or "markov": the mean over modes that move by `transitions_`, which was learned in fit.
        A gated model reads its modes off the state: "gated", which is its default.
        observations: as `reconstruct` makes them of the latents.
        interval: 0.9 gives a `Forecast` of observations with the ends of the interval that holds 90
        % of them, for each channel by itself. It comes from the errors on data that `fit` held out,
        and is NaN further ahead than these go.
        """
        check_is_fitted(self, "encoder_")
        series, found = self._forecast(X, steps, u, modes, observations, interval)
        columns = (series.names or ()) if observations else ()
        parts = (like(X, series, list(part), columns=columns) for part in found.values())
        return next(parts) if interval is None else Forecast(*parts)

    def _forecast(
        self,
        X: Any,
        steps: int,
        u: Any = None,
        modes: str | None = None,
        observations: bool = False,
        interval: float | None = None,
        make: inference.Make = np.empty,
    ) -> tuple[TimeSeries, dict[str, Array]]:
        """The series, and what `forecast` says as arrays (trials, steps, …) for which `make` has
        room: latents, or observations and the ends of the interval around each."""
        if not Whole().accepts(steps):
            raise InputError(f"steps: got {steps!r}; wanted {Whole().wanted}")
        self._check_forecast(modes, observations, interval, steps)
        series = self._series(X)
        f = self.run_.dynamics
        if f.infers_modes and self.n_controls_in_ not in (0, series.n_controls):
            raise InputError("X: the mode to go on with is inferred under the control so far; "
                             "wanted TimeSeries.of(X, past_u) as X")  # fmt: skip
        if self.settings_.past_inputs and self.n_controls_in_ != series.n_controls:
            raise InputError("X: the state to start from is told from past inputs too; wanted "
                             "TimeSeries.of(X, past_u) as X")  # fmt: skip
        whole, series = series, series.trimmed(self.settings_.past)
        x = inference.latents(self.run_, whole, make=make)
        check_control_names(self.control_names_in_, names_of(u))
        control = future_control(
            self.run_, in_order(u, X), int(steps), self.n_controls_in_, series.n_trials
        )
        chain = self.transitions_ if modes == MARKOV else None
        out = rolled_out(self.run_, series, x, int(steps), control, chain, make)
        warn_of_divergence(self.run_, x, out)
        if not observations:
            return series, {"latents": out}
        return series, self._observed(out, self._present(control, int(steps)), interval, make)

    def _observed(
        self, x: Array, u: Array | None, interval: float | None, make: inference.Make
    ) -> dict[str, Array]:
        """Observations of these latents, and the ends of the interval around them, with no more
        digits than are between them."""
        run, found = self.run_, dict[str, Array]()
        errors = None if interval is None else run.errors
        trials, steps = x.shape[:2]
        for part in parts_of(trials, steps, self.n_features_in_):
            y = observed(run, x[part], None if u is None else u[part])
            told = {"observations": y}
            if errors is not None and interval is not None:
                told["lower"], told["upper"] = errors.around(y, interval, part[1].start)
            for name, values in told.items():
                given = _given(run, values)
                if name not in found:
                    kind = found.get("observations", given).dtype
                    found[name] = make((trials, steps, given.shape[-1]), kind)
                found[name][part] = given
        return found

    def _present(self, control: Tensor | None, steps: int) -> Array | None:
        """The inputs at the steps that are forecast, (trials, steps, d_u), where these are seen."""
        if control is None or not prediction.own_readout(self.run_).sees_inputs:
            return None
        if control.shape[1] == steps:
            warnings.warn(f"u: ends at step {steps - 1}, and observations see the input at their "
                          f"own step; the last row is held for step {steps}. Wanted "
                          f"{steps + 1} rows", stacklevel=4)  # fmt: skip
            control = torch.cat([control, control[:, -1:]], dim=1)
        found: Array = control[:, 1:].cpu().numpy()
        return found

    def reconstruct(self, Z: Any) -> Any:
        """Observations from latents, by `readout_`: an (n, d) array, or trials of such.

        What latents do not tell of an observation, such as its noise, is at its mean. So is what an
        input at that step adds to a prediction.
        """
        check_is_fitted(self, "encoder_")
        latents = TimeSeries.of(Z, name="Z").within(None, None)
        d = len(prediction.own_readout(self.run_).shift)
        if latents.n_features != d:
            raise InputError(f"Z: has {latents.n_features} columns; wanted {d}, the latents of "
                             "this model")  # fmt: skip
        rows = np.require(latents.observations, requirements="W")  # PyTorch warns of others
        y = _given(self.run_, observed(self.run_, rows))
        return y if is_one(Z) else like(Z, latents, y)

    def _check_forecast(
        self, modes: str | None, observations: bool, interval: Any, steps: int
    ) -> None:
        check_forecast(self.run_, modes)
        if interval is not None and not observations:
            raise InputError("interval: is of observations; wanted observations=True with it")
        if interval is not None and self.run_.errors is None:
            raise InputError("interval: this model has no errors on held-out data to tell it from; "
                             "wanted a fit with validation, and trials long enough")  # fmt: skip
        if interval is not None and self.run_.errors is not None:
            self.run_.errors.check(interval, steps)


# -- roll-outs -------------------------------------------------------------------------------------


def rolled_out(
    run: Run,
    series: TimeSeries,
    x: Array,
    steps: int,
    control: Tensor | None,
    chain: Array | None = None,
    make: inference.Make = np.empty,
) -> Array:
    """From the last row of each trial, (trials, steps, d), under the control to come.

    A hidden mode is held; with a `chain` (K, K) the modes drift apart as a Markov chain does, and
    the prediction is the mean over them.
    """
    f, offset = run.dynamics, run.settings.time_offset
    last = series.bounds[1:] - 1
    held = inference.held_modes(f, series, x, x, offset, "sequence", make)
    move = None if chain is None else inference.tensor(chain, f)
    found = make((len(last), steps, x.shape[1]), np.float32)
    state, chosen = None, None
    for trials, ahead in parts_of(len(last), steps, x.shape[1]):
        if ahead.start == 0:
            state = inference.state_at(f, series, x, last[trials], offset)
            chosen = None if held is None else inference.one_hot(held[last[trials]], f)
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
    several = max(1, min(inference.ROWS, inference.NUMBERS // width))
    for i in range(0, trials, several):
        some = slice(i, min(i + several, trials))
        size = max(1, inference.NUMBERS // (width * (some.stop - some.start)))
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


def warn_of_divergence(run: Run, x: Array, out: Array) -> None:
    """A roll-out (trials, steps, d) that leaves far behind both the data x and those of the fit.

    A machine that is at rest in x, and driven in what follows, only goes where the fit has been.
    """
    size = max(1, inference.NUMBERS // x.shape[1])
    norms = (np.linalg.norm(x[i : i + size], axis=1).max() for i in range(0, len(x), size))
    known = float(max(norms))
    if run.readout is not None:  # it has the mean and the spread of the latents of the fit
        usual = float(torch.cat([run.readout.shift, run.readout.scale]).norm())
        known = max(known, FURTHEST * usual)
    reach, gone = DIVERGED * known, np.zeros(len(out), dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for trials, ahead in parts_of(*out.shape):
            far = np.linalg.norm(out[trials, ahead].astype(float), axis=2).max(axis=1)
            gone[trials] |= ~(far <= reach)
    if gone.any():
        radius = inference.spectral_radius(run.dynamics)
        listed = "not known" if radius is None else ", ".join(f"{r:.4f}" for r in radius)
        warnings.warn(
            f"the roll-out of {gone.sum()} of {len(gone)} trials leaves the data behind (more "
            f"than {DIVERGED:g} times as far from 0); spectral radius: {listed}",
            stacklevel=4,
        )


# -- observations ----------------------------------------------------------------------------------


def observed(run: Run, x: Array, u: Array | None = None) -> Array:
    """What the readout makes of latents (..., d), and of inputs, in the units of the run."""
    return prediction.observed(run.encoder, prediction.own_readout(run), x, u)


def _given(run: Run, y: Array) -> Array:
    """Observations in the units that they were given in."""
    return y if run.units is None else run.units.restore(y)


def when(
    series: TimeSeries, steps: int, offset: int, make: inference.Make = np.empty
) -> dict[str, Array]:
    """Of each row of a forecast, the trial, the step in the trial, and how many steps ahead it is.

    And the time, where the series has times: the recording's median interval goes on.
    """
    ahead, shape = np.arange(1, steps + 1), (series.n_trials, steps)
    found = {name: make(shape, np.int64) for name in ("trial", "step", "ahead")}
    found["trial"][:] = np.arange(series.n_trials)[:, None]
    np.add(series.lengths[:, None] - 1, offset * ahead, out=found["step"])
    found["ahead"][:] = ahead
    t = series.steps(1, allow_short=True)
    if series.times is not None and len(t):
        between = np.sort(series.times[t + 1] - series.times[t])[len(t) // 2]
        last = series.times[series.bounds[1:] - 1]
        found["time"] = make(shape, (last[:1] + between * ahead[:1]).dtype)
        np.add(last[:, None], offset * ahead * between, out=found["time"])
    return {name: values.reshape(-1) for name, values in found.items()}
