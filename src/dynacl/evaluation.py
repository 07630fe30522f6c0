"""Compare a fitted model with the truth that a TimeSeries carries: one dict of numbers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dynacl import inference, metrics
from dynacl.data import Array, InputError, TimeSeries
from dynacl.dynamics import (
    Gated,
    Identity,
    Linear,
    Polynomial,
    SwitchingLinear,
    Truth,
    fit_post_hoc,
    follow,
)
from dynacl.encoders import Asymmetric
from dynacl.estimator import DCL
from dynacl.inference import ROWS
from dynacl.objective import Dot

POST_HOC = ("linear", "switching")
TRUE_FLOW = 1e-4  # what the printed true flow may leave out; it has few terms by itself


def evaluate(
    model: DCL,
    series: TimeSeries,
    *,
    post_hoc: str | None = None,
    train: TimeSeries | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """R², dynR² with controls, mode accuracy, errors of A and B, MCC; None: it does not apply.

    post_hoc: judge dynamics fitted to the recovered latents afterwards instead of the model's own.
    train: the data that the model was fitted to, where `series` is new. The affine map to the truth
    is then fitted there, for `r2_train_map`; in all other figures it is fitted on `series`.
    """
    check_is_fitted(model, "encoder_")
    if post_hoc is not None and post_hoc not in POST_HOC:
        raise InputError(f"post_hoc: got {post_hoc!r}; wanted one of {', '.join(POST_HOC)}")
    if series.truth is None:
        raise InputError("data: carries no true latents to compare with")
    whole = model._driven(series)
    series, x = _latents(model, whole)
    assert series.truth is not None
    truth, offset = series.truth, model.settings_.time_offset
    latents = truth.latents.astype(float)
    t = series.steps(offset)
    dynamics = copy.deepcopy(model.dynamics_).cpu().double().eval()
    if post_hoc is not None:
        dynamics = _post_hoc(post_hoc, model, series, x, t, seed)
    found: dict[str, Any] = dict.fromkeys(
        ("r2", "r2_train_map", "dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control",
         "dyn_r2_1_true_modes", "dyn_r2_10_true_modes", "mode_accuracy",
         "mode_accuracy_sequence", "lds_error",
         "lds_error_post_hoc", "control_error", "control_error_post_hoc", "mcc")
    )  # fmt: skip
    found["r2"] = metrics.r2(latents, x)
    found["mcc"] = metrics.mcc(latents, x)
    if train is not None:
        seen, x_seen = _latents(model, train)
        if seen.truth is None:
            raise InputError("train: carries no true latents to fit the affine map to")
        if seen.truth.latents.shape[1] != latents.shape[1]:
            raise InputError(f"train: has {seen.truth.latents.shape[1]} true latents; wanted "
                             f"{latents.shape[1]}, as many as data")  # fmt: skip
        L, c = metrics.affine(x_seen, seen.truth.latents)
        found["r2_train_map"] = metrics.r2_of(latents, x @ L.T + c)
    # The references of an asymmetric pair are other latents than x: f does not start from x there.
    asymmetric = isinstance(model.encoder_, Asymmetric) and post_hoc is None
    switching = isinstance(dynamics, SwitchingLinear | Gated)
    if switching and truth.modes is not None and offset == 1:
        now = model._references(whole, None, x).astype(float) if asymmetric else x
        for name, decode in (("mode_accuracy", "step"), ("mode_accuracy_sequence", "sequence")):
            inferred = inference.modes(dynamics, series, now, x, offset, decode)
            found[name] = metrics.mode_accuracy(truth.modes[t], inferred[t])
    # A driven truth without its control cannot be stepped.
    told = "control" not in truth.system or series.control is not None
    if truth.system and told and not asymmetric:
        found |= _dynamics_metrics(
            dynamics, series, latents, x, offset, isinstance(model.run_.similarity, Dot)
        )
    if "matrix" in truth.system and latents.shape[1] == x.shape[1] and offset == 1:
        A = np.asarray(truth.system["matrix"], dtype=float)
        estimates = {"lds_error_post_hoc": _post_hoc("linear", model, series, x, t, seed)}
        if isinstance(dynamics, Identity | Linear) and not asymmetric:
            estimates["lds_error"] = dynamics
        for name, estimate in estimates.items():
            matrix = np.eye(len(A)) if isinstance(estimate, Identity) else _matrix(estimate)
            found[name] = metrics.lds_error(A, matrix, latents, x)
            if "control" in truth.system and (B := getattr(estimate, "control", None)) is not None:
                found[name.replace("lds", "control")] = metrics.control_error(
                    truth.system["control"], B.detach().numpy(), latents, x
                )
    return found | {"post_hoc": post_hoc, "n_samples": len(series), "n_trials": series.n_trials}


def _latents(model: DCL, series: TimeSeries) -> tuple[TimeSeries, Array]:
    cut, x = model._latents(series)
    return cut, x.astype(float)


def _post_hoc(
    kind: str, model: DCL, series: TimeSeries, x: Array, t: Array, seed: int
) -> nn.Module:
    """Least-squares dynamics on recovered latents: what the paper gives its baseline."""
    d, u = x.shape[1], series.control
    fresh: nn.Module = (
        Linear(d, model.bias, series.n_controls)
        if kind == "linear"
        else SwitchingLinear(d, int(model.n_modes), model.bias, series.n_controls)
    )
    now, following = torch.from_numpy(x[t]), torch.from_numpy(x[t + model.settings_.time_offset])
    control = None if u is None else torch.from_numpy(u[t]).double()
    generator = torch.Generator().manual_seed(seed)
    return fit_post_hoc(fresh.double(), now, following, control, generator=generator).eval()


def _dynamics_metrics(
    dynamics: nn.Module, series: TimeSeries, latents: Array, x: Array, offset: int, on_sphere: bool
) -> dict[str, float]:
    """dynR² for 1 and 10 steps; each side uses the modes that it infers itself, from x̂."""
    assert series.truth is not None
    back, c = metrics.affine(x, latents)
    true = Truth(series.truth.system).double().eval()
    model_step = _stepper(dynamics, x, series, offset)
    if on_sphere:
        model_step = _projected(model_step)
    single = _stepper(true, x @ back.T + c, series, 1)
    told = None
    if isinstance(true, SwitchingLinear) and series.truth.modes is not None:
        told = _stepper(true, x, series, 1, series.truth.modes)
    found = {}
    for n in (1, 10):
        starts = series.steps(n * offset, allow_short=True)
        if len(starts) < 2:  # no R² of a single row
            continue
        for step, suffix in ((single, ""), (told, "_true_modes")):
            if step is not None:
                score, control = metrics.dyn_r2(
                    latents, x, _repeated(step, offset), model_step, starts, n, offset
                )
                found[f"dyn_r2_{n}{suffix}"] = score
                if not suffix:
                    found[f"dyn_r2_{n}_control"] = control
    return found


def _stepper(
    f: nn.Module, x: Array, series: TimeSeries, offset: int, modes: Array | None = None
) -> metrics.Step:
    """(states, rows) → states one step on; a switching f uses the modes of these rows.

    An f with a context starts with the embeddings before the first rows and goes on with its own.
    """
    if isinstance(f, SwitchingLinear) and modes is None:
        modes = inference.modes(f, series, x, x, offset)
    context = int(getattr(f, "context", 0))
    first = np.repeat(series.bounds[:-1], series.lengths)
    windows: dict[int, tuple[int, Tensor]] = {}  # by first row of a part: where it stands

    def step(states: Array, rows: Array) -> Array:
        out = np.empty_like(states)
        for i in range(0, len(rows), ROWS):
            part = slice(i, i + ROWS)
            mine = rows[part]
            u = None if series.control is None else inference.tensor(series.control[mine], f)
            now = torch.from_numpy(states[part])
            if context:
                at, window = windows.get(i, (-1, now))
                if at == mine[0]:
                    now = follow(window, now)
                else:
                    back = offset * np.arange(context, 0, -1)
                    past = x[np.maximum(mine[:, None] - back, first[mine][:, None])]
                    now = torch.cat([torch.from_numpy(past), now[:, None]], dim=1)
                windows[i] = int(mine[0]) + offset, now
            with torch.inference_mode():
                if isinstance(f, SwitchingLinear) and modes is not None:
                    out[part] = f.advance(now, torch.from_numpy(modes[mine]), u).numpy()
                else:
                    out[part] = f(now, None, u).numpy()
        return out

    return step


def _projected(step: metrics.Step) -> metrics.Step:
    """Back to the unit sphere after each step, as `predict` and `forecast` do."""

    def projected(states: Array, rows: Array) -> Array:
        moved = step(states, rows)
        return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True))

    return projected


def _repeated(step: metrics.Step, times: int) -> metrics.Step:
    def repeated(states: Array, rows: Array) -> Array:
        for i in range(times):
            states = step(states, rows + i)
        return states

    return repeated


def _matrix(dynamics: nn.Module) -> Array:
    assert isinstance(dynamics, Linear)
    matrix: Array = dynamics.matrix.detach().numpy().astype(float)
    return matrix


def has_flow(series: TimeSeries) -> bool:
    """Whether the truth is one map of the state, without modes and control."""
    if series.truth is None or series.control is not None or "control" in series.truth.system:
        return False
    return str(series.truth.system.get("kind")) in ("identity", "lds", "lorenz", "sphere")


def no_equations(model: DCL, series: TimeSeries) -> str | None:
    """Why `equations` does not apply to this model and data; None if it does."""
    if not isinstance(model.dynamics_, Polynomial):
        return "dynamics: only polynomial dynamics has equations to print"
    if isinstance(model.encoder_, Asymmetric):
        return "asymmetric: f starts from other latents than it leads to, so it has no flow"
    if series.truth is None or not has_flow(series):
        return ("data: carries no true system without modes and control; equations need "
                "its coordinates")  # fmt: skip
    d = series.truth.latents.shape[1]
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
    f = copy.deepcopy(model.dynamics_).cpu().double().eval()
    assert isinstance(f, Polynomial)
    series, x = _latents(model, series)
    assert series.truth is not None
    latents, system = series.truth.latents.astype(float), series.truth.system
    f.reach = float("inf")  # the polynomial itself, also where no data are
    offset = model.settings_.time_offset
    time = offset * (float(system["dt"]) if "dt" in system else 1.0)
    back, c = metrics.affine(x, latents)
    rows = np.linspace(0, len(x) - 1, min(len(x), 5000)).astype(int)
    states = x[rows] @ back.T + c
    step = _stepper(f, x, series, offset)
    if isinstance(model.run_.similarity, Dot):
        step = _projected(step)
    moved = step(x[rows], rows) @ back.T + c
    single = _stepper(Truth(system).double().eval(), x, series, 1)
    true = _repeated(single, offset)(states, rows)
    d = states.shape[1]
    names = [f"x{i + 1}" for i in range(d)] + [""]
    monomials = ["·".join(n for n in (names[j] for j in term) if n) or "1"
                 for term in f.powers.tolist()]  # fmt: skip
    scale = np.abs(states).max(0)
    features = f.monomials(torch.from_numpy(states / scale)).numpy()
    units = f.monomials(torch.from_numpy(scale[None])).numpy()[0]
    found: dict[str, Any] = {"monomials": monomials}
    for name, following, share in (("recovered", moved, tolerance), ("true", true, TRUE_FLOW)):
        flow = ((following - states) / time).T
        found[name] = np.stack([metrics.sparse_fit(features, side, share) for side in flow]) / units
        found[f"{name}_text"] = [
            f"x{i + 1}' = " + (" ".join(
                f"{v:+.3g}{'' if m == '1' else ' ' + m}"
                for v, m in zip(row, monomials, strict=True) if v) or "0")
            for i, row in enumerate(found[name])
        ]  # fmt: skip
    return found
