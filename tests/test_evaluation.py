"""Figures of a fitted model: each against a plain loop or scikit-learn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from torch import nn

from dynacl import DCL, InputError, TimeSeries, evaluate, metrics, simulate
from dynacl.data import Truth
from dynacl.dynamics import BY_NAME, named
from planes import normal, rotation
from quick_models import small, tiny


@pytest.mark.parametrize("driven", [False, True])
def test_switching_dyn_r2_stays_in_trials_and_each_side_uses_its_own_modes(driven: bool) -> None:
    drawn = simulate.slds(
        rng=np.random.default_rng(0), d=2, modes=2, angle=60, switch_probability=0.3,
        noise=0.3, trials=1, steps=48, observed=4, layers=2,
    )  # fmt: skip
    assert drawn.truth is not None
    assert drawn.truth.modes is not None
    bounds = [0, 5, 17, 48]  # the first is too short for ten steps
    modes = drawn.truth.modes.copy()
    modes[[4, 16, 47]] = -1
    fields = {"observations": drawn.observations, "bounds": bounds, "modes": modes}
    fields |= {f"system.{k}": v for k, v in drawn.truth.system.items()}
    series = TimeSeries.of({**fields, "latents": drawn.truth.latents})
    u = normal(48, 2, seed=1).astype(np.float32)
    if driven:
        series = TimeSeries.of(series, u=u)
    model = DCL(2, "switching", 3, max_iter=1, random_state=0, device="cpu").fit(series)
    W = (np.stack([rotation(a) for a in (5, 30, 50)]) + 0.1 * normal(3, 2, 2)).astype(np.float32)
    x, z = series.truth.latents.astype(float), model.transform(series.observations).astype(float)
    B = driven * (0.3 * z.std() * normal(2, 2, seed=2)).astype(np.float32).astype(float)
    model.dynamics_.matrices.data = torch.from_numpy(W)
    if driven:
        model.dynamics_.control.data = torch.from_numpy(B).float()

    there, back = LinearRegression().fit(x, z), LinearRegression().fit(z, x)
    A, aligned = drawn.truth.system["matrices"], back.predict(z)
    nearest = lambda options, target: min(
        range(len(options)), key=lambda k: np.sum((options[k] - target) ** 2)
    )
    found = evaluate(model, series)
    for n in (1, 10):
        now, moved, true, told = [], [], [], []
        for a, b in pairwise(bounds):
            for t in range(a, b - n):
                state, own, given_modes = z[t], aligned[t], aligned[t]
                for j in range(t, t + n):
                    state = W[nearest([w @ z[j] + B @ u[j] for w in W], z[j + 1])] @ state
                    state = state + B @ u[j]
                    own = A[nearest([a_k @ aligned[j] for a_k in A], aligned[j + 1])] @ own
                    given_modes = A[modes[j]] @ given_modes
                now.append(z[t])
                moved.append(state)
                true.append(own)
                told.append(given_modes)
        target = there.predict(true)
        # R² is 1 less a ratio: near 0 it is as exact as float32 latents are, not its own digits.
        assert found[f"dyn_r2_{n}"] == pytest.approx(r2_score(moved, target), abs=1e-6)
        assert found[f"dyn_r2_{n}_control"] == pytest.approx(r2_score(now, target))
        wanted = r2_score(moved, there.predict(told))
        assert found[f"dyn_r2_{n}_true_modes"] == pytest.approx(wanted)
    inferred = model.modes(series, decode="step")
    assert found["mode_accuracy"] == metrics.mode_accuracy(
        modes[modes >= 0], np.concatenate(inferred)
    )


def test_new_trials_are_judged_with_the_map_of_the_training_data_too():
    data = simulate.lds(rng=np.random.default_rng(1), trials=50, steps=100, observed=10, layers=2)
    fresh = simulate.again(data, rng=np.random.default_rng(2), trials=10)
    model = small(3).fit(data)
    found = evaluate(model, fresh, train=data)
    x = np.concatenate(model.transform(data))
    there = LinearRegression().fit(x, data.truth.latents)
    expected = there.score(np.concatenate(model.transform(fresh)), fresh.truth.latents)
    assert found["r2_train_map"] == pytest.approx(expected, abs=1e-6)
    assert 0.9 < found["r2_train_map"] < found["r2"]
    assert evaluate(model, data, train=data)["r2_train_map"] == pytest.approx(
        evaluate(model, data)["r2"]
    )


def test_training_data_of_another_system_give_no_map(rotating):
    y, latents = rotating.observations, rotating.truth.latents[:, :2]
    other = TimeSeries(y, rotating.bounds, truth=Truth(latents))
    with pytest.raises(InputError, match="train: has 2 true latents; wanted 3"):
        evaluate(tiny(3).fit(rotating), rotating, train=other)


def test_a_driven_truth_without_its_control_is_judged_by_its_latents_alone():
    data = simulate.controlled(rng=np.random.default_rng(0), trials=4, steps=30, observed=6)
    plain = TimeSeries(data.observations, data.bounds, None, data.truth)
    found = evaluate(tiny(5).fit(plain), plain)
    assert found["dyn_r2_1"] is None
    assert found["r2"] > 0
    with pytest.raises(InputError, match="needs its control input"):
        tiny(5, "truth").fit(plain)


@pytest.mark.parametrize("offset", [1, 2])
def test_driven_dyn_r2_equals_a_loop_over_single_states(offset: int) -> None:
    """The model takes one step where the system takes as many as the time offset has."""
    series = simulate.controlled(
        rng=np.random.default_rng(0), d=2, trials=3, steps=40, observed=4, layers=1
    )
    assert series.truth is not None
    assert series.control is not None
    model = tiny(2, time_offset=offset, max_iter=20).fit(series)
    A, B = (series.truth.system[k] for k in ("matrix", "control"))
    A_hat, B_hat = (v.detach().numpy() for v in (model.dynamics_.matrix, model.dynamics_.control))
    x, u = series.truth.latents.astype(float), series.control
    z = np.concatenate(model.transform(series)).astype(float)
    there, back = LinearRegression().fit(x, z), LinearRegression().fit(z, x)
    found = evaluate(model, series)
    for n in (1, 10):
        moved, true, now = [], [], []
        for a, b in pairwise(series.bounds):
            for t in range(a, b - n * offset):
                state, hidden = z[t], back.predict(z[[t]])[0]
                for j in range(n):
                    state = A_hat @ state + B_hat @ u[t + j * offset]
                for j in range(n * offset):
                    hidden = A @ hidden + B @ u[t + j]
                moved.append(state)
                true.append(there.predict(hidden[None])[0])
                now.append(z[t])
        assert found[f"dyn_r2_{n}"] == pytest.approx(r2_score(moved, true))
        assert found[f"dyn_r2_{n}_control"] == pytest.approx(r2_score(now, true))


# -- dynamics fitted afterwards ------------------------------------------------------------------


def recovered(series: TimeSeries, n_modes: int = 5) -> DCL:
    """A model without dynamics whose latents are the observations."""
    d = series.n_features
    unmixed = nn.Linear(d, d, bias=False)
    with torch.no_grad():
        unmixed.weight.copy_(torch.eye(d))
    return tiny(
        d, "identity", n_modes=n_modes, encoder=unmixed, learning_rate=1e-9, max_iter=1
    ).fit(series)


def test_tiles_and_polynomials_fitted_afterwards_follow_a_curved_flow() -> None:
    data = simulate.lorenz(rng=np.random.default_rng(1), steps=5000, noise=0.02, mixing="none")
    model = recovered(data, n_modes=30)
    names = ("linear", "tiles", "polynomial")
    found = {name: evaluate(model, data, post_hoc=name) for name in names}
    r2 = {name: numbers["dyn_r2_10"] for name, numbers in found.items()}
    assert r2["linear"] < 0.7  # one map cannot
    assert r2["tiles"] > 0.99
    assert r2["polynomial"] > 0.999  # the true flow is quadratic
    for name, numbers in found.items():
        assert numbers["post_hoc"] == name
        assert numbers["dyn_r2_10_control"] == found["linear"]["dyn_r2_10_control"]


FITTED_AFTERWARDS = [name for name in BY_NAME if not named(name).needs_system]


@pytest.mark.parametrize("name", FITTED_AFTERWARDS)
def test_any_named_dynamics_can_be_fitted_afterwards(name: str) -> None:
    data = simulate.lds(rng=np.random.default_rng(1), angle=20, trials=4, steps=25, mixing="none")
    found = evaluate(recovered(data, n_modes=2), data, post_hoc=name)
    wanted = found["dyn_r2_1_control"] if name == "identity" else 0.99
    assert found["dyn_r2_1"] >= wanted > found["dyn_r2_1_control"] - 1e-9
    assert (found["lds_error"] is None) == (name not in ("identity", "linear"))


def test_banks_fitted_afterwards_find_the_modes() -> None:
    data = simulate.slds(
        rng=np.random.default_rng(3), d=2, modes=2, angle=60, noise=0.01, trials=20, steps=60,
        switch_probability=0.02, mixing="none",
    )  # fmt: skip
    model = recovered(data, n_modes=2)
    assert evaluate(model, data)["mode_accuracy"] is None  # the model itself has none
    for name in ("switching", "tiles"):
        assert evaluate(model, data, post_hoc=name)["mode_accuracy"] > 0.95


def test_the_truth_and_what_is_no_dynamics_cannot_be_fitted_afterwards(rotating: Any) -> None:
    model = tiny(3).fit(rotating)
    for name in ("truth", "trees"):
        with pytest.raises(InputError, match=f"post_hoc: got .{name}.; wanted"):
            evaluate(model, rotating, post_hoc=name)
