"""`dynacl segment`: when each trial is in which mode, when it switches, and how certain that is."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dynacl.cli.files import new_file, read
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data.formats import as_csv

EXAMPLE = """\
dynacl segment runs/slds new.npz --min-duration 5 --out segments.csv
dynacl segment runs/slds new.npz --stickiness 100 --json"""
SUFFIXES = (".csv", ".json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser)
    parser.add_argument("--min-duration", type=int, default=1, metavar="STEPS", help="the fewest "
                        "steps that a segment may last (default: 1)")  # fmt: skip
    parser.add_argument("--stickiness", type=float, default=1.0, metavar="FACTOR", help="divide "
                        "the estimated odds of leaving a mode by this; a larger factor gives fewer "
                        "and longer segments (default: 1)")  # fmt: skip
    parser.add_argument("--out", metavar="FILE", help=".csv: a table with one row per segment; "
                        ".json: durations and transitions too (default: CSV to "
                        "stdout)")  # fmt: skip
    add_shared(parser, "--force", "--json", "--device")


def run(options: argparse.Namespace) -> None:
    from dynacl.estimator import DCL
    from dynacl.persistence import to_json
    from dynacl.writing import write

    model, series = DCL.load(options.run, device=options.device), read(options)
    if options.out is not None:
        new_file(options.out, options.force, SUFFIXES)
    found = model.segment(series, min_duration=options.min_duration, stickiness=options.stickiness)
    rows = {name: values.astype(np.float32) if name.endswith("certainty") else values
            for name, values in found.segments.items()}  # fmt: skip
    out = None if options.out is None else Path(options.out)
    if out is not None:
        as_json = out.suffix == ".json"
        text = to_json(found.as_dict(), indent=1) + "\n" if as_json else as_csv(rows)
        write(out, text.encode())
    if options.json:
        print(to_json(found.as_dict()))
    elif out is None:
        print(as_csv(rows), end="")
    else:
        print(f"{out}: {len(found.segments['mode'])} segments of {series.n_trials} trials")
        print(found)
