"""Steps that are not listed are those of a list that is made by looking at every row."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynacl import TimeSeries
from dynacl.data import Steps
from dynacl.judging import split
from dynacl.sampling import LISTED, Unlisted, listed

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=6)
room = st.integers(0, 4)


def by_hand(lengths, past, ahead):
    """Every row is looked at."""
    bounds = np.cumsum([0, *lengths])
    trial = np.repeat(np.arange(len(lengths)), lengths)
    rows = range(bounds[-1])
    inside = lambda t, other: other in rows and trial[other] == trial[t]
    return bounds, [t for t in rows if inside(t, t - past) and inside(t, t + ahead)]


@settings(max_examples=60, deadline=None, database=None)
@given(lengths, room, room, st.integers(1, 5))
def test_steps_are_those_whose_past_and_future_are_in_their_trial(lengths, past, ahead, every):
    bounds, wanted = by_hand(lengths, past, ahead)
    steps = Steps(bounds, past, ahead)
    assert len(steps) == len(wanted)
    assert steps.all().tolist() == steps[:].tolist() == wanted
    assert steps[::every].tolist() == wanted[::every]
    some = np.arange(len(wanted))[::-1]
    assert steps[some].tolist() == wanted[::-1]
    assert len(steps.spread(every)) <= every
    again = Unlisted(steps)
    assert again[torch.from_numpy(some.copy())].tolist() == listed(steps)[some.copy()].tolist()


@settings(max_examples=60, deadline=None, database=None)
@given(lengths, st.data())
def test_trials_that_are_chosen_have_their_own_rows(lengths, data):
    y = np.arange(sum(lengths), dtype=np.float32)[:, None] + [0.0, 0.5]
    series = TimeSeries(y, np.cumsum([0, *lengths]))
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8))
    wanted = [y[a:b] for a, b in np.array(list(series.spans()))[chosen]]
    found = series.select(chosen)
    assert found.lengths.tolist() == [len(x) for x in wanted]
    np.testing.assert_array_equal(found.observations, np.concatenate(wanted))


def test_neighbouring_trials_are_not_copied():
    series = TimeSeries.of(np.random.default_rng(0).standard_normal((60, 2)), trial_length=10)
    assert np.shares_memory(series.select([2, 3]).observations, series.observations)
    assert not np.shares_memory(series.select([2, 4]).observations, series.observations)


def test_of_a_recording_larger_than_memory_nothing_is_copied_to_hold_some_out(monkeypatch):
    monkeypatch.setattr("dynacl.judging.COPIED", 100)
    y = np.random.default_rng(0).standard_normal((3_000, 2)).astype(np.float32)
    for length in (3_000, 1_000, 100):  # one trial, a few and many
        series = TimeSeries.of(y, trial_length=length)
        training, held = split(series, 0.1, room=5, least=3)
        assert np.shares_memory(training.observations, y)
        assert len(held) >= 250
        apart = 5 if length > 100 else 0
        end = len(training)
        assert end + apart + len(held) == 3_000
        np.testing.assert_array_equal(held.observations, y[end + apart :])


def test_a_list_of_steps_is_kept_only_where_it_is_short():
    assert torch.is_tensor(listed(Steps(np.array([0, 10]))))
    assert isinstance(listed(Steps(np.array([0, LISTED + 1]))), Unlisted)
