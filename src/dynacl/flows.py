"""The flow of a fitted model: where it stands still, and its equations beside the truth."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dynacl import inference, metrics, simulate
from dynacl.data import Array, InputError, TimeSeries
from dynacl.dynamics.base import Dynamics
from dynacl.estimator import DCL
from dynacl.objective.geometry.base import Geometry
from dynacl.spectrum import eigenvalues

TRUE_FLOW = 1e-4  # what the printed true flow may leave out; it has few terms by itself
ROWS = 5000  # states at which the flows are compared
STARTS = 128  # states from which fixed points are searched
ROUNDS = 200  # of the search, at most
FOUND = 1e-6  # of the spread of the states: a step that is shorter leads nowhere
SAME = 1e-2  # of the spread: fixed points nearer than that are one
NEAR = 1.5  # times as far from their mean as the states are: further out nothing is known


def no_equations(model: DCL, series: TimeSeries) -> str | None:
    """Why `equations` does not apply to this model and data; None if it does."""
    if model.run_.dynamics.library() is None:
        return "dynamics: it is no sum of functions to print; wanted polynomial dynamics"
    if not model.run_.encoder.symmetric:
        return "asymmetric: f starts from other latents than it leads to, so it has no flow"
    truth = series.truth
    known = truth is not None and truth.system and series.control is None
    try:
        if truth is None or not known or not simulate.system(truth.system).has_flow:
            return ("data: carries no true system without modes and control; equations need "
                    "its coordinates")  # fmt: skip
    except simulate.UnknownSystemError as error:
        return str(error)
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


# -- where the flow stands still -------------------------------------------------------------------


class FixedPoints(NamedTuple):
    """States that the dynamics leaves where they are, f(x) = x, among and near those of the data.

    points: (n, d). eigenvalues: (n, m) of the map around each, by falling |λ|; m is d, or more
    where the dynamics looks at several states. modes: (n,), of a model with hidden modes, −1 of
    others.
    """

    points: Array
    eigenvalues: Array
    modes: Array

    @property
    def stable(self) -> Array:
        """Whether states nearby come closer, (n,)."""
        inside: Array = np.abs(self.eigenvalues).max(1, initial=0) < 1
        return inside


def fixed_points(model: DCL, X: Any, *, u: Any = None) -> FixedPoints:
    """Search for fixed points from states of X, by Newton's method with damping.

    Sussillo and Barak (2013). A control input is held at its mean over X. Hidden modes are searched
    one by one. Points far outside the states of X are left out: the model was not trained there.
    """
    check_is_fitted(model, "encoder_")
    if not model.run_.encoder.symmetric:
        raise InputError("asymmetric: f starts from other latents than it leads to; it has no "
                         "fixed points")  # fmt: skip
    series, x, _ = model._latents(model._driven(X, u))
    f = copy.deepcopy(model.run_.dynamics).cpu().double().eval()
    geometry = copy.deepcopy(model.run_.geometry).cpu()
    x = x.astype(float)
    drive = None if series.control is None else torch.from_numpy(series.control.mean(0)).double()
    starts = torch.from_numpy(x[np.linspace(0, len(x) - 1, min(len(x), STARTS)).astype(int)])
    centre = torch.from_numpy(x.mean(0))
    reach = NEAR * float(np.linalg.norm(x - x.mean(0), axis=1).max())
    points, values, modes = [], [], []
    for k in range(f.n_modes) if f.infers_modes else (-1,):
        still = _Still(f, geometry, drive, k)
        found = _search(still, starts, float(x.std()))
        found = found[torch.linalg.norm(found - centre, dim=1) <= reach]
        points.append(found.numpy())
        values.append(still.eigenvalues(found))
        modes.append(np.full(len(found), k))
    return FixedPoints(np.concatenate(points), np.concatenate(values), np.concatenate(modes))


class _Still:
    """How far a step leads, f(x) − x, in one mode and under a constant input."""

    def __init__(self, f: Dynamics, geometry: Geometry, drive: Tensor | None, mode: int) -> None:
        self.f, self.project, self.drive, self.mode = f, geometry.project, drive, mode

    def ahead(self, window: Tensor) -> Tensor:
        """One step from windows (n, context + 1, d)."""
        n, f = len(window), self.f
        state = window if f.context else window[:, 0]
        u = None if self.drive is None else self.drive.expand(n, -1)
        weights = None
        if self.mode >= 0:
            weights = torch.zeros(n, f.n_modes, dtype=window.dtype)
            weights[:, self.mode] = 1
        return self.project(f.step(state, u, weights))

    def __call__(self, x: Tensor) -> Tensor:
        return self.ahead(x[:, None].expand(-1, self.f.context + 1, -1)) - x

    def with_jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The step (n, d) and its derivative (n, d, d)."""
        x = x.detach().requires_grad_()
        step = self(x)
        return step.detach(), _derivative(step, x)

    def eigenvalues(self, x: Tensor) -> Array:
        """Of the map of whole windows around x: the newest state moves, the others are shifted."""
        c, d = self.f.context + 1, x.shape[1]
        window = x[:, None].expand(-1, c, -1).contiguous().requires_grad_()
        around = torch.zeros(len(x), c * d, c * d, dtype=x.dtype)
        around[:, :-d, d:] = torch.eye((c - 1) * d, dtype=x.dtype)
        if len(x):
            around[:, -d:] = _derivative(self.ahead(window), window).flatten(2)
        return eigenvalues(around.numpy())


def _derivative(y: Tensor, x: Tensor) -> Tensor:
    """Of every row of y (n, d) by its own row of x (n, …): (n, d, …)."""
    parts = [
        torch.autograd.grad(column.sum(), x, retain_graph=True, allow_unused=True)[0]
        for column in y.unbind(1)
    ] if y.requires_grad else [None] * y.shape[1]  # fmt: skip
    return torch.stack([torch.zeros_like(x) if p is None else p for p in parts], 1).detach()


def _search(still: _Still, x: Tensor, scale: float) -> Tensor:
    """Levenberg and Marquardt's steps from all starts at once; the ends that stand still, once."""
    damping = torch.full((len(x), 1, 1), 1e-3, dtype=x.dtype)
    eye = torch.eye(x.shape[1], dtype=x.dtype)
    step, slope = still.with_jacobian(x)
    for _ in range(ROUNDS):
        normal = slope.mT @ slope
        size = normal.diagonal(dim1=1, dim2=2).mean(1)[:, None, None].clamp(min=1e-12)
        move = torch.linalg.solve(normal + damping * size * eye, slope.mT @ step[..., None])
        tried = x - move[..., 0]
        new, new_slope = still.with_jacobian(tried)
        better = new.square().sum(1) < step.square().sum(1)
        x = torch.where(better[:, None], tried, x)
        step = torch.where(better[:, None], new, step)
        slope = torch.where(better[:, None, None], new_slope, slope)
        damping = torch.where(better[:, None, None], damping / 4, damping * 4).clamp(1e-12, 1e6)
        if (step.norm(dim=1) < FOUND * scale).all():
            break
    return _distinct(x[step.norm(dim=1) < FOUND * scale], SAME * scale)


def _distinct(points: Tensor, apart: float) -> Tensor:
    kept: list[Tensor] = []
    for point in points:
        if all(float((point - other).norm()) > apart for other in kept):
            kept.append(point)
    return torch.stack(kept) if kept else points[:0]
