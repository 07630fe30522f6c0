"""Simulators against the equations they stand for, written out here once more."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from dynacl import TimeSeries, simulate
from dynacl.data import Truth

Array = np.ndarray


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def truth(series: TimeSeries) -> Truth:
    assert series.truth is not None
    return series.truth


def trials(series: TimeSeries) -> Array:
    """Latents as (trials, steps, d)."""
    return np.stack(series.split(truth(series).latents.astype(float)))


def residuals(series: TimeSeries, step: Callable[[Array], Array]) -> Array:
    x = trials(series)
    return x[:, 1:] - step(x[:, :-1])


def assert_white(noise: Array, covariance: Array) -> None:
    """(trials, steps, d) of this covariance, with nothing in common between steps or trials."""
    trials, steps, d = noise.shape
    white = noise @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    n = trials * steps
    scatter = np.einsum("tsi,tsj->ij", white, white) / n
    np.testing.assert_allclose(scatter, np.eye(d), atol=6 / n**0.5)
    lagged = np.einsum("tsi,tsj->ij", white[:, :-1], white[:, 1:]) / (trials * (steps - 1))
    np.testing.assert_allclose(lagged, 0, atol=6 / n**0.5)
    if trials > 1:
        across = np.einsum("tsi,tsj->ij", white[:-1], white[1:]) / ((trials - 1) * steps)
        np.testing.assert_allclose(across, 0, atol=6 / n**0.5)


def plane_rotation(d: int, i: int, j: int, degrees: float) -> Array:
    a, G = np.deg2rad(degrees), np.zeros((d, d))
    G[j, i], G[i, j] = 1, -1
    return np.eye(d) + np.sin(a) * G + (1 - np.cos(a)) * G @ G  # Rodrigues


# -- identity and LDS --------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_lds_matrix_is_a_rotation(d: int) -> None:
    A = truth(simulate.lds(rng=rng(), d=d, trials=1, steps=2, mixing="none")).system["matrix"]
    np.testing.assert_allclose(A @ A.T, np.eye(d), atol=1e-12)
    assert np.linalg.det(A) == pytest.approx(1)


@pytest.mark.parametrize("angle", [5.0, 2.0, 90.0])
def test_lds_matrix_is_a_product_over_all_planes_of_rotations_by_the_angle(angle: float) -> None:
    A = truth(simulate.lds(rng=rng(4), angle=angle, trials=1, steps=2, mixing="none")).system[
        "matrix"
    ]
    candidates = [
        np.linalg.multi_dot(
            [plane_rotation(3, i, j, s * angle) for (i, j), s in zip(order, signs, strict=True)]
        )
        for order in permutations([(0, 1), (0, 2), (1, 2)])
        for signs in product([-1, 1], repeat=3)
    ]
    assert min(np.abs(A - candidate).max() for candidate in candidates) < 1e-12


def test_lds_is_as_far_from_the_identity_as_in_the_paper() -> None:
    A = [
        truth(simulate.lds(rng=rng(i), trials=1, steps=2, mixing="none")).system["matrix"]
        for i in range(20)
    ]
    distance = [np.linalg.norm(a - np.eye(3)) for a in A]
    assert np.mean(distance) == pytest.approx(0.2124, abs=0.002)  # its identity-control
    assert np.std([a[0, 1] for a in A]) > 0.05  # both signs are drawn


ROOT = np.array([[0.02, 0.0, 0.0], [0.01, 0.03, 0.0], [-0.01, 0.02, 0.01]])


@pytest.mark.parametrize("size", [(100, 200), (1, 20_000)], ids=["many trials", "one trial"])
@pytest.mark.parametrize("simulator", [simulate.lds, simulate.identity])
@pytest.mark.parametrize(
    ("noise", "covariance"),
    [
        (0.02, 0.02**2 * np.eye(3)),
        ([0.01, 0.02, 0.05], np.diag([0.01**2, 0.02**2, 0.05**2])),
        (ROOT, ROOT @ ROOT.T),
    ],
    ids=["isotropic", "per dimension", "full"],
)
def test_linear_residuals_are_white_with_the_covariance_asked_for(
    simulator: Any, noise: Any, covariance: Array, size: tuple[int, int]
) -> None:
    series = simulator(rng=rng(), noise=noise, trials=size[0], steps=size[1], mixing="none")
    A = truth(series).system["matrix"]
    if simulator is simulate.identity:
        np.testing.assert_array_equal(A, np.eye(3))
    assert_white(residuals(series, lambda x: x @ A.T), covariance)


@pytest.mark.parametrize("simulator", [simulate.identity, simulate.lds, simulate.slds])
def test_trials_start_all_over_the_unit_sphere(simulator: Any) -> None:
    starts = trials(simulator(rng=rng(), d=3, trials=500, steps=2, mixing="none"))[:, 0]
    np.testing.assert_allclose(np.linalg.norm(starts, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(starts.T @ starts / 500, np.eye(3) / 3, atol=0.1)
    assert np.abs(starts.mean(0)).max() < 0.15


# -- SLDS --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(40, 100), (1, 4000)], ids=["many trials", "one trial"])
def test_slds_moves_by_the_matrix_of_its_stored_mode(size: tuple[int, int]) -> None:
    series = simulate.slds(
        rng=rng(), switch_probability=0.02, trials=size[0], steps=size[1], mixing="none"
    )
    modes, A = truth(series).modes, truth(series).system["matrices"]
    assert modes is not None
    k = np.stack(series.split(modes))
    assert (k[:, -1] == -1).all()
    assert set(np.unique(k[:, :-1])) == set(range(5))
    noise = residuals(series, lambda x: np.einsum("tsij,tsj->tsi", A[k[:, :-1]], x))
    assert_white(noise, 1e-4**2 * np.eye(6))
    wrong = residuals(series, lambda x: np.einsum("tsij,tsj->tsi", A[(k[:, :-1] + 1) % 5], x))
    assert (np.linalg.norm(wrong, axis=-1) > np.linalg.norm(noise, axis=-1)).mean() > 0.99


def test_slds_angles_are_uniform_up_to_the_largest() -> None:
    A = truth(
        simulate.slds(rng=rng(), d=2, modes=500, angle=30, trials=1, steps=2, mixing="none")
    ).system
    np.testing.assert_allclose(
        np.einsum("kij,klj->kil", A["matrices"], A["matrices"]), np.tile(np.eye(2), (500, 1, 1)),
        atol=1e-12,
    )  # fmt: skip
    angles = np.rad2deg(np.arctan2(A["matrices"][:, 1, 0], A["matrices"][:, 0, 0]))
    assert kstest(angles, "uniform", args=(0, 30)).pvalue > 1e-3


def test_slds_leaves_for_each_other_mode_equally_often() -> None:
    K, p = 4, 0.01
    series = simulate.slds(
        rng=rng(), modes=K, switch_probability=p, trials=300, steps=300, mixing="none"
    )
    modes = truth(series).modes
    assert modes is not None
    k = np.stack(series.split(modes))[:, :-1]
    jumps = (k[:, 1:] - k[:, :-1]) % K
    n, rate = jumps.size, p * (K - 1)
    assert abs((jumps > 0).mean() - rate) < 5 * (rate * (1 - rate) / n) ** 0.5
    assert chisquare(np.bincount(jumps[jumps > 0], minlength=K)[1:]).pvalue > 1e-3
    assert chisquare(np.bincount(k[:, 0], minlength=K)).pvalue > 1e-3


def test_slds_of_one_mode_or_no_switching_stays_where_it_is() -> None:
    for settings in ({"modes": 1}, {"modes": 3, "switch_probability": 0.0}):
        series = simulate.slds(rng=rng(), trials=20, steps=50, mixing="none", **settings)
        modes = truth(series).modes
        assert modes is not None
        assert (np.ptp(np.stack(series.split(modes))[:, :-1], axis=1) == 0).all()


# -- Lorenz ------------------------------------------------------------------------------------


def euler(x: Array, dt: float) -> Array:
    x1, x2, x3 = np.moveaxis(x, -1, 0)
    flow = [10 * (x2 - x1), x1 * (28 - x3) - x2, x1 * x2 - 8 / 3 * x3]
    return x + dt * np.stack(flow, axis=-1)


@pytest.mark.parametrize("size", [(1, 20_000), (20, 1000)], ids=["one trial", "many trials"])
@pytest.mark.parametrize(("dt", "noise"), [(0.01, 1e-3), (0.0005, 0.1)])
def test_lorenz_residuals_of_the_euler_step_are_white(
    size: tuple[int, int], dt: float, noise: float
) -> None:
    series = simulate.lorenz(
        rng=rng(), dt=dt, noise=noise, start=(1, 2, 3), trials=size[0], steps=size[1], mixing="none"
    )
    assert_white(residuals(series, lambda x: euler(x, dt)), noise**2 * np.eye(3))
    np.testing.assert_array_equal(trials(series)[:, 0], np.tile([1, 2, 3], (size[0], 1)))


# -- presets: the settings of the paper --------------------------------------------------------


WALKS = {"trials": 1000, "steps": 1000, "observed": 50, "layers": 4, "d": 3, "noise": 0.01}


PAPER: dict[str, dict[str, Any]] = {
    "identity": {**WALKS, "kind": "identity", "angle": 0.0},
    "lds": {**WALKS, "kind": "lds", "angle": 5.0},
    "lds-low-dt": {**WALKS, "kind": "lds", "angle": 2.0},
    "slds": {**WALKS, "kind": "slds", "d": 6, "noise": 1e-4, "modes": 5, "p": 1e-4, "angle": 10.0},
    "lorenz": {**WALKS, "kind": "lorenz", "noise": 1e-3, "dt": 0.01, "trials": 1, "steps": 10**6},
    "lorenz-small-dt": {
        **WALKS, "kind": "lorenz", "noise": 0.1, "dt": 0.0005, "trials": 1, "steps": 10**6
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PAPER)
def test_preset_has_the_settings_of_the_paper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Any, ...]] = []
    # In place of the drawing itself: the paper's million steps take a while.
    monkeypatch.setattr(simulate.System, "draw", lambda *args: drawn.append(args))
    simulate.preset(name, rng=rng())
    made, n_trials, steps, _, start = drawn[0]
    system = made.to_arrays()
    paper = PAPER[name]
    assert (n_trials, steps, str(system["kind"])) == (
        paper["trials"],
        paper["steps"],
        paper["kind"],
    )
    np.testing.assert_allclose(system["noise"], paper["noise"] * np.eye(paper["d"]))
    assert system["mixing.layers"].shape == (paper["layers"], paper["d"], paper["d"])
    assert system["mixing.output"].shape == (paper["observed"], paper["d"])
    assert system["observation_noise"] == 0
    if paper["kind"] == "lorenz":
        constants = [float(system[k]) for k in ("dt", "sigma", "beta", "rho")]
        assert constants == pytest.approx([paper["dt"], 10, 8 / 3, 28])
        assert tuple(start) == (0, 1, 0)
        return
    planes = paper["d"] * (paper["d"] - 1) / 2
    # To first order ‖A − I‖² = 2 Σ angle², and the mean of angle² over [0, a] is a²/3.
    if paper["kind"] == "slds":
        assert system["matrices"].shape == (paper["modes"], 6, 6)
        assert system["switch_probability"] == paper["p"]
        size = np.linalg.norm(system["matrices"] - np.eye(6), axis=(1, 2)).mean()
        wanted, tolerance = (2 * planes / 3) ** 0.5 * np.deg2rad(paper["angle"]), 0.25
    else:
        size = np.linalg.norm(system["matrix"] - np.eye(3))
        wanted, tolerance = (2 * planes) ** 0.5 * np.deg2rad(paper["angle"]), 0.02
    assert size == pytest.approx(wanted, rel=tolerance)


def test_lorenz_starts_are_those_of_the_paper() -> None:
    assert simulate.LORENZ_STARTS == ((0, 1, 0), (1, 0, 0), (2, 2, 2), (0, 0, 1), (3, 3, 3))
    assert set(PAPER) <= set(simulate.PRESETS)


def test_preset_settings_can_be_replaced() -> None:
    series = simulate.preset("lorenz-small-dt", rng=rng(), steps=7, trials=3, noise=0.2, observed=4)
    assert series.lengths.tolist() == [7, 7, 7]
    assert series.n_features == 4
    assert truth(series).system["dt"] == 0.0005
    np.testing.assert_array_equal(truth(series).system["noise"], 0.2 * np.eye(3))


def test_observation_noise_is_white_on_top_of_the_mixing() -> None:
    nu = 0.3
    series = simulate.lds(rng=rng(), observation_noise=nu, mixing="none", trials=50, steps=200)
    noise = np.stack(series.split(series.observations - truth(series).latents)).astype(float)
    assert_white(noise, nu**2 * np.eye(3))
    assert_white(
        residuals(series, lambda x: x @ truth(series).system["matrix"].T), 0.01**2 * np.eye(3)
    )


# -- the same again ----------------------------------------------------------------------------


SMALL: dict[str, Any] = {"trials": 20, "steps": 30, "observed": 8}


@pytest.mark.parametrize("name", PAPER)
def test_the_same_generator_draws_the_same_data_and_another_does_not(name: str) -> None:
    a, b, c = (simulate.preset(name, rng=rng(seed), **SMALL) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.observations, b.observations)
    np.testing.assert_array_equal(truth(a).latents, truth(b).latents)
    assert not np.array_equal(a.observations, c.observations)
    assert not np.array_equal(truth(a).system["mixing.output"], truth(c).system["mixing.output"])


@pytest.mark.parametrize("name", PAPER)
def test_again_keeps_system_and_mixing_but_not_starts_and_noise(name: str) -> None:
    first = simulate.preset(name, rng=rng(1), **SMALL)
    again = simulate.again(first, rng=rng(2))
    assert again.lengths.tolist() == [30, 30]  # a tenth of the trials, as long as they were
    assert truth(again).system.keys() == truth(first).system.keys()
    for key, value in truth(first).system.items():
        np.testing.assert_array_equal(truth(again).system[key], value)
    x, y = trials(again), trials(first)[:2]
    assert (np.abs(x[:, 0] - y[:, 0]).max(1) > 1e-3).all()
    assert not np.allclose(x[:, 1:] - x[:, :-1], y[:, 1:] - y[:, :-1])
    longer = simulate.again(first, rng=rng(2), trials=3, steps=40)
    assert longer.lengths.tolist() == [40, 40, 40]
