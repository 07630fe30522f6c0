"""`dynacl simulate`: a data set of the paper, with other settings where they are typed."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

import numpy as np

from dynacl import simulate
from dynacl.cli.files import new_file
from dynacl.cli.options import add_shared
from dynacl.data import InputError, TimeSeries
from dynacl.simulate.systems import CONTROLS

EXAMPLE = """\
dynacl simulate slds --trials 1000 --steps 1000 --seed 0 --out slds.npz
dynacl simulate --again slds.npz --trials 100 --seed 1 --out test.npz"""


def _noise(text: str) -> float | list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        wanted = "a number, or one for each latent dimension, such as 0.1,0.2,0.1"
        raise argparse.ArgumentTypeError(f"got {text!r}; wanted {wanted}") from error
    return found[0] if len(found) == 1 else found


SYSTEM_OPTIONS: dict[str, dict[str, Any]] = {
    "d": {"type": int, "help": "number of latent dimensions"},
    "noise": {
        "type": _noise,
        "metavar": "0.1,0.2,…",
        "help": "standard deviation of the system noise: one for all, or one per latent dimension",
    },
    "angle": {"type": float, "help": "rotation angle in degrees (lds: ±, slds: at most)"},
    "modes": {"type": int, "help": "number of modes (slds)"},
    "switch_probability": {"type": float, "help": "probability per step and per other mode (slds)"},
    "concentration": {
        "type": float,
        "help": "concentration of the starts around one point (sphere)",
    },
    "control": {"choices": CONTROLS, "help": "control input (control-…)"},
    "dt": {"type": float, "help": "step size (lorenz, rossler)"},
    "start": {"type": float, "nargs": 3, "help": "starting point (lorenz, rossler)"},
    "mixing": {
        "choices": ("mlp", "linear", "none"),
        "help": "the map from latents to observations",
    },
    "layers": {"type": int, "help": "number of layers of the mixing MLP"},
    "observed": {"type": int, "help": "number of observed channels"},
    "rank": {"type": int, "help": "rank of a mixing that is not injective"},
    "observation_noise": {"type": float, "help": "standard deviation of the noise on observations"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("system", nargs="?", choices=list(simulate.PRESETS), help="a data set: "
                        "all but rossler are the paper's; the options below replace its settings"
                        )  # fmt: skip
    parser.add_argument("--again", metavar="FILE", help="new trials of the system in this file")
    parser.add_argument("--trials", type=int, help="number of trials")
    parser.add_argument("--steps", type=int, help="steps per trial")
    for name, how in SYSTEM_OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **how)
    parser.add_argument("--out", required=True, metavar="FILE.npz")
    add_shared(parser, "--seed", "--force")


def run(options: argparse.Namespace) -> None:
    if (options.system is None) == (options.again is None):
        raise InputError("simulate: wanted either a system or --again FILE")
    new_file(options.out, options.force, (".npz",))
    series = _preset(options) if options.again is None else _again(options)
    series.write(options.out)
    print(f"{options.out}: {series.n_trials} trials, {len(series)} samples of {series.n_features}")


def _preset(options: argparse.Namespace) -> TimeSeries:
    simulator, _ = simulate.PRESETS[options.system]
    accepted = set(inspect.signature(simulator).parameters) | {
        "trials", "steps", "mixing", "layers", "observed", "rank", "observation_noise"
    }  # fmt: skip
    wanted = {k: getattr(options, k) for k in ("trials", "steps", *SYSTEM_OPTIONS)}
    chosen = {k: v for k, v in wanted.items() if v is not None}
    for name in chosen:
        if name not in accepted:
            raise InputError(f"--{name.replace('_', '-')}: is not a setting of {options.system}")
    return simulate.preset(options.system, rng=np.random.default_rng(options.seed), **chosen)


def _again(options: argparse.Namespace) -> TimeSeries:
    given = [k for k in SYSTEM_OPTIONS if getattr(options, k) is not None]
    if given:
        raise InputError(f"--{given[0].replace('_', '-')}: comes from the file with --again")
    series = TimeSeries.read(options.again)
    rng = np.random.default_rng(options.seed)
    return simulate.again(series, rng=rng, trials=options.trials, steps=options.steps)
