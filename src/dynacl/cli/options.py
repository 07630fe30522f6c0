"""Options that several commands have in common."""

from __future__ import annotations

import argparse
from typing import Any

from dynacl.values import Seed

SHARED: dict[str, dict[str, Any]] = {
    "--seed": {"type": Seed().from_text, "default": 0, "help": "of every random draw (default: 0)"},
    "--force": {"action": "store_true", "help": "overwrite what is there"},
    "--quiet": {"action": "store_true", "help": "show no progress"},
    "--json": {"action": "store_true", "help": "print one JSON object"},
    "--device": {"default": "auto", "help": "auto, cpu, cuda or mps (default: auto)"},
}
ALIASES = {"--seed": ("--random-state",)}  # the name that it has in Python


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        parser.add_argument(name, *ALIASES.get(name, ()), **SHARED[name])


def add_data(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The file with the data, and what of it to use: what `files.read` reads."""
    parser.add_argument(
        "data", metavar="DATA", nargs="?" if optional else None, help=".npz, .npy or .csv"
    )
    parser.add_argument("--key", help="array of an .npz, or comma-separated columns of a .csv")
    parser.add_argument("--control-key", help="the same, for the control input")
    parser.add_argument("--label-key", help="the same, for labels, which are kept beside the data")
    parser.add_argument(
        "--no-control", action="store_true", help="leave out the file's control input"
    )
    parser.add_argument("--trial-length", type=int, help="cut the data into trials of this length")


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder that `dynacl fit` wrote")
