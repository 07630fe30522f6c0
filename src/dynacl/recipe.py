"""From what a user asked for to the settings and parts of a run; bad requests end here."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.data import InputError, TimeSeries
from dynacl.dynamics import (
    MANY_MODES,
    Gated,
    Identity,
    Linear,
    Polynomial,
    Recurrent,
    ResidualMLP,
    SwitchingLinear,
    Truth,
)
from dynacl.encoders import MLP, Asymmetric, OnSphere
from dynacl.objective import Dot, Euclidean
from dynacl.objective.density import KERNELS
from dynacl.settings import PROTOCOLS, Settings, default_steps
from dynacl.whitening import Whitening, observed_dimensions, whitening

if TYPE_CHECKING:
    from dynacl.estimator import DCL

DYNAMICS = (
    "identity", "linear", "switching", "polynomial", "mlp", "gated", "recurrent", "truth"
)  # fmt: skip
FREE = ("polynomial", "mlp", "gated", "recurrent")  # f beyond (switching) linear
SIMILARITIES = ("euclidean", "dot")


def check(model: DCL) -> None:
    """Every parameter that cannot be, named, with what came and what is wanted."""
    for name in ("n_components", "n_modes", "batch_size", "max_iter", "time_offset", "degree",
                 "n_support"):  # fmt: skip
        value = getattr(model, name)
        if value is None and name in ("batch_size", "max_iter", "n_support"):
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name}: got {value!r}; wanted a whole number of at least 1")
    for name in ("learning_rate", "dynamics_learning_rate", "bandwidth", "lipschitz"):
        value = getattr(model, name)
        number = isinstance(value, int | float | np.integer | np.floating)
        if value is not None and not (number and 0 < value < np.inf):
            raise InputError(f"{name}: got {value!r}; wanted a positive number")
    n = model.n_negatives
    if n is not None and n != "batch" and (not isinstance(n, int | np.integer) or n < 1):
        raise InputError(f'n_negatives: got {n!r}; wanted a whole number or "batch"')
    for name, choices, module in (
        ("protocol", tuple(PROTOCOLS), False),
        ("dynamics", DYNAMICS, True),
        ("similarity", SIMILARITIES, True),
        ("density_correction", (None, *KERNELS), False),
    ):
        value = getattr(model, name)
        if (module and isinstance(value, nn.Module)) or value in list(choices):
            continue
        listed = ", ".join(map(str, choices)) + (" or an nn.Module" if module else "")
        raise InputError(f"{name}: got {value!r}; wanted one of {listed}")
    for name in ("asymmetric", "bias"):
        if not isinstance(getattr(model, name), bool | np.bool_):
            raise InputError(f"{name}: got {getattr(model, name)!r}; wanted True or False")
    if model.encoder is not None and not isinstance(model.encoder, nn.Module):
        raise InputError(f"encoder: got {type(model.encoder).__name__}; wanted an nn.Module")
    if isinstance(model.encoder, Asymmetric):
        raise InputError("encoder: a pair is made with asymmetric=True; wanted a single encoder")
    if isinstance(model.similarity, Dot):
        raise InputError('similarity: got a Dot; wanted "dot", which also puts latents on a sphere')
    time_lags(model)
    on_sphere = model.similarity == "dot"
    if model.density_correction == "vmf" and not on_sphere:
        raise InputError('density_correction: "vmf" needs unit latents; wanted similarity="dot"')
    if model.density_correction == "euclidean" and on_sphere:
        raise InputError('density_correction: "euclidean" does not fit similarity="dot"; '
                         'wanted "vmf"')  # fmt: skip
    if model.standardize is not None and not isinstance(model.standardize, bool | np.bool_):
        raise InputError(f"standardize: got {model.standardize!r}; wanted True, False or None")
    for name, given, fits in (
        ("bandwidth", model.bandwidth, model.density_correction is not None),
        ("n_support", model.n_support, model.density_correction is not None),
        ("lipschitz", model.lipschitz, model.dynamics == "mlp"),
        ("bias", model.bias or None, model.dynamics not in ("identity", *FREE)),
    ):
        if given is not None and not fits:
            needs = {"lipschitz": 'dynamics="mlp"', "bias": "linear or switching dynamics"}
            raise InputError(f"{name}: got {given!r}, which has no effect here; it needs "
                             f"{needs.get(name, 'a density_correction')}")  # fmt: skip
    recurrent = model.dynamics == "recurrent" or hasattr(model.dynamics, "context")
    if model.asymmetric and recurrent:
        raise InputError("asymmetric: its references and positives live in different spaces; "
                         'wanted dynamics without a context, not "recurrent"')  # fmt: skip
    if model.dynamics == "truth" and model.time_offset > 1:
        raise InputError(f"time_offset: got {model.time_offset}; wanted 1 with "
                         'dynamics="truth", which is the map over one step')  # fmt: skip
    if on_sphere and int(model.n_components) < 2:
        raise InputError('n_components: got 1; wanted at least 2 with similarity="dot", the '
                         "dimensions around a circle")  # fmt: skip


def time_lags(model: DCL) -> tuple[int, ...]:
    try:
        lags = tuple(int(lag) for lag in model.time_lags)
        good = lags == tuple(model.time_lags) and len(set(lags)) == len(lags) > 0
    except (TypeError, ValueError):
        good, lags = False, ()
    if not good or min(lags) < 0:
        raise InputError(
            f"time_lags: got {model.time_lags!r}; wanted distinct whole numbers of steps back, "
            "such as (0, 1, 2)"
        )
    return lags


def settings(model: DCL, series: TimeSeries) -> Settings:
    """The protocol, with what the user set in its place, cut to the size of the data."""
    check(model)
    chosen = {
        name: np.asarray(getattr(model, name)).item()  # numpy's scalars are no JSON
        for name in ("batch_size", "max_iter", "learning_rate", "dynamics_learning_rate",
                     "standardize", "density_correction", "bandwidth", "n_support")
        if getattr(model, name) is not None
    }  # fmt: skip
    found = replace(
        PROTOCOLS[model.protocol],
        time_offset=int(model.time_offset),
        time_lags=time_lags(model),
        **chosen,
    )
    if model.n_negatives is not None:
        n = None if model.n_negatives == "batch" else int(model.n_negatives)
        found = replace(found, n_negatives=n)
    past = max(found.time_lags)
    if model.protocol == "default":
        # Several steps only where the model says what they are, and trials have the room.
        stepping = model.dynamics in ("linear", "switching", "truth", "polynomial")
        stepping &= model.similarity != "dot" and not model.asymmetric
        room = max(1, (int(series.lengths.min()) - 1 - past) // found.time_offset)
        if stepping and model.dynamics == "polynomial":
            # Many redrawings of the state space look quadratic over one small step, or over ten;
            # few over one, two, … and twenty. Higher powers run off over several.
            several = correlation_time(series, found.time_offset) if model.degree <= 2 else 1
            found = replace(found, horizon=several, one_step=0.0, mixed=several > 1)
        found = replace(found, horizon=min(found.horizon, room) if stepping else 1)
        tiles = model.dynamics == "switching" and int(model.n_modes) > MANY_MODES
        structured = model.dynamics in ("identity", "linear", "switching", "truth", "polynomial")
        identifies = structured and not model.asymmetric  # else f after h₁ is as free as h₁
        # A free f follows latents that are easy to predict; on the sphere it would change 1/κ.
        if not identifies or tiles or model.similarity == "dot":
            found = replace(found, emphasis=0.0)
        if series.n_controls:  # drift alone tells pairs apart: first find the rest
            found = replace(found, emphasis_from=0.7)
        found = replace(found, linear_start=identifies and model.similarity != "dot")
        if not structured or model.dynamics == "polynomial" or tiles:
            # Sharp features at the start fold the state space, and a free f follows the fold.
            found = replace(found, input_gain=1.0)
        if tiles:
            # So many modes tile the space: a state visits each briefly, and their errors differ by
            # a ratio, not by a distance. They can follow nearly any redrawing of the space, so it
            # starts at a linear map, with a bank fitted to that, and is redrawn slowly.
            found = replace(found, switching_logits="relative", horizon=1, refit=True)
            if found.standardize and model.encoder is None:
                found = replace(found, one_step=0.0, learning_rate=model.learning_rate or 1e-3)
    pairs = len(series.steps(found.time_offset * found.horizon, past))
    if model.batch_size is None and model.protocol == "default":
        found = replace(found, batch_size=max(2, min(found.batch_size, pairs)))
    if model.max_iter is None and model.protocol == "default":
        steps = default_steps(int(model.n_components), pairs)
        # Longer, and quadratic dynamics slowly redraw what they had found (docs/log.md).
        quadratic = model.dynamics == "polynomial"
        found = replace(found, max_iter=max(300, round(0.6 * steps)) if quadratic else steps)
    if found.n_negatives is None and found.batch_size == 1:
        raise InputError("batch_size: got 1; with the batch as negatives it needs at least 2")
    return found


def correlation_time(series: TimeSeries, offset: int, most: int = 20) -> int:
    """Steps after which three quarters of the observations' correlation are lost, 1 to `most`."""
    series = series.head(50_000)
    y = series.observations
    for h in range(1, most):
        t = series.steps(h * offset, allow_short=True)
        moved = np.square(y[t + h * offset] - y[t]).sum(1).mean() if len(t) else np.inf
        if moved >= 1.5 * y.var(0).sum():  # 2 (1 − correlation) times the variance
            return h
    return most


