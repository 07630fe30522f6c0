"""Mixing: layers, rank and observation noise, written out here once more."""

from __future__ import annotations

import numpy as np
import pytest

from dynacl import InputError, TimeSeries, simulate
from dynacl.data import Truth

Array = np.ndarray


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def truth(series: TimeSeries) -> Truth:
    assert series.truth is not None
    return series.truth


@pytest.mark.parametrize("d", [3, 6])
def test_mixing_layers_are_among_the_best_conditioned(d: int) -> None:
    system = truth(simulate.identity(rng=rng(), d=d, layers=8, trials=1, steps=2)).system
    draws = rng(99).uniform(-1, 1, (10_000, d, d))
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    # The 0.1 % quantile of 10,000 draws is uncertain: 0.3 % of ours is a safe bound for it.
    assert np.linalg.cond(system["mixing.layers"]).max() < np.quantile(np.linalg.cond(draws), 0.003)
    np.testing.assert_allclose(np.linalg.norm(system["mixing.layers"], axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(system["mixing.output"], axis=0), 1)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_mixing_has_leaky_relu_between_layers_and_none_after_the_last(layers: int) -> None:
    series = simulate.identity(rng=rng(), layers=layers, observed=7, trials=20, steps=50)
    x, system = truth(series).latents.astype(float), truth(series).system
    wrong = x
    for i in range(layers):
        x = x @ system["mixing.layers"][i].T
        wrong = np.where(x < 0, 0.2 * x, x)  # as if the last layer had one too
        if i < layers - 1:
            x = wrong
    np.testing.assert_allclose(series.observations, x @ system["mixing.output"].T, atol=1e-6)
    assert np.abs(series.observations - wrong @ system["mixing.output"].T).max() > 0.01


def test_mixing_can_be_undone() -> None:
    series = simulate.lds(rng=rng(), trials=20, steps=50)
    system = truth(series).system
    x = series.observations @ np.linalg.pinv(system["mixing.output"]).T
    for i, weight in enumerate(system["mixing.layers"][::-1]):
        x = np.linalg.solve(weight, (np.where(x < 0, x / 0.2, x) if i else x).T).T
    np.testing.assert_allclose(x, truth(series).latents, atol=1e-4)


def test_linear_mixing_is_one_matrix_and_none_is_none() -> None:
    linear = simulate.lds(rng=rng(), mixing="linear", observed=10, trials=5, steps=20)
    x, G = truth(linear).latents.astype(float), truth(linear).system["mixing.output"]
    assert "mixing.layers" not in truth(linear).system
    np.testing.assert_allclose(linear.observations, x @ G.T, atol=1e-6)
    plain = simulate.lds(rng=rng(), mixing="none", trials=5, steps=20)
    np.testing.assert_array_equal(plain.observations, truth(plain).latents)


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
