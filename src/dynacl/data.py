"""TimeSeries: observations in trials, with control input and known truth where there is one.

Input is checked here, once, at the door. Everything behind it trusts its arrays. The truth rides
along for evaluation; training never looks at it.
"""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

_BLOCK = 1 << 24  # entries looked at in one go when scanning for NaN: bounds memory on memory maps


class InputError(ValueError):
    """What the user gave cannot be used; the message names it, what came and what is wanted."""


class InputTypeError(InputError, TypeError):
    """The same, where what came is of a kind that cannot be numbers."""


@dataclass(frozen=True)
class Truth:
    """What a simulator knows and an experimenter does not.

    latents: (T_total, d). modes: (T_total,), the mode that moves step t to t+1, -1 at a trial's
    end. system: everything needed to draw again from the same system, as a flat dict of arrays.
    """

    latents: Floats
    modes: Ints | None = None
    system: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class TimeSeries:
    """Observations (T_total, D) as float32; trial i is rows bounds[i]:bounds[i + 1]."""

    observations: Floats
    bounds: Ints
    control: Floats | None = None
    truth: Truth | None = None

    @classmethod
    def of(
        cls, X: Any, u: Any = None, *, trial_length: int | None = None, name: str = "X"
    ) -> TimeSeries:
        """From a TimeSeries, a path, one (T, D) array, a list of arrays, or a dict of arrays.

        A dict with the key "observations" is read like one of our files (control, bounds,
        latents, modes beside it); any other dict holds one array a trial, and u may be a dict of
        the same names.
        """
        u = in_order(u, X)
        if isinstance(X, TimeSeries):
            if trial_length is not None:
                return cls.of(replace(X, bounds=_bounds(X.lengths.tolist(), trial_length)), u)
            return X if u is None else replace(X, control=_control(u, X))
        if isinstance(X, str | os.PathLike):
            return cls.of(cls.read(X, trial_length=trial_length), u)
        if hasattr(X, "tocsr"):  # before Mapping: one of SciPy's formats is a dict
            raise InputTypeError(f"{name}: got a sparse array; wanted a dense one")
        if isinstance(X, Mapping):
            if "observations" in X:
                return cls.of(_from_fields(X, trial_length), u)
            X = list(X.values())
        trials = _trials(X, name)
        observations = trials[0] if len(trials) == 1 else np.concatenate(trials)
        series = cls(observations, _bounds([len(x) for x in trials], trial_length))
        return series if u is None else cls.of(series, u)

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        key: str | None = None,
        control_key: str | None = None,
        trial_length: int | None = None,
    ) -> TimeSeries:
        """From .npy (memory-mapped), .npz (ours or a stranger's) or .csv; pickle is never loaded.

        key picks the array of an .npz, or the columns (comma-separated) of a .csv.
        """
        path = Path(path)
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if path.suffix not in _READERS:
            raise InputError(f"{path}: cannot read {path.suffix or 'a file without suffix'}; "
                             f"wanted one of {', '.join(_READERS)}")  # fmt: skip
        try:
            fields = _READERS[path.suffix](path, key, control_key)
        except InputError:
            raise
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            reason = str(error).split("\n")[0]
            # numpy takes bytes that it does not know for a pickle.
            if any(sign in reason for sign in ("pickle", "Object arrays", "Python objects")):
                reason = "damaged, or holds Python objects, which are never loaded"
            raise InputError(f"{path}: cannot be read: {reason}") from error
        return _from_fields(fields, trial_length, name=str(path))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Our own .npz: trials, control and truth; `read` gives the same series back."""
        fields: dict[str, Array] = {"observations": self.observations, "bounds": self.bounds}
        if self.control is not None:
            fields["control"] = self.control
        if self.truth is not None:
            fields["latents"] = self.truth.latents
            if self.truth.modes is not None:
                fields["modes"] = self.truth.modes
            fields |= {f"system.{k}": np.asarray(v) for k, v in self.truth.system.items()}
        write_npz(path, fields)

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

    def fingerprint(self) -> int:
        """Of the trials' bounds and a thousand rows or so: other data have another one."""
        found = zlib.crc32(self.bounds.tobytes())
        for part in (self.observations, self.control):
            if part is not None:
                some = np.ascontiguousarray(part[:: max(1, len(part) // 1000)])
                found = zlib.crc32(some.tobytes(), found)
        return found

    def split(self, values: Array) -> list[Array]:
        """Cut an array of one row a step into its trials."""
        return [values[a:b] for a, b in self.spans()]

    def spans(self) -> Iterator[tuple[int, int]]:
        return zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True)

    def steps(self, offset: int = 1, past: int = 0, *, allow_short: bool = False) -> Ints:
        """All t with t − past, t and t + offset in the same trial: the valid references, in order.

        A trial without any is an error unless allow_short.
        """
        if offset < 1:
            raise InputError(f"time_offset: got {offset}; wanted at least 1")
        short = np.flatnonzero(self.lengths <= offset + past)
        if len(short) and not allow_short:
            i = int(short[0])
            behind = f" and {past} steps back (time_lags, recurrent dynamics)" if past else ""
            raise InputError(
                f"X: trial {i} has {self.lengths[i]} sample{'s' if self.lengths[i] != 1 else ''}; "
                f"time_offset={offset}{behind} needs at least {offset + past + 1} (n_samples = "
                f"{self.lengths[i]}); drop the {len(short)} trial(s) that are too short"
            )
        t = self.with_past(past)
        end = np.repeat(self.bounds[1:], self.lengths)
        return t[end[t] - t > offset]

    def with_past(self, past: int) -> Ints:
        """All t with t − past in the same trial, in order."""
        t = np.arange(len(self))
        return np.flatnonzero(t - np.repeat(self.bounds[:-1], self.lengths) >= past)

    def trimmed(self, past: int) -> TimeSeries:
        """Without the first `past` steps of each trial: those that have no full past."""
        if past == 0:
            return self
        if (self.lengths <= past).any():
            i = int(np.argmax(self.lengths <= past))
            raise InputError(
                f"X: trial {i} has {self.lengths[i]} samples (n_samples = {self.lengths[i]}); "
                f"time_lags that reach {past} steps back need at least {past + 1}"
            )
        return self._rows(self.with_past(past), (self.lengths - past).tolist())

    def padded(self, past: int) -> TimeSeries:
        """With `past` more steps before each trial, at which nothing moves: its first one again."""
        rows = np.concatenate([np.r_[np.full(past, a), np.arange(a, b)] for a, b in self.spans()])
        return self._rows(rows, (self.lengths + past).tolist())

    def select(self, trials: Sequence[int]) -> TimeSeries:
        """The series of these trials alone, truth and control included."""
        if len(trials) == 0 or not all(0 <= i < self.n_trials for i in trials):
            raise InputError(f"trials: got {list(trials)}; wanted some of 0 to {self.n_trials - 1}")
        rows = np.concatenate([np.arange(self.bounds[i], self.bounds[i + 1]) for i in trials])
        return self._rows(rows, [int(self.lengths[i]) for i in trials])

    def head(self, rows: int) -> TimeSeries:
        """The first so many rows. A trial that is cut shorter than all trials are is left out."""
        kept = np.diff(np.minimum(self.bounds, rows))
        kept = kept[: max(1, int((kept >= self.lengths.min()).sum()))]
        return self._rows(slice(int(kept.sum())), kept.tolist())

    def _rows(self, rows: Ints | slice, lengths: list[int]) -> TimeSeries:
        truth = self.truth and Truth(
            self.truth.latents[rows],
            None if self.truth.modes is None else self.truth.modes[rows],
            self.truth.system,
        )
        control = None if self.control is None else self.control[rows]
        return TimeSeries(self.observations[rows], _bounds(lengths, None), control, truth)


def in_order(u: Any, X: Any) -> Any:
    """The control of trials that have names, as a list in the order that they have in X."""
    if not isinstance(u, Mapping):
        return u
    if not isinstance(X, Mapping) or set(u) != set(X):
        raise InputError("u: got a dict; wanted arrays, or a dict of trials named as those of X")
    return [u[name] for name in X]


def spread_lags(k: int, window: int) -> tuple[int, ...]:
    """k time lags from 0, equidistant in a window of this many steps (as whole steps allow)."""
    if k < 1 or window < k:
        raise InputError(f"k: got {k} lags in {window} steps; wanted at least 1, at most as many")
    return tuple(int(lag) for lag in np.linspace(0, window - 1, k).round())


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write beside the place and rename into it: a crash leaves what was there."""
    beside = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:  # a file object, so that numpy does not append a suffix
            np.savez(file, **arrays)  # type: ignore[arg-type]
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _trials(X: Any, name: str) -> list[Floats]:
    """A (T, D) array or a sequence of them, checked, as a list of float32 arrays."""
    many = isinstance(X, list | tuple) and any(_is_table(x) for x in X[:2])
    trials = [_floats(x, f"{name}[{i}]") for i, x in enumerate(X)] if many else [_floats(X, name)]
    for i, trial in enumerate(trials):
        if trial.shape[1] != trials[0].shape[1]:
            raise InputError(
                f"{name}[{i}]: has {trial.shape[1]} features, {name}[0] has "
                f"{trials[0].shape[1]}; wanted the same number in every trial"
            )
    return trials


def _is_table(x: Any) -> bool:
    try:
        return np.ndim(x) >= 2
    except ValueError:  # rows of unequal length: a table, if a bad one
        return True


def _floats(x: Any, name: str) -> Floats:
    """One finite (T, D) float32 array; no copy if it is one already."""
    if np.ma.is_masked(x):
        raise InputError(f"{name}: has masked values; wanted finite numbers")
    try:
        x = np.asarray(x)
    except ValueError as error:
        raise InputError(f"{name}: rows of unequal length; wanted a (time, features) array") from (
            error
        )
    if np.iscomplexobj(x):
        raise InputError(f"{name}: got {x.dtype}; wanted real numbers. Complex data not supported")
    if x.dtype == object:
        try:
            x = x.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise InputTypeError(
                f"{name}: got an object array; wanted real numbers: argument must be a string or "
                "a real number"
            ) from error
    if x.dtype.kind not in "fiub":
        raise InputError(f"{name}: got dtype {x.dtype}; wanted real numbers")
    if x.ndim != 2:
        hint = (
            "Reshape your data: X.reshape(-1, 1) for one feature"
            if x.ndim == 1
            else "pass trials as a list of (time, features) arrays"
        )
        raise InputError(f"{name}: got shape {x.shape}; wanted (time, features). {hint}")
    if x.shape[0] == 0:
        raise InputError(f"{name}: got 0 sample(s) (shape={x.shape}) while a minimum of 1 is "
                         "required")  # fmt: skip
    if x.shape[1] == 0:
        raise InputError(f"{name}: got 0 feature(s) (shape={x.shape}) while a minimum of 1 is "
                         "required.")  # fmt: skip
    with np.errstate(over="ignore"):  # found below, and said better
        values: Floats = np.asarray(x, dtype=np.float32)
    rows = max(1, _BLOCK // values.shape[1])
    for start in range(0, len(values), rows):
        good = np.isfinite(values[start : start + rows])
        if not good.all():
            t, i = np.argwhere(~good)[0]
            raise InputError(
                f"{name}: holds NaN or infinity (first at step {start + t}, feature {i}: "
                f"{x[start + t, i]}); wanted finite numbers that fit float32"
            )
    return values


def _bounds(lengths: Sequence[int], trial_length: int | None) -> Ints:
    if trial_length is not None:
        if not isinstance(trial_length, int | np.integer) or trial_length < 1:
            raise InputError(
                f"trial_length: got {trial_length!r}; wanted a whole number of at least 1"
            )
        if len(lengths) != 1:
            raise InputError(
                f"trial_length: got {trial_length}, but X already has {len(lengths)} trials"
            )
        if lengths[0] % trial_length:
            raise InputError(
                f"trial_length: {trial_length} does not divide the {lengths[0]} samples of X"
            )
        lengths = [trial_length] * (lengths[0] // trial_length)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _control(u: Any, series: TimeSeries) -> Floats:
    """Control input, one row a step, cut into the same trials as the observations."""
    trials = _trials(u, "u")
    if len(trials) > 1 and [len(x) for x in trials] != series.lengths.tolist():
        raise InputError("u: its trials differ in number or length from those of X")
    control = trials[0] if len(trials) == 1 else np.concatenate(trials)
    if len(control) != len(series):
        raise InputError(f"u: has {len(control)} samples, X has {len(series)}")
    return control


def _from_fields(
    fields: Mapping[str, Any], trial_length: int | None, name: str = "X"
) -> TimeSeries:
    """Named arrays, as in one of our files, to a checked series."""
    observations = _floats(fields["observations"], f"{name}: observations")
    T = len(observations)
    bounds = _bounds([T], trial_length)
    if "bounds" in fields:
        if trial_length is not None:
            raise InputError(f"trial_length: got {trial_length}, but {name} has trials already")
        bounds = np.asarray(fields["bounds"])
        whole = bounds.ndim == 1 and len(bounds) > 1 and bounds.dtype.kind in "iu"
        bounds = bounds.astype(np.int64) if whole else bounds  # unsigned differences wrap around
        if not whole or bounds[0] != 0 or bounds[-1] != T or (np.diff(bounds) <= 0).any():
            raise InputError(f"{name}: bounds must rise from 0 to {T} (the number of samples)")
    series = TimeSeries(observations, bounds)
    control = None if fields.get("control") is None else _control(fields["control"], series)
    truth = None
    if fields.get("latents") is not None:
        latents = _floats(fields["latents"], f"{name}: latents")
        modes = None if fields.get("modes") is None else np.asarray(fields["modes"])
        if modes is not None:
            if modes.ndim != 1 or modes.dtype.kind not in "iu":
                raise InputError(f"{name}: modes must be a vector of whole numbers, got "
                                 f"{modes.dtype} of shape {modes.shape}")  # fmt: skip
            modes = modes.astype(np.int64)
        for what, rows in (("latents", latents), ("modes", modes)):
            if rows is not None and len(rows) != T:
                raise InputError(f"{name}: {what} has {len(rows)} rows, observations {T}")
        system = {k[7:]: np.asarray(v) for k, v in fields.items() if k.startswith("system.")}
        truth = Truth(latents, modes, system)
    return TimeSeries(observations, bounds, control, truth)


def _read_npy(path: Path, key: str | None, control_key: str | None) -> dict[str, Any]:
    if key or control_key:
        raise InputError(f"{path}: an .npy file holds one array; key={key or control_key!r} has "
                         "no meaning here")  # fmt: skip
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: is an .npz archive; rename it")
    return {"observations": array}


def _read_npz(path: Path, key: str | None, control_key: str | None) -> dict[str, Any]:
    archive = np.load(path, allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise InputError(f"{path}: is an .npy file, not an .npz archive; rename it")
    with archive as file:
        names = list(file.files)
        for wanted in (key, control_key):
            if wanted is not None and wanted not in names:
                raise InputError(f"{path}: has no array {wanted!r}; it has {', '.join(names)}")
        if "observations" in names and key in (None, "observations"):
            fields = {name: file[name] for name in names}
        else:
            if key is None and len(names) != 1:
                raise InputError(f"{path}: holds several arrays ({', '.join(names)}); "
                                 "choose one with key")  # fmt: skip
            fields = {"observations": file[key or names[0]]}
        if control_key:
            fields["control"] = file[control_key]
        return fields


def _read_csv(path: Path, key: str | None, control_key: str | None) -> dict[str, Any]:
    with open(path, encoding="utf-8-sig") as file:
        first = file.readline().lstrip("# ").strip()  # numpy's savetxt writes its header as "# …"
    if not first:
        raise InputError(f"{path}: is empty")
    delimiter = next((c for c in ",;\t" if c in first), None)
    names = [cell.strip().strip('"') for cell in first.split(delimiter)]
    header = not all(_is_number(name) for name in names)

    def columns(wanted: str) -> list[int]:
        chosen = [c.strip() for c in wanted.split(",")]
        missing = [c for c in chosen if not header or c not in names]
        if missing:
            has = ", ".join(names) if header else "no header"
            raise InputError(f"{path}: has no column {missing[0]!r}; it has {has}")
        return [names.index(c) for c in chosen]

    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # of no rows: said below
        table = np.loadtxt(path, delimiter=delimiter, skiprows=int(header), dtype=np.float32,
                           ndmin=2, encoding="utf-8-sig")  # fmt: skip
    if table.size == 0:
        raise InputError(f"{path}: has no rows")
    if table.shape[1] != len(names):
        raise InputError(
            f"{path}: its first line has {len(names)} columns, the rows {table.shape[1]}"
        )
    control = columns(control_key) if control_key else []
    chosen = columns(key) if key else [i for i in range(len(names)) if i not in control]
    fields = {"observations": table if len(chosen) == len(names) else table[:, chosen]}
    if control:
        fields["control"] = table[:, control]
    return fields


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_READERS = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv}