def scaling(model: DCL, series: TimeSeries, settings: Settings) -> Whitening | None:
    """How the input is standardised; a warning if less than the state can be read off it."""
    if not settings.standardize or model.encoder is not None:
        return None
    lags, d, offset = np.array(settings.time_lags), int(model.n_components), settings.time_offset
    y, past = series.observations, int(lags.max())
    windows = series.with_past(past)[:, None] - lags if len(lags) > 1 else None
    t = series.steps(offset, allow_short=True)
    # What an input does to the state does not follow from the state, and is no noise.
    pairs = None if series.n_controls else (t, t + offset)
    found = whitening(y, windows, pairs, d)
    if found.n_outputs < d:
        warnings.warn(
            f"the observations span {found.n_outputs} dimensions, fewer than the {d} latents: "
            "the state cannot be read off them unless the mixing is non-linear; add time_lags",
            stacklevel=4,
        )
    elif windows is not None and pairs is not None:
        now = series.steps(offset + past, past, allow_short=True)[:, None]
        shown = observed_dimensions(found, y, now - lags, now + offset + past - lags)
        if shown is not None and shown < d:
            warnings.warn(
                f"windows of {len(lags)} time lags show {shown} dimensions of a state above the "
                f"noise, fewer than the {d} latents: what they do not show cannot be found; add "
                "time_lags, or spread them further",
                stacklevel=4,
            )
    return found


