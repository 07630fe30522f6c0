"""Data frames, tensors and pynapple's objects: as arrays, and arrays in their kind.

pandas and polars come through narwhals. pynapple and PyTorch are known by what their objects have,
so that neither is imported here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError


class Taken(NamedTuple):
    """What was in frames: trials, and what is known of their columns and rows."""

    trials: list[Array]
    names: tuple[str, ...] | None
    times: Array | None


def taken(X: Any, name: str) -> Taken | None:
    """One frame, or a list of them, as arrays; None where X is nothing of the kind."""
    if isinstance(X, Mapping):
        X = list(X.values())
    if isinstance(X, list | tuple):
        parts = [taken(x, f"{name}[{i}]") for i, x in enumerate(X)] if is_framed(X[:1]) else []
        if not parts or any(part is None for part in parts):
            return None
        return _together([part for part in parts if part is not None], name)
    if _is_tensor(X):
        return Taken([untracked(X)], None, None)
    if _is_pynapple(X):
        return _of_pynapple(X, name)
    return _of_frame(X, name) if nw.dependencies.is_into_dataframe(X) else None


def is_framed(X: Any) -> bool:
    """Whether X is a frame, a tensor or an object of pynapple; of a list or dict, its first."""
    if isinstance(X, Mapping):
        X = list(X.values())
    if isinstance(X, list | tuple):
        return len(X) > 0 and is_framed(X[0])
    return _is_tensor(X) or _is_pynapple(X) or nw.dependencies.is_into_dataframe(X)


def names_of(X: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns; of several frames, those of the first."""
    if isinstance(X, Mapping):
        X = list(X.values())
    if isinstance(X, list | tuple):
        return names_of(X[0]) if len(X) else None
    if not nw.dependencies.is_into_dataframe(X):
        return None
    columns = [
        c for c, k in nw.from_native(X, eager_only=True).schema.items() if not k.is_temporal()
    ]
    return tuple(columns) if all(isinstance(column, str) for column in columns) else None


def untracked(x: Any) -> Any:
    """A tensor of PyTorch as an array, without its gradient; anything else as it is."""
    return x.detach().cpu().numpy() if _is_tensor(x) else x


def alike(x: Any, values: Array, rows: Array | None, columns: Sequence[str]) -> Any:
    """An array of results in the kind of x, with the index of these rows of it.

    rows: None where results are of no row of x. Vectors become series, under the one name in
    columns.
    """
    if _is_tensor(x):
        import torch  # there already, as x is one of its own

        return torch.from_numpy(np.ascontiguousarray(values)).to(x.device)
    if _is_pynapple(x):
        return values if rows is None else _as_pynapple(x, values, rows, columns)
    if nw.dependencies.is_into_dataframe(x):
        frame = as_frame(values, columns, nw.from_native(x, eager_only=True).implementation)
        index = nw.maybe_get_index(nw.from_native(x, eager_only=True))
        if index is not None and rows is not None:
            frame.index = index[rows]
        return frame
    return values


def as_frame(values: Array, columns: Sequence[str], backend: Any) -> Any:
    """A data frame of pandas or polars ("pandas", "polars"), or a series for a vector."""
    if values.ndim == 1:
        return nw.new_series(columns[0], values, backend=backend).to_native()
    return nw.from_numpy(np.ascontiguousarray(values), list(columns), backend=backend).to_native()


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "detach") and hasattr(x, "requires_grad")


def _is_pynapple(x: Any) -> bool:
    return hasattr(x, "time_support") and hasattr(x, "t") and hasattr(x, "d")


def _of_pynapple(x: Any, name: str) -> Taken:
    """Epochs are trials: no pair of steps crosses from one to the next."""
    values = np.asarray(x.d)
    if values.ndim > 2:
        raise InputError(f"{name}: got a TsdTensor of shape {values.shape}; wanted a TsdFrame")
    values = values[:, None] if values.ndim == 1 else values
    starts = np.searchsorted(x.t, np.asarray(x.time_support.start))
    cuts = np.unique(np.r_[0, starts, len(x.t)])
    columns = [str(column) for column in getattr(x, "columns", [])]
    return Taken(np.split(values, cuts[1:-1]), tuple(columns) or None, np.asarray(x.t))


def _as_pynapple(x: Any, values: Array, rows: Array, columns: Sequence[str]) -> Any:
    import pynapple  # there already, as x is one of its own

    times = np.asarray(x.t)[rows]
    if values.ndim == 1:
        return pynapple.Tsd(t=times, d=values, time_support=x.time_support)
    return pynapple.TsdFrame(t=times, d=values, columns=columns, time_support=x.time_support)


def _of_frame(x: Any, name: str) -> Taken:
    frame = nw.from_native(x, eager_only=True)
    index = nw.maybe_get_index(frame)
    times = None if index is None else _times(index)
    dates = [c for c, kind in frame.schema.items() if kind.is_temporal()]
    if times is None and len(dates) == 1:
        times = frame[dates[0]].to_numpy()
        frame = frame.drop(dates)
        warnings.warn(f"{name}: column {dates[0]!r} is taken for time, not for a feature",
                      stacklevel=5)  # fmt: skip
    for column, kind in frame.schema.items():
        if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object)):
            raise InputError(f"{name}: column {str(column)!r} holds {kind}; wanted numbers. What "
                             "is no number may go with X as labels")  # fmt: skip
    strings = all(isinstance(column, str) for column in frame.columns)
    return Taken([_numbers(frame)], tuple(frame.columns) if strings else None, times)


def _numbers(frame: Any) -> Array:
    """All of a frame, with NaN where something is missing."""
    kinds = set(frame.schema.values())
    if nw.Object not in kinds and kinds != {nw.Float32}:
        frame = frame.select(nw.all().cast(nw.Float64))
    numbers: Array = frame.to_numpy()
    return numbers


def _times(index: Any) -> Array | None:
    """The times that an index has: dates, spans, or floating point that rises."""
    values = np.asarray(index)
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "s")
    if values.dtype.kind == "M":
        return values
    rises = values.dtype.kind == "f" and len(values) > 1 and bool((np.diff(values) > 0).all())
    return values if rises else None


def _together(parts: list[Taken], name: str) -> Taken:
    for i, part in enumerate(parts):
        if part.names != parts[0].names:
            raise InputError(f"{name}[{i}]: its columns are not those of {name}[0], in their order")
    times = [part.times for part in parts if part.times is not None]
    whole = np.concatenate(times) if len(times) == len(parts) else None
    return Taken([trial for part in parts for trial in part.trials], parts[0].names, whole)
