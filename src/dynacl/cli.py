"""The command line: each command reads files, calls the library, and writes files or a table.

Bad input ends in one sentence and exit code 2; a fit that is interrupted keeps what it has, 130.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynacl import persistence, simulate
from dynacl._version import __version__
from dynacl.data import Array, InputError, TimeSeries, spread_lags, write_npz
from dynacl.estimator import DCL, DECODERS, FORECASTS
from dynacl.evaluation import POST_HOC, equations, evaluate, no_equations
from dynacl.experiments import command as reproduce
from dynacl.objective.density import KERNELS
from dynacl.recipe import DYNAMICS, SIMILARITIES
from dynacl.settings import PROTOCOLS
from dynacl.simulate.systems import CONTROLS
from dynacl.training import Record, Run, TrainingError, go_on

RUN_FILES = ("model.safetensors", "config.json", "metrics.json", "history.jsonl", "checkpoint")
TABLES = (".npz", ".npy", ".csv")
CHECKPOINT_SECONDS = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    warnings.showwarning = _say_warning
    try:
        code = int(options.command(options) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (InputError, OSError) as error:
        print(f"dynacl {options.name}: error: {error}", file=sys.stderr)
        return 2
    except TrainingError as error:
        print(f"dynacl {options.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"dynacl {options.name}: interrupted", file=sys.stderr)
        return 130


# -- commands ----------------------------------------------------------------------------------


def run_simulate(o: argparse.Namespace) -> None:
    if (o.system is None) == (o.again is None):
        raise InputError("simulate: wanted either a system or --again FILE")
    _new_file(o.out, o.force)
    rng = np.random.default_rng(o.seed)
    if o.again is not None:
        given = [k for k in SYSTEM_OPTIONS if getattr(o, k) is not None]
        if given:
            raise InputError(f"--{given[0].replace('_', '-')}: comes from the file with --again")
        series = simulate.again(TimeSeries.read(o.again), rng=rng, trials=o.trials, steps=o.steps)
    else:
        simulator, _ = simulate.PRESETS[o.system]
        accepted = set(inspect.signature(simulator).parameters) | {
            "trials", "steps", "mixing", "layers", "observed", "rank", "observation_noise"
        }  # fmt: skip
        wanted = {k: getattr(o, k) for k in ("trials", "steps", *SYSTEM_OPTIONS)}
        chosen = {k: v for k, v in wanted.items() if v is not None}
        for name in chosen:
            if name not in accepted:
                raise InputError(f"--{name.replace('_', '-')}: is not a setting of {o.system}")
        series = simulate.preset(o.system, rng=rng, **chosen)
    series.write(o.out)
    print(f"{o.out}: {series.n_trials} trials, {len(series)} samples of {series.n_features}")


def run_fit(o: argparse.Namespace) -> int:
    out = Path(o.out)
    series = _read(o)
    if o.resume:
        model = DCL.load(out, device=o.device)
        persistence.load_checkpoint(model.run_, out / "checkpoint")
        model.verbose = not o.quiet
        _same_settings(o, model, out)
        if model.run_.step >= model.run_.settings.max_iter:
            raise InputError(f"{out}: its {model.run_.step} steps are done; nothing to resume")
        _fit(model.resume, model, series, out)
    else:
        _new_folder(out, o.force)
        model = DCL(**({"random_state": 0} | _typed(o)), device=o.device, verbose=not o.quiet)
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
    if model.run_.interrupted:
        _keep(model, out, found)
        print(f"kept in {out}; continue with --resume", file=sys.stderr)
        return 130
    _keep(model, out, found)  # before anything else can fail
    if series.truth is not None:
        found |= evaluate(model, series)
        _keep(model, out, found)
    if o.json:
        print(persistence.to_json(found))
    else:
        print(f"{out}: {model.n_iter_} steps in {model.run_.seconds:.0f} s")
        _table({k: v for k, v in found.items() if isinstance(v, float)})
    return 0


def run_evaluate(o: argparse.Namespace) -> None:
    model, series = DCL.load(o.run, device=o.device), _read(o)
    train = None if o.train is None else _read(o, o.train)
    found = evaluate(model, series, post_hoc=o.post_hoc, train=train, seed=o.seed)
    flow = None if no_equations(model, series) else equations(model, series)
    if o.json:
        if flow is not None:
            found["equations"] = {k: flow[f"{k}_text"] for k in ("recovered", "true")}
        print(persistence.to_json(found))
        return
    _table(found)
    if flow is not None:
        for mine, true in zip(flow["recovered_text"], flow["true_text"], strict=True):
            print(f"  found  {mine}\n  true   {true}")


def run_embed(o: argparse.Namespace) -> None:
    model, series = DCL.load(o.run, device=o.device), _read(o)
    _new_file(o.out, o.force, TABLES)
    latents = model.transform(series, pad=o.pad)
    bounds = np.concatenate([[0], np.cumsum([len(x) for x in latents])])
    parts = {"latents": np.concatenate(latents), "bounds": bounds}
    if hasattr(model.dynamics_, "modes"):
        modes = np.full(len(parts["latents"]), -1, dtype=np.int64)
        if o.pad:
            series = series.padded(max(model.settings_.time_lags))
        for a, found in zip(bounds, model.modes(series, decode=o.decode), strict=False):
            modes[a : a + len(found)] = found
        parts["modes"] = modes
    _write_arrays(o.out, parts, "latents")
    print(f"{o.out}: latents {parts['latents'].shape}")


def run_forecast(o: argparse.Namespace) -> None:
    model, series = DCL.load(o.run, device=o.device), _read(o)
    if o.out is not None:
        _new_file(o.out, o.force, TABLES)
    u = None if o.control is None else _read_control(o.control)
    future = model.forecast(series, o.steps, u=u, modes=o.modes)
    if model.spectral_radius_ is not None:
        radius = ", ".join(f"{r:.5f}" for r in model.spectral_radius_)
        print(f"spectral radius: {radius}", file=sys.stderr)
    rows = np.concatenate(future)
    if o.out is None:
        np.savetxt(sys.stdout, rows, delimiter=",", fmt="%.7g")
        return
    bounds = np.arange(0, len(rows) + 1, o.steps)
    _write_arrays(o.out, {"latents": rows, "bounds": bounds}, "latents")
    print(f"{o.out}: {len(future)} trials, {o.steps} steps ahead")


def run_demo(o: argparse.Namespace) -> None:
    from dynacl.demo import demo

    _new_folder(Path(o.out), o.force)
    for name in RUN_FILES:
        (Path(o.out) / name).unlink(missing_ok=True)
    demo(Path(o.out), seed=o.seed, verbose=not o.quiet)


# -- words -------------------------------------------------------------------------------------


def _noise(text: str) -> float | list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        wanted = "a number, or one for each latent dimension, such as 0.1,0.2,0.1"
        raise argparse.ArgumentTypeError(f"got {text!r}; wanted {wanted}") from error
    return found[0] if len(found) == 1 else found


SYSTEM_OPTIONS: dict[str, dict[str, Any]] = {
    "d": {"type": int, "help": "latent dimensions"},
    "noise": {
        "type": _noise,
        "metavar": "0.1,0.2,…",
        "help": "standard deviation of the system noise: one, or one for each latent dimension",
    },
    "angle": {"type": float, "help": "rotation angle in degrees (lds: ±, slds: at most)"},
    "modes": {"type": int, "help": "number of modes (slds)"},
    "switch_probability": {"type": float, "help": "a step, for each other mode (slds)"},
    "concentration": {"type": float, "help": "of the starts around one point (sphere)"},
    "control": {"choices": CONTROLS, "help": "control input (control-…)"},
    "dt": {"type": float, "help": "step size (lorenz)"},
    "start": {"type": float, "nargs": 3, "help": "starting point (lorenz)"},
    "mixing": {"choices": ("mlp", "linear", "none"), "help": "from latents to observations"},
    "layers": {"type": int, "help": "layers of the mixing MLP"},
    "observed": {"type": int, "help": "observed dimensions"},
    "rank": {"type": int, "help": "rank of a mixing that is not injective"},
    "observation_noise": {"type": float, "help": "standard deviation of noise on observations"},
}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="dynacl", description="Identify hidden dynamics from time series."
    )
    top.add_argument("--version", action="version", version=f"dynacl {__version__}")
    commands = top.add_subparsers(dest="name", required=True, metavar="COMMAND")

    def add(name: str, command: Callable[..., Any], help: str, example: str) -> Any:
        sub = commands.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(command=command)
        return sub

    p = add("demo", run_demo, "simulate, fit, evaluate and draw: the tour",
            "dynacl demo --out runs/demo")  # fmt: skip
    p.add_argument("--out", default="runs/demo")
    _common(p, seed=True, force=True, quiet=True)

    p = add("simulate", run_simulate, "draw a data set with known truth",
            "dynacl simulate slds --trials 1000 --steps 1000 --seed 0 --out slds.npz\n"
            "  dynacl simulate --again slds.npz --trials 100 --seed 1 --out test.npz")  # fmt: skip
    p.add_argument("system", nargs="?", choices=list(simulate.PRESETS), help="a data set of the "
                   "paper; the options below replace its settings")  # fmt: skip
    p.add_argument("--again", metavar="FILE", help="new trials of the system in this file")
    p.add_argument("--trials", type=int)
    p.add_argument("--steps", type=int, help="steps a trial")
    for name, how in SYSTEM_OPTIONS.items():
        p.add_argument(f"--{name.replace('_', '-')}", **how)
    p.add_argument("--out", required=True, metavar="FILE.npz")
    _common(p, seed=True, force=True)

    p = add("fit", run_fit, "learn encoder and dynamics",
            "dynacl fit slds.npz --dynamics switching --modes 5 --components 6 "
            "--out runs/slds")  # fmt: skip
    _data(p)
    # Named as the parameters of DCL, and there only if typed: its defaults are the defaults.
    option = p.add_argument_group("model", argument_default=argparse.SUPPRESS).add_argument
    option("--dynamics", choices=DYNAMICS, help="(default: linear)")
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
    option("--similarity", choices=SIMILARITIES, help="(default: euclidean)")
    option("--asymmetric", action="store_true", help="a second encoder for references")
    option("--density-correction", choices=KERNELS,
           help="kernel of the density estimate α (vmf: on the sphere)")  # fmt: skip
    option("--bandwidth", type=float, help="of the density estimate")
    option("--n-support", type=int, help="points that carry the density estimate")
    option("--protocol", choices=list(PROTOCOLS), help="(default: default)")
    option("--batch-size", type=int)
    option("--n-negatives", type=_negatives, help='a number, or "batch"')
    option("--max-iter", type=int, help="training steps")
    option("--learning-rate", type=float)
    option("--dynamics-learning-rate", type=float)
    option("--time-offset", type=int, help="steps to the positive (default: 1)")
    option("--standardize", choices=("on", "off"))
    option("--seed", "--random-state", dest="random_state", type=_seed, help="(default: 0)")
    p.add_argument("--out", required=True, metavar="FOLDER")
    p.add_argument("--resume", action="store_true", help="continue the run in --out")
    _common(p, force=True, quiet=True, as_json=True, device=True)

    p = add("evaluate", run_evaluate, "compare a fitted model with the truth in a file",
            "dynacl evaluate runs/slds slds.npz --json")  # fmt: skip
    p.add_argument("run", metavar="RUN")
    _data(p)
    p.add_argument("--post-hoc", choices=POST_HOC, help="judge dynamics fitted afterwards")
    p.add_argument("--train", metavar="FILE", help="the training data, where DATA is new: fit the "
                   "affine map to the truth there too (r2_train_map)")  # fmt: skip
    _common(p, seed=True, as_json=True, device=True)

    p = add("embed", run_embed, "write the latents (and modes) of data",
            "dynacl embed runs/slds new.npz --out z.npz")  # fmt: skip
    p.add_argument("run", metavar="RUN")
    _data(p)
    p.add_argument("--pad", action="store_true", help="keep the steps without a full window of "
                   "time lags")  # fmt: skip
    p.add_argument("--decode", choices=DECODERS, default="sequence", help="modes from whole trials "
                   "(default), or from each step alone, as in the paper")  # fmt: skip
    p.add_argument("--out", required=True, metavar="FILE", help=".npz, .npy or .csv")
    _common(p, force=True, device=True)

    p = add("forecast", run_forecast, "roll the dynamics out from the end of each trial",
            "dynacl forecast runs/slds new.npz --steps 50 --out future.csv")  # fmt: skip
    p.add_argument("run", metavar="RUN")
    _data(p)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--modes", choices=FORECASTS, help="hold the last mode (default), or let modes "
                   "move as a Markov chain; gated models read them off the state")  # fmt: skip
    p.add_argument("--control", metavar="FILE", help="control input: one row a forecast step, for "
                   "all trials alike or one trial after the other; the first acts on the last "
                   "observed step")  # fmt: skip
    p.add_argument("--out", metavar="FILE", help=".npz, .npy or .csv (default: CSV to stdout)")
    _common(p, force=True, device=True)

    p = add("reproduce", reproduce.run_reproduce, reproduce.HELP, reproduce.EXAMPLE)
    reproduce.add_arguments(p)
    return top


def _data(p: argparse.ArgumentParser) -> None:
    p.add_argument("data", metavar="DATA", help=".npz, .npy or .csv")
    p.add_argument("--key", help="array of an .npz, or comma-separated columns of a .csv")
    p.add_argument("--control-key", help="the same, for the control input")
    p.add_argument("--no-control", action="store_true", help="leave out the file's control input")
    p.add_argument("--trial-length", type=int, help="cut the data into trials of this length")


def _common(
    p: argparse.ArgumentParser,
    seed: bool = False,
    force: bool = False,
    quiet: bool = False,
    as_json: bool = False,
    device: bool = False,
) -> None:
    if seed:
        p.add_argument("--seed", "--random-state", dest="seed", type=_seed, default=0)
    if force:
        p.add_argument("--force", action="store_true", help="overwrite what is there")
    if quiet:
        p.add_argument("--quiet", action="store_true", help="no progress")
    if as_json:
        p.add_argument("--json", action="store_true", help="print one JSON object")
    if device:
        p.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")


def _seed(text: str) -> int:
    if not text.isdecimal() or not int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"got {text}; wanted a number from 0 to 2**32 - 1")
    return int(text)


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


# -- files and tables --------------------------------------------------------------------------


def _read(o: argparse.Namespace, path: str | None = None) -> TimeSeries:
    series = TimeSeries.read(
        path or o.data, key=o.key, control_key=o.control_key, trial_length=o.trial_length
    )
    return replace(series, control=None) if o.no_control else series


def _read_control(path: str) -> list[Array]:
    """A file's control input, in its trials; a file without one is the input itself."""
    series = TimeSeries.read(path)
    return series.split(series.observations if series.control is None else series.control)


