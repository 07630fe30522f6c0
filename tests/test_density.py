"""Density correction: α against a loop, its gradients, and what it restores."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, TimeSeries, evaluate, info_nce, simulate
from dynacl.data import Truth
from dynacl.objective import Flat, log_density
from dynacl.simulate.systems import rotation
from quick_models import normal, small


@pytest.mark.parametrize("kernel", ["euclidean", "vmf"])
def test_log_density_equals_a_loop_and_leaves_out_the_point_itself(kernel):
    x = nn.functional.normalize(normal(30, 3), dim=1)
    skip = torch.arange(30)[:, None]
    got = log_density(x, x, kernel=kernel, bandwidth=0.3, skip=skip)
    for i in range(30):
        rest = torch.cat([x[:i], x[i + 1 :]])
        if kernel == "euclidean":
            terms = torch.exp(-(x[i] - rest).square().sum(1) / 0.3)
        else:
            terms = torch.exp((rest @ x[i] - 1) / 0.3)
        assert got[i].item() == pytest.approx(terms.mean().log().item())
    # Leaving out matters: with the point itself, a narrow kernel sees nothing else.
    narrow = log_density(x, x, kernel=kernel, bandwidth=1e-6)
    torch.testing.assert_close(narrow, torch.full_like(narrow, -np.log(30)))


def test_gradients_pass_through_the_density_to_points_and_support():
    x, support = normal(6, 2).requires_grad_(), normal(9, 2, seed=1).requires_grad_()
    torch.autograd.gradcheck(lambda a, b: log_density(a, b, bandwidth=0.7), [x, support])
    potential = log_density(x, support)
    loss = info_nce(x, x + 0.1, x, potential=(potential, potential)).total
    assert torch.autograd.grad(loss, support)[0].abs().max() > 0


def test_potential_enters_the_loss_as_minus_alpha():
    q, k, others = normal(5, 2), normal(5, 2, seed=1), normal(8, 2, seed=2)
    a, b = normal(5, seed=3), normal(8, seed=4)
    psi = torch.cat([(Flat()(q, k) - a)[:, None], Flat()(q[:, None], others) - b], 1)
    expected = (psi.logsumexp(1) - psi[:, 0]).mean()
    torch.testing.assert_close(info_nce(q, k, others, potential=(a, b)).total, expected)


@pytest.mark.parametrize("correction", [None, "euclidean"])
def test_correction_restores_the_metric_and_the_dynamics(correction):
    """With α = log q: LᵀL = ½Σ⁻¹ and L⁻¹ÂL = A; without: off by the known factors."""
    rng = np.random.default_rng(0)
    sigma2, s2, shrink = 0.1, 0.2, np.sqrt(0.5)  # stationary: A Aᵀ S + Σ = S
    A = shrink * rotation(2, np.array([25.0]))
    x = np.sqrt(s2) * rng.standard_normal((100_000, 2))
    following = x @ A.T + np.sqrt(sigma2) * rng.standard_normal(x.shape)
    rows = np.stack([x, following], 1).reshape(-1, 2).astype(np.float32)
    data = TimeSeries(rows, np.arange(0, len(rows) + 1, 2), truth=Truth(rows))
    encoder = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        encoder.weight.copy_(torch.eye(2))
    model = DCL(
        2, "linear", encoder=encoder, protocol="paper-lds", batch_size=1024, n_negatives=2048,
        max_iter=1000, learning_rate=0.02, dynamics_learning_rate=0.003, random_state=0,
        density_correction=correction, bandwidth=None if correction is None else 0.2,
    )  # fmt: skip
    tail = []

    def remember(run, record):
        if run.step > 500:
            tail.append(
                (run.encoder.given.weight.detach().clone(), run.dynamics.matrix.detach().clone())
            )

    model.fit(data, callback=remember)
    gram = torch.stack([L.T @ L for L, _ in tail]).mean(0).numpy()
    moved = torch.stack([torch.linalg.solve(L, a @ L) for L, a in tail]).mean(0).numpy()
    corrected, plain = 0.5 / sigma2 * np.eye(2), 0.5 * (1 / sigma2 - 1 / s2) * np.eye(2)
    wanted, other = (plain, corrected) if correction is None else (corrected, plain)
    assert np.linalg.norm(gram - wanted) < 0.12 * np.linalg.norm(wanted)
    assert np.linalg.norm(gram - other) > 0.3 * np.linalg.norm(other)
    right = A / (1 - sigma2 / s2) if correction is None else A
    assert np.linalg.norm(moved - right) < 0.1 * np.linalg.norm(right)


def test_correction_halves_what_a_concentrated_marginal_costs():
    """The effect of the paper's figure on kernel density estimates."""
    data = simulate.sphere(
        rng=np.random.default_rng(1), angle=0, noise=0.3, concentration=8, trials=10_000, steps=2,
    )  # fmt: skip
    loss = {}
    for correction in (None, "vmf"):
        model = small(
            3, "identity", similarity="dot", density_correction=correction, max_iter=400,
            batch_size=256,
        ).fit(data)  # fmt: skip
        loss[correction] = 1 - evaluate(model, data)["r2"]
    assert loss[None] > 0.05
    assert loss["vmf"] < 0.5 * loss[None]
