"""Settings: the protocols as printed, and every field open to the user."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from dynacl import DCL, InputError, simulate
from dynacl.settings import HELP, KINDS, PROTOCOLS, Settings, checked, default_steps

# Of each setting, a value that a fit of linear dynamics would not have by itself.
OTHER = {
    "batch_size": 32,
    "n_negatives": 24,
    "max_iter": 3,
    "duration": 0.5,
    "learning_rate": 0.02,
    "dynamics_learning_rate": 0.02,
    "dynamics_optimizer": "soap",
    "objective": "likelihood",
    "evenness": 1.0,
    "optimizer": "adam",
    "schedule": "constant",
    "standardize": False,
    "time_offset": 2,
    "time_lags": (0, 2),
    "control_lags": (1, 3),
    "horizon": 2,
    "one_step": 0.5,
    "mixed": True,
    "refit_after": 0.5,
    "refit_at_end": True,
    "emphasis": 3.0,
    "emphasis_from": 0.25,
    "input_gain": 2.0,
    "validation": 0.2,
    "linear_start": False,
    "switching_logits": "relative",
    "density_correction": "euclidean",
    "bandwidth": 0.5,
    "n_support": 8,
}
SHORT = {"max_iter": 2, "batch_size": 16}
NEEDS = {"bandwidth": {"density_correction": "euclidean"},
         "n_support": {"density_correction": "euclidean"}}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return simulate.controlled(rng=np.random.default_rng(0), d=2, trials=6, steps=30, observed=4)


@pytest.mark.parametrize(
    ("name", "batch", "negatives", "steps", "rate", "dynamics_rate"),
    [
        ("paper-lds", 2048, 20_000, 30_000, 3e-4, 3e-4),
        ("paper-slds", 2048, 65_536, 50_000, 1e-3, 1e-2),
        ("paper-lorenz", 1024, 20_000, 30_000, 1e-4, 1e-4),
    ],
)
def test_paper_protocols_train_as_the_paper_did(
    name, batch, negatives, steps, rate, dynamics_rate, trials, small
):
    s = PROTOCOLS[name].settings
    assert (s.batch_size, s.n_negatives, s.max_iter) == (batch, negatives, steps)
    assert (s.learning_rate, s.dynamics_learning_rate) == (rate, dynamics_rate)
    assert (s.optimizer, s.schedule, s.standardize) == ("adam", "constant", False)
    model = small(protocol=name, batch_size=8, n_negatives=8, max_iter=2).fit(trials)
    (adam,) = model.run_.optimizers
    assert type(adam) is torch.optim.Adam
    assert [g["lr"] for g in adam.param_groups] == [rate, dynamics_rate]
    assert model.encoder_.whitening is None


def test_only_our_protocol_adapts_to_parts_and_data():
    assert {name for name, protocol in PROTOCOLS.items() if protocol.adapts} == {"default"}


def test_every_setting_has_a_kind_that_takes_its_default_and_a_sentence_of_help():
    assert set(KINDS) == set(HELP) == set(asdict(Settings()))
    for protocol in PROTOCOLS.values():
        for name, value in asdict(protocol.settings).items():
            assert KINDS[name].accepts(value)
    assert all(text and not text.endswith(".") for text in HELP.values())  # follows a colon


def test_this_file_knows_every_setting():
    assert set(OTHER) == set(KINDS)


@pytest.mark.parametrize("name", OTHER)
def test_any_setting_can_be_set_by_name_and_is_kept_with_the_model(name, data, tmp_path):
    needed = SHORT | NEEDS.get(name, {})
    plain = DCL(2, settings=needed, random_state=0).fit(data)
    assert getattr(plain.settings_, name) != OTHER[name]
    asked = needed | {name: OTHER[name]}
    model = DCL(2, settings=asked, random_state=0).fit(data)
    for chosen, value in asked.items():
        assert getattr(model.settings_, chosen) == value
        assert model.reasons_[chosen] == "The user asked for it."
    model.save(tmp_path)
    loaded = DCL.load(tmp_path)
    assert loaded.settings_ == model.settings_
    assert loaded.reasons_ == model.reasons_
    np.testing.assert_array_equal(loaded.transform(data)[0], model.transform(data)[0])


@pytest.mark.parametrize("name", ["max_iter", "time_lags", "standardize", "n_negatives"])
def test_a_parameter_and_a_setting_of_one_name_do_the_same(name, data):
    short = {k: v for k, v in SHORT.items() if k != name}
    by_parameter = DCL(2, **short, **{name: OTHER[name]}, random_state=0).fit(data)
    by_setting = DCL(2, **short, settings={name: OTHER[name]}, random_state=0).fit(data)
    assert by_parameter.settings_ == by_setting.settings_
    assert by_parameter.reasons_ == by_setting.reasons_


def test_the_batch_as_negatives_is_the_word_batch_as_a_parameter_and_none_as_a_setting(data):
    for asked in ({"n_negatives": "batch"}, {"settings": {"n_negatives": None}}):
        model = DCL(2, **SHORT, protocol="paper-lds", random_state=0, **asked).fit(data)
        assert model.settings_.n_negatives is None


@pytest.mark.parametrize("name", ["max_iter", "batch_size", "n_negatives", "time_offset"])
def test_a_setting_given_twice_is_refused(name, data):
    model = DCL(2, **{name: OTHER[name]}, settings={name: OTHER[name]})
    with pytest.raises(InputError, match=f"{name}: given twice, as a parameter and in settings"):
        model.fit(data)


def test_an_unknown_setting_is_refused_and_the_known_ones_are_listed(data):
    with pytest.raises(InputError, match=r"no setting is called 'temperature'.*horizon"):
        DCL(2, settings={"temperature": 1.0}).fit(data)
    with pytest.raises(InputError, match=r"settings: got \[\('horizon', 2\)\]; wanted a dict"):
        DCL(2, settings=[("horizon", 2)]).fit(data)


@pytest.mark.parametrize("name", KINDS)
def test_a_value_of_a_wrong_kind_is_refused_with_what_is_wanted(name, data):
    with pytest.raises(InputError, match=f"settings: {name}: got .*; wanted "):
        DCL(2, settings={name: object()}).fit(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("horizon", 0),
        ("horizon", 1.5),
        ("max_iter", True),
        ("emphasis", -1.0),
        ("emphasis", float("nan")),
        ("one_step", 1.2),
        ("refit_after", -0.1),
        ("input_gain", 0.5),
        ("learning_rate", 0.0),
        ("standardize", 1),
        ("optimizer", "sgd"),
        ("switching_logits", None),
        ("time_lags", ()),
        ("time_lags", (0, 0)),
        ("n_negatives", "batch"),
    ],
)
def test_a_value_out_of_range_is_refused(name, value, data):
    with pytest.raises(InputError, match=f"settings: {name}: got .*; wanted "):
        DCL(2, settings={name: value}).fit(data)


def test_numpy_values_are_settings_like_any_other():
    given = {"horizon": np.int64(2), "emphasis": np.float32(0.5), "mixed": np.bool_(True),
             "time_lags": np.array([0, 1])}  # fmt: skip
    plain = {name: checked(name, value) for name, value in given.items()}
    assert plain == {"horizon": 2, "emphasis": 0.5, "mixed": True, "time_lags": (0, 1)}
    assert Settings.read(json.loads(json.dumps(asdict(Settings(**plain))))) == Settings(**plain)


def test_shares_of_the_training_become_steps():
    s = Settings(max_iter=100, horizon=4, one_step=0.2, refit_after=0.5, emphasis_from=0.1)
    assert (s.several_from, s.refit_at, s.emphasis_at) == (20, 50, 20)  # not before the horizon
    late = Settings(max_iter=100, horizon=4, one_step=0.2, refit_after=0.0, emphasis_from=0.7)
    assert (late.refit_at, late.emphasis_at) == (0, 70)
    one = Settings(max_iter=100, horizon=1, one_step=0.2)
    assert (one.several_from, one.refit_at, one.emphasis_at) == (0, -1, 0)


def test_steps_grow_with_dimensions_and_pairs_and_are_never_few():
    assert default_steps(3, 1_000_000) == default_steps(3, 5_000_000) == 3000
    assert default_steps(8, 1_000_000) == default_steps(20, 1_000_000) == 8000
    assert default_steps(3, 125_000) == 1500
    assert default_steps(1, 10) == 300
