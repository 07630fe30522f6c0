"""`dynacl forecast`: where the dynamics of a fitted model go from the end of each trial."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynacl.cli.files import new_file, read
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data import Array, TimeSeries
from dynacl.data.formats import in_parts, writable, write_table
from dynacl.parameters import FORECASTS
from dynacl.writing import room_on_disk

if TYPE_CHECKING:
    from dynacl.inference import Make

EXAMPLE = """\
dynacl forecast runs/slds new.npz --steps 50 --out future.csv
dynacl forecast runs/tank tank.csv --steps 50 --observations --interval 0.9 --out future.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser)
    parser.add_argument("--steps", type=int, required=True, help="number of steps ahead")
    parser.add_argument("--observations", action="store_true", help="forecast observations, in "
                        "their own units and columns, instead of latents")  # fmt: skip
    parser.add_argument("--interval", type=float, metavar="SHARE", help="with --observations: an "
                        "interval around each value that holds this share, such as 0.9, from the "
                        "errors on data that fit held out")  # fmt: skip
    parser.add_argument("--modes", choices=FORECASTS, help="hold the last mode (default), or let "
                        "modes change as a Markov chain; gated models read them off the "
                        "state")  # fmt: skip
    parser.add_argument("--control", metavar="FILE", help="the control input to come: one row per "
                        "forecast step, for all trials alike or one trial after the other. The "
                        "first row acts on the last observed step. One row more is the input at "
                        "the last forecast step, for observations that see it")  # fmt: skip
    parser.add_argument(
        "--out", metavar="FILE", help=".npz, .npy, .csv, .tsv or .parquet (default: CSV to stdout)"
    )
    add_shared(parser, "--force", "--device")


def run(options: argparse.Namespace) -> None:
    from dynacl.estimator import DCL
    from dynacl.forecasting import when

    model, series = DCL.load(options.run, device=options.device), read(options)
    make: Make = np.empty
    if options.out is not None:
        new_file(options.out, options.force, writable())
        make = partial(room_on_disk, Path(options.out).parent)
    u = None if options.control is None else _read_control(options.control, model.control_names_in_)
    _, parts = model._forecast(
        series, options.steps, u, options.modes, options.observations, options.interval, make
    )
    if model.spectral_radius_ is not None:
        radius = ", ".join(f"{r:.5f}" for r in model.spectral_radius_)
        print(f"spectral radius: {radius}", file=sys.stderr)
    main = "observations" if options.observations else "latents"
    arrays = when(series, options.steps, model.settings_.time_offset, make)
    arrays |= {name: values.reshape(-1, values.shape[-1]) for name, values in parts.items()}
    if options.observations:
        arrays["names"] = np.array(series.names or [f"y{i + 1}" for i in range(series.n_features)])
    if options.out is None:
        for text in in_parts(arrays, main):
            print(text, end="")
        return
    arrays["bounds"] = np.arange(0, len(arrays[main]) + 1, options.steps)
    write_table(Path(options.out), arrays, main)
    print(f"{options.out}: {series.n_trials} trials, {options.steps} steps ahead")


def _read_control(path: str, known: Sequence[str] | None) -> list[Array]:
    """A file's control input, in its trials; a file without one is the input itself."""
    from dynacl.shapes import check_control_names

    series = TimeSeries.read(path)
    control, names = series.given_control(), series.control_names
    if control is None:
        control, names = series.given(), series.names
    check_control_names(known, names)
    return series.split(control)
