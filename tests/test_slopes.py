"""Slopes between neighbours, beside maps whose derivatives are known."""

import numpy as np
import pytest

from dynacl.slopes import between


@pytest.fixture
def y():
    return np.random.default_rng(0).standard_normal((3_000, 3))


def test_slopes_of_a_linear_map_are_that_map(y):
    A = np.array([[2.0, 1, 0], [0, -1, 0.5], [0, 0, 3]])
    np.testing.assert_allclose(between(y, y @ A + 1, np.arange(50)), [A] * 50, atol=1e-4)


def test_volumes_are_those_of_the_derivatives_where_these_are_smooth(y):
    found = np.linalg.slogdet(between(y, np.sinh(y), np.arange(len(y))))[1]
    true = np.log(np.cosh(y)).sum(1)
    assert np.abs(found.mean() - true.mean()) < 0.1
    assert np.corrcoef(found, true)[0, 1] > 0.9


def test_ripples_that_turn_derivatives_around_leave_volumes_alone(y):
    """x = y + sin(5,000 y) / 1,000: within 0.001 of y, with derivatives from −4 to 6."""
    derivative = np.log(np.abs(1 + 5 * np.cos(5_000 * y))).sum(1)
    found = np.linalg.slogdet(between(y, y + np.sin(5_000 * y) / 1_000, np.arange(500)))
    assert (found[0] == 1).all()
    assert np.abs(found[1]).mean() < 0.02
    assert np.abs(derivative).mean() > 1


def test_rows_that_repeat_each_other_have_slopes_all_the_same():
    y = np.zeros((40, 2))
    assert np.isfinite(between(y, y, np.arange(5))).all()
