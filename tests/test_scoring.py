"""The score: bits by which predictions tell the true state to come, as wide as their errors are."""

import warnings

import numpy as np
import pytest

from dynacl import DCL, InputError, simulate
from dynacl.judging import split
from dynacl.objective import Flat, Sphere
from dynacl.sampling import steps_apart
from dynacl.scoring import NEAR_CAP, bits


@pytest.fixture(scope="module")
def data():
    return simulate.lds(rng=np.random.default_rng(1001), d=2, trials=20, steps=200, observed=5,
                        mixing="linear", noise=0.1)  # fmt: skip


@pytest.fixture(scope="module")
def model(data):
    return DCL(2, max_iter=100, batch_size=128, random_state=0).fit(data)


def guesses(sigma, n=8000, d=1, seed=0):
    """States of unit variance, and predictions of them that are off by sigma."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x + sigma * rng.standard_normal((n, d)), x, rng.standard_normal((2048, d))


@pytest.mark.parametrize(("d", "sigma"), [(1, 0.1), (1, 0.5), (1, 2.0), (2, 0.3), (3, 1.0)])
def test_a_score_is_the_information_that_theory_gives(d, sigma):
    """E log2 N(x; q, σ²) / ∫ N(m; q, σ²) p(m) dm = d/2 log2((1 + σ²) / σ²), below its cap."""
    expected = d / 2 * np.log2((1 + sigma**2) / sigma**2)
    assert bits(Flat(), *guesses(sigma, d=d)).bits == pytest.approx(expected, abs=0.15)


def test_the_width_is_estimated_whatever_the_scale_and_the_directions():
    q, x, others = guesses(0.3, d=2)
    plain = bits(Flat(), q, x, others).bits
    for map_ in (np.diag([1e4, 1e4]), np.diag([1e-4, 1e3]), np.array([[3.0, 2.9], [0.1, 0.2]])):
        assert bits(Flat(), q @ map_, x @ map_, others @ map_).bits == pytest.approx(
            plain, abs=0.02
        )


def test_a_missed_switch_costs_bits_and_not_any_number():
    q, x, others = guesses(0.05)
    whole = bits(Flat(), q, x, others).bits
    wrong = np.where(np.arange(len(q))[:, None] % 50 == 0, q + 1e6, q)
    assert whole - 1 < bits(Flat(), wrong, x, others).bits < whole


def test_roll_outs_that_diverged_tell_nothing():
    q, x, others = guesses(0.05)
    half = len(q) // 2
    q[::2] = np.array([np.nan, np.inf, -1e30, 1e12])[np.arange(half) % 4, None]
    found = bits(Flat(), q, x, others).bits
    assert 0 < found < 0.6 * bits(Flat(), *guesses(0.05)).bits


@pytest.mark.parametrize("confident", [1e-3, 1.0])
def test_predictions_that_tell_nothing_score_about_zero(confident):
    q, x, others = guesses(confident, n=1000, d=3)
    mixed = np.random.default_rng(1).permutation(q)
    assert abs(bits(Flat(), mixed, x, others).bits) < 0.05


def test_on_the_sphere_the_sharpness_is_estimated_too():
    q, x, others = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in guesses(0.1, d=3))
    sharp, blunt = Sphere(0.01), Sphere(1.0)
    assert bits(sharp, q, x, others).bits > 5
    assert bits(sharp, q, x, others).bits == pytest.approx(bits(blunt, q, x, others).bits, abs=0.1)


def test_shuffled_data_score_about_zero_also_if_they_were_learned_by_heart(data):
    rng = np.random.default_rng(0)
    y = rng.permutation(data.observations)
    for validation in ("auto", False):
        model = DCL(2, max_iter=300, batch_size=128, random_state=0, validation=validation)
        model.fit(y[:800])
        assert abs(model.score(y[2000:])) < 0.2


@pytest.mark.parametrize(
    ("lags", "offset", "apart"), [((0,), 1, 1), ((0, 1, 2), 1, 3), ((0, 1, 2), 2, 2),
                                  ((0, 10, 20), 1, 1), ((0, 2, 3), 1, 4)],
)  # fmt: skip
def test_windows_that_are_compared_share_no_frame(lags, offset, apart):
    assert steps_apart(lags, offset) == apart


def test_shuffled_data_score_about_zero_where_windows_overlap(data):
    y = np.random.default_rng(0).permutation(data.observations)
    model = DCL(2, time_lags=(0, 1, 2), max_iter=150, batch_size=128, random_state=0).fit(y[:2000])
    assert abs(model.score(y[2000:])) < 0.2
    assert model.score(y[2000:], horizon=1) > 0.5  # two of three frames are known


def test_what_fit_says_is_what_score_gives(data, model):
    seen, held = split(data, 0.1, room=8, least=8)
    assert model.scores_ == {"training": model.score(seen), "held_out": model.score(held)}


def test_further_ahead_less_is_told(data, model):
    scores = [model.score(data, horizon=h) for h in (1, 5, 20)]
    assert scores == sorted(scores, reverse=True)
    with pytest.raises(InputError, match="horizon: got"):
        model.score(data, horizon=0)


def test_a_score_near_its_cap_warns():
    y = simulate.lds(rng=np.random.default_rng(0), d=2, trials=4, steps=300, observed=4,
                     mixing="linear", noise=1e-5)  # fmt: skip
    model = DCL(2, max_iter=30, batch_size=128, random_state=0).fit(y)
    with pytest.warns(UserWarning, match="near the cap of 10"):
        score = model.score(y)
    assert score > NEAR_CAP * np.log2(1201)


def test_a_score_below_its_cap_does_not_warn(data, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score = model.score(data)
    assert 0 < score < NEAR_CAP * np.log2(2049)
