"""When a recording is in which mode: brute force over all sequences, planted switches, files."""

import csv
import json
from dataclasses import replace
from itertools import groupby, pairwise, product

import numpy as np
import pytest

from command_line import dynacl, refusal
from dynacl import DCL, InputError, TimeSeries, decoding
from dynacl.segmentation import Segmentation, segmentation


def runs(modes):
    return [len(list(group)) for _, group in groupby(modes)]


@pytest.mark.parametrize("least", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_the_likeliest_sequence_with_lasting_modes_is_that_of_brute_force(least, seed):
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(3, 0.5), size=8)
    found = decoding.lasting(posterior, least)
    allowed = [path for path in product(range(3), repeat=8) if min(runs(path)) >= least]
    best = max(allowed, key=lambda path: np.log(posterior[np.arange(8), path]).sum())
    assert found.tolist() == list(best)


def test_a_trial_that_is_too_short_for_two_has_one_mode():
    posterior = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    assert decoding.lasting(posterior, 2).tolist() == [0, 0, 0]  # 0.9 · 0.2 · 0.4 > 0.1 · 0.8 · 0.6
    assert decoding.lasting(posterior[:0], 2).tolist() == []


def test_the_posterior_is_the_sum_over_all_paths():
    rng = np.random.default_rng(0)
    chain, errors = rng.dirichlet(np.ones(2), size=2), rng.exponential(size=(6, 2))
    found = np.empty((6, 2))
    decoding.smooth(errors, 0.7, chain, np.array([0, 6]), found)
    share = np.zeros((6, 2))
    for path in product(range(2), repeat=6):
        p = np.exp(-errors[np.arange(6), path].sum() / 1.4)
        p *= np.prod([chain[i, j] for i, j in pairwise(path)])
        share[np.arange(6), path] += p
    np.testing.assert_allclose(found, share / share.sum(1, keepdims=True), rtol=1e-9)


@pytest.fixture
def by_hand():
    """Two trials: one switches from 0 to 1 with doubt at steps 3 and 4, and back; one stays."""
    p = np.array([1, 1, 0.97, 0.7, 0.4, 0.02, 0, 0, 0.99, 1])
    trials = [np.stack([p, 1 - p], axis=1), np.tile([0.8, 0.2], (4, 1))]
    times = [np.arange(14) / 10, 5 + np.arange(8) / 10]
    return segmentation(trials, first=2, times=times)


def test_segments_are_told_by_hand(by_hand):
    found = by_hand.segments
    assert found["trial"].tolist() == [0, 0, 0, 1]
    assert found["mode"].tolist() == [0, 1, 0, 0]
    assert found["start"].tolist() == [2, 6, 10, 2]
    assert found["stop"].tolist() == [6, 10, 12, 6]
    assert found["duration"].tolist() == [4, 4, 2, 4]
    assert found["whole"].tolist() == [False, True, False, False]
    np.testing.assert_allclose(found["certainty"], [0.9175, (0.6 + 0.98 + 2) / 4, 0.995, 0.8])
    # Certain of mode 0 up to step 4 (row 2), of mode 1 from step 7 (row 5) on.
    np.testing.assert_array_equal(found["earliest"], [np.nan, 5, 10, np.nan])
    np.testing.assert_array_equal(found["latest"], [np.nan, 7, 10, np.nan])
    np.testing.assert_allclose(found["switch_certainty"][1:3], [1, 1])
    np.testing.assert_allclose(found["start_time"], [0.2, 0.6, 1.0, 5.2])
    np.testing.assert_allclose(found["stop_time"], [0.6, 1.0, 1.2, 5.6])


def test_modes_have_durations_and_follow_each_other(by_hand):
    assert by_hand.switches.tolist() == [[0, 1], [1, 0]]
    np.testing.assert_allclose(by_hand.transitions, [[7 / 8, 1 / 8], [1 / 4, 3 / 4]])
    modes = by_hand.by_mode
    np.testing.assert_allclose(modes["share"], [10 / 14, 4 / 14])
    assert modes["segments"].tolist() == [3, 1]
    assert modes["mean"].tolist() == [10 / 3, 4]
    assert str(by_hand).splitlines()[1].split()[:3] == ["0", "71.4%", "3"]


def test_a_mode_that_trials_cut_off_is_not_called_short():
    """Whole visits alone would say that mode 0 lasts one step: it flips once, and else stays."""
    first, second = np.zeros(100, int), np.ones(100, int)
    second[50] = 0
    found = segmentation([np.eye(2)[first], np.eye(2)[second], np.eye(2)[first]])
    assert found.by_mode["median"].tolist() == [100, 49.5]


