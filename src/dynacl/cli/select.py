"""`dynacl select`: which number of latents, which dynamics and how many modes to take."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dynacl.cli.files import read
from dynacl.cli.fit import add_model_options, typed
from dynacl.cli.options import add_data, add_engine, add_shared
from dynacl.data import InputError
from dynacl.dynamics import BY_NAME

EXAMPLE = """\
dynacl select recording.npz --components 2,4,8 --out results/choice
dynacl select slds.npz --components 5,6,7 --modes 3,5,7 --dynamics linear,switching --jobs 2"""

ARGUMENTS = ("components", "modes", "dynamics", "folds", "engine", "scheduler", "out")
OPTIONS = {"n_components": "--components", "dynamics": "--dynamics", "n_modes": "--modes"}  # of fit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--components", type=_wholes, default=(2, 4, 8), metavar="N,N,…",
                        help="numbers of latents to try (default: 2,4,8)")  # fmt: skip
    parser.add_argument("--modes", type=_wholes, default=(5,), metavar="N,N,…",
                        help="numbers of modes, for dynamics that have any (default: 5)"
                        )  # fmt: skip
    names = f"some of {', '.join(BY_NAME)} (default: linear)"
    parser.add_argument("--dynamics", dest="names", type=_names, default=("linear",),
                        metavar="NAME,NAME,…", help=names)  # fmt: skip
    parser.add_argument("--folds", type=int, default=2, metavar="N", help="fits per candidate, "
                        "each with another fifth of the data held out (default: 2)")  # fmt: skip
    parser.add_argument("--out", metavar="FOLDER", help="keep all results, the table and a "
                        "figure there; the same command goes on from them")  # fmt: skip
    add_engine(parser)
    add_shared(parser, "--quiet", "--json")
    add_model_options(parser, without=("n_components", "dynamics", "n_modes"))


def run(options: argparse.Namespace) -> int:
    from dynacl.experiments.selecting import select
    from dynacl.persistence import to_json

    out = None if options.out is None else Path(options.out)
    series, shared = read(options), typed(options)
    try:
        found = select(
            series,
            options.components,
            options.modes,
            options.names,
            folds=options.folds,
            seed=shared.pop("random_state", 0),
            engine=options.engine,
            jobs=options.jobs,
            threads=options.threads,
            scheduler=options.scheduler,
            out=out,
            verbose=not options.quiet,
            **shared,
        )
    except InputError as error:
        own = str(error).split(":")[0] in ARGUMENTS
        raise InputError(f"--{error}" if own else str(error)) from error
    written = [] if out is None else _write(found, out)
    print(to_json(found.plain()) if options.json else found)
    if written:
        print("written: " + ", ".join(map(str, written)), file=sys.stderr)
    if found.recommended is not None:
        words = [f"{OPTIONS[name]} {value}" for name, value in found.parameters.items()]
        print(f"next, with the same options of the data: dynacl fit {options.data} "
              f"{' '.join(words)} --out FOLDER", file=sys.stderr)  # fmt: skip
    return 0


def _write(found: Any, out: Path) -> list[Path]:
    from dynacl import plots
    from dynacl.persistence import to_json
    from dynacl.writing import save_figure, write

    write(out / "selection.json", (to_json(found.plain(), indent=1) + "\n").encode())
    write(out / "selection.txt", f"{found}\n".encode())
    written = [out / f"selection.{suffix}" for suffix in ("txt", "json", "png")]
    save_figure(plots.selection(found).figure, written[-1], dpi=200)
    return written


def _wholes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"got {text!r}; wanted whole numbers, such as 2,4,8"
        ) from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))
