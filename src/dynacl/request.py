"""What a user asked for: parts and settings. What is impossible is refused in one sentence."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynacl import parameters, recipe
from dynacl.data import InputError, TimeSeries
from dynacl.dynamics import BY_NAME
from dynacl.dynamics.base import Dynamics
from dynacl.dynamics.naming import options as dynamics_options
from dynacl.encoders import as_encoder
from dynacl.objective.geometry import BY_NAME as GEOMETRIES
from dynacl.objective.geometry.base import Geometry
from dynacl.objective.geometry.naming import resolve as resolve_geometry
from dynacl.parameters import PARAMETERS
from dynacl.run import Run
from dynacl.values import plain


@dataclass(frozen=True)
class Request:
    """What a user asked for: parts and the settings that were named."""

    n_components: int
    dynamics: str | nn.Module
    options: Mapping[str, Any]
    encoder: nn.Module | None
    similarity: str | nn.Module
    asymmetric: bool
    protocol: str
    chosen: Mapping[str, Any]
    device: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """From all parameters of DCL by name, checked."""
        parameters.check(given)
        options = {n: plain(given[n]) for n, p in PARAMETERS.items() if p.group == "dynamics"}
        taken = dynamics_options(given["dynamics"])
        for name, value in options.items():
            p = PARAMETERS[name]
            if p.refused and value != p.default and name not in taken:
                takers = ", ".join(n for n in BY_NAME if name in dynamics_options(n))
                raise InputError(f"{name}: got {value!r}, which has no effect here; it needs "
                                 f"dynamics by one of these names: {takers}")  # fmt: skip
        return cls(
            n_components=int(given["n_components"]),
            dynamics=given["dynamics"],
            options=options,
            encoder=given["encoder"],
            similarity=given["similarity"],
            asymmetric=bool(given["asymmetric"]),
            protocol=given["protocol"],
            chosen=recipe.chosen_settings(given),
            device=given["device"],
        )


def check_parts(request: Request, f: Dynamics, geometry: Geometry) -> None:
    """What cannot be combined, named."""
    if request.encoder is not None and not as_encoder(request.encoder).symmetric:
        raise InputError("encoder: a pair is made with asymmetric=True; wanted a single encoder")
    kernel = request.chosen.get("density_correction")
    if kernel is not None and kernel != geometry.kernel:
        fits = [name for name in GEOMETRIES if resolve_geometry(name).kernel == kernel]
        raise InputError(f'density_correction: "{kernel}" does not fit similarity='
                         f'{_said(request.similarity)}; wanted "{geometry.kernel}", or '
                         + " or ".join(f'similarity="{name}"' for name in fits))  # fmt: skip
    for name in ("bandwidth", "n_support"):
        if request.chosen.get(name) is not None and kernel is None:
            raise InputError(f"{name}: got {request.chosen[name]!r}, which has no effect here; it "
                             "needs a density_correction")  # fmt: skip
    if request.chosen.get("control_lags") and (geometry.scale_free or request.asymmetric):
        what = "asymmetric encoders" if request.asymmetric else "latents on a sphere"
        raise InputError(f"control_lags: got {request.chosen['control_lags']}; wanted () with "
                         f"{what}, to which past inputs are not added")  # fmt: skip
    if request.asymmetric and f.context:
        raise InputError("asymmetric: its references and positives live in different spaces; "
                         f"wanted dynamics without a context, not {_said(request.dynamics)}"
                         )  # fmt: skip
    if f.needs_system and request.chosen.get("time_offset", 1) > 1:
        raise InputError(f"time_offset: got {request.chosen['time_offset']}; wanted 1 with "
                         f"dynamics={_said(request.dynamics)}, which is the map over one step"
                         )  # fmt: skip
    if f.stable and (geometry.scale_free or request.asymmetric):
        raise InputError(f"stable: got {f.stable!r}, which has no effect here; it needs dynamics "
                         "that lead from latents to latents in the plane: one encoder, and another "
                         "similarity than on the sphere")  # fmt: skip
    if request.n_components < geometry.least_components:
        raise InputError(f"n_components: got {request.n_components}; wanted at least "
                         f"{geometry.least_components} with similarity="
                         f"{_said(request.similarity)}, the dimensions around a circle"
                         )  # fmt: skip


def check_settings(run: Run) -> None:
    """Settings that these parts cannot follow, whoever asked for them."""
    if run.settings.mixed and run.dynamics.infers_modes:
        raise InputError("mixed: got True; wanted False with hidden modes, as rows that stop at "
                         "different times have no mode in common")  # fmt: skip
    if run.settings.horizon > 1 and not run.encoder.symmetric:
        raise InputError(f"horizon: got {run.settings.horizon}; wanted 1 with two encoders, as the "
                         "dynamics leads from one space to another")  # fmt: skip
    if run.settings.objective == "likelihood" and (run.settings.past or not run.encoder.square):
        raise InputError("objective: got 'likelihood', which needs single frames that span as many "
                         "dimensions as there are n_components; wanted 'contrast'")  # fmt: skip
    if run.settings.objective == "prediction" and (
        run.dynamics.infers_modes or not run.encoder.symmetric or not run.geometry.has_density
    ):
        raise InputError("objective: got 'prediction', which needs one encoder, latents in the "
                         "plane and dynamics without hidden modes; wanted 'contrast'")  # fmt: skip
    if not run.optimizers:
        raise InputError("encoder: neither it nor the dynamics has weights to train; wanted a "
                         "module with parameters")  # fmt: skip


def _said(part: str | nn.Module) -> str:
    return f'"{part}"' if isinstance(part, str) else type(part).__name__


def try_parts(request: Request, run: Run, series: TimeSeries) -> None:
    """A custom part that cannot take the data says so now, in one sentence."""
    d, n, where = request.n_components, 2, run.device
    states = torch.linspace(-1, 1, 5 * d, device=where).view(5, d)
    x, others = states[:n], states[n:]
    if request.encoder is not None:
        s = run.settings
        rows = series.windows(series.windowed(s.past)[:n], s.time_lags)
        windows = torch.from_numpy(rows).to(where)
        _try("encoder", run.encoder.of_observations, {"windows": windows}, (len(rows), d))
    if isinstance(request.dynamics, nn.Module):
        C, u = run.dynamics.context, series.control
        now = x[:, None].expand(-1, C + 1, -1) if C else x
        drive = None if u is None else torch.from_numpy(np.array(u[:n])).to(where)
        K, f = run.dynamics.n_modes, run.dynamics
        if K:
            _try("dynamics: its bank", f, {"x": now, "u": drive}, (n, K, d), "bank")
        _try("dynamics", f, {"x": now, "x_next": x, "u": drive}, (n, d))
        if (maps := f.linear_maps()) is not None and maps.shape != (max(K, 1), d, d):
            raise InputError(f"dynamics: its linear_maps have shape {tuple(maps.shape)}; wanted "
                             f"{(max(K, 1), d, d)}")  # fmt: skip
    if isinstance(request.similarity, nn.Module):
        _try("similarity", run.geometry, {"q": x, "k": x}, (n,))
        _try("similarity", run.geometry, {"q": x[:, None], "k": others}, (n, len(others)))


def _try(
    name: str,
    part: nn.Module,
    inputs: Mapping[str, Tensor | None],
    wanted: tuple[int, ...],
    method: str = "__call__",
) -> None:
    """On a copy, and with the random numbers put back: a part that passes starts as it was."""
    came = ", ".join(f"{k} {None if v is None else tuple(v.shape)}" for k, v in inputs.items())
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            shape = tuple(methodcaller(method, *inputs.values())(copy.deepcopy(part).eval()).shape)
    except Exception as error:  # whatever a user's code raises
        raise InputError(f"{name}: cannot take {came}: {error}; wanted {wanted}") from error
    if shape != wanted:
        raise InputError(f"{name}: gave shape {shape} for {came}; wanted {wanted}")
