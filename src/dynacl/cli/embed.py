"""`dynacl embed`: the latents that a fitted model sees in data, and the modes of a bank."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dynacl.cli.files import new_file, read, rows_of
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data.formats import BY_SUFFIX, writable, write_table
from dynacl.parameters import DECODERS
from dynacl.writing import room_on_disk

if TYPE_CHECKING:
    from dynacl.data import Array, TimeSeries
    from dynacl.estimator import DCL
    from dynacl.inference import Make

EXAMPLE = "dynacl embed runs/slds new.npz --out z.npz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser)
    parser.add_argument("--pad", action="store_true", help="keep the steps without a full window "
                        "of time lags")  # fmt: skip
    parser.add_argument("--decode", choices=DECODERS, default="sequence", help="modes from whole "
                        "trials (default), or from each step alone, as in the paper")  # fmt: skip
    parser.add_argument(
        "--out", required=True, metavar="FILE", help=".npz, .npy, .csv, .tsv or .parquet"
    )
    add_shared(parser, "--force", "--device")


def run(options: argparse.Namespace) -> None:
    from dynacl.estimator import DCL

    model, series = DCL.load(options.run, device=options.device), read(options)
    new_file(options.out, options.force, writable())
    out = Path(options.out)
    found = embedded(model, series, options.pad, options.decode, BY_SUFFIX[out.suffix].alone,
                     partial(room_on_disk, out.parent))  # fmt: skip
    write_table(out, found, "latents")
    print(f"{options.out}: latents {found['latents'].shape}")


def embedded(
    model: DCL, series: TimeSeries, pad: bool, decode: str, alone: bool, make: Make
) -> dict[str, Array]:
    """Latents, and beside them the trial, step, time and mode of each, where `make` has room.

    alone: latents and nothing beside them.
    """
    from dynacl import inference

    run, past = model.run_, 0 if pad else model.settings_.past
    with_modes = bool(run.dynamics.n_modes) and not alone
    seen = model._driven(series) if with_modes else model._seen(series)
    seen.refuse_short(past)
    x = inference.latents(run, seen, pad=pad, make=make)
    if alone:
        return {"latents": x}
    found = {"latents": x} | rows_of(seen, past, make)
    if with_modes:
        now = inference.references(run, seen, x, pad=pad, make=make)
        at, offset = inference.placed(seen, x, past), model.settings_.time_offset
        found["mode"] = inference.modes(run.dynamics, at, now, x, offset, decode, make)
    return found
