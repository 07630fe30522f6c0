"""`dynacl demo`: the tour, from simulated data to a report."""

from __future__ import annotations

import argparse
from pathlib import Path

from dynacl.cli.files import new_folder
from dynacl.cli.options import add_shared
from dynacl.writing import claimed

EXAMPLE = "dynacl demo --out runs/demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="runs/demo", metavar="FOLDER", help="(default: runs/demo)")
    add_shared(parser, "--seed", "--force", "--quiet")


def run(options: argparse.Namespace) -> None:
    from dynacl.demo import demo

    out = Path(options.out)
    new_folder(out, options.force)
    with claimed(out):
        demo(out, seed=options.seed, verbose=not options.quiet)
