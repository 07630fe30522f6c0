"""Decoding modes along a sequence: brute force over all paths, planted chains, windows."""

from itertools import pairwise, product

import numpy as np
import pytest

from dynacl import DCL, decoding, simulate
from dynacl.data import InputError


def by_brute_force(errors, variance, chain):
    """p(mode) of each step and the expected moves: a sum over every path."""
    n, K = errors.shape
    share, moves, total = np.zeros((n, K)), np.zeros((K, K)), 0.0
    for path in product(range(K), repeat=n):
        p = np.exp(-errors[np.arange(n), list(path)].sum() / (2 * variance))
        p *= np.prod([chain[i, j] for i, j in pairwise(path)])
        total += p
        share[np.arange(n), list(path)] += p
        for i, j in pairwise(path):
            moves[i, j] += p
    return share / total, moves / total


@pytest.mark.parametrize("seed", range(5))
def test_smoothing_is_the_sum_over_all_paths(seed):
    rng = np.random.default_rng(seed)
    chain = rng.dirichlet(np.ones(3), size=3)
    errors = rng.exponential(size=(13, 3))
    bounds = np.array([0, 7, 8, 13])  # three stretches, one of a single step
    modes, counts, spread = decoding.smooth(errors, 0.7, chain, bounds)
    parts = [by_brute_force(errors[a:b], 0.7, chain) for a, b in pairwise(bounds)]
    share = np.concatenate([p for p, _ in parts])
    assert (modes == share.argmax(1)).all()
    assert counts == pytest.approx(sum(m for _, m in parts), rel=1e-9)
    assert spread == pytest.approx((share * errors).sum(), rel=1e-9)


@pytest.mark.parametrize("factor", [0.2, 30.0])
def test_stickiness_weighs_each_path_by_its_switches(factor):
    """With even odds each switch costs a path `factor`, and nothing else changes."""
    errors = np.random.default_rng(0).exponential(size=(8, 3))
    even = np.full((3, 3), 1 / 3)
    found = np.empty((8, 3))
    decoding.smooth(errors, 0.7, decoding.sticky(even, factor), np.array([0, 8]), found)
    share = np.zeros((8, 3))
    for path in product(range(3), repeat=8):
        switches = sum(i != j for i, j in pairwise(path))
        p = np.exp(-errors[np.arange(8), path].sum() / 1.4) / factor**switches
        share[np.arange(8), path] += p
    np.testing.assert_allclose(found, share / share.sum(1, keepdims=True), rtol=1e-9)


def test_sticky_modes_switch_less_and_clear_switches_stay():
    true = np.repeat([0, 1, 0, 1], 200)
    x = np.array([-1.0, 1.0])[true] + np.random.default_rng(0).standard_normal(len(true))
    errors, bounds = np.square(x[:, None] - [-1, 1]), np.array([0, len(true)])
    switches = [
        np.count_nonzero(np.diff(decoding.decode(errors, bounds, 1, stickiness=s)))
        for s in (0.001, 1.0, 1000.0)
    ]
    assert switches[0] > switches[1] >= switches[2] == 3


def test_windows_decide_what_one_long_window_decides(monkeypatch):
    _, errors = planted(n=3000, stay=0.98, rng=np.random.default_rng(0))
    chain = np.full((3, 3), 0.01) + 0.97 * np.eye(3)
    bounds = np.array([0, 2000, 2900, 3000])
    monkeypatch.setattr(decoding, "WINDOW", 10_000)
    modes, counts, spread = decoding.smooth(errors, 1.0, chain, bounds)
    monkeypatch.setattr(decoding, "WINDOW", 64)
    monkeypatch.setattr(decoding, "AT_ONCE", 320 * 3 * 5)  # five windows at a time
    cut = decoding.smooth(errors, 1.0, chain, bounds)
    assert (cut[0] == modes).all()
    assert cut[1] == pytest.approx(counts, rel=1e-6)
    assert cut[2] == pytest.approx(spread)


def planted(n, stay, rng, K=3, d=2, apart=1.5):
    """Modes of a chain; the errors of predictions `apart` noise widths from each other."""
    modes = np.zeros(n, dtype=int)
    for t in range(1, n):
        modes[t] = modes[t - 1] if rng.random() < stay else rng.integers(K)
    centres = apart * rng.standard_normal((K, d))
    x = centres[modes] + rng.standard_normal((n, d))
    return modes, ((x[:, None] - centres) ** 2).sum(-1)


@pytest.mark.parametrize(("stay", "least"), [(0.99, 0.97), (0.8, 0.79), (0.0, 0.0)])
def test_sequence_beats_single_steps_where_modes_last_and_does_little_harm_else(stay, least):
    modes, errors = planted(n=20_000, stay=stay, rng=np.random.default_rng(1))
    single = np.mean(errors.argmin(1) == modes)
    along = np.mean(decoding.decode(errors, np.array([0, 20_000]), 2) == modes)
    assert along >= max(least, single - 0.02)
    assert single < 0.9  # else there would be nothing to gain


def test_modes_along_the_sequence_are_better_than_step_by_step():
    data = simulate.slds(
        rng=np.random.default_rng(1000), d=3, modes=2, trials=40, steps=250, layers=1, noise=0.03
    )
    model = DCL(3, "switching", 2, max_iter=150, random_state=0).fit(data)
    true = np.concatenate([m[:-1] for m in data.split(data.truth.modes)])

    def accuracy(decode):
        found = np.concatenate(model.modes(data, decode=decode))
        return max(np.mean(found == true), np.mean(found != true))

    assert accuracy("sequence") > accuracy("step") + 0.05
    with pytest.raises(InputError, match="decode: got 'viterbi'; wanted one of sequence, step"):
        model.modes(data, decode="viterbi")


def test_many_sharp_modes_are_decoded_exactly():
    """Evidence far below the smallest number must neither vanish nor turn to NaN."""
    rng = np.random.default_rng(0)
    modes = np.repeat(rng.integers(60, size=40), 25)
    errors = np.where(modes[:, None] == np.arange(60), 1.0, 1e9) * rng.uniform(1, 2, (1000, 60))
    assert (decoding.decode(errors, np.array([0, 400, 1000]), 3) == modes).all()
