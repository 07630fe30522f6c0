"""The parameters of DCL, declared once: kind, default, flag and help.

Checks, the options of `dynacl fit`, the docstring of `DCL` and the table in docs/parameters.md all
come from this declaration. It imports nothing heavy.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dynacl import dynamics
from dynacl.data import InputError
from dynacl.objective import geometry
from dynacl.settings import HELP, KINDS, PROTOCOLS
from dynacl.values import (
    POSITIVE,
    Anything,
    Flag,
    HeldOut,
    Kind,
    Negatives,
    OneOf,
    OrNone,
    Seed,
    Whole,
)

DECODERS = ("sequence", "step")  # how modes are told: from whole trials, or step by step
FORECASTS = ("hold", "markov", "gated")  # how modes go on in a forecast


@dataclass(frozen=True)
class Parameter:
    """One parameter of DCL."""

    name: str
    kind: Kind
    default: Any
    help: str
    group: str = "model"  # "dynamics": an option of some dynamics; "training": a setting
    flags: tuple[str, ...] = ()  # further names on the command line
    hidden: bool = False  # no option of `dynacl fit`
    refused: bool = True  # an option of dynamics that the chosen one does not take is an error

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


def _module(value: Any) -> bool:
    """Whether this is an nn.Module, without importing PyTorch to ask."""
    return hasattr(value, "state_dict") and callable(value) and not isinstance(value, type)


def _setting(name: str, **changed: Any) -> Parameter:
    """A setting that is a parameter too. None leaves it to the protocol, the parts and the data."""
    kind = KINDS[name] if KINDS[name].accepts(None) else OrNone(KINDS[name])
    declared = Parameter(name, kind, None, HELP[name], "training")
    return replace(declared, **changed)


PARAMETERS: dict[str, Parameter] = {
    p.name: p
    for p in (
        Parameter("n_components", Whole(), 3, "number d of latent dimensions",
                  flags=("--components",)),
        Parameter("dynamics", OneOf((*dynamics.BY_NAME, dynamics.AUTO), _module, "an nn.Module"),
                  "linear", 'how the state moves: f. "auto" tries several on a part of the data '
                  'and takes the simplest that predicts about as well as the best. "truth" is the '
                  "true system, for data that carry it. In Python also a module, which takes (x, "
                  "x_next=None, u=None), each (n, d), and returns the prediction"),
        Parameter("n_modes", Whole(), 5,
                  "number K of regimes of switching and gated dynamics, or of tiles", "dynamics",
                  flags=("--modes",), refused=False),  # evaluate(post_hoc="switching") takes it
        Parameter("bias", Flag(), False, "give linear dynamics an offset, one per mode",
                  "dynamics"),
        Parameter("stable", Flag(auto=True), False, "keep roll-outs of linear, switching or tiled "
                  "dynamics bounded, in whatever order modes follow. When training stops, the maps "
                  "are replaced by the nearest ones that do not grow in a norm that all share. "
                  '"auto" does this only if held-out observations, near and far ahead, are then '
                  "predicted at least as well", "dynamics"),
        Parameter("degree", Whole(), 2, "degree of the polynomial in polynomial and flow dynamics",
                  "dynamics"),
        Parameter("lipschitz", OrNone(POSITIVE), None, "bound on the slope of the correction in "
                  "mlp dynamics; below 1 the dynamics are invertible", "dynamics"),
        Parameter("encoder", OrNone(Anything("an nn.Module", _module)), None,
                  "the encoder h: a module from (n, lags · D) to (n, d). None: the paper's MLP",
                  hidden=True),
        Parameter("time_lags", KINDS["time_lags"], (0,), "steps back from now that the encoder "
                  "sees together, such as 0,1,2. On the command line, 6/100 means six of them, "
                  "evenly spread over a window of 100"),
        _setting("control_lags", group="model"),
        Parameter("sampling_interval", OrNone(POSITIVE), None, "seconds from one sample to the "
                  "next, for time constants and frequencies. None: from the times of the data, if "
                  "they are evenly spaced; otherwise the unit is the sample"),
        Parameter("similarity", OneOf(tuple(geometry.BY_NAME), _module, "an nn.Module"),
                  "euclidean", 'how alike two latents are: φ. "dot" puts the latents on the unit '
                  "sphere and learns the temperature. In Python also a module, which takes (q, k), "
                  "each (..., d), and returns (...)"),
        Parameter("asymmetric", Flag(), False, "use one encoder for references and another for "
                  "positives and negatives; `transform` uses the latter"),
        _setting("density_correction"),
        _setting("bandwidth"),
        _setting("n_support"),
        Parameter("protocol", OneOf(tuple(PROTOCOLS)), "default", "how to train. The parameters "
                  "below replace its settings unless they are None", "training"),
        _setting("batch_size"),
        _setting("n_negatives", kind=OrNone(Negatives()), help="negatives per step, drawn anew; "
                 '"batch" uses the batch itself'),
        _setting("max_iter"),
        _setting("learning_rate"),
        _setting("dynamics_learning_rate"),
        Parameter("time_offset", KINDS["time_offset"], 1, HELP["time_offset"], "training"),
        _setting("standardize"),
        Parameter("validation", HeldOut(auto=True), "auto", "what `fit` holds out to judge itself "
                  'by the prediction of observations: a share of the data, or trials by their '
                  'indices (trials:3,7 on the command line). False: nothing. "auto" leaves it to '
                  "the protocol and the dynamics: a tenth of the data, or nothing", "training"),
        Parameter("settings", OrNone(Anything("a dict of settings",
                                              lambda value: isinstance(value, Mapping))), None,
                  "any other setting of `dynacl.settings.Settings` by name, such as "
                  '{"horizon": 2}', "training", hidden=True),
        Parameter("random_state", Seed(), None,
                  "seed of all random numbers; the command line takes 0 by default", "training",
                  flags=("--seed",)),
        Parameter("device", Anything("a device of PyTorch"), "auto",
                  '"auto" takes CUDA, then MPS, then the CPU', "training", hidden=True),
        Parameter("verbose", Anything("True or False"), False, "show progress", "training",
                  hidden=True),
    )
}  # fmt: skip


def check(given: Mapping[str, Any]) -> None:
    """Every parameter that cannot be: named, with what came and what is wanted."""
    for name, parameter in PARAMETERS.items():
        value = given[name]
        if not parameter.kind.accepts(value):
            came = repr(value)
            if name in ("encoder",):
                came = type(value).__name__
            raise InputError(f"{name}: got {came}; wanted {parameter.kind.wanted}")


def docstring() -> str:
    """The section "Parameters" of DCL's docstring."""
    lines = []
    for p in PARAMETERS.values():
        lines.append(f"    {p.name} : {p.kind.wanted}, default={p.default!r}")
        text = p.help[0].upper() + p.help[1:] + "."
        lines += textwrap.wrap(text, 96, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines).lstrip()


