"""The baselines: their mathematics against autograd and plain loops, and that they learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from dynacl import InputError, TimeSeries, metrics, simulate
from dynacl.baselines import BASELINES, changing, fit_baseline, windows
from dynacl.baselines.networks import SLOPE, PerDimensionMLP
from dynacl.baselines.tdrl import TDRL, log_normal
from dynacl.data import Truth

Array = np.ndarray


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, SLOPE * x)


# -- windows -----------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(2, 4), st.integers(0, 2**31)
)
def test_windows_are_those_of_a_plain_enumeration(
    lengths: list[int], length: int, seed: int
) -> None:
    T = sum(lengths)
    modes = np.random.default_rng(seed).integers(0, 2, T)
    ends = np.cumsum(lengths)
    modes[ends - 1] = -1
    series = TimeSeries.of([np.zeros((n, 1)) for n in lengths])
    trial = np.repeat(np.arange(len(lengths)), lengths)
    for labels in (None, modes):
        wanted = [
            s
            for s in range(T - length + 1)
            if len(set(trial[s : s + length])) == 1
            and (labels is None or len(set(labels[s : s + length - 1])) == 1)
        ]
        if wanted:
            assert windows(series, labels, length).tolist() == wanted
        else:
            with pytest.raises(InputError, match="no window"):
                windows(series, labels, length)


def test_windows_of_an_slds_move_by_one_matrix() -> None:
    series = simulate.slds(
        rng=np.random.default_rng(0), trials=5, steps=100, switch_probability=0.03, noise=0.0
    )
    assert series.truth is not None
    assert series.truth.modes is not None
    x, A = series.truth.latents, series.truth.system["matrices"]
    s = windows(series, series.truth.modes)
    assert 0 < len(s) < 5 * 98
    M = A[series.truth.modes[s]]
    for i in range(2):
        np.testing.assert_allclose(np.einsum("nij,nj->ni", M, x[s + i]), x[s + i + 1], atol=1e-5)


# -- the "changing" data -----------------------------------------------------------------------


def test_changing_data_follow_their_equations() -> None:
    series = changing(rng=np.random.default_rng(0), sequences=2000)
    truth = series.truth
    assert truth is not None
    assert series.observations.shape == (5 * 2000 * 3, 8)
    assert series.lengths.tolist() == [3] * 10_000
    B, Q = truth.system["lags"], truth.system["mixing.layers"]
    z = truth.latents.astype(float).reshape(5, 2000, 3, 8)
    for k in range(5):
        drift = leaky(z[k, :, 1] @ B[k, 0]) + leaky(z[k, :, 0] @ B[k, 1])
        noise = np.where(z[k, :, 2] > 0, z[k, :, 2], z[k, :, 2] / SLOPE) - drift
        assert noise.std(0) == pytest.approx(np.full(8, 0.1), rel=0.1)
        assert np.abs(np.corrcoef(noise.T, drift.T)[:8, 8:]).max() < 0.1
    np.testing.assert_allclose(
        leaky(leaky(truth.latents.astype(float)) @ Q[0]) @ Q[1], series.observations, atol=1e-5
    )
    assert np.abs(Q @ Q.transpose(0, 2, 1) - np.eye(8)).max() < 1e-12
    assert z[:, :, :2].std() == pytest.approx(1, rel=0.02)
    assert (B[:, 0] == B[0, 0]).all()  # domains differ in two entries of the last lag each
    assert np.linalg.norm(B[0, 0], axis=0) == pytest.approx(np.ones(8))
    common = np.median(B[:, 1], axis=0)
    assert [int((B[k, 1] != common).sum()) for k in range(5)] == [2] * 5
    labels = truth.modes
    assert labels is not None
    assert windows(series, labels).tolist() == list(range(0, 30_000, 3))
    assert np.bincount(labels[::3]).tolist() == [2000] * 5


# -- networks ----------------------------------------------------------------------------------


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


# -- learning ----------------------------------------------------------------------------------


def mixed(sources: Array, lengths: int, modes: Array | None, seed: int = 0) -> TimeSeries:
    """Sources through a rotation, a leaky ReLU and a linear map to four dimensions."""
    rng = np.random.default_rng(seed)
    d = sources.shape[1]
    rotate = np.linalg.qr(rng.standard_normal((d, d)))[0]
    out = np.linalg.qr(rng.standard_normal((4, 4)))[0][:d]
    bounds = np.arange(0, len(sources) + 1, lengths, dtype=np.int64)
    x = sources @ rotate
    y = np.where(x > 0, x, 0.5 * x) @ out
    return TimeSeries(
        y.astype(np.float32), bounds, truth=Truth(sources.astype(np.float32), modes)
    )


def nonstationary(seed: int = 0) -> TimeSeries:
    """Laplace sources whose scales change from domain to domain: what TCL assumes."""
    rng = np.random.default_rng(seed)
    K, T = 20, 300
    scales = rng.uniform(0.1, 2, (K, 2))
    labels = np.repeat(np.arange(K), T)
    sources = rng.laplace(size=(K * T, 2)) * scales[labels]
    return mixed(sources, T, labels)


def autoregressive(seed: int = 0) -> TimeSeries:
    """Independent AR(1) sources with Laplace innovations: what PCL assumes."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(10_000, 2)) * 0.3
    for t in range(1, len(x)):
        x[t] += 0.9 * x[t - 1]
    return mixed(x, 1000, None)


def laplace_transitions(seed: int = 0) -> TimeSeries:
    """Coupled, smooth dynamics whose noise is independent between dimensions: what TDRL assumes."""
    rng = np.random.default_rng(seed)
    K, n = 4, 2000
    A = rng.uniform(-1, 1, (K, 2, 2))
    x = rng.standard_normal((K, n, 3, 2))
    for k in range(K):
        x[k, :, 2] = np.tanh(x[k, :, 1] @ A[k] + 0.5 * x[k, :, 0] @ A[k - 1])
        x[k, :, 2] += rng.laplace(size=(n, 2)) * [0.2, 0.6]
    labels = np.repeat(np.arange(K), 3 * n)
    return mixed(x.reshape(-1, 2), 3, labels)


EASY: dict[str, Any] = {
    "tcl": (nonstationary, 4000),
    "pcl": (autoregressive, 2500),
    "tdrl": (laplace_transitions, 1500),
}


@pytest.mark.parametrize("name", EASY)
def test_sources_are_separated_where_the_assumptions_hold(name: str) -> None:
    make, steps = EASY[name]
    series = make()
    truth: Truth = series.truth
    mcc = lambda z: metrics.mcc(truth.latents, z)
    fitted = fit_baseline(
        name, series, n_components=2, domains=truth.modes, steps=steps, metric=mcc, evaluations=5
    )
    untrained = fit_baseline(name, series, n_components=2, domains=truth.modes, steps=1, metric=mcc)
    pca = mcc(PCA(2).fit_transform(series.observations))
    print(name, fitted.last(), untrained.last(), pca, fitted.history[-1]["seconds"])
    assert fitted.last() > max(untrained.last(), pca) + 0.1
    assert fitted.last() > 0.9
    assert fitted.last() == mcc(fitted.transform(series))
    assert fitted.best() == max(record["metric"] for record in fitted.history)