def build(
    model: DCL,
    n_inputs: int,
    n_controls: int,
    settings: Settings,
    generator: torch.Generator,
    whitening: Whitening | None,
) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Encoder, dynamics and similarity; fit leaves modules that it was given as they were."""
    d = int(model.n_components)
    dynamics = _dynamics(model, d, n_controls, settings, generator)

    # Sharp features at the start speed up what has many inputs; few they fold.
    inputs = n_inputs if whitening is None else whitening.n_outputs
    gain = float(np.clip(inputs - 3, 1, settings.input_gain))

    def encoder() -> nn.Module:
        made: nn.Module = copy.deepcopy(model.encoder) or MLP(
            n_inputs,
            d,
            whitening=copy.deepcopy(whitening),
            gain=gain,
            linear_start=settings.linear_start and whitening is not None,
            generator=generator,
        )
        return OnSphere(made) if model.similarity == "dot" else made

    target = encoder()
    similarity: nn.Module
    if isinstance(model.similarity, nn.Module):
        similarity = copy.deepcopy(model.similarity)
    else:
        similarity = Dot() if model.similarity == "dot" else Euclidean(settings.temperature)
    where = device(model.device)
    pair = Asymmetric(encoder(), target) if model.asymmetric else target
    return pair.to(where), dynamics.to(where), similarity.to(where)


def _dynamics(
    model: DCL, d: int, n_controls: int, settings: Settings, generator: torch.Generator
) -> nn.Module:
    kind = model.dynamics
    if isinstance(kind, nn.Module):
        return copy.deepcopy(kind)
    if kind == "identity":
        return Identity()
    if kind == "truth":
        assert model.system_ is not None
        return Truth({k: np.asarray(v) for k, v in model.system_.items()})
    if kind == "linear":
        return Linear(d, model.bias, n_controls)
    if kind == "polynomial":
        return Polynomial(d, int(model.degree), n_controls)
    if kind == "mlp":
        return ResidualMLP(d, lipschitz=model.lipschitz, n_controls=n_controls, generator=generator)
    if kind == "gated":
        return Gated(d, int(model.n_modes), n_controls=n_controls, generator=generator)
    if kind == "recurrent":
        return Recurrent(d, n_controls=n_controls, generator=generator)
    return SwitchingLinear(
        d,
        int(model.n_modes),
        model.bias,
        n_controls,
        logits=settings.switching_logits,
        spread=settings.switching_spread,
        generator=generator,
    )


def try_parts(
    model: DCL,
    encoder: nn.Module,
    dynamics: nn.Module,
    similarity: nn.Module,
    settings: Settings,
    series: TimeSeries,
) -> None:
    """A custom part that cannot take the data says so now, in one sentence."""
    where, d, n = device(model.device), int(model.n_components), 2
    states = torch.linspace(-1, 1, 5 * d, device=where).view(5, d)
    x, others = states[:n], states[n:]
    if model.encoder is not None:
        lags = np.array(settings.time_lags)
        rows = series.observations[series.with_past(int(lags.max()))[:n, None] - lags]
        windows = torch.from_numpy(rows.reshape(len(rows), -1)).to(where)
        _try("encoder", encoder, {"windows": windows}, (len(rows), d))
    if isinstance(model.dynamics, nn.Module):
        C, u = int(getattr(dynamics, "context", 0)), series.control
        now = x[:, None].expand(-1, C + 1, -1) if C else x
        drive = None if u is None else torch.from_numpy(np.array(u[:n])).to(where)
        _try("dynamics", dynamics, {"x": now, "x_next": x, "u": drive}, (n, d))
    if isinstance(model.similarity, nn.Module):
        _try("similarity", similarity, {"q": x, "k": x}, (n,))
        _try("similarity", similarity, {"q": x[:, None], "k": others}, (n, len(others)))


def _try(
    name: str, part: nn.Module, inputs: Mapping[str, Tensor | None], wanted: tuple[int, ...]
) -> None:
    """On a copy, and with the random numbers put back: a part that passes starts as it was."""
    came = ", ".join(f"{k} {None if v is None else tuple(v.shape)}" for k, v in inputs.items())
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            shape = tuple(copy.deepcopy(part).eval()(*inputs.values()).shape)
    except Exception as error:  # whatever a user's code raises
        raise InputError(f"{name}: cannot take {came}: {error}; wanted {wanted}") from error
    if shape != wanted:
        raise InputError(f"{name}: gave shape {shape} for {came}; wanted {wanted}")


def saved_whitening(weights: Mapping[str, Tensor], n_frames: int) -> Whitening | None:
    """The input scaling among the weights of a saved model, wherever its encoder keeps it."""
    found = {k.rsplit(".", 1)[1]: v for k, v in weights.items() if ".whitening." in k}
    if not found:
        return None
    return Whitening(found["shift"], found["frame"], found.get("window"), n_frames)


def device(name: str) -> torch.device:
    if name != "auto":
        try:
            found = torch.device(name)
            torch.empty(0, device=found).cpu()
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"device: {name!r} cannot be used here: {reason}") from error
        return found
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
