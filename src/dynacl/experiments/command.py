"""The words of `dynacl reproduce`; what they do is in `reproduce`, imported when it is called."""

from __future__ import annotations

import argparse
import os

from dynacl.experiments.plan import SCALES, TRAINING

HELP = "reproduce a table or figure of the paper"
EXAMPLE = (
    "dynacl reproduce table1 --scale quick --jobs 2 --out results\n"
    "  dynacl reproduce table1 --scale paper --only 'lds/*' --datasets 0 --seeds 0 1 2\n"
    "  dynacl reproduce --list\n"
    "  dynacl reproduce --status results"
)


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("experiment", nargs="?", metavar="NAME", help="see --list")
    p.add_argument("--list", action="store_true", help="name every table and figure")
    p.add_argument("--status", metavar="OUT", help="what a folder of results holds")
    p.add_argument("--scale", choices=SCALES, default="quick", help="default: quick")
    p.add_argument("--protocol", choices=TRAINING, default="ours", help="how to train")
    only = "this row alone, or rows by a pattern such as 'lds/*'; again for more"
    p.add_argument("--only", metavar="ROW", action="append", default=[], help=only)
    p.add_argument("--seeds", type=_whole, nargs="+", metavar="N", help="these seeds of a model")
    p.add_argument("--datasets", type=_whole, nargs="+", metavar="N", help="these data sets")
    p.add_argument("--engine", choices=("local", "dask"), default="local")
    p.add_argument("--jobs", type=_positive, help="fits at the same time (default: one per core)")
    threads = "of one fit; part of its name, as it changes the last digits (default: 1)"
    p.add_argument("--threads", type=_positive, default=1, help=threads)
    p.add_argument("--scheduler", metavar="tcp://…", help="of a Dask cluster that runs already")
    p.add_argument("--out", default="results", metavar="FOLDER")
    folder = os.environ.get("DYNACL_DATA")
    where = "recordings, for allen (default: the environment variable DYNACL_DATA)"
    p.add_argument("--data-dir", metavar="FOLDER", default=folder, help=where)
    p.add_argument("--dry-run", action="store_true", help="say what would run, and for how long")
    p.add_argument("--force-failed", action="store_true", help="try failed fits again")


def run_reproduce(o: argparse.Namespace) -> int:
    from dynacl.experiments.reproduce import reproduce

    return reproduce(o)


def _whole(text: str) -> int:
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"got {text}; wanted a number of at least 0")
    return value


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"got {text}; wanted a number of at least 1")
    return value
