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
        Parameter("n_components", Whole(), 3, "dimensions d of the latent state",
                  flags=("--components",)),
        Parameter("dynamics", OneOf((*dynamics.BY_NAME, dynamics.AUTO), _module, "an nn.Module"),
                  "linear", 'f. "auto" tries several on a part of the data and goes on with the '
                  'simplest that predicts about as well as the best. "truth" is the oracle, for '
                  "data that carry their system. A module takes (x, x_next=None, u=None), each "
                  "(n, d), and returns the prediction"),
        Parameter("n_modes", Whole(), 5,
                  "K: regimes of switching and gated dynamics, tiles of tiled dynamics", "dynamics",
                  flags=("--modes",), refused=False),  # evaluate(post_hoc="switching") takes it
        Parameter("bias", Flag(), False, "give linear dynamics an offset, one for each mode",
                  "dynamics"),
        Parameter("stable", Flag(auto=True), False, "keep roll-outs of linear, switching or tiled "
                  "dynamics bounded, in whatever order modes follow: when training stands still, "
                  "its maps are replaced by the nearest that do not grow in a norm that all share. "
                  '"auto": only if held-out observations, near and far ahead, are predicted at '
                  "least as well by these", "dynamics"),
        Parameter("degree", Whole(), 2, "of polynomial dynamics", "dynamics"),
        Parameter("lipschitz", OrNone(POSITIVE), None, "bound on the slope of the correction of "
                  "mlp dynamics; below 1 the dynamics is invertible", "dynamics"),
        Parameter("encoder", OrNone(Anything("an nn.Module", _module)), None,
                  "h, from (n, lags · D) to (n, d). None is the paper's MLP", hidden=True),
        Parameter("time_lags", KINDS["time_lags"], (0,), "steps back from now that the encoder "
                  "sees together, such as 0,1,2; on the command line 6/100 is six of them, "
                  "equidistant in a window of 100"),
        _setting("control_lags", group="model"),
        Parameter("sampling_interval", OrNone(POSITIVE), None, "seconds from one sample to the "
                  "next, in which time constants and frequencies are told; None: by the times "
                  "of the data, where they are even; without times, samples are counted"),
        Parameter("similarity", OneOf(tuple(geometry.BY_NAME), _module, "an nn.Module"),
                  "euclidean", 'φ. "dot" puts the latents on the unit sphere and learns the '
                  "temperature. A module takes (q, k), each (..., d), and returns (...)"),
        Parameter("asymmetric", Flag(), False, "one encoder for references and another for "
                  "positives and negatives; `transform` uses the latter"),
        _setting("density_correction"),
        _setting("bandwidth"),
        _setting("n_support"),
        Parameter("protocol", OneOf(tuple(PROTOCOLS)), "default", "how to train; the parameters "
                  "below take the place of its settings where they are not None", "training"),
        _setting("batch_size"),
        _setting("n_negatives", kind=OrNone(Negatives()), help="negatives per step, drawn anew; "
                 '"batch" takes the batch itself'),
        _setting("max_iter"),
        _setting("learning_rate"),
        _setting("dynamics_learning_rate"),
        Parameter("time_offset", KINDS["time_offset"], 1, HELP["time_offset"], "training"),
        _setting("standardize"),
        Parameter("validation", HeldOut(auto=True), "auto", "what `fit` holds out to judge itself "
                  'by the prediction of observations: a share of the data, or trials by their '
                  'indices; False: nothing. "auto" leaves it to the protocol and the dynamics: a '
                  "tenth of the data, or nothing; trials:3,7 on the command line", "training"),
        Parameter("settings", OrNone(Anything("a dict of settings",
                                              lambda value: isinstance(value, Mapping))), None,
                  "any other setting of `dynacl.settings.Settings` by name, such as "
                  '{"horizon": 2}', "training", hidden=True),
        Parameter("random_state", Seed(), None,
                  "seed of all random numbers; 0 on the command line", "training",
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
            "The defaults are those of our protocol before the dynamics, the other parts and the",
            "data have said theirs. `model.settings_` has what was used and `model.reasons_` why.",
            "",
            *settings,
            "",
        ]
    )
