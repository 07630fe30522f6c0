"""`dynacl fit`: train a model on a file, and keep it in a folder even if training is stopped."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynacl.cli import report
from dynacl.cli.files import command_of, new_folder, print_spectrum, print_table, read
from dynacl.cli.options import add_data, add_shared
from dynacl.cli.parsing import meant
from dynacl.data import InputError, TimeSeries
from dynacl.parameters import PARAMETERS
from dynacl.settings import KINDS
from dynacl.writing import claimed, remove_leftovers, write

if TYPE_CHECKING:
    from dynacl.estimator import DCL
    from dynacl.run import Record, Run

EXAMPLE = """\
dynacl fit slds.npz --dynamics switching --modes 5 --components 6 --out runs/slds --report"""
CHECKPOINT_SECONDS = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_model_options(parser)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to keep the run")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out; with a "
                        "larger --max-iter, beyond its end")  # fmt: skip
    parser.add_argument("--report", action="store_true", help="write report.html into --out, too")
    add_shared(parser, "--force", "--quiet", "--json", "--device")


def add_model_options(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """The parameters of DCL, there only if typed: its defaults are the defaults."""
    groups = {
        name: parser.add_argument_group(name, argument_default=argparse.SUPPRESS)
        for name in ("model", "dynamics", "training")
    }
    for p in PARAMETERS.values():
        if not p.hidden and p.name not in without:
            default = "" if p.default in (None, False) else f" (default: {p.kind.said(p.default)})"
            option: dict[str, Any] = {"dest": p.name, "help": p.help + default}
            groups[p.group].add_argument(p.option, *p.flags, **option, **p.kind.argument())
    groups["training"].add_argument(
        "--set",
        dest="settings",
        action="append",
        type=_setting,
        metavar="NAME=VALUE",
        help="any other setting of the training, such as horizon=2; repeat it for "
        "several (docs/parameters.md lists them)",
    )


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or name not in KINDS:
        raise argparse.ArgumentTypeError(
            f"got {text!r}; wanted NAME=VALUE with NAME one of {', '.join(KINDS)}"
            + meant(name, KINDS)
        )
    try:
        return name, KINDS[name].from_text(value)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from error


def run(options: argparse.Namespace) -> int:
    out = Path(options.out)
    series = read(options)
    if options.resume and not out.is_dir():
        raise InputError(f"--out: {out} is no folder; wanted one that has a run to resume")
    if not options.resume:
        new_folder(out, options.force, "--resume goes on with it, beyond its end with a larger "
                   "--max-iter; ")  # fmt: skip
    with claimed(out):
        return _run(options, series, out)


def _run(options: argparse.Namespace, series: TimeSeries, out: Path) -> int:
    from dynacl.estimator import DCL
    from dynacl.evaluation import against_truth
    from dynacl.facts import figures, sentences
    from dynacl.persistence import to_json

    command = (command_of(out) if options.resume else []) or options.words
    if options.resume:
        remove_leftovers(out)
        model = DCL.load(out, device=options.device, checkpoint=True)
        model.verbose = not options.quiet
        given = typed(options)
        until = _longer(given, model)
        _check_same_settings(given, model, out)
        done = model.run_.step >= model.run_.settings.max_iter and _is_whole(out, model.run_.id)
        if until is None and done:
            raise InputError(f"{out}: its {model.run_.step} steps are done; a larger --max-iter "
                             "goes on beyond them")  # fmt: skip
        _fit(partial(model.resume, max_iter=until), model, series, out, command)
    else:
        given = {"random_state": 0} | typed(options)
        model = DCL(**given, device=options.device, verbose=not options.quiet)
        _fit(model.fit, model, series, out, command)
    last = model.history_[-1] if model.history_ else {}
    found: dict[str, Any] = {
        "command": command,
        "n_iter": model.n_iter_,
        "max_iter": model.settings_.max_iter,
        "seconds": model.run_.seconds,
        "loss": last.get("loss"),
        "score": model.scores_.get("held_out"),
        "score_training": model.scores_["training"],
        "held_out": None if model.held_out_ is None else model.held_out_.plain(),
        "verdict": model.verdict_,
        "choice": None if model.choice_ is None else model.choice_.plain(),
    }
    found |= figures(model)
    keep(model, out, found)  # before anything else can fail
    if model.run_.interrupted:
        print(f"kept in {out}; continue with --resume", file=sys.stderr)
        return 130
    if series.truth is not None:
        found |= against_truth(model, series)
        keep(model, out, found)
    if options.json:
        print(to_json(found))
    else:
        print(f"{out}: {model.n_iter_} steps in {model.run_.seconds:.0f} s")
        print_table({k: v for k, v in found.items() if isinstance(v, float)})
        if model.held_out_ is not None:
            print(f"  Held-out prediction, {model.held_out_.line()}.")
        for sentence in [model.verdict_, *sentences(model)]:
            if sentence:
                print(f"  {sentence[0].upper()}{sentence[1:]}.")
        print_spectrum(model)
    if options.report:
        path = out / report.NAME
        report.write(path, out, model, series, options.data, ["report", str(out)])
        print(f"  Report: {path}", file=sys.stderr if options.json else sys.stdout)
    return 0


def keep(model: DCL, out: Path, found: dict[str, Any]) -> None:
    """Write all files of a run, so that it can be used and resumed."""
    from dynacl.persistence import to_json

    model.save(out, checkpoint=model.run_.whole)
    of = {"run": model.run_.id}
    write(out / "metrics.json", (to_json(of | found, indent=1) + "\n").encode())
    lines = "".join(json.dumps(record) + "\n" for record in model.history_)
    write(out / "history.jsonl", lines.encode())


def _is_whole(out: Path, run: str) -> bool:
    """Whether the fit was not killed after its last step, before it had written all of its end."""
    try:
        found = json.loads((out / "metrics.json").read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("run") == run and "max_iter" in found


def _fit(
    fit: Callable[..., Any], model: DCL, series: TimeSeries, out: Path, command: Sequence[str]
) -> None:
    """Fit, with a checkpoint now and then, so that a killed process loses little."""
    from dynacl.training import TrainingError

    saved = time.monotonic()

    def checkpoint(run: Run, record: Record) -> None:
        nonlocal saved
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            so_far = {"command": command, "n_iter": run.step, "loss": record["loss"]}
            keep(model.settle(series), out, so_far)
            run.go_on()
            saved = time.monotonic()

    try:
        fit(series, callback=checkpoint)
    except TrainingError as error:
        keep(model, out, {"command": command, "n_iter": model.n_iter_, "error": str(error)})
        raise


def typed(options: argparse.Namespace) -> dict[str, Any]:
    """The parameters of DCL that the user typed, those that equal a default among them."""
    given = {k: v for k, v in vars(options).items() if k in PARAMETERS and k != "device"}
    if "settings" in given:
        given["settings"] = dict(given["settings"])
        for name in given["settings"]:
            if name in given:
                raise InputError(f"--set {name}: given twice; {PARAMETERS[name].option} is the "
                                 "same setting")  # fmt: skip
    return given


def _longer(given: dict[str, Any], model: DCL) -> int | None:
    """The number of training steps, taken out of what was typed, if the run shall get longer."""
    for place in (given, given.get("settings", {})):
        asked = place.get("max_iter")
        if asked is not None and asked > model.run_.settings.max_iter:
            return int(place.pop("max_iter"))
    return None


def _check_same_settings(now: dict[str, Any], model: DCL, out: Path) -> None:
    """A resumed run has its settings; an option that says otherwise is an error, not ignored."""
    has = model.get_params(deep=False) | asdict(model.run_.settings)
    asked = {PARAMETERS[k].option: (k, v) for k, v in now.items() if k != "settings"}
    asked |= {f"--set {k}": (k, v) for k, v in now.get("settings", {}).items()}
    for option, (name, given) in asked.items():
        said, kept = (
            "batch" if name == "n_negatives" and value is None else value
            for value in (given, has[name])
        )
        if said not in (kept, model.get_params(deep=False).get(name)):
            raise InputError(f"{option}: got {said}, but the run in {out} has {kept}; --resume "
                             "keeps the settings of a run")  # fmt: skip
