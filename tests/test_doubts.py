"""Data that cannot be meant are named at once; those that can are left alone."""

import warnings

import numpy as np
import pytest

from dynacl import DCL, InputError, TimeSeries, simulate
from dynacl.doubts import check_data, check_modes

rng = np.random.default_rng(0)


def walk(T, D, rank=5):
    """A smooth recording: a few slow states, seen in D channels, and some noise."""
    states = np.cumsum(rng.standard_normal((T, rank)), 0)
    return states @ rng.standard_normal((rank, D)) + 0.5 * rng.standard_normal((T, D))


@pytest.mark.parametrize("value", [0.0, 3.0, 1e7, -1e-20])
@pytest.mark.parametrize("D", [1, 4])
def test_data_in_which_nothing_changes_are_refused(value, D):
    with pytest.raises(InputError, match=r"^X: nothing changes in it: all 60 samples are the same"):
        DCL(2).fit(np.full((60, D), value))


def test_change_in_the_last_sample_is_a_change():
    y = np.zeros((10_000, 2), np.float32)
    y[-1] = 1
    check_data(TimeSeries.of(y))


@pytest.mark.parametrize(
    "X",
    [rng.standard_normal((10, 4000)), walk(4000, 10).T, walk(2000, 64).T, walk(900, 200).T],
    ids=["10 x 4000 noise", "10 x 4000", "64 x 2000", "200 x 900"],
)
def test_transposed_input_is_noticed(X):
    with pytest.warns(UserWarning, match=rf"^X: got {len(X)} samples of {X.shape[1]} features"):
        check_data(TimeSeries.of(X))


@pytest.mark.parametrize(
    "X",
    [walk(850, 136), walk(900, 800), walk(300, 2000), walk(60, 300), walk(30, 40),
     [walk(20, 300) for _ in range(2)],
     rng.standard_normal((100, 400)), rng.standard_normal((3, 99))],
    ids=["worm", "Allen", "voxels", "short", "square", "trials", "noise", "tiny"],
)  # fmt: skip
def test_wide_recordings_are_not_bothered(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_data(TimeSeries.of(X))


def test_more_modes_than_pairs_can_tell_apart_are_refused():
    data = simulate.lds(rng=np.random.default_rng(0), trials=20, steps=100, observed=8)
    with pytest.raises(InputError, match=r"^n_modes: got 5000 for 1980 pairs .* at most 495$"):
        DCL(3, "switching", 5000).fit(data)


def test_number_of_modes_is_refused_warned_of_or_fine():
    with pytest.raises(InputError):
        check_modes(26, 3, 100)
    with pytest.warns(UserWarning, match="learned by heart: wanted at most 5"):
        check_modes(25, 3, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_modes(5, 3, 100)
        check_modes(0, 200, 100)
