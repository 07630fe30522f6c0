"""`dynacl reproduce`: the tables and figures of the paper."""

from __future__ import annotations

import argparse
import os

from dynacl.cli.options import add_engine
from dynacl.experiments.plan import SCALES, TRAINING

EXAMPLE = """\
dynacl reproduce table1 --scale quick --jobs 2 --out results
dynacl reproduce table1 --scale paper --only 'lds/*' --datasets 0 --seeds 0 1 2
dynacl reproduce --list
dynacl reproduce --status results"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", metavar="NAME", help="see --list")
    parser.add_argument("--list", action="store_true", help="name every table and figure")
    parser.add_argument("--status", metavar="OUT", help="show what a folder of results holds")
    parser.add_argument("--scale", choices=SCALES, default="quick", help="(default: quick)")
    parser.add_argument(
        "--protocol", choices=TRAINING, default="ours", help="how to train (default: ours)"
    )
    only = "only this row, or the rows of a pattern such as 'lds/*'; repeat it for several"
    parser.add_argument("--only", metavar="ROW", action="append", default=[], help=only)
    parser.add_argument(
        "--seeds", type=_whole, nargs="+", metavar="N", help="only these seeds of the models"
    )
    parser.add_argument(
        "--datasets", type=_whole, nargs="+", metavar="N", help="only these data sets"
    )
    add_engine(parser)
    parser.add_argument("--out", default="results", metavar="FOLDER", help="(default: results)")
    folder = os.environ.get("DYNACL_DATA")
    where = "recordings, for allen (default: the environment variable DYNACL_DATA)"
    parser.add_argument("--data-dir", metavar="FOLDER", default=folder, help=where)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would run, and for how long"
    )
    parser.add_argument("--force-failed", action="store_true", help="try failed fits again")


def run(options: argparse.Namespace) -> int:
    from dynacl.experiments.reproduce import reproduce

    return reproduce(options)


def names() -> list[str]:
    """Of every table and figure."""
    from dynacl.experiments.catalogue import EXPERIMENTS

    return list(EXPERIMENTS)


def _whole(text: str) -> int:
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"got {text}; wanted a number of at least 0")
    return value
