"""Compare a fitted model with the truth that a TimeSeries carries: one dict of numbers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dynacl import metrics
from dynacl.data import Array, InputError, TimeSeries
from dynacl.dynamics import Identity, Linear, SwitchingLinear, Truth, fit_post_hoc
from dynacl.estimator import DCL

POST_HOC = ("linear", "switching")
ROWS = 1 << 15


def evaluate(
    model: DCL, series: TimeSeries, *, post_hoc: str | None = None, seed: int = 0
) -> dict[str, Any]:
    """R², dynR² with controls, mode accuracy, LDS errors and MCC; None where one does not apply.

    post_hoc: judge dynamics fitted to the recovered latents afterwards instead of the model's own.
    """
    check_is_fitted(model, "encoder_")
    series = model._driven(series)
    if series.truth is None:
        raise InputError("data: carries no true latents to compare with")
    if post_hoc is not None and post_hoc not in POST_HOC:
        raise InputError(f"post_hoc: got {post_hoc!r}; wanted one of {', '.join(POST_HOC)}")
    truth, offset = series.truth, model.settings_.time_offset
    latents, x = truth.latents.astype(float), np.concatenate(model.transform(series)).astype(float)
    t = series.steps(offset)
    dynamics = copy.deepcopy(model.dynamics_).cpu().double().eval()
    if post_hoc is not None:
        dynamics = _post_hoc(post_hoc, model, series, x, t, seed)
    found: dict[str, Any] = dict.fromkeys(
        ("r2", "dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control",
         "dyn_r2_1_true_modes", "dyn_r2_10_true_modes", "mode_accuracy", "lds_error",
         "lds_error_post_hoc", "mcc")
    )  # fmt: skip
    found["r2"] = metrics.r2(latents, x)
    found["mcc"] = metrics.mcc(latents, x)
    if isinstance(dynamics, SwitchingLinear) and truth.modes is not None and offset == 1:
        inferred = _modes(dynamics, x, t, offset, series.control)
        found["mode_accuracy"] = metrics.mode_accuracy(truth.modes[t], inferred[t])
    if truth.system:
        found |= _dynamics_metrics(dynamics, series, latents, x, offset)
    if "matrix" in truth.system and latents.shape[1] == x.shape[1] and offset == 1:
        A = np.asarray(truth.system["matrix"], dtype=float)
        estimates = {"lds_error_post_hoc": _post_hoc("linear", model, series, x, t, seed)}
        if isinstance(dynamics, Identity | Linear):
            estimates["lds_error"] = dynamics
        for name, estimate in estimates.items():
            matrix = np.eye(len(A)) if isinstance(estimate, Identity) else _matrix(estimate)
            found[name] = metrics.lds_error(A, matrix, latents, x)
    return found | {"post_hoc": post_hoc, "n_samples": len(series), "n_trials": series.n_trials}


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
    dynamics: nn.Module, series: TimeSeries, latents: Array, x: Array, offset: int
) -> dict[str, float]:
    """dynR² for 1 and 10 steps; each side uses the modes that it infers itself, from x̂."""
    assert series.truth is not None
    back, c = metrics.affine(x, latents)
    true = Truth(series.truth.system).double().eval()
    model_step = _stepper(dynamics, x, series, offset)
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
    """(states, rows) → states one step on; a switching f uses the modes of these rows."""
    if isinstance(f, SwitchingLinear) and modes is None:
        modes = _modes(f, x, series.steps(offset, allow_short=True), offset, series.control)

    def step(states: Array, rows: Array) -> Array:
        out = np.empty_like(states)
        for i in range(0, len(rows), ROWS):
            part = slice(i, i + ROWS)
            u = _control(series.control, rows[part])
            now = torch.from_numpy(states[part])
            with torch.inference_mode():
                if isinstance(f, SwitchingLinear) and modes is not None:
                    out[part] = f.advance(now, torch.from_numpy(modes[rows[part]]), u).numpy()
                else:
                    out[part] = f(now, None, u).numpy()
        return out

    return step


def _repeated(step: metrics.Step, times: int) -> metrics.Step:
    def repeated(states: Array, rows: Array) -> Array:
        for i in range(times):
            states = step(states, rows + i)
        return states

    return repeated


def _modes(f: SwitchingLinear, x: Array, t: Array, offset: int, control: Array | None) -> Array:
    modes = np.full(len(x), -1, dtype=np.int64)
    for i in range(0, len(t), ROWS):
        rows = t[i : i + ROWS]
        now, following = torch.from_numpy(x[rows]), torch.from_numpy(x[rows + offset])
        modes[rows] = f.modes(now, following, _control(control, rows)).numpy()
    return modes


def _control(control: Array | None, rows: Array) -> Tensor | None:
    return None if control is None else torch.from_numpy(control[rows]).double()


def _matrix(dynamics: nn.Module) -> Array:
    assert isinstance(dynamics, Linear)
    matrix: Array = dynamics.matrix.detach().numpy().astype(float)
    return matrix
