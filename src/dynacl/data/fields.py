"""A series as named arrays, which is how files of ours hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynacl.data.arrays import Array, Floats
from dynacl.data.checks import (
    bounds_of,
    joined,
    rounded,
    shaped,
    to_bounds,
    to_control,
    to_modes,
    to_names,
    to_table,
    to_times,
)
from dynacl.data.errors import InputError
from dynacl.data.labels import to_labels
from dynacl.data.truth import Truth
from dynacl.data.units import Units

OBSERVATIONS = "observations"
LABEL, SYSTEM = "label.", "system."  # begin the names of what there are several of
ALONE = ("bounds", "control", "control_names", "control_units", "latents", "modes", "names",
         "times", "units")  # fmt: skip


def is_ours(name: str) -> bool:
    """Whether files of ours have a field of this name."""
    return name in (OBSERVATIONS, *ALONE) or name.startswith((LABEL, SYSTEM))


def parts_of(
    fields: Mapping[str, Any], trial_length: int | None, name: str, *, gaps: bool = False
) -> dict[str, Any]:
    """What a TimeSeries is made of, checked, from named arrays. gaps: values may be missing."""
    names, times = fields.get("names"), fields.get("times")
    observed = shaped(fields[OBSERVATIONS], f"{name}: {OBSERVATIONS}")
    names = None if names is None else to_names(names, observed.shape[1], name)
    observations, units = _kept(fields, OBSERVATIONS, "units", name, gaps=gaps, names=names)
    T = len(observations)
    bounds = bounds_of([T], trial_length)
    if "bounds" in fields:
        if trial_length is not None:
            raise InputError(f"trial_length: got {trial_length}, but {name} has trials already")
        bounds = to_bounds(fields["bounds"], T, name)
    lengths = np.diff(bounds).tolist()
    control, control_units = _control(fields, lengths, name, gaps)
    inputs = None if control is None else fields.get("control_names")
    if control is not None and inputs is not None:
        inputs = to_names(inputs, control.shape[1], f"{name}: control")
    return {
        "observations": observations,
        "bounds": bounds,
        "control": control,
        "truth": _truth(fields, T, name),
        "units": units,
        "control_units": control_units,
        "labels": to_labels(_below(fields, LABEL), lengths, f"{name}: labels"),
        "names": names,
        "times": None if times is None else to_times(times, T, name),
        "control_names": inputs,
    }


def fields_of(parts: Mapping[str, Any]) -> dict[str, Array]:
    """Named arrays, from what a TimeSeries is made of; `parts_of` takes them back."""
    fields = {
        name: np.asarray(parts[name])
        for name in ("observations", "bounds", "control", "control_names", "names", "times")
        if parts[name] is not None
    }
    for name in ("units", "control_units"):
        if parts[name] is not None:
            fields[name] = np.stack(parts[name])
    fields |= {f"{LABEL}{k}": v for k, v in parts["labels"].items()}
    truth: Truth | None = parts["truth"]
    if truth is not None:
        fields["latents"] = truth.latents
        if truth.modes is not None:
            fields["modes"] = truth.modes
        fields |= {f"{SYSTEM}{k}": np.asarray(v) for k, v in truth.system.items()}
    return fields


def _below(fields: Mapping[str, Any], start: str) -> dict[str, Any]:
    return {k.removeprefix(start): v for k, v in fields.items() if k.startswith(start)}


def _truth(fields: Mapping[str, Any], T: int, name: str) -> Truth | None:
    latents, modes = fields.get("latents"), fields.get("modes")
    if latents is None:
        return None
    latents = to_table(latents, f"{name}: latents")
    modes = None if modes is None else to_modes(modes, name)
    for what, rows in (("latents", latents), ("modes", modes)):
        if rows is not None and len(rows) != T:
            raise InputError(f"{name}: {what} has {len(rows)} rows, observations {T}")
    system = {key: np.asarray(value) for key, value in _below(fields, SYSTEM).items()}
    return Truth(latents, modes, system)


def _control(
    fields: Mapping[str, Any], lengths: Sequence[int], name: str, gaps: bool
) -> tuple[Floats | None, Units | None]:
    if fields.get("control") is None:
        return None, None
    if fields.get("control_units") is None:
        return to_control(fields["control"], lengths, gaps=gaps)
    control, units = _kept(fields, "control", "control_units", name)
    if len(control) != sum(lengths):
        raise InputError(f"{name}: control has {len(control)} rows, observations {sum(lengths)}")
    return control, units


def _kept(
    fields: Mapping[str, Any], what: str, in_units: str, name: str, **how: Any
) -> tuple[Floats, Units | None]:
    """A table as float32: in the units that the fields give, or in those that it needs."""
    name, table = f"{name}: {what}", shaped(fields[what], f"{name}: {what}")
    if fields.get(in_units) is None:
        return joined([table], name, **how)
    units = np.asarray(fields[in_units], dtype=np.float64)
    if units.shape != (2, table.shape[1]) or not np.isfinite(units).all() or not units[1].all():
        raise InputError(f"{name}: its {in_units} have shape {units.shape}; wanted an origin and a "
                         f"scale for each of the {table.shape[1]} columns")  # fmt: skip
    return rounded(table, name, **how), Units(units[0], units[1])
