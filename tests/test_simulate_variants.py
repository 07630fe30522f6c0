"""Simulators of the appendices: driven systems, the sphere, mixing that is not injective."""

import numpy as np
import pytest

from dynacl import InputError, TimeSeries, simulate
from dynacl.dynamics import Truth


def residual(data):
    x, t = data.truth.latents.astype(float), data.steps()
    r = x[t + 1] - x[t] @ data.truth.system["matrix"].T
    if data.control is not None:
        r -= data.control[t] @ data.truth.system["control"].T
    return r


@pytest.mark.parametrize("control", ["none", "step", "lds"])
def test_driven_system_follows_its_equation(control):
    data = simulate.controlled(
        rng=np.random.default_rng(0), control=control, trials=20, steps=200, observed=8
    )
    np.testing.assert_allclose(residual(data).std(0), 1e-3, rtol=0.1)
    assert data.n_controls == {"none": 0, "step": 1, "lds": 5}[control]
    assert data.truth.system["matrix"].shape == (5, 5)


def test_step_control_is_down_then_zero_for_a_fifth_then_up_and_new_for_each_trial():
    data = simulate.controlled(rng=np.random.default_rng(0), trials=30, steps=1000, observed=8)
    starts = []
    for u in data.split(data.control[:, 0]):
        zero = np.flatnonzero(u == 0)
        assert len(zero) == 200
        assert (np.diff(zero) == 1).all()
        assert (u[: zero[0]] < 0).all()
        assert (u[zero[-1] + 1 :] > 0).all()
        assert 300 <= zero[0] <= 500
        starts.append(zero[0])
    assert len(set(starts)) > 10


def test_control_matrix_has_the_papers_distribution():
    rng = np.random.default_rng(0)
    B = np.concatenate([
        simulate.controlled(rng=rng, control="lds", trials=1, steps=2, mixing="none")
        .truth.system["control"].ravel()
        for _ in range(100)
    ])  # fmt: skip
    assert B.mean() == pytest.approx(0.01, abs=0.01)
    assert B.var() == pytest.approx(0.01, rel=0.1)


def test_oracle_of_a_driven_system_adds_its_control():
    import torch

    data = simulate.controlled(rng=np.random.default_rng(0), trials=3, steps=50, observed=8)
    x, u, t = (torch.from_numpy(v) for v in (data.truth.latents, data.control, data.steps()))
    error = Truth(data.truth.system)(x[t], None, u[t]) - x[t + 1]
    assert error.std().item() == pytest.approx(1e-3, rel=0.2)


def test_driven_series_survives_a_file(tmp_path):
    data = simulate.controlled(rng=np.random.default_rng(0), trials=3, steps=50, observed=8)
    data.write(tmp_path / "u.npz")
    back = TimeSeries.read(tmp_path / "u.npz")
    np.testing.assert_array_equal(back.control, data.control)
    new = simulate.again(back, rng=np.random.default_rng(1), trials=2)
    assert new.control.shape == (100, 1)
    np.testing.assert_allclose(residual(new).std(), 1e-3, rtol=0.2)


@pytest.mark.parametrize("sigma", [0.01, 0.1])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_sphere_draws_from_the_von_mises_fisher_distribution_around_the_rotated_state(sigma, d):
    data = simulate.sphere(
        rng=np.random.default_rng(0), d=d, noise=sigma, trials=50, steps=200, mixing="none"
    )
    x, t = data.truth.latents.astype(float), data.steps()
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-5)
    mean = x[t] @ data.truth.system["matrix"].T
    cosine = (mean * x[t + 1]).sum(1)
    # Mean resultant length A_d(κ) of a von Mises–Fisher distribution, a ratio of Bessel functions.
    from scipy.special import ive

    kappa = 1 / sigma**2
    assert cosine.mean() == pytest.approx(
        ive(d / 2, kappa) / ive(d / 2 - 1, kappa), abs=5 * cosine.std() / len(t) ** 0.5
    )
    # Around the mean direction no tangent direction is preferred.
    tangent = x[t + 1] - cosine[:, None] * mean
    assert np.abs(tangent.mean(0)).max() < 6 * tangent.std() / len(t) ** 0.5


@pytest.mark.parametrize("mixing", ["linear", "mlp"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_low_rank_mixing_has_that_rank(mixing, rank):
    data = simulate.lds(
        rng=np.random.default_rng(0), d=6, rank=rank, mixing=mixing, trials=10, steps=100
    )
    values = np.linalg.svd(data.observations - data.observations.mean(0), compute_uv=False)
    assert values[rank - 1] > 1e-3 * values[0]
    assert values[rank] < 1e-5 * values[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank: got 0"),
        ({"rank": 4}, "from 1 to 3"),
        ({"rank": 2, "mixing": "none"}, "mixes nothing"),
    ],
)
def test_impossible_rank_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        simulate.lds(rng=np.random.default_rng(0), trials=2, steps=10, **settings)


def test_unknown_control_and_noise_free_sphere_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="control: got 'sine'"):
        simulate.controlled(rng=rng, control="sine")
    with pytest.raises(InputError, match="noise"):
        simulate.sphere(rng=rng, noise=0.0)


@pytest.mark.parametrize("kappa", [0.0, 8.0])
def test_pairs_on_the_sphere_have_the_means_of_their_distributions(kappa):
    pairs = simulate.sphere(rng=np.random.default_rng(0), angle=0, concentration=kappa,
                            noise=50**-0.5, trials=20_000, steps=2, observed=5)  # fmt: skip
    x = pairs.truth.latents.reshape(-1, 2, 3).astype(float)
    assert np.allclose(np.linalg.norm(x, axis=2), 1, atol=1e-6)
    assert (pairs.lengths == 2).all()

    def length(k):  # of the mean of vMF in three dimensions: coth κ − 1/κ
        return 1 / np.tanh(k) - 1 / k if k else 0.0

    assert np.allclose(x[:, 0].mean(0), [length(kappa), 0, 0], atol=0.02)
    assert (x[:, 0] * x[:, 1]).sum(1).mean() == pytest.approx(length(50.0), abs=1e-3)
