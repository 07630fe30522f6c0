"""The command line: each command reads files, calls the library, and writes files or a table.

A command is a line in COMMANDS and a module of its name in this package, which is imported only
when the command is called. The module has `EXAMPLE`, `add_arguments(parser)` and `run(options)`,
which returns the exit code or None. Help appears at once because PyTorch, scikit-learn and
Matplotlib, which take seconds to import, are only imported inside functions here.

Bad input ends in one sentence and exit code 2; a fit that is interrupted keeps what it has, 130.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Collection, Sequence
from importlib import import_module
from textwrap import indent
from types import ModuleType

from dynacl._version import __version__
from dynacl.cli.files import options_of_the_fit
from dynacl.cli.parsing import Parser
from dynacl.cli.wording import flags_of, typed
from dynacl.data import InputError, UnlikeFitError

COMMANDS = {
    "demo": "take the tour: simulate, fit, evaluate and report",
    "simulate": "draw a data set whose truth is known",
    "inspect": "show what is in a file, what would be used, and what looks wrong",
    "fit": "learn an encoder and dynamics from data",
    "select": "choose latents, dynamics and modes by held-out prediction",
    "evaluate": "judge a fitted model, with or without the truth",
    "embed": "write the latents and modes of data",
    "segment": "write when each trial is in which mode, and how certainly",
    "forecast": "predict what follows the end of each trial",
    "plot": "draw the results of a fit, and the data as it sees them",
    "report": "write the results of a fit into one HTML file",
    "reproduce": "reproduce a table or figure of the paper",
    "completion": "write a script by which a shell completes dynacl commands",
}


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    options = parser(words).parse_args(words, argparse.Namespace(words=list(words)))
    flags = flags_of(_module(options.name))
    warnings.showwarning = lambda message, *_, **__: print(
        f"warning: {typed(str(message), flags)}", file=sys.stderr
    )
    try:
        code = int(_module(options.name).run(options) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (InputError, OSError) as error:
        said = typed(str(error).strip(), flags)
        if isinstance(error, UnlikeFitError):
            said += options_of_the_fit(options)
        print(f"dynacl {options.name}: error: {said}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        from dynacl.training import TrainingError

        if not isinstance(error, TrainingError):
            raise
        print(f"dynacl {options.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"dynacl {options.name}: interrupted", file=sys.stderr)
        return 130


def parser(words: Collection[str] = COMMANDS) -> Parser:
    """The parser for these words. It knows every command, and the options of those in `words`."""
    top = Parser(prog="dynacl", description="Identify hidden dynamics from time series.")
    top.add_argument("--version", action="version", version=f"dynacl {__version__}")
    commands = top.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for name, about in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in words:
            module = _module(name)
            command.epilog = "example:\n" + indent(module.EXAMPLE, "  ")
            module.add_arguments(command)
    return top


def _module(name: str) -> ModuleType:
    return import_module(f"dynacl.cli.{name}")
