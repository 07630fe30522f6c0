"""The flow that a model has found, written out in the coordinates of the true latents."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from dynacl import inference, metrics, simulate
from dynacl.data import Array, InputError, TimeSeries
from dynacl.estimator import DCL

TRUE_FLOW = 1e-4  # what the printed true flow may leave out; it has few terms by itself
ROWS = 5000  # states at which the flows are compared


def no_equations(model: DCL, series: TimeSeries) -> str | None:
    """Why `equations` does not apply to this model and data; None if it does."""
    if model.run_.dynamics.library() is None:
        return "dynamics: it is no sum of functions to print; wanted polynomial dynamics"
    if not model.run_.encoder.symmetric:
        return "asymmetric: f starts from other latents than it leads to, so it has no flow"
    truth = series.truth
    known = truth is not None and truth.system and series.control is None
    if truth is None or not known or not simulate.system(truth.system).has_flow:
        return ("data: carries no true system without modes and control; equations need "
                "its coordinates")  # fmt: skip
    d = truth.latents.shape[1]
    if model.n_components != d:
        return f"n_components: got {model.n_components}; wanted {d}, one for each true latent"
    return None


def equations(model: DCL, series: TimeSeries, *, tolerance: float = 0.02) -> dict[str, Any]:
    """The flow (f(x) − x) / (Δ dt) of polynomial dynamics, in the coordinates of the true latents.

    Sparse: the terms that are needed to have the flow's mean square over the data up to a share
    `tolerance` (`metrics.sparse_fit`). Gives coefficients by monomial, recovered and true, and both
    as text; where Δ > 1, both of the mean flow over Δ steps.
    """
    if reason := no_equations(model, series):
        raise InputError(reason)
    library = copy.deepcopy(model.run_.dynamics).cpu().double().eval().library()
    series, x, _ = model._latents(model._series(series))
    x = x.astype(float)
    assert library is not None
    assert series.truth is not None
    system = simulate.system(series.truth.system)
    latents, offset = series.truth.latents.astype(float), model.settings_.time_offset
    back, c = metrics.affine(x, latents)
    rows = np.linspace(0, len(x) - 1, min(len(x), ROWS)).astype(int)
    states = x[rows] @ back.T + c
    project = model.run_.geometry.project
    found = inference.ahead(library.model, series, x, rows, 1, offset, project)[:, -1]
    oracle = system.oracle().double().eval()
    true = inference.ahead(oracle, series, latents, rows, offset, 1, None, None, states)[:, -1]
    scale = np.abs(states).max(0)
    features = library.features(torch.from_numpy(states / scale)).numpy()
    units = library.features(torch.from_numpy(scale[None])).numpy()[0]
    result: dict[str, Any] = {"monomials": library.names}
    flows = {"recovered": (found @ back.T + c, tolerance), "true": (true, TRUE_FLOW)}
    for name, (following, share) in flows.items():
        flow = ((following - states) / (offset * system.time_step)).T
        fits = [metrics.sparse_fit(features, side, share) for side in flow]
        result[name] = np.stack(fits) / units
        result[f"{name}_text"] = [_written(i, row, library.names)
                                  for i, row in enumerate(result[name])]  # fmt: skip
    return result


def _written(i: int, row: Array, names: list[str]) -> str:
    terms = (f"{v:+.3g}{'' if name == '1' else ' ' + name}"
             for v, name in zip(row, names, strict=True) if v)  # fmt: skip
    return f"x{i + 1}' = " + (" ".join(terms) or "0")
