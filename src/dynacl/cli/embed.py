"""`dynacl embed`: the latents that a fitted model sees in data, and the modes of a bank."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynacl.cli.files import new_file, place_of, read, rows_of
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data.formats import BY_SUFFIX, writable, write_parts, write_table
from dynacl.parameters import DECODERS

if TYPE_CHECKING:
    from dynacl.data import Array, Steps, TimeSeries
    from dynacl.estimator import DCL

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
    format = BY_SUFFIX[out.suffix]
    whole = options.pad or (format.table and model.run_.dynamics.n_modes)  # beside their modes
    if format.streams and not whole:
        print(f"{out}: latents {stream(model, series, out)}")
        return
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
    write_table(out, {"latents": latents, **parts}, "latents")
    print(f"{options.out}: latents {latents.shape}")


def stream(model: DCL, series: TimeSeries, out: Path) -> tuple[int, int]:
    """Latents from the encoder to the file, some rows at a time; gives their shape."""
    seen, past = model._seen(series), model.settings_.past
    seen.refuse_short(past)
    steps = seen.windowed(past)
    write_parts(out, _parts(model, seen, steps), "latents", len(steps))
    return len(steps), model.n_components


def _parts(model: DCL, seen: TimeSeries, steps: Steps) -> Iterator[dict[str, Array]]:
    from dynacl.inference import latents_in_parts

    done = 0
    for part in latents_in_parts(model.run_, seen):
        t = steps[done : done + len(part)]
        yield {"latents": part} | place_of(seen, t)
        done += len(part)
