"""`dynacl report`: what a run has found, in one HTML file that works without a network."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dynacl.cli.files import command_of, data_or_those_of_the_fit, new_file
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data import TimeSeries

if TYPE_CHECKING:
    from dynacl.estimator import DCL

EXAMPLE = """\
dynacl report runs/slds
dynacl report runs/slds new.npz --out new.html"""
NAME = "report.html"  # in the folder of the run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser, optional=True)
    parser.add_argument("--out", metavar="FILE", help="(default: RUN/report.html, replaced)")
    add_shared(parser, "--force", "--device")


def run(options: argparse.Namespace) -> None:
    from dynacl.estimator import DCL

    if options.out is not None:
        new_file(options.out, options.force, (".html",))
    model = DCL.load(options.run, device=options.device)
    source, series = data_or_those_of_the_fit(options)
    out = Path(options.out or Path(options.run) / NAME)
    made = ["report", *options.words[1:]] if options.words else ["report", options.run]
    write(out, Path(options.run), model, series, source, made)
    if series is None:
        print(f"{options.run}: its data cannot be found; reported without data",
              file=sys.stderr)  # fmt: skip
    print(out)


def write(
    out: Path,
    folder: Path,
    model: DCL,
    series: TimeSeries | None,
    source: str,
    last: Sequence[str],
) -> None:
    """The report of a run in a folder; last: the words of the command that makes it."""
    from dynacl import report

    fitted = command_of(folder)
    commands = [["dynacl", *words] for words in (fitted, last) if words]
    report.write(
        out,
        model,
        series,
        title=Path(source).name if source else folder.name,
        source=source,
        commands=[shlex.join(words) for words in commands],
    )