def table() -> str:
    """docs/parameters.md: parameters of DCL, then every setting of the training."""
    rows = ["| parameter | flag | wanted | default | |", "|---|---|---|---|---|"]
    for p in PARAMETERS.values():
        flag = "" if p.hidden else ", ".join(f"`{f}`" for f in (p.option, *p.flags))
        rows.append(f"| `{p.name}` | {flag} | {p.kind.wanted} | `{p.default!r}` | {p.help} |")
    settings = ["| setting | wanted | default | |", "|---|---|---|---|"]
    ours = PROTOCOLS["default"].settings
    for name, kind in KINDS.items():
        settings.append(f"| `{name}` | {kind.wanted} | `{getattr(ours, name)!r}` | {HELP[name]} |")
    return "\n".join(
        [
            "# Parameters and settings",
            "",
            "Made by `make docs` from `dynacl/parameters.py` and `dynacl/settings.py`; do not edit",
            "by hand.",
            "",
            "## Parameters of `DCL`, options of `dynacl fit`",
            "",
            *rows,
            "",
            "## Settings of the training",
            "",
            'Any of them can be set: `DCL(settings={"horizon": 2})`, `dynacl fit --set horizon=2`.',
            "The defaults are those of our protocol; the dynamics, the other parts and the data",
            "may change them. `model.settings_` has what was used and `model.reasons_` why.",
            "",
            *settings,
            "",
        ]
    )
