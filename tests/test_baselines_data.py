"""What baselines are fitted to: windows of a trial, and the “changing” data of their benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynacl import InputError, TimeSeries, simulate
from dynacl.baselines import changing, windows
from dynacl.baselines.networks import SLOPE

Array = np.ndarray


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, SLOPE * x)


def small(domains: int = 3) -> TimeSeries:
    return changing(rng=np.random.default_rng(0), d=3, domains=domains, sequences=50)


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


def test_windows_name_what_they_cannot_use() -> None:
    with pytest.raises(InputError, match="length"):
        windows(small(), length=1)
    with pytest.raises(InputError, match="modes"):
        windows(small(), modes=[1, 2])


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


@pytest.mark.parametrize(
    "changes",
    [{"d": 1}, {"lags": 0}, {"domains": 0}, {"sequences": 1.5}, {"steps": 2}, {"noise": 0}],
)
def test_changing_names_what_it_cannot_use(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        changing(rng=np.random.default_rng(0), **changes)
