"""The walks lead where they say: on small made-up data whose truth is known."""

import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

WALKS = Path(__file__).parent.parent / "examples" / "walks"


def walk(name):
    spec = importlib.util.spec_from_file_location(f"walks_{name}", WALKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


markov = walk("markov")


def test_smoothing_equals_a_sum_over_all_sequences():
    rng = np.random.default_rng(0)
    n, K = 6, 3
    log_p = 5 * rng.standard_normal((n, K))
    start, chain = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K)
    total, states, pairs = 0.0, np.zeros((n, K)), np.zeros((K, K))
    for path in itertools.product(range(K), repeat=n):
        steps = list(itertools.pairwise(path))
        weight = start[path[0]] * np.prod([chain[s] for s in steps])
        weight *= np.exp(log_p[range(n), path].sum())
        total += weight
        states[range(n), path] += weight
        for step in steps:
            pairs[step] += weight
    found = markov.smooth(log_p, start, chain)
    np.testing.assert_allclose(found[0], states / total)
    np.testing.assert_allclose(found[1], pairs / total)
    assert found[2] == pytest.approx(np.log(total))


def test_densities_are_those_of_scipy():
    rng = np.random.default_rng(1)
    x, y, W = rng.standard_normal((5, 2)), rng.standard_normal((5, 3)), rng.normal(size=(1, 2, 3))
    S = np.cov(rng.standard_normal((3, 20)))
    expected = [multivariate_normal(a @ W[0], S).logpdf(b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(markov.log_densities(x, y, W, S[None])[:, 0], expected)


def test_only_the_autoregressive_model_tells_regimes_by_how_they_move():
    """Two maps with the same stationary distribution: a damped rotation to either side."""
    rng = np.random.default_rng(2)
    A = 0.95 * np.array([[[0.8, -0.6], [0.6, 0.8]], [[0.8, 0.6], [-0.6, 0.8]]])
    true = np.repeat(rng.permutation(np.arange(10) % 2), 60)
    y = np.zeros((len(true), 2))
    for t in range(1, len(true)):
        y[t] = A[true[t]] @ y[t - 1] + 0.3 * rng.standard_normal(2)
    agrees = {}
    for order in (0, 1):
        (states,), history = markov.fit([y], 2, order)
        same = (states == true[order:]).mean()
        agrees[order] = max(same, 1 - same)
        assert history[-1] > history[0]
    assert agrees[1] > 0.95
    assert agrees[0] < 0.8


def test_behaviour_finds_the_regimes_of_made_up_data():
    script = walk("behaviour")
    series = script.made_up()
    found = script.walk(series, 2, 2, max_iter=100, batch_size=128)
    scores = script.scores(series, found)
    assert scores["dynacl"]["accuracy"][0] > 0.9
    assert scores["autoregressive HMM"]["accuracy"][0] > 0.9
    assert scores["k-means"]["accuracy"][0] < 0.75  # both regimes pass through the same places
    assert len(script.draw(series, found).axes) >= 5


def test_engineer_simulates_a_stiffening_spring_better_than_a_line():
    script = walk("engineer")
    train, test = script.made_up()
    found = script.walk(train, test, max_iter=20)
    models = found["models"]
    assert models["dynacl, linear"]["nrmse"] < 1.1 * models["ARX"]["nrmse"]
    assert models["dynacl, cubic"]["nrmse"] < 0.5 * models["ARX"]["nrmse"]
    assert script.draw(found, "position", 0, 100).axes


def test_engineer_compares_simulations_that_see_the_same_inputs(recwarn):
    """y_t = x_t + u_t: who does not see the input at the step it predicts misses most of it."""
    script = walk("engineer")
    rng = np.random.default_rng(0)
    u = rng.standard_normal((600, 1))
    x = np.zeros((600, 1))
    for t in range(599):
        x[t + 1] = 0.9 * x[t] + 0.3 * u[t]
    train, test = script.parts(script.TimeSeries.of(x + u, u), 400)
    models = script.walk(train, test, d=2, max_iter=20)["models"]
    assert models["ARX, feedthrough"]["nrmse"] < 0.05
    assert models["dynacl, linear"]["nrmse"] < 0.8 * models["ARX"]["nrmse"]
    assert not [w for w in recwarn if "ends at step" in str(w.message)]  # all inputs are given


def test_neuroscientist_decodes_the_film_and_finds_nothing_in_shuffled_time(tmp_path):
    script = walk("neuroscientist")
    model = {"n_components": 3, "time_lags": (0, 2, 4), "max_iter": 60, "batch_size": 128}
    _, found, told = script.walk(script.made_up(), tmp_path, **model)
    assert told["phase"].figures["latents"]["ridge"] > 0.7
    assert told["phase"].chance["ridge"] < 0.2
    # Spikes are Poisson: even the true rates tell only so much of them.
    _, rate = script.rates(np.random.default_rng(0), 60, 150)
    most = rate.var(0).sum() / (rate.var(0) + rate.mean(0)).sum()
    assert most / 2 < found.prediction.r2()[0] < 1.2 * most
    assert found.nulls["shuffle"].squares.held_out().r2()[0] < 0.05
    assert "<html" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "neuroscientist.png").stat().st_size > 5_000
