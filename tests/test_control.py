"""Control input: B is found up to the affine map, and forecasts follow it."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, InputError, TimeSeries, evaluate, metrics, simulate
from dynacl.data import Truth
from dynacl.dynamics import (
    Linear,
)
from dynacl.simulate.systems import rotation
from quick_models import small, tiny


@pytest.mark.parametrize("dynamics", ["linear", "switching", "polynomial"])
def test_control_matrix_is_recovered_up_to_the_affine_map(dynamics):
    rng = np.random.default_rng(0)
    A, B = rotation(2, np.array([10.0])), np.array([[0.1], [0.05]])
    u = rng.uniform(-1, 1, (50, 100, 1))
    x = np.zeros((50, 100, 2))
    x[:, 0] = rng.standard_normal((50, 2))
    for t in range(99):
        x[:, t + 1] = x[:, t] @ A.T + u[:, t] @ B.T + 0.02 * rng.standard_normal((50, 2))
    latents = x.reshape(-1, 2).astype(np.float32)
    y = latents @ rng.standard_normal((2, 6)).astype(np.float32)
    series = TimeSeries(
        y, np.arange(0, 5_001, 100), u.reshape(-1, 1).astype(np.float32), Truth(latents)
    )
    model = small(2, dynamics, n_modes=1, max_iter=300, batch_size=256).fit(series)
    back, _ = metrics.affine(np.concatenate(model.transform(series)), latents)
    found = back @ model.dynamics_.control.detach().numpy()
    np.testing.assert_allclose(found, B, atol=0.01)
    future = model.forecast(series, 5, u=np.ones((5, 1), dtype=np.float32))
    still = model.forecast(series, 5, u=np.zeros((5, 1), dtype=np.float32))
    moved = (np.stack(future) - np.stack(still))[:, 0].mean(0) @ back.T
    np.testing.assert_allclose(moved, B[:, 0], atol=0.01)


def test_control_matrix_of_the_papers_driven_system_is_found():
    series = simulate.controlled(
        rng=np.random.default_rng(0), control="step", trials=60, steps=400, observed=20,
        mixing="linear",
    )  # fmt: skip
    found = evaluate(small(5, max_iter=300).fit(series), series)
    assert found["r2"] > 0.99
    assert found["control_error"] < 0.05  # 1 without B, 0.5 where a plane of the state is lost
    assert found["control_error_post_hoc"] < 0.05


def driven(*angles, trials=100, steps=100):
    """x' = A_k x + B u + ε in two dimensions, seen in six; modes last a hundred steps or so."""
    rng = np.random.default_rng(0)
    A = np.stack([rotation(2, np.array([angle])) for angle in angles])
    B = np.array([[0.3], [0.15]])
    u = rng.uniform(-1, 1, (trials, steps, 1))
    x = np.zeros((trials, steps, 2))
    x[:, 0] = rng.standard_normal((trials, 2))
    k = rng.integers(len(A), size=trials)
    for t in range(steps - 1):
        k = np.where(rng.random(trials) < 0.01, rng.integers(len(A), size=trials), k)
        moved = np.einsum("nij,nj->ni", A[k], x[:, t]) + u[:, t] @ B.T
        x[:, t + 1] = moved + 0.05 * rng.standard_normal((trials, 2))
    latents = x.reshape(-1, 2).astype(np.float32)
    y = latents @ rng.standard_normal((2, 6)).astype(np.float32)
    control = u.reshape(-1, 1).astype(np.float32)
    return TimeSeries(y, np.arange(0, len(y) + 1, steps), control, Truth(latents)), B


@pytest.mark.parametrize(
    ("dynamics", "angles", "steps"),
    [("mlp", (10,), 400), ("gated", (10,), 400), ("recurrent", (10,), 600),
     ("switching", (30, -30), 600)],
    ids=["mlp", "gated", "recurrent", "switching"],
)  # fmt: skip
def test_free_and_switching_dynamics_learn_what_the_control_does(dynamics, angles, steps):
    data, B = driven(*angles)
    torch.manual_seed(0)  # of the encoder: any map of full rank is right, and quick
    model = small(
        2, dynamics, n_modes=2, encoder=nn.Linear(6, 2), max_iter=steps, batch_size=256,
        dynamics_learning_rate=0.05,
    ).fit(data)  # fmt: skip
    back, shift = metrics.affine(np.concatenate(model.transform(data)), data.truth.latents)
    np.testing.assert_allclose(back @ model.dynamics_.control.detach().numpy(), B, atol=0.02)

    now, ahead = 95, 5
    y, u, x = (data.split(v) for v in (data.observations, data.control, data.truth.latents))
    past = TimeSeries.of([v[:now] for v in y], [v[:now] for v in u])
    true, future = np.stack([v[now:] for v in x]), [v[now - 1 : now - 1 + ahead] for v in u]

    def error(control):
        """Of the middle trial: a switch in the future, or a mode mistaken, is not the control's."""
        found = np.stack(model.forecast(past, ahead, u=control)) @ back.T + shift
        return np.median(np.square(found - true).mean((1, 2)))

    right = error(future)
    assert right < 0.3 * error([0 * v for v in future])
    assert right < 0.2 * error(future[1:] + future[:1])  # the control of other trials


def test_dynamics_of_your_own_must_take_the_control_of_the_data(rotating):
    u = np.zeros((len(rotating), 1))
    with pytest.raises(InputError, match=r"dynamics: cannot take .*, u \(2, 1\): .*; wanted"):
        tiny(3, Linear(3, n_controls=2)).fit(rotating, u=u)
    assert tiny(3, Linear(3, n_controls=1)).fit(rotating, u=u).n_iter_ == 3
    assert tiny(3, Linear(3)).fit(rotating, u=u).n_iter_ == 3


def test_control_input_reaches_fit_predict_forecast_and_score():
    rng = np.random.default_rng(0)
    y, u = rng.standard_normal((60, 4)), rng.standard_normal((60, 2))
    model = DCL(3, "linear", max_iter=5, random_state=0).fit(y, u=u)
    assert model.dynamics_.control.shape == (3, 2)
    assert not np.allclose(model.predict(y, u=u), model.predict(y, u=2 * u))
    assert model.forecast(y, 5, u=u[:5]).shape == (5, 3)
    assert np.isfinite(model.score(y, u=u))


def test_control_in_a_dict_is_that_of_the_trial_of_the_same_name():
    y, u = np.random.default_rng(0).standard_normal((2, 3, 30, 4))
    X, drive = dict(zip("abc", y, strict=True)), dict(zip("cba", u[::-1], strict=True))
    model = DCL(2, max_iter=5, batch_size=16, random_state=0).fit(X, u=drive)
    listed = DCL(2, max_iter=5, batch_size=16, random_state=0).fit(list(y), u=list(u))
    named = model.predict(X, u=drive)
    ahead = model.forecast(X, 5, u={k: v[:5] for k, v in drive.items()})
    np.testing.assert_array_equal(list(named.values()), listed.predict(list(y), u=list(u)))
    np.testing.assert_array_equal(
        list(ahead.values()), listed.forecast(list(y), 5, u=list(u[:, :5]))
    )


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("form", [lambda u: u[0], list, tuple, lambda u: dict(enumerate(u))])
def test_control_in_the_place_of_y_warns(method, form):
    y, u = np.random.default_rng(0).standard_normal((2, 3, 30, 4))
    model = DCL(2, max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match="y is not used; a control input is passed as u=") as said:
        getattr(model, method)(list(y), form(u))
    assert said[0].filename == __file__
