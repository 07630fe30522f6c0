"""`dynacl plot`: every picture that applies to a run, and to data."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynacl.cli.files import data_or_those_of_the_fit, new_folder
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data import Array, InputError, TimeSeries
from dynacl.writing import claimed, save_figure

if TYPE_CHECKING:
    from dynacl.estimator import DCL

EXAMPLE = """\
dynacl plot runs/slds slds.npz
dynacl plot runs/slds slds.npz --beside runs/seed1 runs/seed2 --format pdf --out figures"""
FORMATS = ("png", "pdf", "svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser, optional=True)
    parser.add_argument("--beside", nargs="+", metavar="RUN", default=[], help="other runs on the "
                        "same kind of data, to compare their embeddings of DATA with")  # fmt: skip
    parser.add_argument("--format", choices=FORMATS, default="png", help="(default: png)")
    parser.add_argument("--out", metavar="FOLDER", help="(default: RUN/plots)")
    add_shared(parser, "--force", "--device")


def run(options: argparse.Namespace) -> None:
    from dynacl import plots
    from dynacl.estimator import DCL

    model = DCL.load(options.run, device=options.device)
    _, series = data_or_those_of_the_fit(options)
    if options.beside and series is None:
        raise InputError("--beside: wanted DATA, on which the runs are compared")
    out = Path(options.out or Path(options.run) / "plots")
    pictures = dict(plots.gallery(model, series))
    if series is not None and options.beside:
        runs = [model, *(DCL.load(path, device=options.device) for path in options.beside)]
        names = [Path(path).name for path in (options.run, *options.beside)]
        pictures["consistency"] = plots.consistency(_alike(runs, series), names)
    new_folder(out, options.force)
    with claimed(out):
        for name, drawn in pictures.items():
            save_figure(drawn.figure, out / f"{_safe(name)}.{options.format}", dpi=300)
    if series is None:
        print(f"{options.run}: its data cannot be found; drawn without data", file=sys.stderr)
    print(f"{out}: {len(pictures)} pictures: {', '.join(map(_safe, pictures))}")


def _alike(runs: Sequence[DCL], series: TimeSeries) -> Array:
    """R² between the embeddings of all runs, over the steps that all of them have."""
    from dynacl.metrics import consistency

    found = [run.transform(series) for run in runs]
    shared = [min(map(len, trials)) for trials in zip(*found, strict=True)]
    rows = [[x[len(x) - n :] for x, n in zip(trials, shared, strict=True)] for trials in found]
    return consistency([np.concatenate(trials) for trials in rows])


def _safe(name: str) -> str:
    """A name of a picture, which may hold that of a label, as that of a file."""
    return re.sub(r"[^\w.-]+", "_", name)[:80]
