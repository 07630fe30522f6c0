"""Systems by kind, data sets by name, and new trials of the system behind data.

The defaults of the simulators are the paper's settings; `rossler` is not of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynacl.data import Array, InputError, TimeSeries
from dynacl.simulate.base import System, UnknownSystemError
from dynacl.simulate.control import CONTROLS
from dynacl.simulate.flow import Flow, flow
from dynacl.simulate.identity import Identity, identity
from dynacl.simulate.lds import LDS, controlled, lds
from dynacl.simulate.lorenz import Lorenz, lorenz
from dynacl.simulate.own import Own
from dynacl.simulate.paths import rotation
from dynacl.simulate.slds import SLDS, slds
from dynacl.simulate.sphere import Sphere, sphere

__all__ = ["CONTROLS", "PRESETS", "SYSTEMS", "again", "preset", "rotation", "system"]

# By kind, which is what files store.
SYSTEMS: dict[str, type[System]] = {
    Identity.kind: Identity,
    LDS.kind: LDS,
    Sphere.kind: Sphere,
    SLDS.kind: SLDS,
    Lorenz.kind: Lorenz,
    Flow.kind: Flow,
    Own.kind: Own,
}

# name: (simulator, settings that differ from its defaults)
PRESETS: dict[str, tuple[Callable[..., TimeSeries], dict[str, Any]]] = {
    "identity": (identity, {}),
    "lds": (lds, {}),
    "lds-low-dt": (lds, {"angle": 2.0}),
    "slds": (slds, {}),
    "lorenz": (lorenz, {}),
    "lorenz-small-dt": (lorenz, {"dt": 0.0005, "noise": 0.1}),
    "control-none": (controlled, {"control": "none"}),
    "control-step": (controlled, {}),
    "control-lds": (controlled, {"control": "lds"}),
    "sphere": (sphere, {}),
    "rossler": (flow, {}),
}


def preset(name: str, *, rng: np.random.Generator, **overrides: Any) -> TimeSeries:
    """A data set by name, with any setting replaced."""
    if name not in PRESETS:
        raise InputError(f"system: got {name!r}; wanted one of {', '.join(PRESETS)}")
    simulator, settings = PRESETS[name]
    return simulator(rng=rng, **{**settings, **overrides})


def system(arrays: Mapping[str, Array]) -> System:
    """The system behind data, from the arrays of `series.truth.system`."""
    if "kind" not in arrays:
        raise InputError("series: carries no system to draw from; wanted one made by a simulator")
    kind = str(arrays["kind"])
    if kind not in SYSTEMS:
        raise UnknownSystemError(
            f"series: its system is {kind!r}; wanted one of {', '.join(SYSTEMS)}"
        )
    return SYSTEMS[kind].from_arrays(arrays)


def again(
    series: TimeSeries,
    *,
    rng: np.random.Generator,
    trials: int | None = None,
    steps: int | None = None,
) -> TimeSeries:
    """New trials of the system and mixing behind `series`: new starts, modes and noise.

    By default as many trials as 10 % of the old ones, at least one, each as long as the first.
    """
    trials = max(1, series.n_trials // 10) if trials is None else trials
    steps = int(series.lengths[0]) if steps is None else steps
    return system(series.truth.system if series.truth else {}).draw(trials, steps, rng)
