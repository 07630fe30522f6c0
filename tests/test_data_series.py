"""TimeSeries: what goes in comes out, in its trials, without copies that are not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynacl import InputError, TimeSeries
from dynacl.data import Truth, is_categorical, is_missing, spread_lags


def table(T: int, D: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((T, D)).astype(np.float32)


A, B, C = table(5, seed=1), table(2, seed=2), table(7, seed=3)


# -- from memory -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "trials"),
    [
        (A, [A]),
        (A.tolist(), [A]),
        ([A, B, C], [A, B, C]),
        ((A, B), [A, B]),
        ([A.tolist(), B.tolist()], [A, B]),
        ({"monday": A, "tuesday": B}, [A, B]),
        ({"observations": A}, [A]),
        (
            {"observations": np.concatenate([A, B]), "bounds": np.array([0, 5, 7], dtype=np.uint8)},
            [A, B],
        ),
    ],
    ids=["array", "nested lists", "list", "tuple", "lists of lists", "dict", "fields", "bounds"],
)
def test_every_form_of_input_keeps_values_and_trials(X: Any, trials: list[np.ndarray]) -> None:
    series = TimeSeries.of(X)
    assert series.n_trials == len(trials)
    assert series.lengths.tolist() == [len(x) for x in trials]
    assert len(series) == sum(map(len, trials))
    assert (series.n_features, series.n_controls) == (3, 0)
    for got, wanted in zip(series.split(series.observations), trials, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.uint8, bool, object])
def test_observations_are_float32_whatever_numbers_come_in(dtype: Any) -> None:
    X = np.arange(6).reshape(3, 2).astype(dtype)
    series = TimeSeries.of(X)
    assert series.observations.dtype == np.float32
    np.testing.assert_array_equal(series.observations, X.astype(np.float32))


def test_float32_is_not_copied() -> None:
    assert np.shares_memory(TimeSeries.of(A).observations, A)
    assert np.shares_memory(TimeSeries.of([A]).observations, A)
    assert np.shares_memory(TimeSeries.of({"observations": A}).observations, A)
    series = TimeSeries.of(A)
    assert TimeSeries.of(series) is series
    driven = TimeSeries.of(series, u=C[:5])
    assert np.shares_memory(driven.observations, A)
    assert np.shares_memory(driven.control, C)


def test_trial_length_cuts_one_array_into_equal_trials() -> None:
    X = table(12)
    for source in (X, [X], {"observations": X}, TimeSeries.of(X)):
        series = TimeSeries.of(source, trial_length=4)
        assert series.bounds.tolist() == [0, 4, 8, 12]
        assert np.shares_memory(series.observations, X)


def test_control_is_cut_like_the_observations() -> None:
    u = [table(len(x), 2, seed=9 + i) for i, x in enumerate((A, B))]
    for given_u in (u, np.concatenate(u)):
        series = TimeSeries.of([A, B], u=given_u)
        assert series.n_controls == 2
        for got, wanted in zip(series.split(series.control), u, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_control_in_a_dict_goes_by_the_names_of_the_trials() -> None:
    u = {"b": table(len(B), 2, seed=9), "a": table(len(A), 2, seed=10)}
    series = TimeSeries.of({"a": A, "b": B}, u=u)
    np.testing.assert_array_equal(series.control, np.concatenate([u["a"], u["b"]]))
    for X in ([A, B], {"a": A, "c": B}, TimeSeries.of([A, B])):
        with pytest.raises(InputError, match="u: got a dict; wanted arrays, or a dict of trials"):
            TimeSeries.of(X, u=u)


def test_fields_carry_control_and_truth() -> None:
    fields = {"observations": A, "control": C[:5], "latents": A[:, :2], "modes": [0, 1, 1, 0, -1]}
    series = TimeSeries.of(fields | {"system.kind": "mine"})
    np.testing.assert_array_equal(series.control, C[:5])
    assert series.truth is not None
    np.testing.assert_array_equal(series.truth.latents, A[:, :2])
    assert series.truth.modes is not None
    assert series.truth.modes.tolist() == [0, 1, 1, 0, -1]
    assert str(series.truth.system["kind"]) == "mine"


# -- steps and select --------------------------------------------------------------------------


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8), offset=st.integers(1, 14))
def test_steps_are_all_pairs_inside_a_trial(lengths: list[int], offset: int) -> None:
    series = TimeSeries.of([np.zeros((n, 1), np.float32) for n in lengths])
    naive, start = [], 0
    for n in lengths:
        naive += [start + i for i in range(n) if i + offset < n]
        start += n
    assert series.steps(offset, allow_short=True).tolist() == naive
    if min(lengths) > offset:
        assert series.steps(offset).tolist() == naive
    else:
        first = next(i for i, n in enumerate(lengths) if n <= offset)
        with pytest.raises(InputError, match=rf"trial {first} has {lengths[first]} sample"):
            series.steps(offset)


@given(st.data())
def test_select_gives_these_trials_in_this_order(data: Any) -> None:
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=6))
    T = sum(lengths)
    rows = np.arange(T, dtype=np.float32)[:, None]
    series = TimeSeries(
        rows,
        np.concatenate([[0], np.cumsum(lengths)]),
        control=-rows,
        truth=Truth(2 * rows, np.arange(T), {"kind": np.array("mine")}),
    )
    part = series.select(chosen)
    wanted = [series.split(rows)[i] for i in chosen]
    assert part.lengths.tolist() == [len(x) for x in wanted]
    np.testing.assert_array_equal(part.observations, np.concatenate(wanted))
    np.testing.assert_array_equal(part.control, -part.observations)
    assert part.truth is not None
    np.testing.assert_array_equal(part.truth.latents, 2 * part.observations)
    np.testing.assert_array_equal(part.truth.modes, part.observations[:, 0])
    assert part.truth.system == {"kind": np.array("mine")}


@pytest.mark.parametrize("chosen", [[], [2], [-1]])
def test_select_refuses_trials_that_are_not_there(chosen: list[int]) -> None:
    with pytest.raises(InputError, match="wanted some of 0 to 1"):
        TimeSeries.of([A, B]).select(chosen)


def test_time_offset_is_at_least_one() -> None:
    with pytest.raises(InputError, match="time_offset: got 0; wanted at least 1"):
        TimeSeries.of([A, B]).steps(0)


# -- shorter and longer ------------------------------------------------------------------------


@pytest.mark.parametrize("past", [0, 1, 3])
def test_padded_windows_see_the_first_step_of_a_trial_before_its_start(past: int) -> None:
    series = TimeSeries.of([A, B, C], u=[-A, -B, -C])
    padded = [np.concatenate([x[:1]] * past + [x]) for x in (A, B, C)]
    lags, t = (0, past), np.arange(len(series))
    wanted = np.concatenate([np.hstack([x[past:], x[: len(x) - past]]) for x in padded])
    np.testing.assert_array_equal(series.windows(t, lags, pad=True), wanted)
    driven = series.windows(t, lags, (past,), pad=True)
    np.testing.assert_array_equal(driven, np.hstack([wanted, -wanted[:, A.shape[1] :]]))
    inside = series.with_past(past)
    np.testing.assert_array_equal(
        series.windows(inside, lags, pad=True), series.windows(inside, lags)
    )


def test_a_trial_that_would_be_trimmed_to_nothing_is_named() -> None:
    with pytest.raises(InputError, match=r"trial 1 has 2 samples .* need at least 3"):
        TimeSeries.of([A, B, C]).trimmed(2)


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [([10, 100], [10, 40]), ([100], [50]), ([20, 20, 20], [20, 20]), ([10, 10], [10, 10])],
)
def test_head_takes_what_fits_and_no_cut_shorter_than_a_trial(lengths, kept):
    rows = np.arange(2.0 * sum(lengths)).reshape(-1, 2)
    series = TimeSeries.of(np.split(rows, np.cumsum(lengths)[:-1]))
    head = series.head(50)
    assert head.lengths.tolist() == kept
    assert np.shares_memory(head.observations, series.observations)  # no copy of what is wide
    np.testing.assert_array_equal(head.observations, series.observations[: sum(kept)])


@pytest.mark.parametrize(
    ("k", "window", "lags"),
    [
        (3, 5, (0, 2, 4)),
        (4, 10, (0, 3, 6, 9)),
        (4, 4, (0, 1, 2, 3)),
        (1, 7, (0,)),
        (4, 6, (0, 2, 3, 5)),  # as near as whole steps allow
    ],
)
def test_lags_are_spread_over_the_whole_window(k, window, lags):
    assert spread_lags(k, window) == lags


@pytest.mark.parametrize(("k", "window"), [(0, 5), (6, 5)])
def test_lags_that_a_window_cannot_hold_are_refused(k, window):
    with pytest.raises(InputError, match=f"k: got {k} lags in {window} steps"):
        spread_lags(k, window)


# -- labels, names and times -------------------------------------------------------------------


ACTION = np.array(["rest", "walk", "walk", "run", "rest", "run", "rest"])


def carrying() -> TimeSeries:
    X = np.concatenate([A, B])
    fields = {"observations": X, "bounds": [0, 5, 7], "names": ["a", "b", "c"],
              "times": 0.1 * np.arange(7), "label.action": ACTION,
              "label.place": np.arange(7) / 2}  # fmt: skip
    return TimeSeries.of(fields)


def assert_rows(part: TimeSeries, rows: list[int]) -> None:
    np.testing.assert_allclose(part.times, 0.1 * np.array(rows))
    assert part.labels["action"].tolist() == ACTION[rows].tolist()
    np.testing.assert_array_equal(part.labels["place"], np.array(rows) / 2)
    assert part.names == ("a", "b", "c")


def test_labels_names_and_times_follow_the_rows_wherever_they_go() -> None:
    series = carrying()
    assert_rows(series, list(range(7)))
    assert_rows(series.select([1, 0]), [5, 6, 0, 1, 2, 3, 4])
    assert_rows(series.trimmed(1), [1, 2, 3, 4, 6])
    assert_rows(series.cut(np.array([2, 1])), [0, 1, 5])
    assert_rows(series.cut(np.array([2, 1]), last=True), [2, 3, 4, 6])
    assert_rows(series.head(5), [0, 1, 2, 3, 4])
    assert_rows(TimeSeries.of(series, u=np.zeros((7, 1))), list(range(7)))


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (np.arange(7), {"label": list(range(7))}),
        ({"a": range(7), "b": list("abcdefg")}, {"a": list(range(7)), "b": list("abcdefg")}),
        ({"a": [np.arange(5), np.arange(2)]}, {"a": [0, 1, 2, 3, 4, 0, 1]}),
        (
            {"xy": np.arange(14).reshape(7, 2)},
            {"xy_1": list(range(0, 14, 2)), "xy_2": list(range(1, 14, 2))},
        ),
        (
            {"who": np.array(["a", None, "b", "b", np.nan, "a", "a"], dtype=object)},
            {"who": ["a", "", "b", "b", "", "a", "a"]},
        ),
        ({"b": np.array([b"x"] * 7)}, {"b": ["x"] * 7}),
    ],
    ids=["one", "several", "in trials", "table", "objects", "bytes"],
)
def test_labels_are_vectors_by_name_however_they_come(labels: Any, found: Any) -> None:
    series = TimeSeries.of([A, B], labels=labels)
    assert {name: values.tolist() for name, values in series.labels.items()} == found
    for values in series.labels.values():
        assert values.dtype.kind in "ifbU"  # nothing that only a pickle could keep


def test_new_labels_join_those_that_are_there() -> None:
    series = TimeSeries.of(carrying(), labels={"speed": np.zeros(7)})
    assert sorted(series.labels) == ["action", "place", "speed"]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"a": range(6)}, r"labels\['a'\]: has 6 entries, X has 7 samples"),
        ({"a": [[1, 2], [3]]}, "differ in number or length from those of X"),
        ({"a": np.zeros((7, 1, 1))}, r"got shape \(7, 1, 1\)"),
        ({"a": np.zeros(7, dtype=complex)}, "got dtype complex128; wanted numbers or text"),
        ({"a": {"b": 1}}, "got a dict; wanted an array"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TimeSeries.of([A, B], labels=labels)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"names": ["a", "b"]}, r"its names are 2 \(2 different ones\); wanted .* the 3 columns"),
        ({"names": ["a", "b", "a"]}, r"its names are 3 \(2 different ones\)"),
        ({"times": [0, 1]}, r"its times are int64 of shape \(2,\); wanted .* the 5 steps"),
        ({"times": list("abcde")}, "its times are <U1"),
    ],
)
def test_names_and_times_that_do_not_fit_are_refused(fields: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TimeSeries.of({"observations": A} | fields)


@pytest.mark.parametrize(
    ("label", "categorical"),
    [
        (np.array(["a", "b"]), True),
        (np.array([True, False]), True),
        (np.arange(20), True),
        (np.arange(21), False),
        (np.array([0.0, 1.0]), False),
    ],
)
def test_text_and_few_whole_numbers_name_categories(label: Any, categorical: bool) -> None:
    assert is_categorical(label) == categorical


def test_labels_may_be_missing_at_some_steps() -> None:
    labels = {"place": [0, 1, np.nan, 3, 4], "who": ["a", "", "b", "b", None]}
    series = TimeSeries.of(A, labels=labels)
    assert is_missing(series.labels["place"]).tolist() == [False, False, True, False, False]
    assert is_missing(series.labels["who"]).tolist() == [False, True, False, False, True]
