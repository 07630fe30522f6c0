"""A model and data, seen once: what pictures and reports show of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dynacl import assembly, inference, prediction
from dynacl.behaviour import Decoded, decode_labels
from dynacl.data import Array, InputError, TimeSeries
from dynacl.estimator import DCL
from dynacl.evaluation import against_truth
from dynacl.flows import FixedPoints, fixed_points
from dynacl.prediction import HeldOut
from dynacl.segmentation import Segmentation

AHEAD = 60  # steps of a forecast that is shown, at most
KNOWN = 40  # samples before it
COVERAGE = 0.9  # of the interval around it
CHANNELS = 4  # observed channels that are shown


class Shown(NamedTuple):
    """A forecast of some observed channels, (steps, channels), and what happened."""

    channels: list[int]
    trial: int
    at: int  # the sample of the trial from which it starts
    past: Array  # (samples, channels), the last one at the start
    observed: Array
    predicted: Array
    beside: dict[str, Array]
    interval: tuple[Array, Array] | None


@dataclass(frozen=True)
class Portrait:
    """A fitted model, and data that it is shown on, if there are any."""

    model: DCL
    series: TimeSeries | None = None

    @classmethod
    def of(cls, model: DCL, X: Any = None, *, u: Any = None) -> Portrait:
        check_is_fitted(model, "encoder_")
        return cls(model, None if X is None else model._driven(X, u))

    @property
    def seconds(self) -> float | None:
        """Between two samples, where that is known."""
        return self.model.sampling_interval_

    @cached_property
    def cut(self) -> TimeSeries:
        """The series without steps that have no full window: the rows of all that follows."""
        assert self.series is not None
        return self.series.trimmed(self.model.settings_.past)

    @cached_property
    def latents(self) -> list[Array]:
        """Of each trial, (T_i, d)."""
        return [np.asarray(x) for x in self.model.transform(self.series)]

    @cached_property
    def modes(self) -> list[Array] | None:
        """Of each trial, decoded; None where the model has none."""
        return list(self.model.modes(self.series)) if self.model.run_.dynamics.n_modes else None

    @cached_property
    def segments(self) -> Segmentation | None:
        """The same as segments, with how certain each is."""
        if self.series is None or self.modes is None or not any(map(len, self.modes)):
            return None
        return self.model.segment(self.series)

    @cached_property
    def predicted(self) -> list[Array]:
        """One step ahead of each row of the latents."""
        return list(self.model.predict(self.series))

    @cached_property
    def fixed(self) -> FixedPoints | None:
        """Where a curved flow stands still; of linear maps it is one point, which says little."""
        symmetric = self.model.run_.encoder.symmetric
        if not symmetric or self.series is None or not self.curved:
            return None
        return fixed_points(self.model, self.series)

    @property
    def regimes(self) -> bool:
        """Whether the flow depends on a hidden mode that lasts: there is one for each of them."""
        f = self.model.run_.dynamics
        return f.infers_modes and f.identifies

    @property
    def curved(self) -> bool:
        """Whether eigenvalues of linear maps do not tell what the dynamics does."""
        return self.model.spectrum_ is None

    @property
    def example(self) -> Array:
        """Observations of the first trial, as they were given."""
        assert self.series is not None
        first = self.series.select([0])
        return first.given()

    @cached_property
    def judged(self) -> HeldOut | None:
        """What is missed of observations that the training has not seen, beside baselines."""
        if self.series is None or self.trained_on or self.model.run_.readout is None:
            return self.model.held_out_
        try:
            return prediction.held_out(self.model.run_, self.series, self.model.run_.horizons)
        except InputError:  # trials too short for that
            return None

    @cached_property
    def against_truth(self) -> dict[str, Any] | None:
        """The figures of `evaluate`, where the data carry their truth."""
        if self.series is None or self.series.truth is None:
            return None
        return against_truth(self.model, self.series)

    @cached_property
    def decoded(self) -> dict[str, Decoded]:
        """How well each label is told; nothing where there are none, or too little data."""
        if self.series is None or not self.series.labels:
            return {}
        try:
            return decode_labels(self.model, self.series)
        except InputError:  # trials too few or too short to hold some back
            return {}

    @property
    def names(self) -> list[str]:
        """Of the observed channels."""
        assert self.series is not None
        given = self.series.names
        return [f"channel {i}" for i in range(self.series.n_features)] if not given else list(given)

    @cached_property
    def trained_on(self) -> bool:
        """Whether the model was fitted to these data."""
        return self.series is not None and self.model.data_ == self.series.fingerprint()

    @cached_property
    def unseen(self) -> TimeSeries | None:
        """What of the data the training has not seen: all of it, or the part that it held out."""
        assert self.series is not None
        if not self.trained_on:
            return self.series
        return assembly.held_out(self.model.run_, self.series)[1]

    @cached_property
    def forecast(self) -> Shown | None:
        """From a place that the training has not seen, if there is one; None: no room."""
        run, model = self.model.run_, self.model
        if run.readout is None or not run.encoder.symmetric or self.series is None:
            return None
        series = self.series if self.unseen is None else self.unseen
        offset, past = model.settings_.time_offset, model.settings_.past
        trial = int(series.lengths.argmax())
        room = int(series.lengths[trial]) - past - 2
        steps = min(AHEAD, room // (2 * offset))
        if steps < 1:
            return None
        series = series.select([trial])
        at = len(series) - 1 - steps * offset
        x = inference.latents(run, series)
        path = inference.ahead_of(run, series.trimmed(past), x, x, np.array([at - past]), steps)[0]
        rows = at + offset * np.arange(1, steps + 1)
        inputs = None if series.control is None else series.control[rows]
        predicted = prediction.observed(run.encoder, run.readout, path, inputs)
        y = series.given()
        chosen = _loud(series.observations, CHANNELS)
        restore = (lambda v: v) if series.units is None else series.units.restore
        interval = None
        if run.errors is not None:
            with warnings.catch_warnings(action="ignore"):  # it ends where held-out data end
                low, high = run.errors.around(predicted, COVERAGE)
            interval = restore(low)[:, chosen], restore(high)[:, chosen]
        beside = {}
        if run.arx is not None:
            name = "ARX" if run.arx.n_controls else "VAR"
            found = run.arx.rolled_out(series, np.array([at]), steps * offset)[0]
            beside[name] = restore(found[offset - 1 :: offset])[:, chosen]
        beside[prediction.PERSISTENCE] = np.broadcast_to(y[at], (steps, y.shape[1]))[:, chosen]
        return Shown(
            chosen,
            trial,
            at,
            y[max(0, at + 1 - KNOWN) : at + 1, chosen],
            y[rows][:, chosen],
            restore(predicted)[:, chosen],
            beside,
            interval,
        )


def _loud(y: Array, most: int) -> list[int]:
    """Channels that vary most, in their order; at most so many."""
    order = np.argsort(-np.asarray(y, dtype=float).var(0), kind="stable")[:most]
    return sorted(order.tolist())
