"""Options that several commands share. It never reads what they name."""

from __future__ import annotations

import argparse
from typing import Any

from dynacl.data.formats import BY_SUFFIX
from dynacl.data.missing import MAX_GAP, WAYS
from dynacl.values import Seed

SHARED: dict[str, dict[str, Any]] = {
    "--seed": {
        "type": Seed().from_text,
        "default": 0,
        "help": "seed of all random numbers (default: 0)",
    },
    "--force": {"action": "store_true", "help": "overwrite what exists"},
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
    few = "?" if optional else None
    parser.add_argument("data", metavar="DATA", nargs=few, help=" ".join(BY_SUFFIX))
    add = parser.add_argument_group("data", "which part of DATA to use; `dynacl inspect` shows "
                                    "what is inside").add_argument  # fmt: skip
    add("--key", metavar="NAME", help="the observations: an array, or columns of a table separated "
        "by commas; patterns such as 'unit_*' work, too")  # fmt: skip
    add("--control-key", metavar="NAME", help="the same, for the control input")
    add("--label-key", metavar="NAME", help="the same, for labels, which training never sees")
    add("--trial-key", metavar="NAME", help="the trial of each step; or bounds, lengths or epochs")
    add("--time-key", metavar="NAME", help="the time of each step")
    add("--no-control", action="store_true", help="ignore the control input of the file")
    add("--transpose", action="store_true", help="for tables that are (features, time)")
    add("--trial-length", type=int, metavar="N", help="cut the data into trials of N steps")
    add("--min-length", type=int, metavar="N", default=1, help="leave out trials with fewer steps")
    add("--missing", choices=WAYS, default=WAYS[0], help="what to do where values are missing: "
        "stop (default), cut trials there, or bridge short gaps by a line")  # fmt: skip
    add("--max-gap", type=int, metavar="N", default=MAX_GAP, help="the longest gap that is "
        f"bridged, in steps (default: {MAX_GAP})")  # fmt: skip


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder that `dynacl fit` wrote")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Where the fits of a sweep run."""
    parser.add_argument("--engine", choices=("local", "dask"), default="local", help="where to run")
    parser.add_argument(
        "--jobs", type=positive, help="fits at the same time (default: one per core)"
    )
    threads = (
        "threads per fit (default: 1); they change the last digits, so results keep them apart"
    )
    parser.add_argument("--threads", type=positive, default=1, help=threads)
    parser.add_argument("--scheduler", metavar="tcp://…", help="a running Dask cluster")


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"got {text}; wanted a number of at least 1")
    return value
