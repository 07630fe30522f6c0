"""`dynacl fit`: train a model on a file, and keep it in a folder even if training is stopped."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynacl.cli.files import new_folder, print_table, read
from dynacl.cli.options import add_data, add_shared, seed
from dynacl.data import InputError, TimeSeries, spread_lags

if TYPE_CHECKING:
    from dynacl.estimator import DCL
    from dynacl.training import Record, Run

EXAMPLE = "dynacl fit slds.npz --dynamics switching --modes 5 --components 6 --out runs/slds"
CHECKPOINT_SECONDS = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_model_options(parser)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to keep the run")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out")
    add_shared(parser, "--force", "--quiet", "--json", "--device")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Named as the parameters of DCL, and there only if typed: its defaults are the defaults."""
    dynamics = (
        "identity", "linear", "switching", "polynomial", "mlp", "gated", "recurrent", "truth"
    )  # fmt: skip
    similarities = ("euclidean", "dot")
    kernels = ("euclidean", "vmf")
    protocols = ("default", "paper-lds", "paper-slds", "paper-lorenz")
    option = parser.add_argument_group("model", argument_default=argparse.SUPPRESS).add_argument
    option("--dynamics", choices=dynamics, help="(default: linear)")
    option("--n-components", "--components", dest="n_components", type=int,
           help="latent dimensions (default: 3)")  # fmt: skip
    option("--n-modes", "--modes", dest="n_modes", type=int,
           help="of switching and gated dynamics (default: 5)")  # fmt: skip
    option("--bias", action="store_true", help="give linear or switching dynamics an offset")
    option("--degree", type=int, help="of polynomial dynamics (default: 2)")
    option("--lipschitz", type=float, help="bound on the slope of mlp dynamics' correction")
    option("--time-lags", type=_lags, metavar="0,1,2",
           help="steps back from now that the encoder sees together; 6/100: six of them, "
           "equidistant in a window of 100")  # fmt: skip
    option("--similarity", choices=similarities, help="(default: euclidean)")
    option("--asymmetric", action="store_true", help="use a second encoder for references")
    option("--density-correction", choices=kernels,
           help="kernel of the density estimate α (vmf: on the sphere)")  # fmt: skip
    option("--bandwidth", type=float, help="of the density estimate")
    option("--n-support", type=int, help="points that carry the density estimate")
    option("--protocol", choices=protocols, help="how to train (default: default)")
    option("--batch-size", type=int, help="pairs per training step")
    option("--n-negatives", type=_negatives, help='a number, or "batch"')
    option("--max-iter", type=int, help="training steps")
    option("--learning-rate", type=float, help="of the encoder")
    option("--dynamics-learning-rate", type=float, help="of the dynamics")
    option("--time-offset", type=int, help="steps to the positive (default: 1)")
    option("--standardize", choices=("on", "off"), help="off: take observations as they are")
    option("--seed", "--random-state", dest="random_state", type=seed, help="(default: 0)")


def run(options: argparse.Namespace) -> int:
    from dynacl.estimator import DCL
    from dynacl.evaluation import evaluate
    from dynacl.persistence import load_checkpoint, to_json

    out = Path(options.out)
    series = read(options)
    if options.resume:
        model = DCL.load(out, device=options.device)
        load_checkpoint(model.run_, out / "checkpoint")
        model.verbose = not options.quiet
        _check_same_settings(_typed(options), model, out)
        if model.run_.step >= model.run_.settings.max_iter:
            raise InputError(f"{out}: its {model.run_.step} steps are done; nothing to resume")
        _fit(model.resume, model, series, out)
    else:
        new_folder(out, options.force)
        given = {"random_state": 0} | _typed(options)
        model = DCL(**given, device=options.device, verbose=not options.quiet)
        _fit(model.fit, model, series, out)
    last = model.history_[-1] if model.history_ else {}
    found: dict[str, Any] = {
        "n_iter": model.n_iter_,
        "max_iter": model.settings_.max_iter,
        "seconds": model.run_.seconds,
        "loss": last.get("loss"),
        "bits": last.get("bits"),
        "bits_cap": model.run_.cap,
    }
    keep(model, out, found)  # before anything else can fail
    if model.run_.interrupted:
        print(f"kept in {out}; continue with --resume", file=sys.stderr)
        return 130
    if series.truth is not None:
        found |= evaluate(model, series)
        keep(model, out, found)
    if options.json:
        print(to_json(found))
    else:
        print(f"{out}: {model.n_iter_} steps in {model.run_.seconds:.0f} s")
        print_table({k: v for k, v in found.items() if isinstance(v, float)})
    return 0


def keep(model: DCL, out: Path, found: dict[str, Any]) -> None:
    """Write all files of a run, so that it can be used and resumed."""
    from dynacl.persistence import save_checkpoint, to_json, write

    out.mkdir(parents=True, exist_ok=True)
    model.save(out)
    save_checkpoint(model.run_, out / "checkpoint")
    write(out / "metrics.json", (to_json(found, indent=1) + "\n").encode())
    lines = "".join(json.dumps(record) + "\n" for record in model.history_)
    write(out / "history.jsonl", lines.encode())


def _fit(fit: Callable[..., Any], model: DCL, series: TimeSeries, out: Path) -> None:
    """Fit, with a checkpoint now and then, so that a killed process loses little."""
    from dynacl.training import go_on

    saved = time.monotonic()

    def checkpoint(run: Run, record: Record) -> None:
        nonlocal saved
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            keep(model._settle(series), out, {"n_iter": run.step, "loss": record["loss"]})
            go_on(run)
            saved = time.monotonic()

    fit(series, callback=checkpoint)


def _typed(options: argparse.Namespace) -> dict[str, Any]:
    """The parameters of DCL that the user typed, those that equal a default among them."""
    from dynacl.estimator import DCL

    parameters = set(DCL().get_params()) - {"device"}
    typed = {k: v for k, v in vars(options).items() if k in parameters}
    if "standardize" in typed:
        typed["standardize"] = typed["standardize"] == "on"
    return typed


def _check_same_settings(typed: dict[str, Any], model: DCL, out: Path) -> None:
    """A resumed run has its settings; an option that says otherwise is an error, not ignored."""
    for name, given in typed.items():
        has = getattr(model, name)
        if has is None:  # it was left to the protocol: what came of it
            has = getattr(model.run_.settings, name, None)
        if name == "n_negatives" and has is None:
            has = "batch"
        if given != has:
            raise InputError(f"--{name.replace('_', '-')}: got {given}, but the run in {out} has "
                             f"{has}; --resume keeps the settings of a run")  # fmt: skip


def _lags(text: str) -> tuple[int, ...]:
    try:
        if "/" in text:
            return spread_lags(*(int(part) for part in text.split("/", 1)))
        return tuple(int(lag) for lag in text.split(","))
    except ValueError as error:
        wanted = "whole numbers of steps back, such as 0,1,2, or 6/100: six lags in a window of 100"
        raise argparse.ArgumentTypeError(f"got {text!r}; wanted {wanted}") from error


def _negatives(text: str) -> int | str:
    try:
        return text if text == "batch" else int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'got {text!r}; wanted a number or "batch"') from error
