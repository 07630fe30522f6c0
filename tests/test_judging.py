"""The judge inside fit: what it holds out, and that a fit never ends below its linear start."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from dynacl import (
    DCL,
    InputError,
    TimeSeries,
    assembly,
    held_out_prediction,
    metrics,
    persistence,
    simulate,
)
from dynacl.judging import FEWEST_ROWS, Judge, judge_for, split
from dynacl.prediction import held_out, missed_volume
from dynacl.run import Snapshot

LAGS = (0, 10, 20)


def numbered(lengths):
    """A series whose observations are the numbers of its rows."""
    rows = np.arange(sum(lengths), dtype=np.float32)[:, None]
    return TimeSeries(rows, np.concatenate([[0], np.cumsum(lengths)]))


@pytest.fixture(scope="module")
def hidden():
    """A linear system of six dimensions, of which a frame shows three."""
    return simulate.lds(rng=np.random.default_rng(1000), d=6, rank=3, mixing="linear", observed=8,
                        trials=40, steps=300)  # fmt: skip


@pytest.fixture(scope="module")
def model(hidden):
    return DCL(6, time_lags=LAGS, max_iter=400, batch_size=256, random_state=0).fit(hidden)


def test_whole_trials_are_held_out_where_there_are_several():
    series = numbered([100] * 20)
    seen, held = split(series, 0.1, room=5, least=5)
    assert (seen.n_trials, held.n_trials) == (18, 2)
    assert sorted([*seen.observations.ravel(), *held.observations.ravel()]) == list(range(2000))
    assert set(held.lengths) == {100}


def test_the_end_of_long_trials_is_held_out_with_a_gap():
    series = numbered([1000, 2000])
    seen, held = split(series, 0.1, room=7, least=7)
    assert seen.lengths.tolist() == [893, 1793]
    assert held.lengths.tolist() == [100, 200]
    assert held.observations[0] - seen.observations[892] == 8  # seven rows are in neither
    assert held.observations[-1] == 2999


@pytest.mark.parametrize(
    ("lengths", "share", "room"),
    [
        ([50], 0.1, 1),
        ([100] * 20, 0.0, 5),
        ([10] * 500, 0.1, 12),
        ([FEWEST_ROWS * 10 - 20], 0.1, 3),
    ],
)
def test_nothing_is_held_out_where_it_could_not_judge(lengths, share, room):
    series = numbered(lengths)
    seen, held = split(series, share, room, room)
    assert held is None
    assert seen is series


def test_short_trials_judge_as_far_as_they_go():
    seen, held = split(numbered([10] * 500), 0.1, room=12, least=5)
    assert (seen.n_trials, held.n_trials) == (450, 50)
    series = simulate.lds(rng=np.random.default_rng(0), trials=200, steps=12, d=2)
    model = DCL(2, max_iter=40, batch_size=64, random_state=0, settings={"horizon": 8}).fit(series)
    assert 1 < max(model.held_out_.horizons) < 12
    assert "linear start" in model.held_out_.missed


def test_training_that_gains_again_goes_on(hidden):
    run = DCL(6, max_iter=1, batch_size=32, random_state=0).fit(hidden).run_

    class Says(Judge):
        def figure(self, run):
            return figures.pop(0)

    def stops(*looks):
        figures[:] = looks
        run.floor, run.best, run.judged = Snapshot(0.0, 0, {}), None, []
        judge = Says(None, None, None, (1,))
        found = []
        for step, _ in enumerate(looks, 1):
            run.step = 200 * step
            found.append(judge.look(run))
        return found[-1]

    figures = []
    assert stops(-3.0, -1.0, -1.0, -0.9)
    assert not stops(-3.0, -1.0, -1.5, -2.0)
    assert not stops(-3.0, -1.0, -1.0, -2.9)


def test_of_large_data_few_rows_are_held_out():
    series = numbered([1000] * 1000)
    assert len(split(series, 0.1, room=5, least=5)[1]) == 20_000


def test_training_does_not_see_what_is_held_out(hidden):
    _, held = split(hidden, 0.1, room=30, least=30)
    other = hidden.observations.copy()
    is_held = (other[:, None] == held.observations[::300][None]).all(-1).any(1)
    for start in np.flatnonzero(is_held):  # the first row of each held-out trial
        other[start : start + 300] = np.roll(other[start : start + 300], 7, axis=0)
    changed = replace(hidden, observations=other)
    arguments = {"max_iter": 30, "batch_size": 64, "random_state": 0}
    one, two = (DCL(6, **arguments).fit(s) for s in (hidden, changed))
    assert [r["loss"] for r in one.history_] == [r["loss"] for r in two.history_]
    assert one.run_.judged != two.run_.judged


def test_a_fit_ends_no_lower_than_the_best_linear_map(hidden, model):
    rows = hidden.with_past(max(LAGS))
    windows = hidden.observations[rows[:, None] - np.array(LAGS)].reshape(len(rows), -1)
    latents = hidden.truth.latents[rows]
    ceiling = metrics.r2(latents, windows)
    assert metrics.r2(latents, np.concatenate(model.transform(hidden))) > ceiling - 0.01


def test_what_is_handed_out_is_the_best_that_was_seen(hidden, model):
    run = model.run_
    figures = [figure for _, figure in run.judged]
    assert run.best.figure == min(figures)
    assert run.floor.figure < run.best.figure  # nothing non-linear is there to be learned
    assert "linear start is handed out" in model.verdict_
    assert "counted alike" not in model.verdict_  # windows of lags are predicted as observations
    assert not any(p.any() for p in model.encoder_.layers[-1].parameters())


def test_correlations_show_the_dimensions_of_a_linear_state(model):
    assert model.canonical_correlations_[5] > 0.8
    assert model.canonical_correlations_[6] < 0.2


def test_the_verdict_and_the_correlations_are_saved(model, tmp_path):
    model.save(tmp_path)
    loaded = DCL.load(tmp_path)
    assert loaded.verdict_ == model.verdict_
    np.testing.assert_allclose(loaded.canonical_correlations_, model.canonical_correlations_)


def test_a_judged_run_that_is_resumed_equals_one_that_was_not_stopped(hidden, model, tmp_path):
    arguments = {"time_lags": LAGS, "max_iter": 400, "batch_size": 256, "random_state": 0}
    stopped = DCL(6, **arguments)
    stopped.fit(hidden, callback=lambda run, record: record["step"] >= 250)
    assert 0 < stopped.n_iter_ < 400
    stopped.save(tmp_path)
    persistence.save_checkpoint(stopped.run_, tmp_path / "checkpoint")
    resumed = DCL.load(tmp_path)
    persistence.load_checkpoint(resumed.run_, tmp_path / "checkpoint")
    resumed.resume(hidden)
    assert resumed.verdict_ == model.verdict_
    assert resumed.run_.judged == model.run_.judged
    for mine, other in zip(resumed.encoder_.parameters(), model.encoder_.parameters(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize(
    "arguments", [{"dynamics": "identity"}, {"dynamics": "tiles"}, {"validation": False},
                  {"protocol": "paper-lds", "n_negatives": 64}, {"settings": {"validation": 0.0}}],
    ids=str,
)  # fmt: skip
def test_baselines_tiles_and_paper_protocols_have_no_judge(hidden, arguments):
    model = DCL(6, max_iter=5, batch_size=32, random_state=0, **arguments).fit(hidden)
    assert model.run_.judged == []
    assert model.run_.floor is None
    assert model.held_out_ is None
    assert model.verdict_ == ""


@pytest.mark.parametrize(
    "arguments", [{"dynamics": "gated"}, {"similarity": "dot"}, {"asymmetric": True},
                  {"encoder": torch.nn.Linear(8, 6)}, {"dynamics": "identity", "validation": 0.1}],
    ids=str,
)  # fmt: skip
def test_without_a_linear_start_the_judge_looks_and_changes_nothing(hidden, arguments):
    torch.manual_seed(0)
    given = {"max_iter": 8, "batch_size": 32, "random_state": 0} | arguments
    model = DCL(6, **given).fit(hidden)
    assert model.run_.floor is None
    looks = [r["held_out"] for r in model.history_ if "held_out" in r]
    assert looks == [figure for _, figure in model.run_.judged]
    assert "the model misses" in model.verdict_
    assert "linear start" not in model.held_out_.missed
    seen, _ = split(hidden, 0.1, room=12, least=12)
    alone = DCL(6, **given | {"validation": False}).fit(seen)
    for mine, other in zip(model.encoder_.parameters(), alone.encoder_.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_named_trials_are_held_out_and_kept_in_files(hidden, tmp_path):
    model = DCL(6, max_iter=5, batch_size=32, random_state=0, validation=[3, 7]).fit(hidden)
    assert model.settings_.validation == (3, 7)
    ahead = held_out_prediction(model, hidden.select([3, 7]))
    np.testing.assert_array_equal(ahead.missed["model"], model.held_out_.missed["model"])
    assert not np.allclose(held_out_prediction(model, hidden.select([4, 8])).missed["model"],
                           model.held_out_.missed["model"])  # fmt: skip
    model.save(tmp_path)
    loaded = DCL.load(tmp_path)
    assert loaded.settings_.validation == loaded.validation == (3, 7)
    assert clone(model).validation == [3, 7]


@pytest.mark.parametrize(
    ("validation", "match"),
    [
        ((3, 40), "validation: got trials 3, 40; wanted some of 0 to 39"),
        (tuple(range(40)), "not all"),
        (0.7, "validation: got 0.7; wanted"),
        (True, "validation: got True; wanted"),
        ("never", "validation: got 'never'; wanted"),
    ],
)
def test_what_cannot_be_held_out_is_named(hidden, validation, match):
    with pytest.raises(InputError, match=match):
        DCL(6, max_iter=5, validation=validation).fit(hidden)


def test_named_trials_that_are_too_short_to_judge_are_named():
    series = numbered([100, 100, 9])
    with pytest.raises(InputError, match="trials 2 have at most 9 samples; wanted more than 12"):
        split(series, (2,), room=12, least=12)


def test_modes_that_noise_hides_are_judged_by_one_map_for_all():
    """Two regimes that differ by less than the noise: a held mode is a guess."""
    series = simulate.slds(rng=np.random.default_rng(0), d=2, modes=2, angle=2.0, noise=0.1,
                           mixing="linear", observed=4, trials=20, steps=200)  # fmt: skip
    model = DCL(2, "switching", 2, max_iter=20, batch_size=64, random_state=0).fit(series)
    seen, held = assembly.held_out(model.run_, series)
    judge = judge_for(model.run_, seen, held, series)
    (plain,) = judge.without_modes(model.run_)
    assert plain.dynamics.n_modes == 0
    assert plain.encoder is model.run_.encoder
    given = {"readout": model.readout_, "beside": False}
    by_modes, by_one = (
        held_out(run, held, judge.horizons, **given).figure() for run in (model.run_, plain)
    )
    assert by_one < by_modes
    by_modes, by_one = (missed_volume(run, held, judge.horizons) for run in (model.run_, plain))
    assert by_one < by_modes
    assert judge.figure(model.run_) == by_one
    assert "ahead (all directions of the state counted alike)" in model.verdict_
    linear = DCL(2, max_iter=2, batch_size=64, random_state=0).fit(series)
    assert judge.without_modes(linear.run_) == []


@pytest.mark.parametrize(
    ("figure", "said"),
    [(-2.0, "; it misses 13.5% of the variance then"), (-1.01, None), (-1.0, None), (0.5, None)],
)
def test_what_comes_after_the_end_must_beat_the_start(model, hidden, monkeypatch, figure, said):
    judge = judge_for(model.run_, hidden, hidden, hidden)
    monkeypatch.setattr(judge, "figure", lambda run: figure)
    monkeypatch.setattr(model.run_, "floor", Snapshot(-1.0, 0, model.run_.weights()))
    assert judge.said_of(model.run_) == said
    monkeypatch.setattr(model.run_, "floor", None)
    assert judge.said_of(model.run_) is not None
