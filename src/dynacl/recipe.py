"""The settings of a run, in layers, each over the one before it:

    the protocol  →  what the parts say  →  what the data say  →  what the user says

Parts (dynamics, geometry, encoder) say what they want as `Wish`es, each with its reason. A protocol
of the paper is taken as it is printed: only the user's word is laid over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dynacl.data import InputError, TimeSeries
from dynacl.parameters import PARAMETERS
from dynacl.sampling import steps_apart
from dynacl.settings import KINDS, PROTOCOLS, Settings, Wish, checked, default_steps

FEW_TRIALS = 5  # fewer: parts of trials are held out (`judging.split`)
JUDGES, MOST_HELD = 250, 0.25  # rows that judge roll-outs well; share of a recording, at most
FURTHEST = 8  # steps of a contrast, to which lags may lead it: many steps of a turn have many roots

Layer = Mapping[str, tuple[Any, str]]  # setting: its value, and why


def settings(
    protocol: str,
    parts: Sequence[Wish],
    series: TimeSeries,
    n_components: int,
    context: int,
    chosen: Mapping[str, Any],
) -> tuple[Settings, dict[str, str]]:
    """Settings of a run, and the reason of each that is not the protocol's."""
    found, adapts = PROTOCOLS[protocol]
    layers: list[Layer] = []
    if adapts:
        layers.append({wish.setting: (wish.value, wish.why) for wish in parts})
        before = asdict(found) | _values(layers[0]) | dict(chosen)
        said = said_by_data(before, series, n_components, context, chosen)
        layers.append(said)
        # None, where the data have a say, leaves it to them.
        chosen = {n: value for n, value in chosen.items() if value is not None or n not in said}
    layers.append({name: (value, "The user asked for it.") for name, value in chosen.items()})
    merged: dict[str, tuple[Any, str]] = {}
    for layer in layers:
        merged |= layer
    settled = Settings(**asdict(found) | _values(merged))
    if settled.n_negatives is None and settled.batch_size == 1:
        raise InputError("batch_size: got 1; with the batch as negatives it needs at least 2")
    if settled.past_inputs and not series.n_controls:
        raise InputError(f"control_lags: got {settled.past_inputs}; wanted data with a control "
                         "input u")  # fmt: skip
    return settled, {name: why for name, (_, why) in merged.items()}


def said_by_data(
    s: Mapping[str, Any],
    series: TimeSeries,
    n_components: int,
    context: int,
    chosen: Mapping[str, Any],
) -> Layer:
    """What lengths, control and correlation time of the data change in these settings."""
    said: dict[str, tuple[Any, str]] = {}
    seen = s["control_lags"]
    if seen is None:
        seen, why = (), "There is no control input."
        if series.n_controls:
            seen = tuple(lag for lag in s["time_lags"] if lag)
            why = "The state of a driven system shows in outputs and inputs."
        said["control_lags"] = seen, why
    offset, past = s["time_offset"], max(*s["time_lags"], *seen, 0)
    horizon, mixed = s["horizon"], s["mixed"]
    if mixed and horizon > 1:
        horizon = correlation_time(series, offset, horizon)
        said["horizon"] = horizon, "Further on, observations have lost most of their correlation."
    elif 1 < horizon < (apart := steps_apart(s["time_lags"], offset, horizon)) <= FURTHEST:
        horizon = apart
        said["horizon"] = horizon, "Windows that share a frame are told by it, whatever it means."
    room = max(1, (int(series.lengths.min()) - 1 - past - context * offset) // offset)
    if horizon > room:
        horizon = room
        said["horizon"] = horizon, "The shortest trial has room for no more."
    if mixed and horizon == 1:
        said["mixed"] = False, "There is one number of steps only."
    if s["linear_start"] and not s["standardize"]:
        said["linear_start"] = False, "Only whitened input has components to start from."
    if series.n_controls:
        why = "A driven state drifts, so its place alone tells pairs apart: first find the rest."
        said["emphasis_from"] = 0.7, why
    if s["objective"] == "prediction":
        share = s["validation"]
        if "validation" not in chosen and share < (more := min(MOST_HELD, JUDGES / len(series))):
            share = more
            said["validation"] = share, "A short recording needs a larger share to be judged by."
        # Of few long trials the last parts are held out: as many steps must fit into these twice.
        if series.n_trials < FEW_TRIALS and isinstance(share, float) and share > 0:
            fits = max(1, int((share * series.lengths.min() - past) / (2 * offset)) - 1)
            if fits < horizon:
                horizon = fits
                said["horizon"] = horizon, "What is held out to judge has room for no more."
    horizon = chosen.get("horizon", horizon)
    if horizon > room:
        raise InputError(f"horizon: got {horizon}; the shortest trial has room for {room}")
    pairs = len(series.references(offset * horizon, past + context * offset))
    if s["batch_size"] > pairs:
        said["batch_size"] = max(2, pairs), "There are no more pairs."
    steps = max(300, round(s["duration"] * default_steps(n_components, pairs)))
    said["max_iter"] = steps, "From the number of pairs and of latent dimensions."
    return said


def _values(layer: Layer) -> dict[str, Any]:
    return {name: value for name, (value, _) in layer.items()}


def correlation_time(series: TimeSeries, offset: int, most: int) -> int:
    """Steps after which three quarters of the observations' correlation are lost, 1 to `most`."""
    series = series.head(50_000)
    y = series.observations
    for h in range(1, most):
        t = series.steps(h * offset, allow_short=True)
        moved = np.square(y[t + h * offset] - y[t]).sum(1).mean() if len(t) else np.inf
        if moved >= 1.5 * y.var(0).sum():  # 2 (1 − correlation) times the variance
            return h
    return most


def chosen_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that the user named, as parameters or in `settings`; twice is an error."""
    both = [n for n in KINDS if n in PARAMETERS]
    said = {n: PARAMETERS[n].kind.plain(given[n]) for n in both}
    chosen = {n: value for n, value in said.items() if value != PARAMETERS[n].default}
    if chosen.get("n_negatives") == "batch":
        chosen["n_negatives"] = None
    for name, value in (given["settings"] or {}).items():
        if name in chosen:
            raise InputError(f"{name}: given twice, as a parameter and in settings")
        chosen[name] = checked(name, value, "settings: ")
    return chosen
