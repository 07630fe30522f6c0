"""`dynacl embed`: the latents that a fitted model sees in data, and the modes of a bank."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dynacl.cli.files import new_file, read, rows_of
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data.formats import writable, write_table
from dynacl.parameters import DECODERS

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
    trials = model.transform(series, pad=options.pad)
    latents = np.concatenate(trials)
    parts = rows_of(series, 0 if options.pad else model.settings_.past)
    if model.run_.dynamics.n_modes:
        parts["mode"] = np.full(len(latents), -1, dtype=np.int64)
        if options.pad:
            series = series.padded(model.settings_.past)
        modes = model.modes(series, decode=options.decode)
        for start, found in zip(parts["bounds"], modes, strict=False):
            parts["mode"][start : start + len(found)] = found
    write_table(Path(options.out), {"latents": latents, **parts}, "latents")
    print(f"{options.out}: latents {latents.shape}")