def _fit(fit: Callable[..., Any], model: DCL, series: TimeSeries, out: Path) -> None:
    """Fit, with a checkpoint now and then, so that a killed process loses little."""
    saved = time.monotonic()

    def checkpoint(run: Run, record: Record) -> None:
        nonlocal saved
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            _keep(model._settle(series), out, {"n_iter": run.step, "loss": record["loss"]})
            go_on(run)
            saved = time.monotonic()

    fit(series, callback=checkpoint)


def _keep(model: DCL, out: Path, found: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    model.save(out)
    persistence.save_checkpoint(model.run_, out / "checkpoint")
    persistence.write(out / "metrics.json", (persistence.to_json(found, indent=1) + "\n").encode())
    lines = "".join(json.dumps(record) + "\n" for record in model.history_)
    persistence.write(out / "history.jsonl", lines.encode())


def _typed(o: argparse.Namespace) -> dict[str, Any]:
    """The parameters of DCL that the user typed, those that equal a default among them."""
    typed = {k: v for k, v in vars(o).items() if k in DCL().get_params() and k != "device"}
    if "standardize" in typed:
        typed["standardize"] = typed["standardize"] == "on"
    return typed


def _same_settings(o: argparse.Namespace, model: DCL, out: Path) -> None:
    """A resumed run has its settings; an option that says otherwise is an error, not ignored."""
    settings = model.run_.settings
    for name, given in _typed(o).items():
        has = getattr(model, name)
        if has is None:  # it was left to the protocol: what came of it
            has = getattr(settings, name, None)
        if name == "n_negatives" and has is None:
            has = "batch"
        if given != has:
            raise InputError(f"--{name.replace('_', '-')}: got {given}, but the run in {out} has "
                             f"{has}; --resume keeps the settings of a run")  # fmt: skip


def _new_folder(out: Path, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: {out} is a file; wanted a folder")
    if out.exists() and any(out.iterdir()) and not force:
        raise InputError(f"--out: {out} is there already; --force overwrites it")
    out.mkdir(parents=True, exist_ok=True)  # fails now, not after hours of training


def _new_file(out: str, force: bool, suffixes: Sequence[str] = (".npz",)) -> None:
    path = Path(out)
    if path.suffix not in suffixes:
        raise InputError(f"--out: cannot write {path.suffix or 'a file without suffix'}; wanted "
                         f"{' or '.join(suffixes)}")  # fmt: skip
    if path.is_dir():
        raise InputError(f"--out: {path} is a folder; wanted a file")
    if path.exists() and not force:
        raise InputError(f"--out: {path} is there already; --force overwrites it")
    path.parent.mkdir(parents=True, exist_ok=True)


def _write_arrays(out: str, parts: dict[str, Array], main: str) -> None:
    if out.endswith(".npz"):
        write_npz(out, parts)
    elif out.endswith(".npy"):
        np.save(out, parts[main], allow_pickle=False)
    else:
        header = ",".join(f"x{i + 1}" for i in range(parts[main].shape[1]))
        np.savetxt(out, parts[main], delimiter=",", fmt="%.7g", header=header, comments="")


def _table(found: dict[str, Any]) -> None:
    width = max(len(k) for k in found)
    for name, value in found.items():
        text = "–" if value is None else f"{value:.4f}" if isinstance(value, float) else value
        print(f"  {name:<{width}}  {text}")


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
