"""What comes after the end of each trial: latents, observations, and how far these may be off."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dynacl import inference, prediction
from dynacl.data import Array, InputError, TimeSeries, in_order
from dynacl.data.frames import names_of
from dynacl.run import Run
from dynacl.settings import Settings
from dynacl.shapes import check_control_names, is_one, like
from dynacl.values import Whole


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

    @abstractmethod
    def _latents(
        self, series: TimeSeries, make: inference.Make = np.empty
    ) -> tuple[TimeSeries, Array, Array]: ...

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
        series, x, _ = self._latents(series, make)
        check_control_names(self.control_names_in_, names_of(u))
        control = inference.future_control(
            self.run_, in_order(u, X), int(steps), self.n_controls_in_, series.n_trials
        )
        chain = self.transitions_ if modes == inference.MARKOV else None
        out = inference.forecast(self.run_, series, x, int(steps), control, chain, make)
        inference.warn_of_divergence(f, x, out)
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
        for part in inference.parts_of(trials, steps, self.n_features_in_):
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
        y = _given(self.run_, observed(self.run_, latents.observations))
        return y if is_one(Z) else like(Z, latents, y)

    def _check_forecast(
        self, modes: str | None, observations: bool, interval: Any, steps: int
    ) -> None:
        inference.check_forecast(self.run_, modes)
        if interval is not None and not observations:
            raise InputError("interval: is of observations; wanted observations=True with it")
        if interval is not None and self.run_.errors is None:
            raise InputError("interval: this model has no errors on held-out data to tell it from; "
                             "wanted a fit with validation, and trials long enough")  # fmt: skip
        if interval is not None and self.run_.errors is not None:
            self.run_.errors.check(interval, steps)


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
