"""Linear models of observations, fitted in closed form: what every other model must beat.

`ARX` predicts the next frame from past frames and inputs; `LinearStateSpace` from the best linear
state. Both are least squares in float64, and predict several steps ahead by repeating one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from dynacl.data import Array, InputError, TimeSeries, Units
from dynacl.subspace import canonical_variates, inputs_between, least_squares
from dynacl.values import Lags, Whole
from dynacl.whitening import covariance, row_products, sums_of_rows

LAGS = (0, 1, 2, 3)
PER_NUMBER = 10  # rows per regressor: of wider frames only the leading principal components count


@final
class ARX:
    """y_{t+1} = c + Σ_i A_i y_{t−i} + Σ_i B_i u_{t−i} + D u_{t+1} over the lags i, least squares.

    Without a control input it is a vector autoregression. Where frames are wide for their number,
    their leading principal components are predicted, and the rest is taken to be at its mean.

    Parameters
    ----------
    lags : steps back from now that a prediction sees, such as (0, 1, 2, 3).
    feedthrough : whether it sees the input at the step that it is of, too; else D is 0.
    """

    def __init__(self, lags: Sequence[int] = LAGS, feedthrough: bool = False) -> None:
        self.lags, self.feedthrough = _checked(lags), feedthrough

    @property
    def past(self) -> int:
        """Rows that a start must have before it, in its trial."""
        return max(self.lags)

    def fit(self, X: Any, u: Any = None) -> ARX:
        """Least squares over all steps of X, as `DCL.fit` takes it, that have their full past."""
        series = TimeSeries.of(X, u)
        self.units, self.control_units = series.units, series.control_units
        self.n_controls = series.n_controls
        t = series.steps(1, self.past)
        n = len(t)
        size = n // PER_NUMBER // len(self.lags) - self.n_controls
        self.frames = _Frames(series.observations, size)
        rows = t[:, None] - np.array(self.lags)
        z = self.frames.inside(series.observations)
        parts = [z[rows].reshape(n, -1), np.ones((n, 1))]
        if series.control is not None:
            parts.append(self._inputs(series.control, t))
        self.weights = least_squares(np.concatenate(parts, 1), z[t + 1])
        return self

    def ahead(self, X: Any, starts: Array, steps: int, u: Any = None) -> Array:
        """Frames 1 to `steps` steps after these rows of X, (n, steps, D).

        From frames up to the start only, under the inputs of X, which are taken as known.
        """
        series = TimeSeries.of(X, u).within(self.units, self.control_units)
        return _given(self.units, self.rolled_out(series, starts, steps))

    def rolled_out(self, series: TimeSeries, starts: Array, steps: int) -> Array:
        """As `ahead`, of a series in the units that the model was fitted in, and in these."""
        reach = steps + self.feedthrough
        starts = _starts(series, starts, steps, reach, self.past, self.n_controls)
        back = np.arange(self.past, -1, -1)
        known = self.frames.inside(series.observations[starts[:, None] - back])
        path = np.concatenate([known, np.empty((len(starts), steps, known.shape[2]))], axis=1)
        lags, one = np.array(self.lags), np.ones((len(starts), 1))
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(steps):
                parts = [path[:, self.past + j - lags].reshape(len(starts), -1), one]
                if series.control is not None and self.n_controls:
                    parts.append(self._inputs(series.control, starts + j))
                path[:, self.past + j + 1] = np.concatenate(parts, 1) @ self.weights
            return self.frames.outside(path[:, self.past + 1 :])

    def _inputs(self, control: Array, t: Array) -> Array:
        """What the step from t on sees of the inputs, side by side."""
        rows = t[:, None] - np.array([*self.lags, *([-1] if self.feedthrough else [])])
        inputs: Array = control[rows].reshape(len(t), -1).astype(float)
        return inputs

    def arrays(self) -> dict[str, Array]:
        """All that was fitted; `of_arrays` makes the same model of it."""
        frames = {"mean": self.frames.mean, "into": self.frames.into, "back": self.frames.back}
        return {"weights": self.weights} | frames

    @classmethod
    def of_arrays(cls, lags: Sequence[int], n_controls: int, arrays: Mapping[str, Array]) -> ARX:
        numbers = len(lags) * (arrays["into"].shape[1] + n_controls) + 1
        made = cls(lags, len(arrays["weights"]) > numbers)
        made.n_controls, made.weights = n_controls, arrays["weights"]
        made.frames = _Frames.__new__(_Frames)
        made.frames.mean, made.frames.into = arrays["mean"], arrays["into"]
        made.frames.back = arrays["back"]
        return made


@final
class LinearStateSpace:
    """x_{t+1} = A x_t + B u_t + b and y_t = C x_t + c, with x_t the best linear state of the past.

    The state is the canonical variates of past observations and inputs with the observations after
    them, the inputs between taken out (`subspace.canonical_variates`; Larimore 1990). A, B and C
    are least squares. It is the linear start of `DCL`, as a model of its own.

    Parameters
    ----------
    n_components : d, of the state. A window that has fewer dimensions is taken as it is.
    lags : steps back from now of the observations that the state is read off.
    control_lags : the same of the inputs, all at least 1. None: the lags but 0.
    feedthrough : whether a prediction sees the input at the step that it is of, too: x_{t+1} has
        B' u_{t+1} more, and y_t has D u_t.

    Attributes
    ----------
    correlations : of the past with the future, falling.
    """

    def __init__(
        self,
        n_components: int,
        lags: Sequence[int] = LAGS,
        control_lags: Sequence[int] | None = None,
        feedthrough: bool = False,
    ) -> None:
        if not Whole().accepts(n_components):
            raise InputError(f"n_components: got {n_components!r}; wanted {Whole().wanted}")
        self.n_components, self.lags = int(n_components), _checked(lags)
        inputs = tuple(lag for lag in self.lags if lag) if control_lags is None else control_lags
        self.control_lags = _checked(inputs, "control_lags", 1) if len(inputs) else ()
        self.feedthrough = feedthrough
        # With feedthrough, the window of the next state has an output that its input acts on.
        self.acting: tuple[int, ...] = (0, 1) if feedthrough else (0,)
        self.shown: tuple[int, ...] = (0,) if feedthrough else ()

    @property
    def past(self) -> int:
        """Rows that a start must have before it, in its trial."""
        return max((*self.lags, *self.control_lags))

    def fit(self, X: Any, u: Any = None) -> LinearStateSpace:
        """State, dynamics and readout from X, as `DCL.fit` takes it."""
        series = TimeSeries.of(X, u)
        self.units, self.control_units = series.units, series.control_units
        self.n_controls = series.n_controls
        reach = max(self.lags)
        windows = -(-self.n_components // (len(self.lags) * series.n_features))
        span = windows * (1 + reach)
        t = series.steps(span, self.past, allow_short=True)
        if len(t) < 4:
            raise InputError(f"X: has {len(t)} rows with {self.past} before and {span} after "
                             "them in their trial; wanted at least 4")  # fmt: skip
        size = len(t) // PER_NUMBER // len(self.lags) - 2 * self.n_controls
        self.frames = _Frames(series.observations, size)
        if series.control is not None:
            self.inputs = _Frames(series.control, self.n_controls)
        ends = t[:, None] + span - (1 + reach) * np.arange(windows)
        future = self.frames.inside(series.observations[ends[:, :, None] - np.array(self.lags)])
        given = inputs_between(series, t, span)
        found = canonical_variates(
            self._window(series, t), future.reshape(len(t), -1), self.n_components, given
        )
        self.mean, self.directions = found.mean, found.directions
        self.correlations = found.correlations
        t = series.steps(1, self.past, allow_short=True)
        x, following = self._state(series, t), self._state(series, t + 1)
        self.step = least_squares(self._features(series, x, t, self.acting), following)
        z = self.frames.inside(series.observations)
        self.readout = least_squares(self._features(series, x, t, self.shown), z[t])
        return self

    def transform(self, X: Any, u: Any = None) -> Array:
        """States of all rows that have their full past, (n, d)."""
        series = TimeSeries.of(X, u).within(self.units, self.control_units)
        _same_inputs(series, self.n_controls)
        return self._state(series, series.with_past(self.past))

    def ahead(self, X: Any, starts: Array, steps: int, u: Any = None) -> Array:
        """Frames 1 to `steps` steps after these rows of X, (n, steps, D).

        From frames and inputs up to the start, under the inputs of X from there on.
        """
        series = TimeSeries.of(X, u).within(self.units, self.control_units)
        reach = steps + self.feedthrough
        starts = _starts(series, starts, steps, reach, self.past, self.n_controls)
        x, path = self._state(series, starts), []
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(steps):
                x = self._features(series, x, starts + j, self.acting) @ self.step
                path.append(self._features(series, x, starts + j + 1, self.shown) @ self.readout)
            return _given(self.units, self.frames.outside(np.stack(path, axis=1)))

    def _window(self, series: TimeSeries, t: Array) -> Array:
        """Past observations and inputs of these rows, side by side."""
        rows = t[:, None] - np.array(self.lags)
        window = self.frames.inside(series.observations[rows]).reshape(len(t), -1)
        if series.control is None or not (self.n_controls and self.control_lags):
            return window
        inputs = self.inputs.inside(series.control[t[:, None] - np.array(self.control_lags)])
        return np.concatenate([window, inputs.reshape(len(t), -1)], axis=1)

    def _state(self, series: TimeSeries, t: Array) -> Array:
        x: Array = (self._window(series, t) - self.mean) @ self.directions
        return x

    def _features(self, series: TimeSeries, x: Array, t: Array, inputs: tuple[int, ...]) -> Array:
        """What a map is linear in: the state, a constant and inputs, so many steps from t on."""
        if series.control is None or not self.n_controls:
            return _with_one(x)
        return np.concatenate([_with_one(x), *(series.control[t + i] for i in inputs)], axis=1)


class _Frames:
    """Rows at zero mean and unit variance; or, where they are too wide, their leading principal
    components."""

    def __init__(self, y: Array, most: int) -> None:
        D = y.shape[1]
        self.mean: Array = y.mean(0, dtype=float)
        if max(1, most) < D:
            axes = _principal_axes(y, self.mean, max(1, most))
            self.into, self.back = axes, axes.T
        else:
            spread = y.std(0, dtype=float)
            spread = np.where(spread > 0, spread, 1.0)
            self.into, self.back = np.diag(1 / spread), np.diag(spread)

    def inside(self, y: Array) -> Array:
        z: Array = (y - self.mean) @ self.into
        return z

    def outside(self, z: Array) -> Array:
        y: Array = self.mean + z @ self.back
        return y


def _principal_axes(y: Array, mean: Array, most: int) -> Array:
    """The leading principal axes of these rows, (D, most); there are no more than rows."""
    n, D = y.shape
    axes: Array
    if n >= D:
        axes = np.linalg.eigh(covariance(y, mean))[1][:, -most:]
        return axes
    # Products of rows are fewer: those of 10,000 columns take gigabytes, and minutes.
    leading = np.linalg.eigh(row_products(y, mean))[1][:, -most:]
    axes, _ = np.linalg.qr(sums_of_rows(y, mean, leading))
    return axes


def _given(units: Units | None, y: Array) -> Array:
    """Frames in the units that they were given in."""
    return y if units is None else units.restore(y)


def _with_one(x: Array) -> Array:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _checked(lags: Sequence[int], name: str = "lags", least: int = 0) -> tuple[int, ...]:
    if not Lags().accepts(lags) or min(lags) < least:
        raise InputError(f"{name}: got {lags!r}; wanted distinct whole numbers of steps back, "
                         f"of at least {least}")  # fmt: skip
    return tuple(int(lag) for lag in lags)


def _starts(
    series: TimeSeries, starts: Array, steps: int, inputs: int, past: int, n_controls: int
) -> Array:
    """Rows to start from, which must have their past, and so many inputs, in the trial."""
    if not Whole().accepts(steps):
        raise InputError(f"steps: got {steps!r}; wanted {Whole().wanted}")
    _same_inputs(series, n_controls)
    starts = np.asarray(starts, dtype=np.int64)
    first, end = (np.repeat(b, series.lengths) for b in (series.bounds[:-1], series.bounds[1:]))
    ahead = inputs - 1 if n_controls else 0
    bad = (starts - first[starts] < past) | (starts + ahead >= end[starts])
    if bad.any():
        raise InputError(f"starts: row {starts[bad][0]} has not {past} rows before it and {ahead} "
                         "after it in its trial")  # fmt: skip
    return starts


def _same_inputs(series: TimeSeries, n_controls: int) -> None:
    if n_controls and series.n_controls != n_controls:
        raise InputError(f"u: has {series.n_controls} columns; this model was fitted with a "
                         f"control input of {n_controls}")  # fmt: skip