def test_a_mode_that_never_comes_has_no_durations():
    found = segmentation([np.eye(3)[[0, 0, 1]]])
    assert np.isnan(found.by_mode["mean"][2])
    assert np.isnan(found.transitions[2]).all()
    assert found.by_mode["share"][2] == 0


def test_certainty_is_how_often_a_mode_is_right():
    """Theory: where the decoder's model is right, steps of posterior p are right p of the time."""
    rng = np.random.default_rng(0)
    true = np.repeat(rng.integers(0, 2, 400), 25)
    x = np.array([-0.5, 0.5])[true] + rng.standard_normal(len(true))
    errors = np.square(x[:, None] - [-0.5, 0.5])
    posterior = np.empty((len(true), 2))
    modes = decoding.decode(errors, np.array([0, len(true)]), 1, posterior)
    certain = posterior.max(1)
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 0.99)):
        some = (certain >= low) & (certain < high)
        assert (modes == true)[some].mean() == pytest.approx(certain[some].mean(), abs=0.06)


def test_segments_of_a_model_are_its_modes(world):
    model, series = DCL.load(world / "lagged", device="cpu"), TimeSeries.read(world / "slds.npz")
    found = model.segment(series)
    assert isinstance(found, Segmentation)
    for mine, modes in zip(found.modes, model.modes(series), strict=True):
        np.testing.assert_array_equal(mine, modes)
    assert found.first == 2  # time lags
    for p in found.posterior:
        np.testing.assert_allclose(p.sum(1), 1, rtol=1e-4)
    longer = model.segment(series, min_duration=4)
    assert longer.segments["duration"].min() >= 4
    assert found.segments["duration"].min() < 4
    sticky = model.segment(series, stickiness=1e6)
    assert sticky.switches.sum() < found.switches.sum()


def test_gated_models_are_segmented_by_how_they_weigh_their_modes(world):
    model, series = DCL.load(world / "gated", device="cpu"), TimeSeries.read(world / "slds.npz")
    found = model.segment(series)
    for mine, modes in zip(found.modes, model.modes(series), strict=True):
        np.testing.assert_array_equal(mine, modes)


def test_the_command_writes_a_table_and_json(world, tmp_path):
    series = TimeSeries.read(world / "slds.npz")
    dates = np.datetime64("2024-01-01T00:00:00") + np.arange(len(series))
    replace(series, times=dates).write(tmp_path / "timed.npz")
    words = ("segment", world / "switching", tmp_path / "timed.npz", "--min-duration", 3,
             "--stickiness", 5)  # fmt: skip
    said = dynacl(*words, "--out", tmp_path / "s.csv")
    with open(tmp_path / "s.csv") as file:
        rows = list(csv.DictReader(file))
    model = DCL.load(world / "switching", device="cpu")
    expected = model.segment(series, min_duration=3, stickiness=5)
    for name in ("trial", "mode", "start", "stop", "duration"):
        assert [int(row[name]) for row in rows] == expected.segments[name].tolist()
    assert rows[0]["start_time"] == "2024-01-01T00:00:00"
    assert all(float(f"{float(row['certainty']):.7g}") == float(row["certainty"]) for row in rows)
    assert rows[0]["earliest"] == ""
    assert f"{len(rows)} segments of 6 trials" in said
    dynacl(*words, "--out", tmp_path / "s.json")
    kept, printed = (
        json.loads((tmp_path / "s.json").read_text()),
        json.loads(dynacl(*words, "--json")),
    )
    assert kept == printed
    assert len(kept["segments"]) == len(rows)
    assert kept["segments"][0]["earliest"] is None
    assert kept["switches"] == expected.switches.tolist()
    assert dynacl(*words).splitlines()[0].startswith("trial,mode,start,stop,duration,whole")


def test_what_cannot_be_segmented_is_refused_in_one_sentence(world, tmp_path):
    data = world / "slds.npz"
    assert "Linear has no modes" in refusal("segment", world / "driven", world / "driven.npz")
    said = refusal("segment", world / "switching", data, "--min-duration", 0)
    assert "--min-duration: got 0; wanted a whole number of at least 1, in steps" in said
    said = refusal("segment", world / "switching", data, "--stickiness", 0)
    assert "--stickiness: got 0.0; wanted a positive number" in said
    said = refusal("segment", world / "gated", data, "--stickiness", 2)
    assert "--stickiness: these modes are read off the state" in said
    said = refusal("segment", world / "switching", data, "--out", tmp_path / "s.txt")
    assert "--out: cannot write .txt; wanted .csv or .json" in said
    with pytest.raises(InputError, match=r"min_duration: got 2\.5"):
        segmentation([np.eye(2)], 2.5)
