"""The layers of the settings: protocol, parts, data, user; the later word counts."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, InputError, TimeSeries, simulate
from dynacl.dynamics import BY_NAME, SwitchingLinear, Tiles
from dynacl.encoders import MLP, Asymmetric, CustomEncoder, Encoder, Projected
from dynacl.objective import Sphere, density
from dynacl.objective.geometry import BY_NAME as GEOMETRIES
from dynacl.objective.geometry.custom import CustomSimilarity
from dynacl.objective.geometry.naming import resolve
from dynacl.settings import KINDS, PROTOCOLS, Settings
from quick_models import begun as run_of

USER = "The user asked for it."


class Free(nn.Module):
    def forward(self, x, x_next=None, u=None):
        return x


@pytest.fixture(scope="module")
def free():
    """Trials without a control input."""
    return simulate.lds(rng=np.random.default_rng(0), d=2, trials=6, steps=40, observed=5)


@pytest.fixture(scope="module")
def driven():
    """Trials with one."""
    return simulate.controlled(rng=np.random.default_rng(0), d=2, trials=6, steps=40, observed=5)


def usual(**changed):
    return DCL(**({"n_components": 2, "random_state": 0} | changed))


def begun(data, **changed):
    """A run that has taken no step: its settings are what counts here."""
    return run_of(usual(**changed), data)


def first(data, **changed):
    """A model that stops at its first record."""
    return usual(**changed).fit(data, callback=lambda *_: True)


# -- parts, by name and by instance ----------------------------------------------------------------


@pytest.mark.parametrize("control", ["free", "driven"])
@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_and_an_instance_of_its_class_train_alike(
    name, control, build, request, short_descents
):
    data = request.getfixturevalue(control)
    by_name = first(data, dynamics=name)
    by_instance = first(data, dynamics=build(name, 2, data.n_controls))
    assert by_name.settings_ == by_instance.settings_
    assert by_name.reasons_ == by_instance.reasons_
    assert np.isfinite(by_name.history_[0]["loss"])


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_similarity_by_name_and_by_instance_train_alike(name, free):
    by_name, by_instance = first(free, similarity=name), first(free, similarity=resolve(name))
    assert by_name.settings_ == by_instance.settings_
    assert by_name.reasons_ == by_instance.reasons_
    assert by_name.history_[0]["loss"] == by_instance.history_[0]["loss"]


@pytest.mark.parametrize("protocol", [name for name, p in PROTOCOLS.items() if not p.adapts])
def test_switching_and_tiles_are_one_model_under_the_papers_protocols(protocol, trials, small):
    def fitted(dynamics):
        model = small(dynamics=dynamics, protocol=protocol, n_modes=4, n_negatives=32).fit(trials)
        return model, [{**record, "seconds": 0} for record in model.history_]

    pairs = (("switching", "tiles"), (SwitchingLinear(3, 4), Tiles(3, 4)))
    for (switching, one), (tiles, other) in (map(fitted, pair) for pair in pairs):
        assert switching.settings_ == tiles.settings_
        assert one == other
        assert torch.equal(switching.dynamics_.matrices, tiles.dynamics_.matrices)


def wishes():
    """Of every part, with its name."""
    for name in GEOMETRIES:
        yield name, resolve(name).wishes()
    yield "custom similarity", CustomSimilarity(lambda q, k: (q * k).sum(-1)).wishes()
    for encoder in (MLP, Projected, CustomEncoder, Asymmetric, Encoder):
        yield encoder.__name__, encoder.wishes()
    yield "density correction", density.WISHES
    yield "logits of one's own", SwitchingLinear(2, 2, logits="relative").all_wishes()
    yield "logits of one's own", Tiles(2, 2, logits="mean").all_wishes()


def assert_sound(found):
    for setting, value, why in found:
        assert setting in KINDS
        assert KINDS[setting].accepts(value)
        assert len(why.split()) >= 4
        assert why.endswith(".")


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in BY_NAME] + [("polynomial", {"degree": 3}), ("linear", {"bias": True})],
)
@pytest.mark.parametrize("n_controls", [0, 1])
def test_what_a_dynamics_wishes_is_a_setting_with_a_value_and_a_sentence(
    name, options, n_controls, build
):
    f = build(name, 2, n_controls, **options)
    found = f.all_wishes()
    assert_sound(found)
    assert f.identifies == ("emphasis" in {wish.setting for wish in found})


@pytest.mark.parametrize(
    ("part", "found"), list(wishes()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_what_any_other_part_wishes_is_a_setting_with_a_value_and_a_sentence(part, found):
    assert_sound(found)


# -- the layers ------------------------------------------------------------------------------------


def test_dynamics_are_heard_over_the_protocol(free):
    assert PROTOCOLS["default"].settings.horizon == 1
    linear, mlp = begun(free, dynamics="linear"), begun(free, dynamics="mlp")
    assert linear.settings.horizon == 4
    assert "adds up over several" in linear.reasons["horizon"]
    assert mlp.settings.horizon == 1
    assert "horizon" not in mlp.reasons


@pytest.mark.parametrize("changed", [{"similarity": "dot"}, {"asymmetric": True}])
def test_geometry_and_encoder_are_heard_over_the_dynamics(changed, free):
    run = begun(free, **changed)
    part = Sphere() if "similarity" in changed else Asymmetric
    for setting, value, why in part.wishes():
        assert getattr(run.settings, setting) == value
        assert run.reasons[setting] == why
    assert run.settings.horizon == 1


@pytest.mark.parametrize("changed", [{"similarity": "dot"}, {"asymmetric": True}])
def test_tiles_are_not_fitted_anew_where_geometry_or_encoder_forbid_it(changed, free):
    assert first(free, dynamics="tiles").run_.as_trained is not None
    run = begun(free, dynamics="tiles", **changed)
    assert (run.settings.refit_at, run.settings.refit_at_end) == (-1, False)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dynamics": "switching", "settings": {"mixed": True}}, "mixed: got True; wanted False"),
        ({"dynamics": "tiles", "settings": {"mixed": True, "horizon": 2}}, "mixed: got True"),
        ({"asymmetric": True, "settings": {"horizon": 2}}, "horizon: got 2; wanted 1 with two"),
        ({"settings": {"horizon": 60}}, "horizon: got 60; the shortest trial has room for 39"),
    ],
)
def test_a_word_that_parts_or_data_cannot_follow_is_refused_before_training(changed, message, free):
    with pytest.raises(InputError, match=message):
        begun(free, **changed)


def test_data_are_heard_over_the_dynamics():
    y = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    run = begun([y[:3], y[3:]])
    assert run.settings.horizon == 2
    assert run.reasons["horizon"] == "The shortest trial has room for no more."


def test_the_user_is_heard_over_the_data(free, driven):
    said = begun(driven)
    assert said.settings.emphasis_from == 0.7
    assert said.reasons["emphasis_from"].startswith("A driven state drifts")
    asked = begun(driven, settings={"emphasis_from": 0.1})
    assert asked.settings.emphasis_from == 0.1
    assert asked.reasons["emphasis_from"] == USER
    assert begun(free).settings.max_iter == 300
    assert begun(free, max_iter=7).settings.max_iter == 7


def test_the_user_is_heard_over_the_parts(free):
    run = begun(free, similarity="dot", settings={"horizon": 3, "linear_start": True})
    assert (run.settings.horizon, run.settings.linear_start) == (3, True)
    assert run.encoder.inner.linear is not None
    assert run.reasons["horizon"] == run.reasons["linear_start"] == USER
    assert run.reasons["emphasis"].startswith("On the sphere")


def test_a_protocol_of_the_paper_hears_the_user_alone(driven):
    asked = {"n_negatives": 16, "batch_size": 300, "settings": {"horizon": 2}}
    run = begun(driven, dynamics="tiles", protocol="paper-slds", **asked)
    chosen = {"n_negatives": 16, "batch_size": 300, "horizon": 2}
    assert run.reasons == dict.fromkeys(chosen, USER)
    printed = vars(PROTOCOLS["paper-slds"].settings)
    assert run.settings == Settings(**(printed | chosen))


def test_there_is_a_reason_exactly_where_a_layer_spoke(free):
    run = begun(free, dynamics="switching")
    usual = PROTOCOLS["default"].settings
    for name in KINDS:
        if getattr(run.settings, name) != getattr(usual, name):
            assert run.reasons[name].endswith(".")
    assert "optimizer" not in run.reasons


# -- what the data say -----------------------------------------------------------------------------


def test_steps_and_batch_follow_the_pairs_and_the_wish_for_their_length(free):
    assert begun(free, dynamics="mlp").settings.batch_size == 6 * 39
    few = begun(free, n_components=2, settings={"time_offset": 2, "horizon": 3})
    assert few.settings.batch_size == 6 * (40 - 6)
    long = TimeSeries.of(np.random.default_rng(0).standard_normal((125_001, 3)))
    assert begun(long, dynamics="mlp").settings.max_iter == 1000
    assert begun(long, dynamics="mlp", settings={"duration": 2.0}).settings.max_iter == 2000
    assert begun(long, dynamics="polynomial", degree=3).settings.max_iter == 600


@pytest.mark.parametrize(
    ("lags", "horizon"),
    [((0,), 4), ((0, 2, 4, 6), 5), ((0, 1, 2, 3, 4), 5), ((0, 6, 12), 4), (tuple(range(9)), 4)],
)
def test_contrasted_windows_share_no_frame_if_that_takes_few_steps(lags, horizon):
    trials = list(np.random.default_rng(0).standard_normal((2, 200, 3)))
    assert begun(trials, time_lags=lags).settings.horizon == horizon
    chosen = begun(trials, time_lags=lags, settings={"horizon": 2})
    assert chosen.settings.horizon == 2


def test_horizon_leaves_room_for_lags_context_and_offset():
    y = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    trials = [y[:10], y[10:]]
    assert begun(trials).settings.horizon == 4
    assert begun(trials, time_offset=3).settings.horizon == 3
    assert begun(trials, time_lags=(0, 7)).settings.horizon == 2
    assert begun(trials, time_lags=(0, 4), time_offset=2).settings.horizon == 2


def test_baseline_and_paper_protocols_contrast_one_step(trials, small):
    assert run_of(small(dynamics="identity"), trials).settings.horizon == 1
    paper = run_of(small(protocol="paper-slds", n_negatives=8), trials)
    assert paper.settings.horizon == 1


@pytest.mark.parametrize(
    ("free", "linear", "gain"),
    [
        ({"dynamics": "mlp", "n_negatives": 32}, True, 1),
        ({"dynamics": "gated"}, False, 1),
        ({"dynamics": "recurrent"}, False, 1),
        ({"dynamics": Free()}, False, 1),
        ({"dynamics": "identity", "asymmetric": True}, False, 3),
        ({"dynamics": "tiles", "n_modes": 31}, True, 1),
    ],
    ids=lambda v: str(next(iter(v.values()))) if isinstance(v, dict) else None,
)
def test_what_may_follow_any_redrawing_gets_no_weight_on_alignment(
    free, linear, gain, trials, small
):
    run = run_of(small(**free), trials)
    assert run.emphasis is None
    assert run.settings.linear_start is linear
    assert run.settings.input_gain == gain


def test_many_switching_modes_are_trained_as_few_are(trials, small):
    few, many = (run_of(small(n_modes=n), trials) for n in (2, 31))
    assert few.settings == many.settings
    assert few.reasons == many.reasons
