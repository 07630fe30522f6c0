"""TimeSeries: observations in trials, with control input, labels and truth where there are some.

Labels and truth are carried along for evaluation. Training never looks at them.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynacl.data.arrays import Array, Floats, Ints
from dynacl.data.checks import bounds_of, in_order, joined, to_control, to_trials
from dynacl.data.errors import InputError, InputTypeError
from dynacl.data.fields import fields_of, parts_of
from dynacl.data.formats.npz import write_npz
from dynacl.data.frames import names_of, taken
from dynacl.data.gathering import read_fields
from dynacl.data.labels import to_labels
from dynacl.data.missing import MAX_GAP, check_way, interval_of, mended
from dynacl.data.roles import Keys
from dynacl.data.steps import Steps
from dynacl.data.truth import Truth
from dynacl.data.units import Units, exchange


@dataclass(frozen=True)
class TimeSeries:
    """Observations (T_total, D) as float32; trial i is rows bounds[i]:bounds[i + 1].

    units: None where float32 holds what was given; else that is origin + scale · observations
    (`given`). control_units: the same for the control input. labels: vectors of one entry per row,
    by name: numbers or text. names, control_names: of the columns. times: of the rows, in seconds
    or as dates.
    """

    observations: Floats
    bounds: Ints
    control: Floats | None = None
    truth: Truth | None = None
    units: Units | None = None
    control_units: Units | None = None
    labels: Mapping[str, Array] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    times: Array | None = None
    control_names: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        u: Any = None,
        *,
        labels: Any = None,
        trial_length: int | None = None,
        missing: str = "error",
        max_gap: int = MAX_GAP,
        min_length: int = 1,
        name: str = "X",
    ) -> TimeSeries:
        """From a TimeSeries, a path, one (T, D) array, a list of arrays, or a dict of arrays.

        A dict with the key "observations" is read like one of our files (control, bounds,
        latents, modes beside it). Any other dict holds one array per trial, and u may be a dict
        with the same names. labels: arrays by name, each with one entry per step, in one piece or
        as a list of trials; or one such array.

        missing: what NaN leads to. "error"; "split" cuts trials there, and where times leave
        samples out; "interpolate" bridges gaps of at most max_gap steps by a line, and cuts at
        longer ones. min_length: trials of fewer steps are left out.
        """
        check_way(missing, max_gap, min_length)
        series = cls._made(X, in_order(u, X), trial_length, name, missing != "error")
        if labels is not None:
            found = to_labels(labels, series.lengths.tolist())
            series = replace(series, labels={**series.labels, **found})
        return series.mended(missing, max_gap, min_length, name)

    @classmethod
    def _made(cls, X: Any, u: Any, trial_length: int | None, name: str, gaps: bool) -> TimeSeries:
        """A series from whatever was given; with gaps, NaN may be in it."""
        if isinstance(X, TimeSeries):
            if trial_length is not None:
                X = replace(X, bounds=bounds_of(X.lengths.tolist(), trial_length))
            series: TimeSeries = X
            return series if u is None else series._driven_by(u, gaps)
        if isinstance(X, str | os.PathLike):
            fields = read_fields(Path(X), Keys())
            made = cls(**parts_of(fields, trial_length, str(X), gaps=gaps))
            return cls._made(made, u, None, name, gaps)
        if (frames := taken(X, name)) is not None:
            several = len(frames.trials) > 1
            trials = to_trials(frames.trials if several else frames.trials[0], name)
            bounds = bounds_of([len(x) for x in trials], trial_length)
            observations, units = joined(trials, name, gaps=gaps, names=frames.names)
            made = cls(observations, bounds, units=units, names=frames.names, times=frames.times)
            return cls._made(made, u, None, name, gaps)
        if hasattr(X, "tocsr"):  # before Mapping: one of SciPy's formats is a dict
            raise InputTypeError(f"{name}: got a sparse array; wanted a dense one")
        if isinstance(X, Mapping):
            if "observations" in X:
                made = cls(**parts_of(X, trial_length, "X", gaps=gaps))
                return cls._made(made, u, None, name, gaps)
            X = list(X.values())
        trials = to_trials(X, name)
        bounds = bounds_of([len(x) for x in trials], trial_length)
        observations, units = joined(trials, name, gaps=gaps)
        return cls._made(cls(observations, bounds, units=units), u, None, name, gaps)

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        key: str | None = None,
        control_key: str | None = None,
        label_key: str | None = None,
        trial_key: str | None = None,
        time_key: str | None = None,
        trial_length: int | None = None,
        transpose: bool = False,
        missing: str = "error",
        max_gap: int = MAX_GAP,
        min_length: int = 1,
    ) -> TimeSeries:
        """From a file in one of the formats of `formats.BY_SUFFIX`; pickle is never loaded.

        key names the array that is observed, or columns of a table: several with commas between, or
        patterns such as "unit_*". control_key does the same for the control input, label_key for
        labels. trial_key: the trial of each step, bounds, lengths, or (n, 2) epochs. time_key:
        the time of each step. transpose: tables are (features, time). The rest is as in `of`.
        """
        check_way(missing, max_gap, min_length)
        keys = Keys(key, control_key, label_key, trial_key, time_key)
        fields = read_fields(Path(path), keys, transpose)
        series = cls(**parts_of(fields, trial_length, str(path), gaps=missing != "error"))
        return series.mended(missing, max_gap, min_length, str(path))

    def write(self, path: str | os.PathLike[str]) -> None:
        """As our own .npz, with all that it carries: `read` gives the same series back."""
        write_npz(path, fields_of(vars(self)))

    def mended(
        self, missing: str, max_gap: int = MAX_GAP, min_length: int = 1, name: str = "X"
    ) -> TimeSeries:
        """Without missing values and trials that are too short; what that changed is said."""
        series = self
        if missing != "error":
            at_most = max_gap if missing == "interpolate" else 0
            found = mended(self.observations, self.control, self.bounds, self.times,
                           max_gap=at_most, name=name)  # fmt: skip
            series = replace(self, observations=found.observations, control=found.control)
            series = series._rows(found.rows, found.lengths)
        short = series.lengths < min_length
        if short.all():
            raise InputError(f"{name}: no trial has {min_length} steps or more; the longest has "
                             f"{series.lengths.max()}")  # fmt: skip
        if short.any():
            warnings.warn(f"{name}: {short.sum()} of {series.n_trials} trials have fewer than "
                          f"{min_length} steps; left out", stacklevel=3)  # fmt: skip
            series = series.select(np.flatnonzero(~short).tolist())
        return series

    @property
    def n_trials(self) -> int:
        return len(self.bounds) - 1

    @property
    def n_features(self) -> int:
        return int(self.observations.shape[1])

    @property
    def n_controls(self) -> int:
        return 0 if self.control is None else int(self.control.shape[1])

    @property
    def lengths(self) -> Ints:
        return np.diff(self.bounds)

    def __len__(self) -> int:
        return len(self.observations)

    def given(self) -> Array:
        """Observations in the units that they were given in."""
        return self.observations if self.units is None else self.units.restore(self.observations)

    def given_control(self) -> Array | None:
        """The control input in the units that it was given in."""
        if self.control is None or self.control_units is None:
            return self.control
        return self.control_units.restore(self.control)

    def within(self, units: Units | None, control_units: Units | None) -> TimeSeries:
        """The same series in these units; None: in those of the user."""
        control = self.control
        if control is not None:
            control = exchange(control, self.control_units, control_units, "u")
        observations = exchange(self.observations, self.units, units, "X")
        if observations is self.observations and control is self.control:
            return self
        return replace(
            self,
            observations=observations,
            control=control,
            units=units,
            control_units=control_units,
        )

    def fingerprint(self) -> int:
        """A checksum of the bounds and of about a thousand rows; it tells data sets apart."""
        found = zlib.crc32(self.bounds.tobytes())
        for part in (self.observations, self.control):
            if part is not None:
                some = np.ascontiguousarray(part[:: max(1, len(part) // 1000)])
                found = zlib.crc32(some.tobytes(), found)
        for units in (self.units, self.control_units):
            if units is not None:
                found = zlib.crc32(np.stack(units).tobytes(), found)
        return found

    def split(self, values: Array) -> list[Array]:
        """Cut an array of one row per step into its trials."""
        return [values[a:b] for a, b in self.spans()]

    def spans(self) -> Iterator[tuple[int, int]]:
        return zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True)

    def steps(self, offset: int = 1, past: int = 0, *, allow_short: bool = False) -> Ints:
        """All t with t − past, t and t + offset in the same trial: the valid references, in order.

        A trial too short to have one is an error, unless allow_short.
        """
        return self.references(offset, past, allow_short=allow_short).all()

    def references(self, offset: int = 1, past: int = 0, *, allow_short: bool = False) -> Steps:
        """The same steps, not listed: of a recording that is larger than memory."""
        if offset < 1:
            raise InputError(f"time_offset: got {offset}; wanted at least 1")
        short = np.flatnonzero(self.lengths <= offset + past)
        if len(short) and not allow_short:
            n = int(self.lengths[short[0]])
            behind = f" and {past} steps back (time_lags, recurrent dynamics)" if past else ""
            raise InputError(
                f"X: trial {short[0]} has {n} sample{'s' if n != 1 else ''}; "
                f"time_offset={offset}{behind} needs at least {offset + past + 1} (n_samples = "
                f"{n}); drop the {len(short)} trial(s) that are too short "
                "(TimeSeries.of(X, min_length=…))"
            )
        return Steps(self.bounds, past, offset)

    def with_past(self, past: int) -> Ints:
        """All t with t − past in the same trial, in order."""
        return self.windowed(past).all()

    def windowed(self, past: int) -> Steps:
        """The same steps, not listed."""
        return Steps(self.bounds, past)

    def windows(
        self,
        t: Ints,
        lags: Sequence[int],
        control_lags: Sequence[int] = (),
        *,
        pad: bool = False,
    ) -> Floats:
        """Observations of steps t with their lags, and past inputs behind them, side by side.

        pad: before the first step of a trial stands that step.
        """
        first = self.bounds[np.searchsorted(self.bounds, t, side="right") - 1] if pad else None

        def back(lags: Sequence[int]) -> Ints:
            rows: Ints = t[:, None] - np.array(lags)
            return rows if first is None else np.maximum(rows, first[:, None])

        found: Floats = self.observations[back(lags)].reshape(len(t), -1)
        if not control_lags:
            return found
        if self.control is None:
            raise InputError("u: missing; latents are told from past inputs too: pass u, or "
                             "TimeSeries.of(X, u) as X")  # fmt: skip
        inputs = self.control[back(control_lags)].reshape(len(t), -1)
        return np.concatenate([found, inputs], axis=1)

    def trimmed(self, past: int) -> TimeSeries:
        """Without the first `past` steps of each trial, which have no full past."""
        if past == 0:
            return self
        self.refuse_short(past)
        return self._rows(self.with_past(past), (self.lengths - past).tolist())

    def refuse_short(self, past: int) -> None:
        """An error where a trial has no step with a full window."""
        if (self.lengths <= past).any():
            i = int(np.argmax(self.lengths <= past))
            raise InputError(
                f"X: trial {i} has {self.lengths[i]} samples (n_samples = {self.lengths[i]}); "
                f"time_lags that reach {past} steps back need at least {past + 1}"
            )

    def select(self, trials: Sequence[int]) -> TimeSeries:
        """These trials alone, with all that they carry."""
        chosen = np.asarray(trials, dtype=np.int64)
        if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= self.n_trials:
            raise InputError(f"trials: got {list(trials)}; wanted some of 0 to {self.n_trials - 1}")
        return self._spans(self.bounds[chosen], self.bounds[chosen + 1])

    def cut(self, lengths: Ints, *, last: bool = False) -> TimeSeries:
        """The first `lengths[i]` rows of each trial i; with `last` those after them."""
        at = self.bounds[:-1] + lengths
        return self._spans(at, self.bounds[1:]) if last else self._spans(self.bounds[:-1], at)

    def head(self, rows: int) -> TimeSeries:
        """The trials within the first `rows` rows, the last of them cut where the rows end.

        A piece shorter than the shortest trial is dropped, unless it is all there is.
        """
        kept = np.diff(np.minimum(self.bounds, rows))
        kept = kept[: max(1, int((kept >= self.lengths.min()).sum()))]
        return self._rows(slice(int(kept.sum())), kept.tolist())

    def pieces(self, length: int, rows: int) -> TimeSeries:
        """Pieces of trials, evenly spread, `rows` in all or a few more; all of it if it is short.

        Rests of trials that are shorter than a piece are left out, but not short trials.
        """
        if len(self) <= rows:
            return self
        starts = np.concatenate([np.arange(a, b, length) for a, b in self.spans()])
        trial_ends = self.bounds[np.searchsorted(self.bounds, starts, side="right")]
        ends = np.minimum(starts + length, trial_ends)
        whole = ends - starts >= min(length, int(self.lengths.min()))
        starts, ends = starts[whole], ends[whole]
        n = min(len(starts), max(1, int(rows / (ends - starts).mean())))
        chosen = np.unique(np.linspace(0, len(starts) - 1, n).round().astype(int))
        return self._spans(starts[chosen], ends[chosen])

    def _spans(self, starts: Ints, ends: Ints) -> TimeSeries:
        """A trial of each of these spans of rows; a view where one ends as the next begins."""
        if (starts[1:] == ends[:-1]).all():
            return self._rows(slice(int(starts[0]), int(ends[-1])), (ends - starts).tolist())
        lengths = ends - starts
        rows = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        return self._rows(rows, lengths.tolist())

    def _rows(self, rows: Ints | slice, lengths: list[int]) -> TimeSeries:
        return replace(
            self,
            observations=self.observations[rows],
            bounds=bounds_of(lengths),
            control=None if self.control is None else self.control[rows],
            truth=self.truth and self.truth.at(rows),
            labels={name: values[rows] for name, values in self.labels.items()},
            times=None if self.times is None else self.times[rows],
        )

    @property
    def interval(self) -> float | None:
        """Seconds from one step to the next; None without times, or where they vary."""
        return interval_of(self.times, self.bounds)

    def _driven_by(self, u: Any, gaps: bool) -> TimeSeries:
        control, units = to_control(u, self.lengths.tolist(), gaps=gaps)
        names = names_of(u)
        return replace(self, control=control, control_units=units, control_names=names)


def spread_lags(k: int, window: int) -> tuple[int, ...]:
    """k time lags from 0, equidistant in a window of this many steps (as whole steps allow)."""
    if k < 1 or window < k:
        raise InputError(f"k: got {k} lags in {window} steps; wanted at least 1, at most as many")
    return tuple(int(lag) for lag in np.linspace(0, window - 1, k).round())
