"""Dynamics whose form says little: residual, gated and recurrent networks."""

import numpy as np
import pytest
import torch

from dynacl import evaluate, simulate
from dynacl.dynamics import (
    Gated,
    Recurrent,
    ResidualMLP,
)
from quick_models import lorenz, normal, small, tiny


def test_lipschitz_bound_makes_the_network_invertible():
    model = ResidualMLP(3, (32, 32), lipschitz=0.7).double()
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.mul_(20)  # far beyond the bound, were it not held
    a, b = normal(2000, 3), normal(2000, 3, seed=1)
    slope = (model.residual(a) - model.residual(b)).norm(dim=1) / (a - b).norm(dim=1)
    assert slope.max() <= 0.7
    assert slope.max() > 0.01
    x = a.clone()
    y = model(a)
    for _ in range(200):  # x = y − g(x) contracts
        x = y - model.residual(x)
    torch.testing.assert_close(x, a)


def test_gated_modes_come_from_the_state_alone():
    gated = Gated(2, 3)
    x = normal(50, 2, dtype=torch.float32)
    assert torch.equal(gated.modes(x), gated.modes(x, normal(50, 2, seed=1, dtype=torch.float32)))
    assert len(gated.modes(x).unique()) > 1


def test_recurrent_without_skip_is_cpc():
    """An affine map of an autoregressive summary, and nothing else."""
    torch.manual_seed(0)
    model = Recurrent(2, context=3, hidden=5, skip=False)
    x = normal(7, 4, 2, dtype=torch.float32)
    _, state = model.gru(x)
    torch.testing.assert_close(model(x), model.head(state[0]))


@pytest.mark.parametrize("offset", [1, 2])
def test_recurrent_context_uses_the_past_inside_the_trial_only(offset):
    data = simulate.lds(rng=np.random.default_rng(1), trials=6, steps=40, observed=6)
    model = small(3, "recurrent", max_iter=30, batch_size=64, time_offset=offset).fit(data)
    y = data.observations[:40].copy()
    before = model.predict(y)
    y[10] += 1
    after = model.predict(y)
    changed = np.abs(after - before).max(1) > 0
    C = model.dynamics_.context
    np.testing.assert_array_equal(np.flatnonzero(changed), 10 + offset * np.arange(C + 1))
    whole = np.concatenate(model.predict(data))
    np.testing.assert_allclose(whole[:40], before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "steps", "settings"),
    [
        ("mlp", 20_000, {"max_iter": 300}),
        ("gated", 10_000, {"n_modes": 10}),
        ("recurrent", 5_000, {"batch_size": 128, "max_iter": 300}),
    ],
)
def test_free_dynamics_predict_better_than_standing_still(kind, steps, settings):
    data = lorenz(steps)
    model = small(3, kind, **settings).fit(data)
    found = evaluate(model, data)
    assert found["dyn_r2_10"] > found["dyn_r2_10_control"] + 0.1
    assert found["r2"] > 0.7
    assert np.isfinite(model.forecast(data, 20)).all()


@pytest.mark.parametrize("kind", ["polynomial", "mlp", "gated", "recurrent", "linear"])
def test_dynamics_advance_states_as_predict_does(rotating, kind, short_descents):
    model = tiny(3, kind).fit(rotating)
    x = model.transform(rotating)[0]
    with torch.no_grad():
        first = model.dynamics_(torch.from_numpy(x[:1])).numpy()
    np.testing.assert_allclose(first, model.predict(rotating)[0][:1], rtol=1e-4, atol=1e-5)


def test_a_network_beside_a_linear_map_can_be_fitted_as_that_map_alone():
    x, u = normal(500, 3, dtype=torch.float32), normal(500, 2, seed=1, dtype=torch.float32)
    A, B = normal(3, 3, seed=2, dtype=torch.float32), normal(3, 2, seed=3, dtype=torch.float32)
    x_next = x @ A.T + u @ B.T + 0.5
    generator = torch.Generator().manual_seed(0)
    model = ResidualMLP(3, n_controls=2, generator=generator)
    model.refit(x, x_next, u, penalty=torch.inf)
    far = 10 * normal(50, 3, seed=4, dtype=torch.float32)
    torch.testing.assert_close(model.step(far, u[:50]), far @ A.T + u[:50] @ B.T + 0.5,
                               rtol=1e-3, atol=1e-3)  # fmt: skip
    bent = x_next + torch.sin(2 * x)
    model.refit(x, bent, u, penalty=torch.inf)
    linear = (model.step(x, u) - bent).square().mean()
    model.refit(x, bent, u, generator=generator)
    assert (model.step(x, u) - bent).square().mean() < 0.95 * linear


def test_a_network_predicts_no_worse_than_a_linear_model_of_few_outputs():
    """Two of four dimensions of a linear system, read off lags."""
    data = simulate.lds(rng=np.random.default_rng(3), d=4, trials=20, steps=200, observed=6, rank=2,
                        mixing="linear", angle=8.0, noise=0.05)  # fmt: skip
    fresh = simulate.lds(rng=np.random.default_rng(3), d=4, trials=30, steps=200, observed=6,
                         rank=2, mixing="linear", angle=8.0, noise=0.05)  # fmt: skip
    arguments = {"time_lags": (0, 3, 6), "max_iter": 30, "batch_size": 64}
    network, linear = (small(4, kind, **arguments).fit(data) for kind in ("mlp", "linear"))
    assert network.run_.floor is not None
    figures = [m.prediction_score(fresh, horizons=(1, 5, 20)) for m in (network, linear)]
    assert figures[0] > figures[1] - 0.02
