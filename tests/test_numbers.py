"""Numbers that float32 does not hold, or hardly: fits are as good as with plain ones."""

import warnings

import numpy as np
import pytest

from dynacl import DCL, TimeSeries, metrics, simulate

DATA = simulate.lds(rng=np.random.default_rng(0), trials=40, steps=100, layers=1, observed=10)
Y = DATA.observations.astype(float)
Y *= 0.04 / Y.std(0)
COLUMNS = np.arange(10)


def fitted(y, **how):
    y = DATA.split(y)
    how = {"max_iter": 30, "batch_size": 128} | how
    return DCL(3, random_state=0, **how).fit(y), y


def r2(x):
    return metrics.r2(DATA.truth.latents, np.concatenate(x))


CASES = {
    "plain": Y,
    "offset 1e6": Y + 1e6,
    "offset 1e7": Y + 1e7,
    "offsets": Y + 1e7 * (COLUMNS - 3),
    "large column": Y * np.where(COLUMNS == 3, 1e6, 1),
    "small column": Y * np.where(COLUMNS == 3, 1e-6, 1),
    "large columns": Y * np.where(COLUMNS > 1, 1e6, 1),
    "constant columns": np.where(COLUMNS > 3, Y, 5.0),
    "huge": 1e30 * Y,
    "tiny": 1e-12 * Y,
    "whole numbers": (1e9 + 1e6 * Y).astype(np.int64),
    "objects": (Y + 1e7).astype(object),
}


@pytest.mark.parametrize("case", CASES)
def test_state_is_found_whatever_the_numbers(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, y = fitted(CASES[case])
    assert r2(model.transform(y)) > 0.99


def test_unscaled_input_of_any_size_is_taken_alike():
    latents = []
    for size in (2.0**100, 2.0**-100):
        model, y = fitted(size * Y, standardize=False, max_iter=5)
        latents.append(np.concatenate(model.transform(y)))
    assert latents[0].std() > 0.1  # NaN or 0, if taken as they are
    np.testing.assert_array_equal(*latents)


def test_model_knows_its_offset(tmp_path):
    model, y = fitted(Y + 1e7)
    x = np.concatenate(model.transform(y))
    model.save(tmp_path / "run")
    loaded = DCL.load(tmp_path / "run")
    np.testing.assert_array_equal(np.concatenate(loaded.transform(y)), x)
    later = np.concatenate(loaded.transform(y[:7]))  # its own mean is another
    np.testing.assert_allclose(later, x[: len(later)], atol=1e-4 * np.abs(x).max())
    assert model.score(y) == pytest.approx(loaded.score(y))


def test_offset_of_other_data_counts():
    model, y = fitted(Y + 1e7)
    x = np.concatenate(model.transform(y))
    moved = np.concatenate(model.transform([part + 0.01 for part in y]))
    assert np.abs(moved - x).max() > 0.01 * np.abs(x).max()


def driven(offset, scale=1.0):
    """A state that is pushed by an input, seen in six channels."""
    rng = np.random.default_rng(0)
    A, B = 0.95 * np.array([[0.8, 0.6], [-0.6, 0.8]]), np.array([0.3, 0.15])
    u = rng.uniform(-1, 1, (30, 100, 1))
    x = np.zeros((30, 100, 2))
    for t in range(99):
        noise = 0.02 * rng.standard_normal((30, 2))
        x[:, t + 1] = x[:, t] @ A.T + u[:, t] * B + noise
    y = x @ rng.standard_normal((2, 6))
    return x, list(y), [scale * (part + offset) for part in u]


@pytest.mark.parametrize(("offset", "scale"), [(0, 1), (1e7, 1), (1e7, 1e-6), (0, 1e6)])
def test_control_input_may_have_an_offset(offset, scale, tmp_path):
    x, y, u = driven(offset, scale)
    model = DCL(2, max_iter=200, batch_size=256, random_state=0).fit(y, u=u)
    assert metrics.r2(x.reshape(-1, 2), np.concatenate(model.transform(y))) > 0.98
    back, c = metrics.affine(np.concatenate(model.transform(y)), x.reshape(-1, 2))
    past = TimeSeries.of([part[:60] for part in y], [part[:60] for part in u])
    model.save(tmp_path / "run")
    for known in (model, DCL.load(tmp_path / "run")):
        future = known.forecast(past, 5, u=[part[59:64] for part in u])
        missed = np.square(np.stack(future) @ back.T + c - x[:, 60:65]).mean()
        assert missed < 0.05 * x.var()
