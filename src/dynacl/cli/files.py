"""What commands read and write: data, a place for results that is safe to use, arrays, tables."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Collection
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from dynacl.data import Array, InputError, Ints, TimeSeries
from dynacl.writing import is_empty, remove_leftovers

if TYPE_CHECKING:
    from dynacl.estimator import DCL

ROWS = 1 << 16  # of results in work at a time
SHOWN = 10  # modes whose spectrum is printed, at most; JSON has all


# What `options.add_data` asks for, as `TimeSeries.read` takes it.
READ = ("key", "control_key", "label_key", "trial_key", "time_key", "transpose", "trial_length",
        "missing", "max_gap", "min_length")  # fmt: skip


def read(options: argparse.Namespace, path: str | None = None) -> TimeSeries:
    """The data that the user named, or another file in the same way."""
    series = TimeSeries.read(
        path or options.data, **{name: getattr(options, name) for name in READ}
    )
    return replace(series, control=None) if options.no_control else series


def data_or_those_of_the_fit(options: argparse.Namespace) -> tuple[str, TimeSeries | None]:
    """The name and the data that the user gave; else those of the fit, if they are still there."""
    if options.data is not None:
        return options.data, read(options)
    fitted = _options_of(command_of(Path(options.run)))
    if fitted is None or not Path(fitted.data).is_file():
        return "", None
    return fitted.data, read(fitted)


def options_of_the_fit(options: argparse.Namespace) -> str:
    """Which part of its data the fit of a run was told to use, if that was said otherwise now."""
    from dynacl.cli.options import add_data

    fitted = _options_of(command_of(Path(getattr(options, "run", ""))))
    parser = argparse.ArgumentParser(add_help=False)
    add_data(parser, optional=True)
    typed = [] if fitted is None else [
        f"{max(a.option_strings, key=len)}{'' if value is True else f' {quote(str(value))}'}"
        for a in parser._actions
        if a.option_strings and (value := getattr(fitted, a.dest)) != a.default
        and value != getattr(options, a.dest, None)
    ]  # fmt: skip
    return f"; the fit read its data with {' '.join(typed)}" if typed else ""


def command_of(folder: Path) -> list[str]:
    """The words of the command that made a run; none if that is not known."""
    try:
        words = json.loads((folder / "metrics.json").read_text()).get("command")
    except (OSError, ValueError, AttributeError):
        return []
    known = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return words if known else []


def _options_of(words: list[str]) -> argparse.Namespace | None:
    from dynacl.cli import parser

    if not words:
        return None
    try:
        with redirect_stderr(io.StringIO()):
            return parser(words).parse_args(words)
    except SystemExit:  # of another version
        return None


def new_folder(out: Path, force: bool, instead: str = "") -> None:
    """A folder for results; what cannot be written to fails now, not after hours of training.

    instead: what else can be done than to overwrite a run that is there.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: {out} is a file; wanted a folder")
    if out.exists() and not is_empty(out) and not force:
        from dynacl.persistence import CHECKPOINT, half_made

        if not half_made(out):
            other = instead if (out / CHECKPOINT).exists() else ""
            raise InputError(f"--out: {out} is there already; {other}--force overwrites it")
        print(f"{out}: holds a fit that was stopped before its first model was written; begun anew",
              file=sys.stderr)  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    _check_writable(out)
    remove_leftovers(out)


def new_file(out: str, force: bool, suffixes: Collection[str]) -> None:
    path = Path(out)
    if path.suffix not in suffixes:
        raise InputError(f"--out: cannot write {path.suffix or 'a file without suffix'}; wanted "
                         f"{' or '.join(suffixes)}")  # fmt: skip
    if path.is_dir():
        raise InputError(f"--out: {path} is a folder; wanted a file")
    if path.exists() and not force:
        raise InputError(f"--out: {path} is there already; --force overwrites it")
    path.parent.mkdir(parents=True, exist_ok=True)
    _check_writable(path.parent)
    remove_leftovers(path.parent, path.name)


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise InputError(f"--out: {folder} cannot be written to")


def rows_of(series: TimeSeries, past: int, make: Any = np.empty) -> dict[str, Array]:
    """Of each row of results, one per step with a full past: its trial, step and time."""
    series.refuse_short(past)
    found = {"bounds": np.concatenate([[0], np.cumsum(series.lengths - past)])}
    steps = series.windowed(past)
    for i in range(0, len(steps), ROWS):
        some = slice(i, i + ROWS)
        for name, part in _place_of(series, steps[some]).items():
            if i == 0:
                found[name] = make((len(steps),), part.dtype)
            found[name][some] = part
    return found


def _place_of(series: TimeSeries, t: Ints) -> dict[str, Array]:
    """Of these steps, counted through all trials: their trial, and the step and time in it."""
    trial = np.searchsorted(series.bounds, t, side="right") - 1
    times = {} if series.times is None else {"time": series.times[t]}
    return {"trial": trial, "step": t - series.bounds[trial]} | times


def print_table(found: dict[str, Any]) -> None:
    """Name and value; of what is None the reason, where `evaluate` gave one."""
    shown = {name: value for name, value in found.items() if name != "reasons"}
    width, reasons = max(map(len, shown)), found.get("reasons", {})
    for name, value in shown.items():
        text = f"{value:.4f}" if isinstance(value, float) else value
        why = f"– ({reasons[name]})" if name in reasons else "–"
        print(f"  {name:<{width}}  {why if value is None else text}")


def print_spectrum(model: DCL) -> None:
    """The eigenvalues of each mode, where there are few modes."""
    spectrum = model.spectrum_
    if spectrum is not None and len(spectrum) <= SHOWN:
        for line in str(spectrum).splitlines():
            print(f"  {line}")
