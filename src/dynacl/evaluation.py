"""A fitted model beside the truth that data carry, or by predictions where they carry none."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from dynacl import inference, metrics, simulate
from dynacl.data import Array, InputError, TimeSeries, Truth
from dynacl.dynamics import BY_NAME
from dynacl.dynamics.base import Dynamics, Request
from dynacl.dynamics.naming import named
from dynacl.dynamics.post_hoc import fit_post_hoc
from dynacl.estimator import DCL
from dynacl.without_truth import evidence

POST_HOC = tuple(name for name in BY_NAME if not named(name).needs_system)
FIGURES = (
    "r2", "r2_train_map", "dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control",
    "dyn_r2_1_true_modes", "dyn_r2_10_true_modes", "mode_accuracy", "mode_accuracy_sequence",
    "lds_error", "lds_error_post_hoc", "control_error", "control_error_post_hoc", "mcc",
)  # fmt: skip


def evaluate(
    model: DCL,
    data: Any,
    *,
    u: Any = None,
    post_hoc: str | None = None,
    train: Any = None,
    seed: int = 0,
) -> dict[str, Any]:
    """R², dynR² beside its identity control, mode accuracy, errors of A and B, MCC.

    None: a figure does not apply, and `reasons` has why.

    Data without truth are judged by predictions of observations: `evidence(model, data)` as a dict.

    data: a TimeSeries, or anything that `fit` takes; a dict with "observations" and "latents"
    carries truth.
    post_hoc: judge dynamics of this name, fitted to the recovered latents afterwards, instead of
    the model's own.
    train: the data that the model was fitted to, where `data` are new. The affine map to the truth
    is then fitted there, for `r2_train_map`; in all other figures it is fitted on `data`.
    """
    series = TimeSeries.of(data, u)
    if series.truth is not None:
        known = None if train is None else TimeSeries.of(train)
        return against_truth(model, series, post_hoc=post_hoc, train=known, seed=seed)
    for name, given in (("post_hoc", post_hoc), ("train", train)):
        if given is not None:
            raise InputError(f"{name}: given, but data carry no true latents to compare with")
    return evidence(model, series, seed=seed).as_dict()


def against_truth(
    model: DCL,
    series: TimeSeries,
    *,
    post_hoc: str | None = None,
    train: TimeSeries | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """As `evaluate`, of data that carry their truth."""
    check_is_fitted(model, "encoder_")
    if post_hoc is not None and post_hoc not in POST_HOC:
        raise InputError(f"post_hoc: got {post_hoc!r}; wanted one of {', '.join(POST_HOC)}")
    if series.truth is None:
        raise InputError("data: carries no true latents to compare with")
    series, x, now = _latents(model, series)
    assert series.truth is not None
    truth, offset = series.truth, model.settings_.time_offset
    latents = truth.latents.astype(float)
    t = series.steps(offset)
    f = copy.deepcopy(model.run_.dynamics).cpu().double().eval()
    # The references of an asymmetric pair are other latents than x: f does not start from x there.
    starts_at_x = model.run_.encoder.symmetric
    if post_hoc is not None:
        f, now, starts_at_x = _post_hoc(post_hoc, model, series, x, t, seed), x, True
    found: dict[str, Any] = dict.fromkeys(FIGURES)
    found["r2"] = metrics.r2(latents, x)
    found["mcc"] = metrics.mcc(latents, x)
    if train is not None:
        found["r2_train_map"] = _r2_by_map_of(model, train, latents, x)
    if f.n_modes and truth.modes is not None and offset == 1:
        for name, decode in (("mode_accuracy", "step"), ("mode_accuracy_sequence", "sequence")):
            inferred = inference.modes(f, series, now, x, offset, decode)
            found[name] = metrics.mode_accuracy(truth.modes[t], inferred[t])
    system, unknown = _system_of(truth)
    if system is None:
        reasons = _reasons(found, f, series, x, None, offset, starts_at_x, unknown)
        return found | _size(post_hoc, series) | {"reasons": reasons}
    # A driven truth without its control cannot be stepped.
    if starts_at_x and (series.control is not None or not system.n_controls):
        found |= _dynamics_metrics(f, system, series, latents, x, offset, model)
    A = system.oracle().linear_maps()
    if A is not None and len(A) == 1 and latents.shape[1] == x.shape[1] and offset == 1:
        estimates = {"lds_error_post_hoc": _post_hoc("linear", model, series, x, t, seed)}
        if starts_at_x:
            estimates["lds_error"] = f
        for name, estimate in estimates.items():
            maps, B = estimate.linear_maps(), estimate.input_map
            if maps is None or len(maps) != 1 or estimate.n_modes > 1:
                continue
            found[name] = metrics.lds_error(A[0].numpy(), maps[0].detach().numpy(), latents, x)
            if system.n_controls and B is not None:
                scale = 1.0 if series.control_units is None else series.control_units.scale
                found[name.replace("lds", "control")] = metrics.control_error(
                    truth.system["control"], B.detach().numpy() / scale, latents, x
                )
    reasons = _reasons(found, f, series, x, system, offset, starts_at_x)
    return found | _size(post_hoc, series) | {"reasons": reasons}


def _system_of(truth: Truth) -> tuple[simulate.System | None, str]:
    """The system that moves the true latents; else None, and why."""
    if not truth.system:
        return None, "the data carry no system"
    try:
        return simulate.system(truth.system), ""
    except simulate.UnknownSystemError as error:  # latents and modes are known all the same
        return None, f"of the data, {str(error).removeprefix('series: ')}"


def _reasons(
    found: Mapping[str, Any],
    f: Dynamics,
    series: TimeSeries,
    x: Array,
    system: simulate.System | None,
    offset: int,
    starts_at_x: bool,
    unknown: str = "",
) -> dict[str, str]:
    """Why each figure that is None does not apply: the first of these that is so.

    unknown: why there is no system.
    """
    assert series.truth is not None
    d, n_modes = series.truth.latents.shape[1], series.truth.modes is not None
    A = None if system is None else system.oracle().linear_maps()
    known = system is None, unknown
    one_step = offset != 1, f"the truth is of one step, and time_offset is {offset}"
    symmetric = not starts_at_x, "of two encoders, the dynamics leads from one space to another"
    driven = system is not None and system.n_controls > 0
    modes = [(f.n_modes == 0, "the dynamics has no modes"), (not n_modes, "the truth has no modes"),
             one_step]  # fmt: skip
    ahead = [known, symmetric, (driven and series.control is None, "the control input is missing"),
             (True, "too few trials are long enough")]  # fmt: skip
    linear = [known, (A is None or len(A) != 1, "the true system is not one linear map"),
              (d != x.shape[1], f"there are {x.shape[1]} latents, and {d} true ones"),
              one_step]  # fmt: skip
    own = [symmetric, (True, "the dynamics is not one linear map")]
    told = [(not driven, "the true system has no control input")]
    because: dict[str, list[tuple[bool, str]]] = {
        "r2_train_map": [(True, "no training data were given beside these")],
        "mode_accuracy": modes,
        "mode_accuracy_sequence": modes,
        "lds_error": [*linear, *own],
        "lds_error_post_hoc": linear,
        "control_error": [*linear, *told, *own, (True, "the model has no control input")],
        "control_error_post_hoc": [*linear, *told, (True, "the data have no control input")],
    }
    true_modes = [known, (not n_modes, "the truth has no modes"), *ahead]
    because |= {name: true_modes for name in FIGURES if name.endswith("true_modes")}
    because |= {name: ahead for name in FIGURES if name.startswith("dyn") and name not in because}
    return {
        name: next(why for applies, why in because[name] if applies)
        for name in FIGURES
        if found[name] is None
    }


def _size(post_hoc: str | None, series: TimeSeries) -> dict[str, Any]:
    return {"post_hoc": post_hoc, "n_samples": len(series), "n_trials": series.n_trials}


def _latents(model: DCL, series: TimeSeries) -> tuple[TimeSeries, Array, Array]:
    """The series cut to steps with a full window, x, and where the dynamics starts, as doubles."""
    cut, x, now = model._latents(model._driven(series))
    return cut, x.astype(float), now.astype(float)


def _r2_by_map_of(model: DCL, train: TimeSeries, latents: Array, x: Array) -> float:
    seen, x_seen, _ = _latents(model, train)
    if seen.truth is None:
        raise InputError("train: carries no true latents to fit the affine map to")
    if seen.truth.latents.shape[1] != latents.shape[1]:
        raise InputError(f"train: has {seen.truth.latents.shape[1]} true latents; wanted "
                         f"{latents.shape[1]}, as many as data")  # fmt: skip
    L, c = metrics.affine(x_seen, seen.truth.latents)
    return metrics.r2_of(latents, x @ L.T + c)


def _post_hoc(name: str, model: DCL, series: TimeSeries, x: Array, t: Array, seed: int) -> Dynamics:
    """Dynamics fitted to the recovered latents: what the paper gives its baseline."""
    generator = torch.Generator().manual_seed(seed)
    known = series.truth is not None and series.truth.system
    system = partial(simulate.system, series.truth.system) if series.truth and known else None
    asked = Request(x.shape[1], series.n_controls, model.get_params(), system, generator)
    f = named(name).build(asked).double()
    generator.manual_seed(seed)
    offset = model.settings_.time_offset
    now, following = inference.state_at(f, series, x, t, offset), torch.from_numpy(x[t + offset])
    u = None if series.control is None else torch.from_numpy(series.control[t]).double()
    fit_post_hoc(f, now, following, u, generator=generator)
    return f.eval()


def _dynamics_metrics(
    f: Dynamics,
    system: simulate.System,
    series: TimeSeries,
    latents: Array,
    x: Array,
    offset: int,
    model: DCL,
) -> dict[str, float]:
    """dynR² for 1 and 10 steps; each side uses the modes that it infers itself, from x̂."""
    assert series.truth is not None
    back, c = metrics.affine(x, latents)
    mapped = x @ back.T + c  # recovered latents, in the coordinates of the truth
    oracle, plain = system.oracle().double().eval(), series.within(None, None)
    own = _own_modes(f, series, x, offset)
    inferred = {"": _own_modes(oracle, plain, mapped, 1)}
    if oracle.n_modes and series.truth.modes is not None:
        inferred["_true_modes"] = series.truth.modes
    project = model.run_.geometry.project
    found = {}
    for n in (1, 10):
        starts = series.steps(n * offset, allow_short=True)
        if len(starts) < 2:  # no R² of a single row
            continue

        def model_ahead(states: Array, rows: Array, n: int = n) -> Array:
            modes = _along(own, rows, n, offset)
            return inference.ahead(f, series, x, rows, n, offset, project, modes, states)[:, -1]

        for suffix, true_modes in inferred.items():

            def true_ahead(
                states: Array, rows: Array, steps: int = n * offset, modes: Any = true_modes
            ) -> Array:
                chosen = _along(modes, rows, steps, 1)
                path = inference.ahead(oracle, plain, mapped, rows, steps, 1, None, chosen, states)
                return path[:, -1]

            figure, control = metrics.dyn_r2(latents, x, true_ahead, model_ahead, starts)
            found[f"dyn_r2_{n}{suffix}"] = figure
            if not suffix:
                found[f"dyn_r2_{n}_control"] = control
    return found


def _own_modes(f: Dynamics, series: TimeSeries, x: Array, offset: int) -> Array | None:
    """The modes that f infers from pairs of x, where it has hidden ones."""
    return inference.modes(f, series, x, x, offset) if f.infers_modes else None


def _along(modes: Array | None, rows: Array, steps: int, offset: int) -> Array | None:
    """The mode of each step from these rows on, (n, steps)."""
    return None if modes is None else modes[rows[:, None] + offset * np.arange(steps)]
