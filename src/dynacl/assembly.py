"""From a request to a run: builds the parts and merges the settings that they want.

Requests that cannot be met end here, in an error. It never trains.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynacl import recipe, simulate
from dynacl.data import InputError, TimeSeries
from dynacl.doubts import check_data, check_modes
from dynacl.dynamics.base import Dynamics
from dynacl.dynamics.base import Request as DynamicsRequest
from dynacl.dynamics.naming import named
from dynacl.dynamics.naming import resolve as resolve_dynamics
from dynacl.encoders import (
    MLP,
    Asymmetric,
    CustomEncoder,
    Driven,
    Encoder,
    Projected,
    as_encoder,
)
from dynacl.judging import split
from dynacl.local_noise import local_noise
from dynacl.objective import density
from dynacl.objective.geometry.base import Geometry
from dynacl.objective.geometry.naming import resolve as resolve_geometry
from dynacl.request import Request, check_parts, check_settings, try_parts
from dynacl.run import Run
from dynacl.sampling import LISTED, PART
from dynacl.settings import Settings
from dynacl.subspace import Start, linear_start
from dynacl.whitening import (
    WINDOWS,
    Whitening,
    dimensions,
    observed_dimensions,
    whitening,
)

LOOKED_AT = 2000  # places, to see whether noise shows


def begin(request: Request, series: TimeSeries, seed: int) -> Run:
    """A run that has taken no step yet; fit leaves modules that it was given as they were."""
    check_data(series)
    generator = torch.Generator().manual_seed(seed)
    system = None if series.truth is None else series.truth.system
    f = make_dynamics(request, series.n_controls, system, generator)
    geometry = resolve_geometry(request.similarity)
    check_parts(request, f, geometry)
    if f.needs_system:  # the truth takes its input as it is
        series = series.within(series.units, None)
    settled, reasons = settings_of(request, f, geometry, series)
    check_modes(f.n_modes, request.n_components, len(series.references(settled.time_offset)))
    seen, _ = _held_out(settled, f, series)
    inputs = control_scaling(seen, settled)
    scaling = input_scaling(request, seen, settled, 0 if inputs is None else inputs.n_outputs)
    start = None
    if settled.linear_start and scaling is not None:
        start = linear_start(seen, scaling, inputs, settled, request.n_components)
    encoder = make_encoder(
        request, series.n_features, series.n_controls, settled, scaling, inputs, start, geometry,
        generator,
    )  # fmt: skip
    run = assemble(request, encoder, f, geometry, settled, generator)
    run.reasons = reasons
    run.units, run.control_units = series.units, series.control_units
    run.correlations = None if start is None else start.correlations
    check_settings(run)
    try_parts(request, run, series)
    return run


def held_out(run: Run, series: TimeSeries) -> tuple[TimeSeries, TimeSeries | None]:
    """What the run trains on, and what it does not: neither weights nor input scaling see it."""
    return _held_out(run.settings, run.dynamics, series)


def _held_out(s: Settings, f: Dynamics, series: TimeSeries) -> tuple[TimeSeries, TimeSeries | None]:
    room, least = (s.past + (f.context + 2 * h) * s.time_offset for h in (s.horizon, 1))
    return split(series, s.validation, room, least)


def settings_of(
    request: Request, f: Dynamics, geometry: Geometry, series: TimeSeries
) -> tuple[Settings, dict[str, str]]:
    """The settings that these parts, the data and the user want, and the reason of each."""
    wishes = [*f.all_wishes(), *geometry.wishes()]
    if request.encoder is not None:
        wishes += CustomEncoder.wishes()
    if request.asymmetric:
        wishes += Asymmetric.wishes()
    if request.chosen.get("density_correction") is not None:
        wishes += density.WISHES
    if read_off_windows(request, f, geometry, series):
        wishes += f.if_read_off_windows(driven=series.n_controls > 0)
    if seen_whole(request, f, geometry, series):
        wishes += f.if_seen_whole()
        noisy = f.if_noise_shows()
        wishes += noisy if noisy and noise_shows(request, series) else ()
    return recipe.settings(
        request.protocol, wishes, series, request.n_components, f.context, request.chosen
    )


def seen_whole(request: Request, f: Dynamics, geometry: Geometry, series: TimeSeries) -> bool:
    """Whether a frame has as many dimensions as the state, and the parts are ours: then what the
    encoder does to volumes is known, and the likelihood of a frame too."""
    asked, d = request.chosen, request.n_components
    ours = request.encoder is None and not request.asymmetric and geometry.has_density
    whitened = (
        asked.get("standardize") is not False and not asked.get("time_lags") and not f.context
    )
    contrast = asked.get("objective") == "contrast"
    contrast |= asked.get("n_negatives") is not None or asked.get("density_correction") is not None
    if contrast or not (ours and whitened):
        return False
    return dimensions(series.observations, d) == d


def read_off_windows(request: Request, f: Dynamics, geometry: Geometry, series: TimeSeries) -> bool:
    """Whether there are fewer outputs than latents, which windows of them show, to parts that are
    ours."""
    asked = request.chosen
    ours = request.encoder is None and not request.asymmetric and geometry.has_density
    contrast = asked.get("objective", "prediction") != "prediction"
    contrast |= asked.get("n_negatives") is not None or asked.get("density_correction") is not None
    windows = len(asked.get("time_lags", (0,))) > 1 or bool(asked.get("control_lags"))
    plain = asked.get("standardize") is not False and not f.context
    few = series.n_features < request.n_components
    return ours and windows and plain and few and not contrast


def noise_shows(request: Request, series: TimeSeries) -> bool:
    """Whether the noise of the system can be told from frames that lie near each other."""
    if series.n_controls or len(series) > LISTED:  # what inputs do is not shared by near frames
        return False
    offset = request.chosen.get("time_offset") or 1
    t = series.references(offset, allow_short=True).spread(LISTED)
    frames = whitening(series.observations, None, None, request.n_components).frames
    y = series.observations
    parts = (torch.from_numpy(np.array(y[i : i + PART])) for i in range(0, len(y), PART))
    z = torch.cat([frames(part) for part in parts]).double().numpy()
    return local_noise(z, t, offset, places=LOOKED_AT) is not None


def rebuild(
    request: Request,
    settled: Settings,
    n_features: int,
    n_controls: int,
    system: Mapping[str, Any] | None,
    weights: Mapping[str, Tensor],
) -> Run:
    """A run of these settings, as a saved model had it, with weights of any value."""
    check_sizes(request, n_features * len(settled.time_lags), n_controls, weights)
    generator = torch.Generator().manual_seed(0)
    f = make_dynamics(request, n_controls, system, generator)
    geometry = resolve_geometry(request.similarity)
    scaling = None
    if request.encoder is None:
        scaling = saved_whitening(weights, len(settled.time_lags))
    inputs = saved_whitening(weights, len(settled.past_inputs), "of_inputs")
    start = None
    if settled.linear_start and scaling is not None:
        start = Start(torch.zeros(request.n_components, scaling.n_outputs), np.empty(0))
    encoder = make_encoder(
        request, n_features, n_controls, settled, scaling, inputs, start, geometry, generator
    )
    run = assemble(request, encoder, f, geometry, settled, generator)
    run.whole = False
    return run


def check_sizes(
    request: Request, n_inputs: int, n_controls: int, weights: Mapping[str, Tensor]
) -> None:
    """That there are as many weights as such a model has, before one of any size is built."""
    there = {
        part: sum(w.numel() for name, w in weights.items() if name.startswith(f"{part}."))
        for part in ("encoder", "dynamics")
    }
    whitened = [w.shape[-1] for name, w in weights.items() if name.endswith("whitening.frame")]
    d, least = request.n_components, {"encoder": 0, "dynamics": 0}
    if request.encoder is None:
        least["encoder"] = MLP.least_weights(d, 0 if whitened else n_inputs)
    if isinstance(request.dynamics, str):
        f = DynamicsRequest(d, n_controls, request.options)
        least["dynamics"] = named(request.dynamics).least_weights(f)
    for part, n in least.items():
        if there[part] < n:
            raise InputError(f"its {part} has {there[part]} weights; wanted at least {n} with "
                             f"n_components={d}, {n_inputs} inputs and these options")  # fmt: skip
    if d * n_controls > sum(there.values()):
        raise InputError(f"n_controls: got {n_controls}, for {sum(there.values())} weights")


def assemble(
    request: Request,
    encoder: Encoder,
    f: Dynamics,
    geometry: Geometry,
    settled: Settings,
    generator: torch.Generator,
) -> Run:
    where = device(request.device)
    return Run(encoder.to(where), f.to(where), settled, generator, geometry.to(where))


def make_dynamics(
    request: Request,
    n_controls: int,
    system: Mapping[str, Any] | None,
    generator: torch.Generator,
) -> Dynamics:
    truth = partial(simulate.system, system) if system else None
    asked = DynamicsRequest(request.n_components, n_controls, request.options, truth, generator)
    return resolve_dynamics(request.dynamics, asked)


def control_scaling(series: TimeSeries, s: Settings) -> Whitening | None:
    """How past inputs in a window are standardised."""
    if series.control is None or not s.past_inputs or not s.standardize:
        return None
    t = series.windowed(s.past).spread(WINDOWS)
    return whitening(series.control, t[:, None] - np.array(s.past_inputs))


def input_scaling(
    request: Request, series: TimeSeries, s: Settings, n_inputs: int
) -> Whitening | None:
    """How the input is standardised; a warning if less than the state can be read off it and the
    past inputs beside it."""
    if not s.standardize or request.encoder is not None:
        return None
    lags, d, offset = np.array(s.time_lags), request.n_components, s.time_offset
    y, past = series.observations, int(lags.max())
    windows = None
    if len(lags) > 1:
        windows = series.windowed(past).spread(WINDOWS)[:, None] - lags
    t = series.references(offset, allow_short=True).spread(WINDOWS)
    # What an input does to the state does not follow from the state, and is no noise.
    pairs = None if series.n_controls else (t, t + offset)
    found = whitening(y, windows, pairs, d)
    if found.n_outputs + n_inputs < d:
        warnings.warn(
            f"the observations span {found.n_outputs + n_inputs} dimensions"
            f"{' with past inputs' if n_inputs else ''}, fewer than the {d} latents: the state "
            "cannot be read off them unless the mixing is non-linear; add time_lags",
            stacklevel=4,
        )
    elif windows is not None and pairs is not None:
        now = series.references(offset + past, past, allow_short=True).spread(WINDOWS)[:, None]
        shown = observed_dimensions(found, y, now - lags, now + offset + past - lags)
        if shown is not None and shown < d:
            warnings.warn(
                f"windows of {len(lags)} time lags show {shown} dimensions of a state above the "
                f"noise, fewer than the {d} latents: what they do not show cannot be found; add "
                "time_lags, or spread them further",
                stacklevel=4,
            )
    return found


def make_encoder(
    request: Request,
    n_features: int,
    n_controls: int,
    s: Settings,
    scaling: Whitening | None,
    inputs: Whitening | None,
    start: Start | None,
    geometry: Geometry,
    generator: torch.Generator,
) -> Encoder:
    """The paper's MLP or a copy of the user's module, in this geometry, single or as a pair; with
    past inputs beside it, where windows have them."""

    def single() -> Encoder:
        made: Encoder
        if request.encoder is not None:
            made = as_encoder(copy.deepcopy(request.encoder))
        else:
            made = MLP(
                n_features * len(s.time_lags),
                request.n_components,
                whitening=copy.deepcopy(scaling),
                gain=s.input_gain,
                linear_start=None if start is None else start.weight,
                linear_offset=None if start is None else start.offset,
                generator=generator,
            )
        return Projected(made, geometry) if geometry.scale_free else made

    target = single()
    if s.past_inputs:
        n, begins = len(s.past_inputs) * n_controls, None if start is None else start.inputs
        return Driven(target, n, request.n_components, inputs, begins)
    return Asymmetric(single(), target) if request.asymmetric else target


def saved_whitening(
    weights: Mapping[str, Tensor], n_frames: int, name: str = "whitening"
) -> Whitening | None:
    """The input scaling of this name among the saved weights, wherever the encoder keeps it."""
    found = {k.rsplit(".", 1)[1]: v for k, v in weights.items()
             if k.startswith("encoder.") and f".{name}." in k}  # fmt: skip
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
