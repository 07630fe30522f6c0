"""Eigenvalues, time constants and frequencies, in samples and in seconds."""

from dataclasses import replace

import numpy as np
import pytest

from dynacl import DCL, simulate
from dynacl.spectrum import Spectrum, eigenvalues, radius
from quick_models import small, tiny


def turn(angle, decay=1.0):
    c, s = np.cos(angle), np.sin(angle)
    return decay * np.array([[c, -s], [s, c]])


def block(*parts):
    d = sum(len(p) for p in parts)
    found, at = np.zeros((d, d)), 0
    for p in parts:
        found[at : at + len(p), at : at + len(p)] = p
        at += len(p)
    return found


def test_rotation_has_the_frequency_of_its_angle_and_never_decays():
    """3 Hz seen 100 times a second turns by 2π · 3/100."""
    found = Spectrum.of(turn(2 * np.pi * 0.03)[None], interval=0.01)
    np.testing.assert_allclose(found.frequencies, [[3.0, 3.0]])
    assert (np.abs(found.time_constants) > 1e12).all()
    assert found.units == ("s", "Hz")
    np.testing.assert_allclose(np.abs(found.eigenvalues), 1)


def test_decay_to_one_over_e_is_the_time_constant():
    tau, dt = 0.25, 0.01
    found = Spectrum.of(turn(0.2, np.exp(-dt / tau))[None], interval=dt)
    np.testing.assert_allclose(found.time_constants, tau)
    samples = Spectrum.of(turn(0.2, np.exp(-dt / tau))[None])
    np.testing.assert_allclose(samples.time_constants, 25.0)
    np.testing.assert_allclose(samples.frequencies, 0.2 / (2 * np.pi))
    assert samples.units == ("samples", "per sample")


def test_growth_is_negative_and_one_is_infinite():
    found = Spectrum.of(np.diag([1.0, np.exp(0.1), 0.0])[None])
    np.testing.assert_allclose(found.time_constants[0], [-10.0, np.inf, 0.0])
    np.testing.assert_array_equal(found.frequencies, 0)


def test_a_map_over_several_samples_keeps_the_frequency_of_the_system():
    one, step = turn(2 * np.pi * 0.03, np.exp(-0.02)), 4
    once = Spectrum.of(one[None], interval=0.01)
    often = Spectrum.of(np.linalg.matrix_power(one, step)[None], step, interval=0.01)
    np.testing.assert_allclose(often.frequencies, once.frequencies)
    np.testing.assert_allclose(often.time_constants, once.time_constants)
    # What turns by more than half a turn per step looks slower.
    fast = Spectrum.of(turn(2 * np.pi * 0.7)[None])
    np.testing.assert_allclose(fast.frequencies, 0.3)


def test_a_change_of_coordinates_changes_nothing():
    rng = np.random.default_rng(0)
    W = block(turn(0.3, 0.9), turn(0.1, 0.97), [[0.5]])
    L = rng.standard_normal((5, 5))
    turned = L @ W @ np.linalg.inv(L)
    a, b = (Spectrum.of(m[None], interval=0.1) for m in (W, turned))
    np.testing.assert_allclose(a.eigenvalues, b.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(a.time_constants, b.time_constants, rtol=1e-9)
    np.testing.assert_allclose(a.frequencies, b.frequencies, atol=1e-12)
    np.testing.assert_allclose(radius(W[None]), [0.97])


def test_eigenvalues_fall_and_pairs_stay_together():
    found = eigenvalues(block([[0.5]], turn(0.3, 0.9), [[-0.99]], turn(0.1, 0.95))[None])[0]
    assert (np.diff(np.abs(found)) < 1e-12).all()
    np.testing.assert_allclose(np.abs(found), [0.99, 0.95, 0.95, 0.9, 0.9, 0.5])
    assert found[1] == pytest.approx(found[2].conjugate())
    assert found[1].imag > 0


def test_table_has_a_line_for_each_oscillation_of_each_mode():
    maps = np.stack([block(turn(0.2, 0.99), [[0.5]]), block(turn(0.4), [[1.1]])])
    lines = str(Spectrum.of(maps, interval=0.01)).splitlines()
    assert lines[0].split() == ["mode", "|λ|", "time", "constant", "(s)", "frequency", "(Hz)"]
    rows = [line.split() for line in lines[1:]]
    assert [row[2] for row in rows][2] == "grows"
    assert [row[:2] for row in rows] == [["0", "0.9900"], ["0", "0.5000"], ["1", "1.1000"],
                                         ["1", "1.0000"]]  # fmt: skip
    assert float(rows[0][2]) == pytest.approx(-0.01 / np.log(0.99), rel=1e-3)
    assert float(rows[0][3]) == pytest.approx(0.2 / (2 * np.pi * 0.01), rel=1e-3)
    assert len({len(line) for line in lines}) == 1


def test_fitted_model_has_the_spectrum_of_the_true_system(tmp_path):
    """Whatever the coordinates that the encoder has found."""
    data = simulate.lds(rng=np.random.default_rng(3), trials=40, steps=200, observed=20, layers=2)
    true = Spectrum.of(data.truth.system["matrix"][None], interval=0.02)
    model = small(3, max_iter=300, sampling_interval=0.02).fit(data)
    found = model.spectrum_
    np.testing.assert_allclose(np.abs(found.eigenvalues), np.abs(true.eigenvalues), atol=0.01)
    turning = [np.sort(s.frequencies[0]) for s in (found, true)]  # all |λ| are 1: in any order
    np.testing.assert_allclose(*turning, rtol=0.02, atol=0.02)
    model.save(tmp_path)
    assert str(DCL.load(tmp_path).spectrum_) == str(found)
    assert DCL.load(tmp_path).set_params(sampling_interval=None).spectrum_.units[0] == "samples"


def test_times_of_the_data_give_seconds(tmp_path, rotating):
    y, times = rotating.observations, 0.25 * np.arange(len(rotating))
    timed, uneven = (replace(rotating, times=t) for t in (times, times**1.5))
    model = tiny(3).fit(timed)
    assert (model.spectrum_.step, model.spectrum_.units) == (0.25, ("s", "Hz"))
    model.save(tmp_path)
    assert DCL.load(tmp_path).spectrum_.step == 0.25
    assert tiny(3, sampling_interval=0.5).fit(timed).spectrum_.step == 0.5
    for untimed in (uneven, y):
        assert tiny(3).fit(untimed).spectrum_.units[0] == "samples"


def test_time_offset_is_the_step_of_the_spectrum(rotating):
    model = tiny(3, time_offset=3, sampling_interval=0.5).fit(rotating)
    assert model.spectrum_.step == 1.5
    expected = Spectrum.of(model.dynamics_.matrix.detach().numpy()[None], 3, 0.5)
    np.testing.assert_array_equal(model.spectrum_.frequencies, expected.frequencies)


def test_only_linear_maps_have_a_spectrum(rotating, two_modes):
    assert tiny(3, "mlp").fit(rotating).spectrum_ is None
    assert len(tiny(3, "gated", n_modes=2).fit(two_modes).spectrum_) == 2
    assert len(tiny(3, "truth").fit(two_modes).spectrum_) == 2
