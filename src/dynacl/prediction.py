"""How well a model predicts observations that it was not trained on: one function for all uses.

A prediction starts from a window of observations, goes h steps by the dynamics, and comes back to
observations by the readout. It is compared with models that take no training: the best linear
state, a vector autoregression of the same lags, the identity control (the latents stay as they are)
and persistence (the observations do).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dynacl import inference
from dynacl.data import Array, InputError, TimeSeries
from dynacl.encoders import Encoder
from dynacl.objective.limit import likelihood
from dynacl.readout import Readout
from dynacl.recipe import correlation_time
from dynacl.run import Run
from dynacl.values import Lags

ROWS = 4_000  # most rows that a readout is fitted to, and most starts that are judged
FED = 10_000  # rows, in pieces of …
PIECE = 100  # … so many steps, that tell what present inputs add
FURTHEST = 20  # steps ahead that are judged, at most …
DRIVEN, SHARE = 100, 4  # … and with known inputs, as far as a part of the longest trial has room
FOLD = 10.0  # nats that a row may cost at which an encoder folds: one such row decides nothing
NUMBERS = 1 << 22  # of predicted observations in work at a time
MODEL, START, IDENTITY, PERSISTENCE = "model", "linear start", "identity control", "persistence"
WIDTH = len(IDENTITY) + 2  # of the first column of a table
Ahead = Callable[[slice], Array]  # predictions of some of the starts, (n, H, D)


class HeldOut(NamedTuple):
    """Shares of the variance of observations that are missed, by number of steps ahead.

    `str` shows a table. Above 1, the mean would have been the better prediction.
    """

    horizons: tuple[int, ...]
    missed: dict[str, Array]  # by name, "model" first; one number per horizon

    def r2(self, name: str = MODEL) -> Array:
        """1 − what is missed, one number per horizon."""
        found: Array = 1 - self.missed[name]
        return found

    def figure(self, name: str = MODEL) -> float:
        """One number, lower is better: the mean logarithm of what is missed."""
        return float(np.log(np.maximum(self.missed[name], 1e-12)).mean())

    def beyond(self, name: str = MODEL) -> float:
        """How far it is beyond all of the variance, where the mean would have been better; 0 if
        nowhere: the largest logarithm."""
        return max(0.0, float(np.log(np.maximum(self.missed[name], 1e-12)).max()))

    def line(self) -> str:
        """In one line: what each misses after so many steps."""
        parts = [f"{name} {', '.join(map(_short, v))}" for name, v in self.missed.items()]
        return f"share of variance missed after {listed(self.horizons)}: {'; '.join(parts)}"

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"horizons": list(self.horizons)} | {k: v.tolist() for k, v in self.missed.items()}

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> HeldOut:
        """From what JSON holds."""
        values = {k: np.array(v, dtype=float) for k, v in saved.items() if k != "horizons"}
        return cls(tuple(saved["horizons"]), values)

    def __str__(self) -> str:
        head = "steps ahead".ljust(WIDTH) + "".join(f"{h:>10}" for h in self.horizons)
        rows = [
            name.ljust(WIDTH) + "".join(f"{_short(share):>10}" for share in shares)
            for name, shares in self.missed.items()
        ]
        return "\n".join(["share of the variance of observations that is missed", head, *rows])


class Squares(NamedTuple):
    """Squared errors of predictions from each start, summed over channels."""

    horizons: tuple[int, ...]
    starts: Array  # (n,), rows of the series
    errors: dict[str, Array]  # by name, "model" first; (n, H)
    variance: float  # of the observations at the starts, summed over channels

    def held_out(self) -> HeldOut:
        """As shares of the variance, over all starts."""
        scale = max(self.variance, float(np.finfo(np.float32).tiny))
        with np.errstate(over="ignore", invalid="ignore"):
            missed = {name: errors.mean(0) / scale for name, errors in self.errors.items()}
        return HeldOut(
            self.horizons, {k: np.where(np.isfinite(v), v, np.inf) for k, v in missed.items()}
        )


def listed(steps: Sequence[int]) -> str:
    """ "1 step", "1 and 4 steps", "1, 4 and 20 steps"."""
    *first, last = map(str, steps)
    said = f"{', '.join(first)} and {last}" if first else last
    return f"{said} step{'s' if first or last != '1' else ''}"


def _short(share: float) -> str:
    return f"{share:.2g}" if share < 100 else "over 100"


# -- what a run says -------------------------------------------------------------------------------


def fit_readout(run: Run, series: TimeSeries) -> Readout:
    """Latents to observations, on rows of the training data; the same whenever it is asked for."""
    s = run.settings
    t = series.windowed(s.past).spread(ROWS)
    windows = torch.from_numpy(series.windows(t, s.time_lags, s.past_inputs))
    with torch.inference_mode():
        x = run.encoder(windows.to(run.device)).cpu()
    y = torch.from_numpy(series.observations[t])
    readout = _fed(run, series, x, y)
    if series.control is None or not (0 in s.past_inputs and readout.sees_inputs):
        return readout
    # Latents are less what the input of their step adds to y, so it is noise to their readout.
    u = torch.from_numpy(series.control[t])
    again = _fed(run, series, x, y - (u - u.mean(0)) @ readout.feedthrough)
    return again if again.sees_inputs else readout


def _fed(run: Run, series: TimeSeries, x: Tensor, y: Tensor) -> Readout:
    readout = Readout(x.shape[1], y.shape[1]).fit(x, y, torch.Generator().manual_seed(0))
    if series.control is not None:
        s = run.settings
        _feed(run, readout, series.pieces(s.past + PIECE * s.time_offset, FED))
    return readout


def _feed(run: Run, readout: Readout, series: TimeSeries) -> None:
    """Let the readout see the input at the step that is predicted, if predictions gain by it."""
    starts = spread_starts(series, run.settings.time_offset, run.settings.past, ROWS)
    if len(starts):
        x, rows = _path(run, series, starts, (1,))[:, 0], starts + run.settings.time_offset
        missed = series.observations[rows] - observed(run.encoder, readout, x)
        readout.feed(*map(torch.from_numpy, (x, _inputs(series, rows), missed)))


def horizons_for(run: Run, series: TimeSeries, judge: TimeSeries) -> tuple[int, ...]:
    """One step, as far as observations are correlated, and in between; `judge` has room for it."""
    if not run.encoder.symmetric:
        return (1,)  # f leads from one space to another and cannot be applied twice
    offset = run.settings.time_offset
    room = max(1, (room_in(run, judge) - 1) // offset)
    # Known inputs carry a prediction on, beyond what observations tell of each other.
    if series.n_controls:
        furthest = max(FURTHEST, min(DRIVEN, room // SHARE))
    else:
        furthest = correlation_time(series, offset, FURTHEST)
    furthest = min(furthest, room)
    return tuple(sorted({1, round(furthest**0.5), furthest}))


def room_in(run: Run, series: TimeSeries) -> int:
    """Rows after a first full window, in the longest trial."""
    return int(series.lengths.max()) - 1 - run.settings.past


def held_out(
    run: Run,
    series: TimeSeries,
    horizons: Sequence[int],
    *,
    readout: Readout | None = None,
    beside: bool = True,
) -> HeldOut:
    """What the run misses of `series` after so many steps, and persistence.

    readout: the run's own, unless another is given. beside: and what else the run keeps to be
    compared with.
    """
    return squares(run, series, horizons, readout=readout, beside=beside).held_out()


def squares(
    run: Run,
    series: TimeSeries,
    horizons: Sequence[int],
    *,
    readout: Readout | None = None,
    beside: bool = True,
) -> Squares:
    """As `held_out`, from each start."""
    readout = own_readout(run) if readout is None else readout
    horizons = checked(run, horizons)
    offset, past = run.settings.time_offset, run.settings.past
    reach = max(horizons) * offset
    starts = spread_starts(series, reach, past, ROWS)
    if len(starts) == 0:
        raise InputError(f"X: no trial has room for {past + 2} steps and {reach} after them; "
                         "wanted longer trials or fewer steps ahead")  # fmt: skip
    y, after = series.observations, np.array(horizons) * offset
    ahead = {MODEL: by_run(run, readout, series, starts, horizons)}
    if beside:
        ahead |= _by_others(run, readout, series, starts, horizons)
    ahead[PERSISTENCE] = lambda part: y[starts[part]][:, None]
    errors = {name: np.empty((len(starts), len(after))) for name in ahead}
    size = max(1, NUMBERS // (reach * series.n_features))
    for i in range(0, len(starts), size):
        part = slice(i, i + size)
        true = y[starts[part, None] + after].astype(float)
        for name, predicted in ahead.items():
            with np.errstate(over="ignore", invalid="ignore"):
                errors[name][part] = np.square(true - predicted(part)).sum(2)
    return Squares(horizons, starts, errors, float(y[starts].var(0, dtype=float).sum()))


def own_readout(run: Run) -> Readout:
    if run.readout is None:
        raise InputError("this model was saved before models kept a readout; wanted one that "
                         "`settle` was called on, with its training data")  # fmt: skip
    return run.readout


def spread_starts(series: TimeSeries, reach: int, past: int, most: int) -> Array:
    """Rows to predict from, evenly spread, that have `reach` rows after them.

    Not a trial's first, whose modes no pair has told yet.
    """
    return series.references(reach, past + 1, allow_short=True).spread(most)


def shows_whole(run: Run) -> bool:
    """Whether a frame has as many dimensions as the state, so that errors of both are one."""
    s = run.settings
    frames = not (s.past or s.past_inputs or run.dynamics.context)
    return frames and run.encoder.square and run.geometry.has_density


def missed_volume(run: Run, series: TimeSeries, horizons: Sequence[int]) -> float | None:
    """What the run misses of a state that frames show whole, all directions alike; lower is better.

    The mean over horizons of (log det Σ − 2 log |det ∂h/∂y|) / d, Σ of the errors of latents: the
    likelihood of observations, as the mean logarithm, over d directions, of the share of their
    variance that is missed. Faint directions of the observations count as much as loud ones, as
    they do in the state. None: a frame has more dimensions than the state, or fewer.
    """
    if not shows_whole(run):
        return None
    s = run.settings
    after = np.array(horizons) * s.time_offset
    starts = spread_starts(series, int(after.max()), 0, ROWS)
    x = inference.latents(run, series)
    path = inference.ahead_of(run, series, x, x, starts, max(horizons))[:, np.array(horizons) - 1]
    found = []
    for i, step in enumerate(after):
        frames = torch.from_numpy(series.observations[starts + step]).to(run.device)
        with torch.inference_mode():
            _, slopes = run.encoder.with_slopes(run.encoder.frames(frames))
            missed = torch.from_numpy(x[starts + step] - path[:, i])
            found.append(2 * float(likelihood(missed, slopes.cpu(), FOLD).total) / x.shape[1])
    figure = float(np.mean(found))
    return figure if np.isfinite(figure) else np.inf


def checked(run: Run, horizons: Sequence[int], name: str = "horizons") -> tuple[int, ...]:
    """Steps ahead that the run can go; an error that names them if they cannot be."""
    if not Lags().accepts(horizons) or min(horizons) < 1:
        raise InputError(f"{name}: got {horizons!r}; wanted distinct whole numbers of steps "
                         "ahead, such as (1, 4, 20)")  # fmt: skip
    if max(horizons) > 1 and not run.encoder.symmetric:
        raise InputError(f"{name}: got {tuple(horizons)}; wanted 1 with two encoders, as the "
                         "dynamics leads from one space to another")  # fmt: skip
    return tuple(int(h) for h in horizons)


def observed(encoder: Encoder, readout: Readout, x: Array, u: Array | None = None) -> Array:
    """Observations of latents (…, d): by the readout, and exactly where the encoder can be undone.

    u: the inputs at the steps that these latents predict, (…, d_u), for a readout that sees them.

    A readout is never quite right, and less so the more a mixing bends: it would favour latents
    from which observations are easy to tell, such as linear ones.
    """
    flat = torch.from_numpy(x.reshape(-1, x.shape[-1]))
    with torch.inference_mode():
        y = encoder.undone(flat.to(next(encoder.parameters())), readout(flat).to(flat)).cpu()
        if u is not None and readout.sees_inputs:
            y = y + readout.fed(flat, torch.from_numpy(u.reshape(len(flat), -1))).to(y)
    found: Array = y.numpy().reshape(*x.shape[:-1], -1)
    return found


def by_run(
    run: Run, readout: Readout, series: TimeSeries, starts: Array, horizons: Sequence[int]
) -> Ahead:
    """By encoder, dynamics and readout, as the run is now."""
    path = _path(run, series, starts, horizons)
    rows = starts[:, None] + np.array(horizons) * run.settings.time_offset
    encoder = copy.deepcopy(run.encoder)  # as it is now

    def ahead(part: slice) -> Array:
        return observed(encoder, readout, path[part], _inputs(series, rows[part]))

    return ahead


def _path(run: Run, series: TimeSeries, starts: Array, horizons: Sequence[int]) -> Array:
    """Latents so many steps after these rows, (n, H, d), from the past alone."""
    past = run.settings.past
    x = inference.latents(run, series)
    now = inference.references(run, series, x)
    t = np.searchsorted(series.with_past(past), starts)
    path = inference.ahead_of(run, series.trimmed(past), now, x, t, max(horizons))
    return path[:, np.array(horizons) - 1]


def _inputs(series: TimeSeries, rows: Array) -> Array | None:
    return None if series.control is None else series.control[rows]


def _by_others(
    run: Run, readout: Readout, series: TimeSeries, starts: Array, horizons: Sequence[int]
) -> dict[str, Ahead]:
    """By the linear start, where the run had one, by autoregression, and without dynamics."""
    found: dict[str, Ahead] = {}
    if run.start is not None:
        with at_start(run, run.start.encoder, run.start.dynamics):
            found[START] = by_run(run, run.start.readout, series, starts, horizons)
    if run.arx is not None:
        arx, after = run.arx, np.array(horizons) * run.settings.time_offset
        name = "ARX" if arx.n_controls else "VAR"
        found[name] = lambda p: arx.rolled_out(series, starts[p], int(after.max()))[:, after - 1]
    found[IDENTITY] = _standing(run, readout, series, starts, horizons)
    return found


def _standing(
    run: Run, readout: Readout, series: TimeSeries, starts: Array, horizons: Sequence[int]
) -> Ahead:
    """By encoder and readout, as if the latents stayed where they are; inputs are seen as ever."""
    t = np.searchsorted(series.with_past(run.settings.past), starts)
    x = inference.latents(run, series)[t][:, None]
    if not readout.sees_inputs:
        return lambda part: observed(run.encoder, readout, x[part])
    rows = starts[:, None] + np.array(horizons) * run.settings.time_offset
    x = x.repeat(len(horizons), axis=1)
    return lambda part: observed(run.encoder, readout, x[part], _inputs(series, rows[part]))


@contextmanager
def at_start(
    run: Run, encoder: Mapping[str, Tensor], dynamics: Mapping[str, Tensor]
) -> Iterator[None]:
    """The run with these weights of its linear start, for as long as it takes."""
    before = run.weights()
    run.encoder.be_linear(encoder)
    run.dynamics.load_state_dict(dynamics)
    try:
        yield
    finally:
        run.restore(before)
