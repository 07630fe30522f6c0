"""The networks of the baselines: against autograd and one network at a time."""

from __future__ import annotations

import pytest
import torch

from dynacl.baselines import BASELINES
from dynacl.baselines.networks import SLOPE, PerDimensionMLP
from dynacl.baselines.tdrl import TDRL, log_normal


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_networks_of_all_dimensions_equal_one_network_each() -> None:
    net = PerDimensionMLP(3, [5, 16, 16], generator())
    x = torch.randn(3, 10, 5, generator=generator(1))
    for i in range(3):
        h = x[i]
        for j, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
            h = h @ weight[i] + bias[i]
            h = torch.nn.functional.leaky_relu(h, SLOPE) if j < 2 else h
        torch.testing.assert_close(net(x)[i], h[:, 0])
        torch.testing.assert_close(net.with_derivative(x)[0][i], h[:, 0])


def test_log_prior_is_that_of_the_autograd_jacobian() -> None:
    d, n = 4, 6
    model = TDRL(7, d, 3, 5, generator()).double()
    draw = lambda *shape: torch.randn(*shape, generator=generator(1), dtype=torch.float64)
    now, history, domain = draw(n, d), draw(n, 2 * d), torch.tensor([0, 1, 2, 3, 4, 0])

    def residual(x: torch.Tensor, i: int) -> torch.Tensor:
        shared = torch.cat([model.embedding[domain[i]], history[i]])
        inputs = torch.stack([torch.cat([shared, x[j : j + 1]]) for j in range(d)])
        return model.prior(inputs[:, None])[:, 0]

    for i in range(n):
        jacobian = torch.autograd.functional.jacobian(lambda x, i=i: residual(x, i), now[i])
        wanted = log_normal(residual(now[i], i)).sum() + torch.linalg.slogdet(jacobian)[1]
        torch.testing.assert_close(model.log_prior(now, history, domain)[i], wanted)


def test_gradients_pass_through_the_derivative() -> None:
    net = PerDimensionMLP(2, [3, 8, 8], generator()).double()
    x = torch.randn(2, 4, 3, generator=generator(1), dtype=torch.float64, requires_grad=True)
    weights = tuple(net.weights)

    def by_autograd() -> torch.Tensor:
        (gradient,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return gradient[:, :, -1]

    ours = torch.autograd.grad(net.with_derivative(x)[1].square().sum(), weights)
    wanted = torch.autograd.grad(by_autograd().square().sum(), weights)
    for a, b in zip(ours, wanted, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("name", "encoder"),
    [
        ("tcl", [50, 128, 128, 6]),
        ("pcl", [50, 50, 50, 50, 50, 6]),
        ("pcl-large", [50, 160, 160, 160, 6]),
        ("tdrl", [50, 128, 128, 128, 128, 12]),  # mean and log-variance
        ("tdrl-large", [50, 256, 256, 256, 256, 12]),
    ],
)
def test_encoders_have_the_sizes_of_the_benchmark(name: str, encoder: list[int]) -> None:
    model = BASELINES[name].make(50, 6, 5, generator())
    layers = [m for m in model.encoder.modules() if isinstance(m, torch.nn.Linear)]
    assert [layers[0].in_features, *(layer.out_features for layer in layers)] == encoder
    if "tdrl" in name:
        assert [w.shape[-1] for w in model.prior.weights] == [128, 128, 128, 1]
