"""What the optimum is, exactly (docs/method.md): the sharpest tests that we have."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, metrics, simulate
from dynacl.data import TimeSeries, Truth
from dynacl.simulate.systems import rotation


def stationary_pairs(A, Sigma, S, n, rng):
    """Trials of two steps: x ~ N(0, S), x' = A x + ε with the given Σ; both have marginal S."""
    d = len(A)
    x = rng.multivariate_normal(np.zeros(d), S, n)
    following = x @ A.T + rng.multivariate_normal(np.zeros(d), Sigma, n)
    rows = np.stack([x, following], axis=1).reshape(2 * n, d).astype(np.float32)
    return TimeSeries(rows, np.arange(0, 2 * n + 1, 2), truth=Truth(rows))


# The wide marginal is easy to tell apart: it takes more negatives, and more steps.
@pytest.mark.parametrize(
    ("stationary", "batch", "negatives", "steps"),
    [(False, 1024, 4096, 2000), (True, 512, 2048, 1500)],
    ids=["False", "True"],
)
def test_linear_encoder_reaches_the_known_optimum(stationary, batch, negatives, steps):
    """LᵀL = ½(Σ⁻¹ − S⁻¹) and L⁻¹ÂL = (I − ΣS⁻¹)⁻¹A for a Gaussian marginal without correction.

    Once with an orthogonal A, in a marginal so wide that the noise hardly widens it; once with A
    shrunk so that the marginal is exactly stationary, and narrow enough that L⁻¹ÂL is 4 % off A.
    """
    rng = np.random.default_rng(0)
    A = rotation(2, np.array([25.0]))
    Sigma = np.array([[0.06**2, 0.0005], [0.0005, 0.04**2]])
    S = np.eye(2) * (0.09 if stationary else 1.0)
    if stationary:
        A = np.linalg.cholesky(S - Sigma) @ np.linalg.inv(np.linalg.cholesky(S)) @ A
    data = stationary_pairs(A, Sigma, S, 200_000, rng)
    encoder = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        encoder.weight.copy_(torch.eye(2) * 5)
    model = DCL(
        2,
        "linear",
        encoder=encoder,
        protocol="paper-lds",
        batch_size=batch,
        n_negatives=negatives,
        max_iter=steps,
        learning_rate=0.05,
        dynamics_learning_rate=0.003,
        random_state=0,
    )
    # Average the tail of a constant-rate run: what is left is the optimum, not the last gradient.
    tail = []

    def remember(run, record):
        if run.step > steps // 2:
            tail.append(
                (run.encoder.given.weight.detach().clone(), run.dynamics.matrix.detach().clone())
            )

    model.fit(data, callback=remember)
    gram = torch.stack([L.T @ L for L, _ in tail]).mean(0).double().numpy()
    moved = torch.stack([torch.linalg.solve(L, a @ L) for L, a in tail]).mean(0).double().numpy()
    expected = 0.5 * (np.linalg.inv(Sigma) - np.linalg.inv(S))
    assert np.linalg.norm(gram - expected) < 0.10 * np.linalg.norm(expected)
    right = np.linalg.solve(np.eye(2) - Sigma @ np.linalg.inv(S), A)
    assert np.linalg.norm(moved - right) < 0.02 * np.linalg.norm(right)


@pytest.fixture(scope="module")
def rotating():
    return simulate.lds(
        rng=np.random.default_rng(3), angle=25, noise=0.05, trials=50, steps=200, observed=10,
        layers=2,
    )  # fmt: skip


def fit_and_judge(data, dynamics):
    model = DCL(3, dynamics, max_iter=400, batch_size=256, random_state=0).fit(data)
    x = np.concatenate(model.transform(data))
    t = data.steps()
    A_hat = np.linalg.lstsq(x[t], x[t + 1], rcond=None)[0].T
    error = metrics.lds_error(data.truth.system["matrix"], A_hat, data.truth.latents, x)
    return metrics.r2(data.truth.latents, x), error


def test_corollary_1_identity_dynamics_cannot_identify_a_rotating_system(rotating):
    r2_linear, error_linear = fit_and_judge(rotating, "linear")
    r2_identity, error_identity = fit_and_judge(rotating, "identity")
    assert r2_linear > 0.97
    assert r2_identity < r2_linear - 0.05
    assert error_identity > 2 * error_linear
