"""Polynomial dynamics: their monomials, their horizon, and Lorenz."""

import numpy as np
import pytest
import torch

from dynacl import TimeSeries, equations, evaluate, simulate, training
from dynacl.dynamics import (
    Polynomial,
    reach,
)
from quick_models import begun, lorenz, normal, small


def test_polynomial_has_every_monomial_once_and_starts_at_the_identity():
    z = normal(4, 3)
    for degree, count in ((1, 4), (2, 10), (3, 20)):
        model = Polynomial(3, degree).double()
        m = model.monomials(z)
        assert m.shape == (4, count)
        a, b, c = z.T
        named = [a * a, a * b, a * c, b * b, b * c, c * c, a, b, c, torch.ones_like(a)]
        if degree == 3:
            named += [v * square for v in (a, b, c) for square in named[:6]]
        for column in named[6:] if degree == 1 else named:
            assert (m - column[:, None]).abs().amax(0).min() < 1e-12
        torch.testing.assert_close(model(z), z)


def test_polynomial_does_not_notice_the_scale_of_the_embedding():
    x = normal(500, 2)
    outs = []
    for scale in (1.0, 1000.0):
        model = Polynomial(2).double()
        with torch.no_grad():
            model.weight.copy_(0.1 * normal(*model.weight.shape, seed=1))
        outs.append(reach(model, scale * x, scale * x, [None]) / scale)
    torch.testing.assert_close(outs[0], outs[1])


def test_polynomial_finds_lorenz_where_linear_dynamics_do_not():
    data = simulate.lorenz(rng=np.random.default_rng(1), steps=8_000, observed=10, layers=1)
    model = small(3, "polynomial", max_iter=200).fit(data)
    found, linear = evaluate(model, data), evaluate(small(3, max_iter=200).fit(data), data)
    # One layer of mixing is linear, so a linear encoder finds the state; but not where it goes.
    assert found["r2"] > 0.93
    assert linear["r2"] > 0.99
    assert found["dyn_r2_10"] > 0.9 > linear["dyn_r2_10"] + 0.05
    assert found["dyn_r2_10"] > found["dyn_r2_10_control"] + 0.2
    flow = equations(model, data)
    true = dict(zip(flow["monomials"], flow["true"][1], strict=True))
    assert true["x1·x3"] == pytest.approx(-1, rel=1e-3)
    assert true["x1"] == pytest.approx(28, rel=1e-3)
    assert flow["true_text"][0] == "x1' = -10 x1 +10 x2"


def test_horizon_of_a_polynomial_follows_the_data_and_not_its_noise():
    clean = lorenz(5000)
    y = clean.observations
    noisy = y + 0.01 * y.std(0) * normal(*y.shape, dtype=torch.float32).numpy()
    short = TimeSeries.of([y[:30], y[30:]])  # the first trial says little
    centred = y - y.mean(0)
    correlation = [np.mean((centred[h:] * centred[:-h]).sum(1)) for h in range(1, 30)]
    low = np.array(correlation) < 0.25 * np.square(centred).sum(1).mean()
    expected = min(1 + int(low.argmax()), 20)
    assert expected > 10
    for series in (clean, TimeSeries.of(noisy), short):
        assert begun(small(3, "polynomial"), series).settings.horizon == expected
    turned = TimeSeries.of(y[::40])
    assert begun(small(3, "polynomial"), turned).settings.horizon == 1
    assert begun(small(3, "polynomial", degree=3), clean).settings.horizon == 1


def test_each_pair_of_a_polynomial_has_its_own_number_of_steps(monkeypatch):
    seen, drawn = [], []

    def capture(dynamics, x, x_next, controls, steps):
        drawn.append(steps)
        ends = reach(dynamics, x, x_next, controls, steps)
        seen.append((int(steps.min()), int(steps.max())))
        for row in (0, 100):  # each by itself, step by step
            alone = x[row : row + 1]
            for _ in range(steps[row]):
                alone = dynamics(alone)
            torch.testing.assert_close(ends[row], alone[0])
        return ends

    apart, encode = [], training.encode

    def watch(run, data, t, others):
        apart.append(others[: len(t)] - t)  # of positives and references, in time
        return encode(run, data, t, others)

    monkeypatch.setattr(training, "reach", capture)
    monkeypatch.setattr(training, "encode", watch)
    contrast = {"objective": "contrast"}
    model = small(3, "polynomial", max_iter=20, settings=contrast).fit(lorenz(5000))
    last = model.settings_.horizon
    assert seen == [(1, last)] * 20
    assert all(torch.equal(a, b) for a, b in zip(apart, drawn, strict=True))


def test_beyond_its_reach_what_bends_is_that_of_the_border_and_the_linear_part_goes_on():
    model = Polynomial(2, 3).double()
    with torch.no_grad():
        model.weight.copy_(0.1 * normal(*model.weight.shape, seed=1))
    border, beyond = torch.tensor([[4.0, 0.5]]).double(), torch.tensor([[9.0, 0.5]]).double()
    one, two = (model.features(z) for z in (border, beyond))
    assert (one != two).sum() == 1  # z₁ alone
    assert two[0, model.monomials.linear].tolist() == [9.0, 0.5]
    near = torch.tensor([[1.0, -2.0]]).double()
    assert torch.equal(model.features(near), model.monomials(near))
    trained = model(beyond) - model(border) - (beyond - border)
    still = model.eval()(beyond) - model(border) - (beyond - border)
    assert not trained.any()
    torch.testing.assert_close(still, 5 * model.weight.T[model.monomials.linear[0]][None])


def test_a_penalty_takes_from_what_bends_and_leaves_linear_dynamics_alone():
    x = normal(2000, 2)
    following = x @ torch.tensor([[0.9, 0.2], [-0.2, 0.8]]).double() + 0.3
    for penalty in Polynomial.penalties:
        model = Polynomial(2, 3).double()
        model.refit(x, following, penalty=penalty)
        torch.testing.assert_close(model.eval()(x), following, atol=1e-6, rtol=0)
    bends = following + 0.1 * x.prod(1, keepdim=True)
    missed = []
    for penalty in Polynomial.penalties:
        model = Polynomial(2, 3).double()
        model.refit(x, bends, penalty=penalty)
        missed.append((model.eval()(x) - bends).square().mean().item())
    assert missed[0] < 1e-6
    assert missed == sorted(missed)
