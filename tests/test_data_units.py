"""Units: what float32 would lose of a column is kept, and comes back as it was given."""

import tracemalloc
import warnings

import numpy as np
import pytest

from dynacl import InputError, TimeSeries
from dynacl.data import exchange
from dynacl.data.units import units_of

Y = np.random.default_rng(0).standard_normal((400, 5))
FAR = 1e7 + 0.04 * Y
UNEQUAL = Y * np.array([1, 1, 1e6, 1, 1])


@pytest.mark.parametrize(
    "x",
    [Y, Y + 100, 50 * Y.astype(np.float32), Y > 0, (20 * Y).astype(np.int8), Y * [1, 1, 0, 1, 1],
     1 + 0 * Y, Y * np.array([1, 1, 500, 1, 1]), np.full((3, 2), np.nan)],
)  # fmt: skip
def test_ordinary_numbers_have_no_units(x):
    assert units_of([x], "X") is None


def test_float32_array_is_not_copied():
    x = np.asfortranarray(Y.astype(np.float32))
    assert TimeSeries.of(x).observations is x


@pytest.mark.parametrize("offset", [1e5, 1e7, -1e7, 1e9, 1e12])
def test_digits_after_an_offset_are_kept(offset):
    x = offset + 0.04 * Y
    series = TimeSeries.of(x)
    np.testing.assert_allclose(series.given(), x, rtol=0, atol=0.04e-5 + 2e-16 * abs(offset))
    moves = np.diff(series.observations, axis=0)
    np.testing.assert_allclose(moves, np.diff(x, axis=0), rtol=0, atol=0.04e-5)


def test_units_of_many_columns_are_told_some_columns_at_a_time(monkeypatch):
    """Four arrays in double precision of all take eight times the memory of the data."""
    x = np.repeat(UNEQUAL[:, None], 200, axis=1).reshape(400, 1000)
    x[3, 7] = x[200, 999] = np.nan
    whole = units_of([x], "X")
    monkeypatch.setattr("dynacl.data.units.BLOCK", 1 << 13)
    tracemalloc.start()
    in_parts = units_of([x], "X")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 4
    np.testing.assert_array_equal(in_parts, whole)
    np.testing.assert_array_equal(whole, units_of([np.delete(x, [3, 200], axis=0)], "X"))


def test_trials_share_one_origin():
    series = TimeSeries.of([FAR[:100], FAR[100:] + 0.2])
    np.testing.assert_allclose(series.given()[100:], FAR[100:] + 0.2, rtol=0, atol=1e-6)
    assert series.units.origin.shape == (5,)


def test_columns_far_apart_in_size_become_alike():
    for scale in (1e6, 1e-6):
        series = TimeSeries.of(Y * np.array([1, 1, scale, 1, 1]))
        spread = series.observations.std(0)
        assert spread.max() < 2.1 * spread.min()
        assert set(np.log2(series.units.scale) % 1) == {0.0}  # powers of two


@pytest.mark.parametrize("rounding", [1 + 1e-15 * Y[:, 0], 1e-15 * Y[:, 0], 0 * Y[:, 0] + 7])
def test_rounding_is_not_blown_up(rounding):
    x = UNEQUAL.copy()
    x[:, 1] = rounding
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        series = TimeSeries.of(x)
    assert series.observations[:, 1].std() < 1e-5
    assert series.observations[:, [0, 2, 3, 4]].std(0).min() > 0.5


@pytest.mark.parametrize("scale", [1e30, 1e20, 1e-12, 1e-30, 1e-40])
def test_huge_and_tiny_numbers_can_be_squared(scale):
    kept = TimeSeries.of(scale * Y).observations
    assert 0.5 < np.square(kept).mean() < 4


