"""Driven systems: their equation, their control input, their oracle, their files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dynacl import InputError, TimeSeries, simulate


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

    data = simulate.controlled(rng=np.random.default_rng(0), trials=3, steps=50, observed=8)
    x, u, t = (torch.from_numpy(v) for v in (data.truth.latents, data.control, data.steps()))
    error = simulate.system(data.truth.system).oracle()(x[t], None, u[t]) - x[t + 1]
    assert error.std().item() == pytest.approx(1e-3, rel=0.2)


def test_driven_series_survives_a_file(tmp_path):
    data = simulate.controlled(rng=np.random.default_rng(0), trials=3, steps=50, observed=8)
    data.write(tmp_path / "u.npz")
    back = TimeSeries.read(tmp_path / "u.npz")
    np.testing.assert_array_equal(back.control, data.control)
    new = simulate.again(back, rng=np.random.default_rng(1), trials=2)
    assert new.control.shape == (100, 1)
    np.testing.assert_allclose(residual(new).std(), 1e-3, rtol=0.2)


def test_unknown_control_is_refused():
    with pytest.raises(InputError, match="control: got 'sine'"):
        simulate.controlled(rng=np.random.default_rng(0), control="sine")
