"""Are there dynamics, and does the model have them: data of which the answer is known."""

import json
import re
import warnings

import numpy as np
import pytest

import dynacl
from command_line import dynacl as command
from dynacl import DCL, InputError, TimeSeries, evaluate, evidence, simulate
from dynacl.comparing import Gain, compared, horizons_in
from dynacl.without_truth import Consistency, consistency

MIXING = np.random.default_rng(7).standard_normal((2, 4))


def relaxing(a, trials=15, steps=80):
    """Two walks that keep a share `a` of their state at each step, seen in four channels."""
    rng, found = np.random.default_rng(0), []
    for _ in range(trials):
        x = np.zeros((steps, 2))
        for t in range(1, steps):
            x[t] = a * x[t - 1] + rng.standard_normal(2)
        found.append(x @ MIXING)
    return found


def fit(data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DCL(2, max_iter=10, batch_size=64, random_state=0, **more).fit(data)


@pytest.mark.parametrize(
    ("a", "said"),
    [
        (0.0, "No dynamics beyond noise: nothing predicts these observations clearly better than "
              "their mean"),
        (0.7, "There are dynamics here and this model has them, beyond identity dynamics"),
        (1.0, "No dynamics beyond identity dynamics: these observations change slowly"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_is_known_of_the_data(a, said):
    data = relaxing(a)
    found = evidence(fit(data, validation=0.4), data, horizons=(1, 5))
    assert found.sentence.startswith(said)
    if a == 0.7:
        assert "but not beyond what is linear" in found.sentence


def test_a_model_that_does_not_have_it_is_told_apart_from_data_that_have_none():
    data = relaxing(0.7)
    model = fit(data, validation=0.4, dynamics="identity")
    found = evidence(model, data, horizons=(1, 5))
    assert found.sentence.startswith("There are dynamics here, but this model does not have them: "
                                     "a vector autoregression predicts clearly better")  # fmt: skip


@pytest.fixture(scope="module")
def driven():
    return simulate.controlled(rng=np.random.default_rng(0), d=2, trials=20, steps=60, observed=4,
                               mixing="linear", noise=0.05)  # fmt: skip


@pytest.fixture(scope="module")
def model(driven):
    return fit(driven)


def test_whether_an_input_tells_something_is_seen_by_shifting_it():
    """All that moves these walks is known: their input, or another one."""
    rng, data = np.random.default_rng(0), relaxing(0.7)
    moves = [np.diff(y, axis=0, append=y[-1:]) + 0.3 * y for y in data]
    other = [rng.standard_normal((len(y), 4)) for y in data]
    for u, said in ((moves, "tells something"), (other, "tells nothing")):
        series = TimeSeries.of(data, u)
        found = evidence(fit(series, validation=0.4), series, nulls=["shift"], horizons=(1, 3))
        assert f"the control input {said}" in found.sentence


def test_what_an_input_tells_is_said_where_it_is_seen():
    """Slow stores that fill: the next level is near this one, those to come follow the input."""
    rng, levels, inputs = np.random.default_rng(1), [], []
    for _ in range(12):
        u, x = np.repeat(rng.standard_normal((20, 2)), 10, axis=0), np.zeros((200, 2))
        for t in range(199):
            x[t + 1] = 0.97 * x[t] + 0.03 * u[t]
        levels.append(x @ MIXING)
        inputs.append(u)
    series = TimeSeries.of(levels, inputs)
    found = evidence(fit(series, validation=0.4), series, nulls=["shift"], horizons=(1, 30))
    said = re.search(r"tells something .*R² (\S+) in place of (\S+), (.*) ahead", found.sentence)
    shifted, own, ahead = said.groups()
    assert ahead == "30 steps"
    assert float(shifted) < 0.8 < float(own)
    assert found.nulls["shift"].squares.held_out().r2()[0] > 0.9  # one step ahead, little is seen


def test_nulls_are_refits_to_data_without_what_they_lost(driven, model):
    """Shuffled, a linear system is not predicted; with random phases it is, as before."""
    found = evidence(model, driven, nulls=("shuffle", "phase"), horizons=(1, 3))
    r2 = {name: null.squares.held_out().r2()[0] for name, null in found.nulls.items()}
    own = found.prediction.r2()[0]
    assert own > 0.9
    assert r2["shuffle"] < 0.1
    assert r2["phase"] > 0.5
    assert "a refit to shuffled time predicts nothing" in found.sentence
    shown = str(found)
    for name in ("model", "linear start", "ARX", "identity control", "persistence",
                 "shuffled time", "random phases"):  # fmt: skip
        assert any(line.startswith(name) for line in shown.splitlines())


def test_r2_and_nrmse_are_those_of_the_one_held_out_prediction(driven, model):
    new = simulate.again(driven, rng=np.random.default_rng(5), trials=4)
    found = evidence(model, new, horizons=(1, 7)).as_dict()["prediction"]
    expected = dynacl.held_out_prediction(model, new, (1, 7))
    for name, missed in expected.missed.items():
        np.testing.assert_allclose(found["r2"][name], 1 - missed)
        np.testing.assert_allclose(found["nrmse"][name], np.sqrt(missed))


def test_training_data_are_judged_by_what_fit_held_out_and_others_by_all(driven):
    model = fit(driven, validation=[3, 4])
    assert evidence(model, driven).on == "2 of 20 trials, which fit held out"
    held = evidence(model, driven, horizons=(1, 3)).prediction
    again = dynacl.held_out_prediction(model, driven.select([3, 4]), (1, 3))
    np.testing.assert_array_equal(held.missed["model"], again.missed["model"])
    new = simulate.again(driven, rng=np.random.default_rng(5), trials=4)
    assert evidence(model, new).on == "all of these data, 240 steps in 4 trials, new to the model"
    bare = fit(driven, validation=False)
    assert "trained on: nothing was held out" in evidence(bare, driven).on


def test_horizons_that_trials_have_no_room_for_are_shortened(driven, model):
    assert horizons_in(model.run_, driven, (1, 10, 100)) == (1, 10, 29)


def test_gains_are_paired_over_blocks_by_hand(driven, model):
    """Trials are the blocks: the mean logarithm of ratios, and its standard error."""
    new = simulate.again(driven, rng=np.random.default_rng(5), trials=6)
    found = compared(model.run_, new, (1, 2))
    errors, trial = found.squares.errors, np.repeat(np.arange(6), 57)
    assert len(found.squares.starts) == len(trial)
    mean = {k: np.stack([v[trial == i].mean(0) for i in range(6)]) for k, v in errors.items()}
    ratio = np.log(mean["persistence"] / mean["model"]).mean(1)
    gain = found.gain("model", ("persistence",))
    assert gain.mean == pytest.approx(ratio.mean())
    assert gain.error == pytest.approx(ratio.std(ddof=1) / np.sqrt(6))


@pytest.mark.parametrize(
    ("gain", "clear"), [(Gain(0.3, 0.1), True), (Gain(0.3, 0.2), False), (Gain(0.01, 0.0), False)]
)
def test_a_gain_is_clear_if_it_is_large_and_not_by_chance(gain, clear):
    assert gain.clear == clear
    assert Gain(np.log(2), 0).share == pytest.approx(0.5)


def test_consistency_is_1_for_affine_copies_and_their_mean_is_aligned(driven, model):
    class Copy:
        """A run whose latents are an affine map of the model's."""

        def __init__(self, seed):
            rng = np.random.default_rng(seed)
            self.map, self.offset = rng.standard_normal((2, 2)) + 3 * np.eye(2), rng.normal(size=2)
            self.run_, self.settings_ = model.run_, model.settings_

        def transform(self, part):
            return [x @ self.map.T + self.offset for x in model.transform(part)]

        def _driven(self, data):
            return model._driven(data)

    found = consistency([Copy(0), Copy(1), Copy(2)], driven)
    np.testing.assert_allclose(found.pairs(), 1, atol=1e-6)
    z, mean = np.concatenate(model.transform(driven)), np.concatenate(found.embedding)
    assert dynacl.metrics.r2(z, mean) == pytest.approx(1)
    assert [len(x) for x in found.embedding] == driven.lengths.tolist()


def test_seeds_are_refits_from_other_random_numbers(driven):
    found = evidence(fit(driven, validation=0.3), driven, seeds=3, horizons=(1,))
    assert isinstance(found.consistency, Consistency)
    assert found.consistency.r2.shape == (3, 3)
    assert found.consistency.pairs().min() > 0.9  # all start at the same linear model
    assert found.as_dict()["consistency"]["runs"] == 3
    assert "consistency of 3 runs" in str(found)


def test_data_without_truth_are_evaluated_in_any_form(driven):
    data = {"first": driven.split(driven.observations)[0], "second": driven.observations[60:180]}
    model = fit(list(data.values()))
    by_dict, by_list = evaluate(model, data), evaluate(model, list(data.values()))
    assert by_dict == by_list
    assert set(by_dict["prediction"]["r2"]) >= {"model", "VAR", "persistence"}
    json.dumps(by_dict)
    with pytest.raises(InputError, match="post_hoc: given, but data carry no true latents"):
        evaluate(model, data, post_hoc="linear")


def test_a_dict_that_carries_truth_is_compared_with_it(rotating):
    model = DCL(3, max_iter=5, batch_size=32, random_state=0).fit(rotating)
    parts = {"observations": rotating.observations, "bounds": rotating.bounds,
             "latents": rotating.truth.latents}  # fmt: skip
    assert evaluate(model, parts)["r2"] == evaluate(model, rotating)["r2"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"nulls": ["noise"]}, "nulls: got 'noise'; wanted some of shuffle, phase, shift"),
        ({"seeds": 0}, "seeds: got 0; wanted a whole number"),
        ({"refit_iter": 1.5}, "refit_iter: got 1.5; wanted a whole number"),
    ],
)
def test_what_cannot_be_judged_is_named(driven, model, asked, said):
    with pytest.raises(InputError, match=said):
        evidence(model, driven, **asked)


def test_the_command_judges_a_recording(tmp_path):
    """From files, without truth: table, sentence, JSON and the mean embedding of the runs."""
    y = relaxing(0.7, trials=10, steps=60)
    TimeSeries.of(y).write(tmp_path / "y.npz")
    command("fit", tmp_path / "y.npz", "--components", 2, "--max-iter", 5, "--batch-size", 64,
            "--validation", 0.3, "--quiet", "--out", tmp_path / "run")  # fmt: skip
    judge = ("evaluate", tmp_path / "run", tmp_path / "y.npz", "--quiet")
    printed = command(*judge, "--nulls", "shuffle")
    assert "3 of 10 trials, which fit held out" in printed
    assert "There are dynamics here and this model has them" in printed
    found = json.loads(command(*judge, "--nulls", "none", "--seeds", 2, "--json",
                               "--mean-embedding", tmp_path / "z.csv"))  # fmt: skip
    assert found["nulls"] == {}
    assert found["prediction"]["horizons"] == [1, 10, 29]
    assert found["consistency"]["runs"] == 2
    assert found["sentence"].startswith("There are dynamics here")
    assert (tmp_path / "z.csv").read_text().startswith("trial,step,x1,x2\n0,0,")
