"""The embedding as a page holds it: points, what colours them, and trials, in few bytes."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from dynacl.data import Array, is_categorical, is_missing
from dynacl.metrics import matched_modes
from dynacl.plots.embedding import principal_axes
from dynacl.plots.style import CATEGORIES, QUANTITY, colours
from dynacl.portrait import Portrait

MOST = 20_000  # points of a page
FEWEST, TRIALS = 8, 60  # rows of its timeline
COMPONENTS = 8  # principal components among which three are shown
SHADES = 64
FULL = 32_000  # the largest coordinate, as a whole number of two bytes
SMOOTH = 0.15  # of the spread: latents that move less in a step are drawn as lines


def points(seen: Portrait) -> dict[str, Any]:
    """What the interactive picture needs, as JSON holds it."""
    rows, trials, stride = chosen([len(x) for x in seen.latents])
    x = np.concatenate(seen.latents).astype(float)
    at = np.concatenate(rows)
    flat, names = _components(x)
    scale = max(float(np.abs(flat[at]).max()), 1e-30)
    cut = seen.cut
    step = np.concatenate([np.arange(n) for n in cut.lengths]) + seen.model.settings_.past
    move = np.linalg.norm(np.diff(seen.latents[trials[0]][:1000], axis=0), axis=1)
    seconds = seen.seconds
    return {
        "n": len(at),
        "stride": stride,
        "seconds": seconds,
        "smooth": bool(len(move) and np.median(move) < SMOOTH * x.std(0).max()),
        "flat": flat.shape[1] < 3,
        "names": names,
        "components": [_packed(FULL * column / scale, np.int16) for column in flat[at].T],
        "step": _packed(step[at], np.int32),
        "trials": [
            {"name": str(i), "count": len(r)} for i, r in zip(trials, rows, strict=True)
        ],
        "colours": _colours(seen, at, step),
        "ramp": [to_hex(c) for c in colormaps[QUANTITY](np.linspace(0, 1, SHADES))],
        "palette": list(CATEGORIES),
    }  # fmt: skip


def chosen(lengths: list[int]) -> tuple[list[Array], list[int], int]:
    """Rows of the points of each trial that is shown, those trials, and the stride in them."""
    # Rather fewer trials than steps left out in each, down to FEWEST of them.
    room = max(FEWEST, int(MOST / np.mean(lengths)))
    n = min(TRIALS, len(lengths), room)
    trials = np.unique(np.linspace(0, len(lengths) - 1, n).astype(int))
    starts = np.r_[0, np.cumsum(lengths)]
    stride = max(1, -(-sum(lengths[i] for i in trials) // MOST))
    rows = [np.arange(starts[i], starts[i + 1], stride) for i in trials]
    return rows, trials.tolist(), stride


def _components(x: Array) -> tuple[Array, list[str]]:
    """Coordinates of all rows, and their names."""
    centre, axes, share = principal_axes(x)
    n = min(COMPONENTS, x.shape[1])
    return (x - centre) @ axes[:, :n], [f"PC {i + 1} ({share[i]:.0%})" for i in range(n)]


def _colours(seen: Portrait, at: Array, step: Array) -> list[dict[str, Any]]:
    cut, found = seen.cut, []
    time = step[at].astype(float) * (seen.seconds or 1)
    found.append(_quantity("time", time, "s" if seen.seconds else "steps"))
    trial = np.repeat(np.arange(cut.n_trials), cut.lengths)
    if cut.n_trials > 1:
        found.append(_quantity("trial", trial[at], ""))
    if seen.modes is not None:
        modes = _whole(seen, seen.modes)
        K = seen.model.run_.dynamics.n_modes
        found.insert(0, _category("mode", modes[at], [f"mode {k}" for k in range(K)]))
        if cut.truth is not None and cut.truth.modes is not None:
            true = matched_modes(modes, cut.truth.modes)
            n = max(K, int(true.max()) + 1)
            found.insert(1, _category("true mode", true[at], [f"mode {k}" for k in range(n)]))
    for name, values in cut.labels.items():
        if is_categorical(values):
            kinds, index = np.unique(values, return_inverse=True)
            index = np.where(is_missing(values), -1, index)
            found.append(_category(name, index[at], [str(k) for k in kinds]))
        else:
            found.append(_quantity(name, values[at].astype(float), ""))
    return found


def _whole(seen: Portrait, modes: list[Array]) -> Array:
    """One mode per row, −1 at the end of a trial, where it is not known."""
    ends = [np.full(n - len(m), -1) for n, m in zip(seen.cut.lengths, modes, strict=True)]
    return np.concatenate([part for pair in zip(modes, ends, strict=True) for part in pair])


def _quantity(name: str, values: Array, unit: str) -> dict[str, Any]:
    known = np.isfinite(values)
    low, high = (float(f(values[known])) for f in (np.min, np.max)) if known.any() else (0.0, 1.0)
    shade = np.where(known, (values - low) / max(high - low, 1e-30) * (SHADES - 1), -1)
    return {
        "name": name,
        "unit": unit,
        "low": low,
        "high": high,
        "index": _packed(np.nan_to_num(shade, nan=-1), np.int16),
        "values": _packed(np.nan_to_num(values), np.float32),
    }


def _category(name: str, index: Array, kinds: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "kinds": kinds,
        "swatches": colours(len(kinds)),
        "index": _packed(index, np.int16),
    }


def _packed(values: Array, kind: Any) -> str:
    """Little-endian numbers in base64."""
    whole = np.dtype(kind).kind == "i"
    numbers = np.round(values) if whole and values.dtype.kind == "f" else values
    packed = np.ascontiguousarray(numbers.astype(np.dtype(kind).newbyteorder("<")))
    return base64.b64encode(packed.tobytes()).decode("ascii")
