"""Dynamics fitted to latents that are there already."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dynacl import metrics, simulate
from dynacl.dynamics import Linear, Request, SwitchingLinear, fit_post_hoc, named
from planes import normal, rotation


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n_controls", [0, 2])
def test_linear_post_hoc_recovers_noiseless_dynamics_exactly(bias: bool, n_controls: int) -> None:
    x, A, B = normal(100, 3), normal(3, 3, seed=1), normal(3, n_controls, seed=2)
    b, u = normal(3, seed=3) * bias, normal(100, n_controls, seed=4)
    model = Linear(3, bias, n_controls).double()
    fit_post_hoc(
        model, *map(torch.from_numpy, (x, x @ A.T + b + u @ B.T)),
        torch.from_numpy(u) if n_controls else None,
    )  # fmt: skip
    np.testing.assert_allclose(model.matrix.detach(), A, atol=1e-10)
    if bias:
        np.testing.assert_allclose(model.bias.detach(), b, atol=1e-10)
    if n_controls:
        np.testing.assert_allclose(model.control.detach(), B, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bias", [False, True])
def test_switching_post_hoc_recovers_a_noiseless_bank_up_to_order(seed: int, bias: bool) -> None:
    rng = np.random.default_rng(seed)
    x, modes = rng.standard_normal((1000, 2)), rng.integers(0, 2, 1000)
    A, b = np.stack([rotation(5), rotation(40)]), bias * rng.standard_normal((2, 2))
    following = np.einsum("nij,nj->ni", A[modes], x) + b[modes]
    now, then = torch.from_numpy(x), torch.from_numpy(following)
    generator = torch.Generator().manual_seed(seed)
    model = SwitchingLinear(2, 2, bias, generator=generator).double()
    fit_post_hoc(model, now, then, generator=generator)
    W = model.matrices.detach().numpy()
    order = [0, 1] if np.linalg.norm(W[0] - A[0]) < np.linalg.norm(W[1] - A[0]) else [1, 0]
    np.testing.assert_allclose(W[order], A, atol=1e-8)
    if bias:
        np.testing.assert_allclose(model.bias.detach().numpy()[order], b, atol=1e-8)
    assert metrics.mode_accuracy(modes, model.modes(now, then).numpy()) == 1


def test_post_hoc_switching_recovers_bank_and_control_together():
    rng = np.random.default_rng(4)
    A = [np.array([[0.0, -1.0], [1.0, 0.0]]), np.array([[1.2, 0.0], [0.3, 0.8]])]
    B = np.array([[0.5], [-0.7]])
    x, u = rng.standard_normal((600, 2)), rng.standard_normal((600, 1))
    k = rng.integers(0, 2, 600)
    following = np.stack([A[i] @ row for i, row in zip(k, x, strict=True)]) + u @ B.T
    model = SwitchingLinear(2, 2, n_controls=1).double()
    tensors = [torch.from_numpy(v) for v in (x, following, u)]
    fit_post_hoc(model, *tensors, restarts=8, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(model.control.detach().numpy(), B, atol=1e-4)
    found = model.matrices.detach().numpy()
    assert (
        min(max(np.abs(found[i] - A[0]).max(), np.abs(found[1 - i] - A[1]).max()) for i in (0, 1))
        < 1e-3
    )


@pytest.mark.parametrize("name", ["linear", "tiles", "polynomial", "mlp", "gated"])
def test_a_fit_does_not_notice_the_scale_of_the_embedding(name: str) -> None:
    """The noise sets that scale, and training changes it a thousandfold."""
    data = simulate.lorenz(rng=np.random.default_rng(1), steps=500, noise=0.02, mixing="none")
    assert data.truth is not None
    latents = torch.from_numpy(data.truth.latents / data.truth.latents.std()).double()
    options = {"n_modes": 5, "bias": False, "degree": 2, "lipschitz": None,
               "stable": False}  # fmt: skip
    explained = []
    for scale in (1e-3, 1.0, 1e3):
        x = scale * latents
        generator = torch.Generator().manual_seed(0)
        model = named(name).build(Request(3, 0, options, None, generator)).double()
        fit_post_hoc(model, x[:-1], x[1:], generator=generator)
        with torch.no_grad():
            missed = model.eval()(x[:-1], x[1:]) - x[1:]
        explained.append(float(1 - missed.square().mean() / x.diff(dim=0).square().mean()))
    assert explained[1] > (0.2 if name == "linear" else 0.9)
    assert explained == pytest.approx([explained[1]] * 3, abs=0.02)