@pytest.mark.parametrize(
    ("x", "digits"),
    [((1e7 + 3 * Y).astype(np.float32), "float32 keeps 0 digits"),
     ((1e4 + 0.04 * Y).astype(np.float32), "float32 keeps 1 digit;"),
     (1e15 + 3 * Y, "float64 keeps 1 digit;")],
)  # fmt: skip
def test_digits_that_were_lost_before_are_missed(x, digits):
    with pytest.warns(UserWarning, match=rf"^X: column \d \(and 4 more\) has a mean .*{digits}"):
        TimeSeries.of(x)


def test_lost_digits_of_a_control_input_are_missed_too():
    with pytest.warns(UserWarning, match=r"^u: column \d"):
        TimeSeries.of(Y, (1e7 + 3 * Y).astype(np.float32))


def test_constant_that_is_no_binary_number_loses_no_digits():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series = TimeSeries.of(np.where(np.arange(5) == 2, 0.1, UNEQUAL))
    np.testing.assert_allclose(series.given()[:, 2], 0.1, rtol=1e-6)


def test_whole_numbers_keep_their_digits():
    counts = 10**9 + np.arange(400)[:, None] % 7
    np.testing.assert_array_equal(TimeSeries.of(counts).given(), counts)


def test_units_are_written_and_read(tmp_path):
    series = TimeSeries.of(FAR, 1e8 + Y[:, :2])
    series.write(tmp_path / "x.npz")
    again = TimeSeries.read(tmp_path / "x.npz")
    for mine, other in ((series.units, again.units), (series.control_units, again.control_units)):
        np.testing.assert_array_equal(np.stack(mine), np.stack(other))
    np.testing.assert_array_equal(series.given(), again.given())
    np.testing.assert_array_equal(series.given_control(), again.given_control())
    assert series.fingerprint() == again.fingerprint()


@pytest.mark.parametrize(
    ("field", "value"), [("units", np.ones(5)), ("units", np.zeros((2, 5))),
                         ("control_units", np.ones((2, 7)))]
)  # fmt: skip
def test_units_that_fit_no_columns_are_refused(field, value):
    fields = {"observations": Y, "control": Y[:, :2], field: value}
    with pytest.raises(InputError, match=f"its {field} have shape"):
        TimeSeries.of(fields)


def test_control_of_another_length_is_refused_with_units_too():
    with pytest.raises(InputError, match="control has 9 rows, observations 400"):
        TimeSeries.of({"observations": Y, "control": Y[:9], "control_units": np.ones((2, 5))})


def test_csv_keeps_all_digits(tmp_path):
    np.savetxt(tmp_path / "x.csv", FAR, delimiter=",", fmt="%.17g")
    np.testing.assert_allclose(TimeSeries.read(tmp_path / "x.csv").given(), FAR, atol=1e-7, rtol=0)


def test_parts_of_a_series_keep_its_units():
    series = TimeSeries.of([FAR[:200], FAR[200:]])
    for part in (series.select([1]), series.trimmed(3), series.head(250)):
        assert part.units is series.units


def test_fingerprint_tells_offsets_apart():
    assert TimeSeries.of(FAR).fingerprint() != TimeSeries.of(FAR + 1e7).fingerprint()


def test_exchange_of_units_keeps_what_was_given():
    one, other = TimeSeries.of(FAR), TimeSeries.of(UNEQUAL + 1e9)
    moved = exchange(one.observations, one.units, one.units._replace(origin=one.units.origin + 3),
                     "X")  # fmt: skip
    np.testing.assert_allclose(moved, one.observations - 3, atol=1e-6)
    assert exchange(one.observations, one.units, one.units, "X") is one.observations
    back = other.within(None, None)
    np.testing.assert_array_equal(back.observations, other.given().astype(np.float32))


def test_data_far_from_the_origin_of_the_training_are_noticed():
    series = TimeSeries.of(FAR)
    with pytest.warns(UserWarning, match="^X: column 0 lies around .*, in the training data"):
        TimeSeries.of(series.observations).within(series.units, None)
