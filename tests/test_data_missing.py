"""Missing values: where they are is said, and trials are cut or gaps bridged as asked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynacl import InputError, TimeSeries


def quietly(*given: Any, **asked: Any) -> TimeSeries:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return TimeSeries.of(*given, **asked)


@settings(max_examples=40)
@given(st.data())
def test_a_split_keeps_every_run_of_whole_rows_and_nothing_else(data: Any) -> None:
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    T = sum(lengths)
    holes = data.draw(st.lists(st.booleans(), min_size=T, max_size=T))
    undriven = data.draw(st.lists(st.booleans(), min_size=T, max_size=T))
    rows = np.arange(T, dtype=np.float32)[:, None]
    y, u = (
        np.where(np.array(holes)[:, None], np.nan, rows),
        np.where(np.array(undriven)[:, None], np.nan, -rows),
    )
    wanted, start = [], 0
    for n in lengths:  # brute force: walk through each trial, row by row
        run: list[int] = []
        for t in [*range(start, start + n), None]:
            if t is not None and not holes[t] and not undriven[t]:
                run.append(t)
            else:
                if len(run) > 1:
                    wanted.append(run)
                run = []
        start += n
    fields = {"observations": y, "bounds": np.cumsum([0, *lengths]), "control": u,
              "label.row": np.arange(T)}  # fmt: skip
    if not any(holes) and not any(undriven):  # nothing to cut: a trial of one step stays
        assert quietly(fields, missing="split").lengths.tolist() == lengths
        return
    if not wanted:
        with pytest.raises(InputError, match="nothing is left"):
            quietly(fields, missing="split")
        return
    series = quietly(fields, missing="split")
    assert [part[:, 0].tolist() for part in series.split(series.observations)] == wanted
    np.testing.assert_array_equal(series.control, -series.observations)
    np.testing.assert_array_equal(series.labels["row"], series.observations[:, 0])


@pytest.mark.parametrize(("max_gap", "lengths"), [(1, [5, 2, 5]), (2, [5, 9]), (9, [5, 9])])
def test_gaps_up_to_a_length_are_bridged_by_a_line(max_gap: int, lengths: list[int]) -> None:
    line = np.stack([np.arange(14.0), 3 - 2 * np.arange(14.0)], axis=1)
    y = line.copy()
    y[2, 0] = y[7:9, 1] = np.nan  # one step in the first trial, two in the second
    trials = [y[:5], y[5:]]
    with pytest.warns(UserWarning, match="values were missing at"):
        series = TimeSeries.of(trials, missing="interpolate", max_gap=max_gap)
    assert series.lengths.tolist() == lengths
    kept = np.r_[0:7, 9:14] if max_gap == 1 else np.arange(14)
    np.testing.assert_allclose(series.observations, line[kept], rtol=1e-6)


def test_a_gap_at_the_edge_of_a_trial_is_never_bridged() -> None:
    y = np.arange(12.0)[:, None]
    y[[0, 5, 6, 11]] = np.nan  # both ends of both trials
    series = quietly([y[:6], y[6:]], missing="interpolate")
    assert series.observations[:, 0].tolist() == [1, 2, 3, 4, 7, 8, 9, 10]
    assert series.lengths.tolist() == [4, 4]


def test_gaps_in_time_are_cut_too() -> None:
    times = np.array([0, 1, 2, 3, 7, 8, 9, 100, 101, 102.0])
    fields = {"observations": np.arange(10.0)[:, None], "times": times, "bounds": [0, 7, 10]}
    with pytest.warns(UserWarning, match="cut at 1 gap in time: 3 trials from 2, 10 steps of 10"):
        series = TimeSeries.of(fields, missing="split")
    assert series.lengths.tolist() == [4, 3, 3]


def test_it_is_said_where_values_are_missing() -> None:
    y = np.arange(30.0).reshape(10, 3)
    y[4:6, 1] = y[8, 2] = np.nan
    fields = {"observations": y, "names": ["a", "b", "c"]}
    said = r"NaN .* at 3 of 10 steps, in features 'b', 'c' \(first at step 4, feature 1: nan\)"
    with pytest.raises(InputError, match=said):
        TimeSeries.of(fields)
    with pytest.warns(UserWarning, match="cut at 3 steps with missing values: 2 trials from 1, 6 "):
        TimeSeries.of(fields, missing="split")


def test_infinity_is_not_missing() -> None:
    y = np.arange(10.0)[:, None]
    y[3] = np.inf
    with pytest.raises(InputError, match=r"infinity \(first at step 3"):
        TimeSeries.of(y, missing="split")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"missing": "drop"}, "missing: got 'drop'; wanted one of error, split, interpolate"),
        ({"missing": "interpolate", "max_gap": 0}, "max_gap: got 0; wanted a whole number"),
        ({"min_length": 2.5}, "min_length: got 2.5; wanted a whole number"),
        ({"min_length": 11}, "X: no trial has 11 steps or more; the longest has 10"),
    ],
)
def test_ways_that_there_are_not_are_refused(asked: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TimeSeries.of(np.arange(10.0)[:, None], **asked)


def test_digits_far_from_zero_survive_beside_missing_values() -> None:
    y = 1e9 + np.sin(np.arange(50.0))[:, None]
    y[20] = np.nan
    series = quietly(y, missing="split")
    wanted = np.delete(y, 20, axis=0)
    np.testing.assert_allclose(series.given() - 1e9, wanted - 1e9, atol=1e-6)
