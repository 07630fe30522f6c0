"""Metrics against scikit-learn, brute force over matchings, and cases worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from dynacl import InputError, metrics
from planes import Array, normal, rotation

# -- latents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3), (3, 2), (2, 5), (1, 1)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_r2_is_that_of_scikit_learns_regression(shape: tuple[int, int], scale: float) -> None:
    d, d_hat = shape
    x = normal(200, d) * np.arange(1, d + 1) + 7
    x_hat = scale * (x @ normal(d, d_hat, seed=1) + 0.3 * normal(200, d_hat, seed=2) + 2)
    wanted = r2_score(x, LinearRegression().fit(x_hat, x).predict(x_hat))
    assert metrics.r2(x, x_hat) == pytest.approx(wanted, abs=1e-9)


def test_r2_of_an_exact_affine_image_is_one_and_of_noise_is_zero() -> None:
    x = normal(5000, 3)
    assert metrics.r2(x, x @ normal(3, 3, seed=1) + 5) == pytest.approx(1)
    assert abs(metrics.r2(x, normal(5000, 3, seed=2))) < 0.01
    assert metrics.r2(x, np.ones((5000, 3))) == pytest.approx(0)  # a collapsed embedding


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2**31),
)
def test_mcc_is_the_best_matching_of_components(d: int, d_hat: int, seed: int) -> None:
    x, x_hat = normal(20, d, seed=seed), normal(20, d_hat, seed=seed + 1)
    few, many = (x, x_hat) if d <= d_hat else (x_hat, x)
    pearson = lambda a, b: abs(float(np.corrcoef(a, b)[0, 1]))
    best = max(
        np.mean([pearson(few[:, i], many[:, j]) for i, j in enumerate(chosen)])
        for chosen in permutations(range(many.shape[1]), few.shape[1])
    )
    assert metrics.mcc(x, x_hat) == pytest.approx(best)


def test_mcc_ignores_order_sign_and_scale_but_not_rotation() -> None:
    x = normal(2000, 2)
    assert metrics.mcc(x, x[:, ::-1] * [-3, 0.1] + 1) == pytest.approx(1)
    assert metrics.mcc(x, x @ rotation(45).T) == pytest.approx(0.5**0.5, abs=0.02)


def test_consistency_is_the_r2_of_each_embedding_from_each_other() -> None:
    x = normal(100, 3)
    runs = [x @ normal(3, 3, seed=1) + 1, x[:, :2] + 0.1 * normal(100, 2, seed=2), x]
    scores = metrics.consistency(runs)
    halves = metrics.consistency([r[:50] for r in runs], [r[50:] for r in runs])
    for i in range(3):
        for j in range(3):
            fit = LinearRegression().fit(runs[i], runs[j])
            half = LinearRegression().fit(runs[i][:50], runs[j][:50])
            wanted = r2_score(runs[j], fit.predict(runs[i]))
            held_out = r2_score(runs[j][50:], half.predict(runs[i][50:]))
            assert scores[i, j] == pytest.approx(wanted)
            assert halves[i, j] == pytest.approx(held_out)
    assert scores[0, 2] == pytest.approx(1)
    assert scores[1, 2] < 0.8 < 0.9 < scores[2, 1]  # what was thrown away does not come back


# -- modes -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 4)), min_size=1, max_size=30))
def test_mode_accuracy_is_the_best_over_all_matchings(pairs: list[tuple[int, int]]) -> None:
    modes, inferred = (list(column) for column in zip(*pairs, strict=True))
    true, found = sorted(set(modes)), sorted(set(inferred))
    slots: list[int | None] = [*found, *[None] * len(true)]  # a true mode may be left without one
    best = max(
        sum(dict(zip(true, chosen, strict=True))[m] == k for m, k in pairs)
        for chosen in set(permutations(slots, len(true)))
    )
    assert metrics.mode_accuracy(modes, inferred) == pytest.approx(best / len(pairs))


def test_mode_accuracy_by_hand() -> None:
    modes = np.array([0, 0, 0, 1, 1, 2])
    assert metrics.mode_accuracy(modes, np.array([7, 7, 7, 3, 3, 5])) == 1  # names do not matter
    assert metrics.mode_accuracy(modes, np.array([0, 0, 4, 1, 1, 2])) == pytest.approx(5 / 6)
    assert metrics.mode_accuracy(modes, np.zeros(6, int)) == pytest.approx(1 / 2)


# -- dynamics ----------------------------------------------------------------------------------


def test_lds_error_of_the_same_system_in_other_coordinates_is_zero() -> None:
    x, A, L = normal(50, 3), normal(3, 3, seed=1), normal(3, 3, seed=2)
    x_hat = x @ L.T + 4
    assert metrics.lds_error(A, L @ A @ np.linalg.inv(L), x, x_hat) == pytest.approx(0, abs=1e-9)


def test_lds_error_of_the_identity_is_the_distance_to_it_in_any_coordinates() -> None:
    A = rotation(5)
    wanted = (2 * (2 - 2 * np.cos(np.deg2rad(5)))) ** 0.5  # ‖R − I‖_F of a plane rotation
    for seed in range(5):
        x_hat = normal(50, 2) @ normal(2, 2, seed=seed + 1) + seed
        assert metrics.lds_error(A, np.eye(2), normal(50, 2), x_hat) == pytest.approx(wanted)


def test_control_error_is_relative_and_of_any_coordinates() -> None:
    x, B, L = normal(50, 3), normal(3, 2, seed=1), normal(3, 3, seed=2)
    for factor, wanted in ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0)):
        found = metrics.control_error(B, factor * L @ B, x, x @ L.T + 1)
        assert found == pytest.approx(wanted, abs=1e-9)


def test_lds_error_by_hand() -> None:
    # L⁻¹ Â L = [[1, −1], [0, 1]] diag(.9, .5) [[1, 1], [0, 1]] = [[.9, .4], [0, .5]]
    x, D, L = normal(50, 2), np.diag([0.9, 0.5]), np.array([[1.0, 1.0], [0.0, 1.0]])
    assert metrics.lds_error(D, D, x, x @ L.T + 1) == pytest.approx(0.4)


def test_dyn_r2_by_hand() -> None:
    x = np.array([[-3.0], [-1.0], [1.0], [3.0]])
    rows, half = np.arange(4), lambda s, _: s / 2
    # r2_score(x, x / 2ⁿ) = 1 − (1 − 2⁻ⁿ)²; of 2x against x / 2: 1 − (3 / 4)²
    same, double = (lambda s, _: s), (lambda s, _: 2 * s)
    quarter = lambda s, _: s / 4
    assert metrics.dyn_r2(x, x, half, same, rows) == pytest.approx((0.75, 0.75))
    assert metrics.dyn_r2(x, x, quarter, same, rows) == pytest.approx((7 / 16, 7 / 16))
    assert metrics.dyn_r2(x, x, half, double, rows) == pytest.approx((7 / 16, 0.75))


def test_dyn_r2_of_the_same_system_in_other_coordinates_is_one_at_any_depth() -> None:
    x, A, L, b = normal(60, 3), normal(3, 3, seed=1), normal(3, 3, seed=2), normal(3, seed=3)
    conjugate = L @ A @ np.linalg.inv(L)
    for n in (1, 3, 10):
        true, found = (np.linalg.matrix_power(M, n).T for M in (A, conjugate))
        score, control = metrics.dyn_r2(
            x,
            x @ L.T + b,
            lambda s, _, true=true: s @ true,
            lambda s, _, found=found: (s - b) @ found + b,
            np.arange(60),
        )
        assert score == pytest.approx(1)
        assert control < 0.9


@pytest.mark.parametrize(("n", "stride"), [(1, 1), (4, 1), (3, 2)])
def test_dyn_r2_with_control_equals_a_loop_over_single_states(n: int, stride: int) -> None:
    T, d = 40, 2
    x, u = normal(T, d), normal(T, 1, seed=1)
    x_hat = x @ normal(d, 3, seed=2) + 0.1 * normal(T, 3, seed=3)
    A, B = rotation(20), normal(d, 1, seed=4)
    A_hat, B_hat = 0.9 * np.eye(3), normal(3, 1, seed=5)
    starts = np.array([0, 1, 5, 7, 20, 31])

    def along(matrix: Array, control: Array) -> Callable[[Array, Array], Array]:
        def ahead(states: Array, rows: Array) -> Array:
            for j in range(n):
                states = states @ matrix.T + u[rows + j * stride] @ control.T
            return states

        return ahead

    score, control = metrics.dyn_r2(x, x_hat, along(A, B), along(A_hat, B_hat), starts)
    there, back = LinearRegression().fit(x, x_hat), LinearRegression().fit(x_hat, x)
    model, true = [], []
    for t in starts:
        state, hidden = x_hat[t], back.predict(x_hat[[t]])[0]
        for j in range(n):
            state = A_hat @ state + B_hat @ u[t + j * stride]
            hidden = A @ hidden + B @ u[t + j * stride]
        model.append(state)
        true.append(there.predict(hidden[None])[0])
    assert score == pytest.approx(r2_score(model, true))
    assert control == pytest.approx(r2_score(x_hat[starts], true))


X, EYE = normal(20, 3), np.eye(3)


ROWS = np.arange(5)


FLAT = X * [1, 0, 1]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "constant latents": (lambda: metrics.r2(FLAT, X), "a dimension is constant"),
    "constant latents, mcc": (lambda: metrics.mcc(FLAT, X), "constant"),
    "constant recovered, mcc": (lambda: metrics.mcc(X, FLAT), "constant"),
    "collapsed, lds": (lambda: metrics.lds_error(EYE, EYE, X, FLAT), "fewer dimensions"),
    "few samples": (lambda: metrics.r2(X[:3], X[:3]), "got 3 samples of 3 dimensions"),
    "one sample, mcc": (lambda: metrics.mcc(X[:1], X[:1]), "constant"),
    "NaN": (lambda: metrics.r2(X, X * np.nan), "NaN or infinity"),
    "infinity, mcc": (lambda: metrics.mcc(X * np.inf, X), "NaN or infinity"),
    "NaN matrix": (lambda: metrics.lds_error(EYE, EYE * np.nan, X, X), "NaN or infinity"),
    "lengths": (lambda: metrics.r2(X, X[1:]), "arrays of equal length"),
    "vector": (lambda: metrics.r2(X[:, 0], X), r"wanted two \(time, d\) arrays"),
    "strings": (lambda: metrics.r2([["a"]] * 9, X[:9]), "arrays of numbers"),
    "other d": (lambda: metrics.lds_error(EYE, EYE, X, X[:, :2]), "the same d everywhere"),
    "other matrix": (lambda: metrics.lds_error(EYE, np.eye(2), X, X), r"\(3, 3\) and \(2, 2\)"),
    "no modes": (lambda: metrics.mode_accuracy([], []), "non-empty"),
    "modes differ in length": (lambda: metrics.mode_accuracy([0], [0, 1]), "two equal"),
    "NaN modes": (lambda: metrics.mode_accuracy([0, np.nan], [0, 1]), "whole numbers"),
    "no starts": (lambda: metrics.dyn_r2(X, X, max, max, ROWS[:0]), "starts: empty"),
    "one run": (lambda: metrics.consistency([X]), "got 1; wanted at least 2"),
    "runs held out": (lambda: metrics.consistency([X, X], [X]), "scored_on"),
    "runs held out, d": (lambda: metrics.consistency([X, X], [X, X[:, :2]]), "scored_on"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_degenerate_input_is_refused_in_words(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("growth", [1e155, 1e300])
def test_a_roll_out_that_diverges_scores_minus_infinity_not_nan(growth: float) -> None:
    def explode(states: Array, rows: Array) -> Array:
        with np.errstate(over="ignore"):
            return states * growth * growth

    score, control = metrics.dyn_r2(X, X, lambda s, _: s / 4, explode, ROWS)
    assert score == -np.inf
    assert control == pytest.approx(r2_score(X[ROWS], X[ROWS] / 4))  # the control stays finite


def test_sparse_fit_finds_the_few_terms_that_noise_and_near_copies_hide():
    rng = np.random.default_rng(0)
    a, b, c, apart = rng.standard_normal((4, 2000))
    # The copy differs from a by something that no other feature has: which of the two goes first is
    # decided by the target and not by rounding.
    features = np.stack([a, b, a + 0.05 * apart, b * b, c, np.ones(2000)], 1)
    target = 2 * a - 3 * b + 0.05 * rng.standard_normal(2000)
    full = np.linalg.lstsq(features, target, rcond=None)[0]
    assert np.count_nonzero(np.abs(full) > 1e-4) == 6  # all have a share in least squares
    np.testing.assert_allclose(
        metrics.sparse_fit(features, target, 0.001), [2, -3, 0, 0, 0, 0], atol=0.01
    )
    # 0.4 of the mean square may be missed: the smaller of the two terms goes, and then no more.
    assert np.flatnonzero(metrics.sparse_fit(features, target, 0.4)).tolist() == [1]
    assert not metrics.sparse_fit(features, 0 * target, 0.1).any()
