"""Labels told from latents: planted ones, other implementations, held-out trials."""

import json

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.metrics import adjusted_rand_score

from command_line import dynacl as command
from command_line import quick_fit
from dynacl import DCL, InputError, TimeSeries, decode_labels, simulate
from dynacl.behaviour import PENALTIES, table


@pytest.fixture(scope="module")
def data():
    """A rotation whose angle is a label; beside it one that has nothing to do with it."""
    made = simulate.lds(rng=np.random.default_rng(0), d=2, trials=20, steps=60, observed=5,
                        mixing="linear", noise=0.02)  # fmt: skip
    x = made.truth.latents.astype(float)
    noise = np.random.default_rng(1).standard_normal((2, len(x)))
    labels = {
        "first": x[:, 0] + 0.01 * noise[0],
        "side": np.where(x[:, 1] > 0, "left", "right"),
        "nothing": noise[1],
    }
    return TimeSeries.of(made, labels=labels)


@pytest.fixture(scope="module")
def model(data):
    return DCL(2, max_iter=10, batch_size=64, validation=0.25, random_state=0).fit(data)


@pytest.fixture(scope="module")
def found(model, data):
    return decode_labels(model, data)


def test_what_latents_tell_is_decoded_and_what_they_do_not_is_not(found):
    for source in ("latents", "principal components", "observations"):
        assert found["first"].figures[source]["ridge"] > 0.95, source
        assert found["side"].figures[source]["neighbours"] > 0.9, source
        assert found["nothing"].figures[source]["ridge"] < 0.05, source
    assert found["side"].categorical
    assert not found["first"].categorical


def test_shifted_labels_are_told_by_chance_alone(found):
    assert found["first"].chance["ridge"] < 0.5
    assert found["side"].chance["ridge"] < 0.8


def test_decoders_are_fitted_to_what_was_trained_on_and_scored_on_what_was_held_out(model, data):
    trials = np.unique(np.linspace(0, 19, 7).round().astype(int)[1:-1])  # as `judging.split` says
    others = np.setdiff1d(np.arange(20), trials)
    train, test = data.select(others.tolist()), data.select(trials.tolist())
    x, z = (np.concatenate(model.transform(part)).astype(float) for part in (train, test))
    mean, spread = x.mean(0), x.std(0)
    ridge = RidgeCV(PENALTIES).fit((x - mean) / spread, train.labels["first"])
    expected = ridge.score((z - mean) / spread, test.labels["first"])
    found = decode_labels(model, data)["first"].figures["latents"]["ridge"]
    assert found == pytest.approx(expected, abs=1e-6)


def test_new_data_are_decoded_in_turn_over_trials_or_parts_of_them(model, data):
    new = data.select(range(7))
    assert decode_labels(model, new)["first"].figures["latents"]["ridge"] > 0.9
    few = data.select([0, 1])
    assert decode_labels(model, few)["first"].figures["latents"]["ridge"] > 0.9


def test_steps_without_a_label_do_not_count(model, data):
    first = data.labels["first"].copy()
    first[::3] = np.nan
    side = data.labels["side"].copy()
    side[1::4] = ""
    found = decode_labels(model, data.split(data.observations), labels={"a": first, "b": side})
    assert found["a"].figures["latents"]["ridge"] > 0.9
    assert found["b"].figures["latents"]["ridge"] > 0.9


def test_modes_are_matched_with_categories(two_modes, switching_model):
    """The truth itself as the label: accuracy by `evaluate`, agreement by scikit-learn."""
    true = np.where(two_modes.truth.modes < 0, 0, two_modes.truth.modes)
    names = np.array(["walk", "turn"])[true]
    found = decode_labels(switching_model, two_modes, labels={"action": names})["action"]
    modes = np.concatenate(switching_model.modes(two_modes))
    there = two_modes.truth.modes >= 0
    assert found.adjusted_rand == pytest.approx(adjusted_rand_score(true[there], modes))
    swapped = [(modes == true[there]).mean(), (modes != true[there]).mean()]
    assert found.mode_accuracy == pytest.approx(max(swapped))
    assert "adjusted Rand index" in table({"action": found})


def test_labels_that_cannot_be_decoded_are_named(model, data):
    bare = data.split(data.observations)
    with pytest.raises(InputError, match="labels: missing"):
        decode_labels(model, bare)
    with pytest.raises(InputError, match="labels: 'same' has too few steps, or one value"):
        decode_labels(model, bare, labels={"same": np.zeros(len(data))})


def test_the_command_decodes_the_labels_of_a_file(data, tmp_path):
    data.write(tmp_path / "data.npz")
    quick_fit(tmp_path, "run", "--validation", 0.25, data="data.npz")
    judge = ("evaluate", tmp_path / "run", tmp_path / "data.npz", "--nulls", "none")
    labels = json.loads(command(*judge, "--json"))["labels"]
    assert set(labels) == {"first", "side", "nothing"}
    assert labels["first"]["measure"] == "r2"
    assert labels["side"]["measure"] == "accuracy"
    printed = command(*judge)
    assert "side (accuracy)" in printed
    assert "chance (shifted)" in printed
