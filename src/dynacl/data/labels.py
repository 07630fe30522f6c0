"""Labels: what else is known of each step, such as a position, a stimulus or an action.

They colour pictures and are decoded from latents; training never looks at them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.frames import untracked

CATEGORIES = 20  # different whole numbers, at most, that are taken for names of something
UNNAMED = "label"  # the name of labels that have none


def to_labels(labels: Any, lengths: Sequence[int], name: str = "labels") -> dict[str, Array]:
    """One vector per label, each with one entry per step of trials of these lengths.

    labels: arrays by name, a data frame, or one array. An array is a vector, a table (whose columns
    become labels "name_1", "name_2", …) or a list with one of these for each trial.
    """
    if hasattr(labels, "columns"):  # of a data frame
        labels = {key: labels[key] for key in labels.columns}
    elif not isinstance(labels, Mapping):
        labels = {UNNAMED: labels}
    found: dict[str, Array] = {}
    for key in labels:
        values = _joined(labels[key], lengths, f"{name}[{str(key)!r}]")
        if values.ndim == 1:
            found[str(key)] = values
        elif values.shape[1] == 1:
            found[str(key)] = values[:, 0]
        else:
            found |= {f"{key}_{i + 1}": values[:, i] for i in range(values.shape[1])}
    return found


def is_categorical(label: Array) -> bool:
    """Whether a label names categories: text, yes or no, or a few different whole numbers.

    Floating point is a quantity: a label that is taken for the wrong kind is best passed as text,
    or as float.
    """
    return label.dtype.kind in "Ub" or (
        label.dtype.kind == "i" and len(np.unique(label)) <= CATEGORIES
    )


def is_missing(label: Array) -> Array:
    """Where a label says nothing: NaN, or no text."""
    missing: Array = label == "" if label.dtype.kind == "U" else np.isnan(label.astype(float))
    return missing


def _joined(values: Any, lengths: Sequence[int], name: str) -> Array:
    """All steps of a label, whether it was given in trials or not."""
    if isinstance(values, Mapping):
        raise InputError(f"{name}: got a dict; wanted an array, or a list with one for each trial")
    if isinstance(values, list | tuple) and any(np.ndim(x) for x in values[:1]):
        trials = [_plain(x, f"{name}[{i}]") for i, x in enumerate(values)]
        if [len(x) for x in trials] != list(lengths):
            raise InputError(f"{name}: its trials differ in number or length from those of X")
        if len({x.shape[1:] for x in trials}) > 1:
            raise InputError(f"{name}: differs in its columns from trial to trial")
        return _plain(np.concatenate(trials), name)
    found = _plain(values, name)
    if len(found) != sum(lengths):
        raise InputError(f"{name}: has {len(found)} entries, X has {sum(lengths)} samples")
    return found


def _plain(values: Any, name: str) -> Array:
    """Whole numbers, floating point, yes and no, or text; nothing that would need a pickle."""
    try:
        found: Array = np.asarray(untracked(values))
    except ValueError as error:
        raise InputError(f"{name}: rows of unequal length; wanted one entry per step") from error
    if found.ndim not in (1, 2):
        raise InputError(f"{name}: got shape {found.shape}; wanted one entry, or one row, per step")
    if found.dtype.kind == "O":
        found = _of_objects(found)
    if found.dtype.kind in "iu":
        return found.astype(np.int64)
    if found.dtype.kind == "f":
        return found.astype(np.float64)
    if found.dtype.kind == "S":
        return np.char.decode(found, "utf-8", "replace")
    if found.dtype.kind in "Ub":
        return found
    raise InputError(f"{name}: got dtype {found.dtype}; wanted numbers or text")


def _of_objects(values: Array) -> Array:
    """Numbers, if all that is not missing are; else text, "" where something is missing."""
    missing = np.array([x is None or x != x for x in values.ravel()]).reshape(values.shape)
    try:
        return np.where(missing, np.nan, values).astype(np.float64)
    except (TypeError, ValueError):
        return np.where(missing, "", values).astype(str)
