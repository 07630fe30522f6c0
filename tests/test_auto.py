"""dynamics="auto": the data say which dynamics; the model goes on with it and remembers why."""

import json
from functools import partial

import numpy as np
import pytest

from command_line import dynacl, refusal
from dynacl import DCL, InputError, simulate
from dynacl.choosing.dynamics import choose
from dynacl.dynamics.naming import candidates


@pytest.fixture(scope="module")
def turning_data():
    return simulate.lds(rng=np.random.default_rng(3), d=2, trials=20, steps=60, observed=4,
                        mixing="linear", angle=15.0, noise=0.05)  # fmt: skip


@pytest.fixture(scope="module")
def chosen(turning_data):
    model = DCL(2, "auto", n_modes=2, max_iter=60, batch_size=128, random_state=0)
    return model.fit(turning_data)


def test_linear_data_get_linear_dynamics(chosen):
    assert chosen.choice_.parameters == {"dynamics": "linear"}
    assert chosen.spectrum_ is not None
    assert {row.choice["dynamics"] for row in chosen.choice_.rows} == set(candidates("auto"))
    assert chosen.verdict_.startswith("the choice is dynamics='linear': it predicts held-out")


def cycle(x, dt):
    position, speed = x.T
    return x + dt * np.stack([speed, 1.5 * (1 - position**2) * speed - position], axis=-1)


@pytest.mark.parametrize(
    ("make", "settings", "expected"),
    [
        (simulate.slds, {"modes": 2, "angle": 40.0, "switch_probability": 0.01}, "switching"),
        (partial(simulate.own, cycle), {"parameters": {"dt": 0.1}}, "polynomial"),
    ],
    ids=["regimes", "a limit cycle"],
)
def test_the_dynamics_that_was_simulated_is_chosen(make, settings, expected):
    data = make(rng=np.random.default_rng(0), d=2, noise=0.02, trials=20, steps=100, observed=4,
                mixing="linear", **settings)  # fmt: skip
    model = DCL(2, "auto", n_modes=2, degree=3, max_iter=40, batch_size=64)
    assert choose(model.get_params(), data, seed=0).parameters == {"dynamics": expected}


def test_the_fit_is_that_of_the_dynamics_by_name(chosen, turning_data):
    named = DCL(2, "linear", n_modes=2, max_iter=60, batch_size=128, random_state=0)
    assert (named.fit(turning_data).transform(turning_data.observations)
            == chosen.transform(turning_data.observations)).all()  # fmt: skip
    assert named.choice_ is None


def test_a_saved_model_remembers_what_was_chosen(chosen, turning_data, tmp_path):
    chosen.save(tmp_path)
    loaded = DCL.load(tmp_path)
    assert loaded.choice_ == chosen.choice_
    assert loaded.verdict_ == chosen.verdict_
    assert loaded.dynamics == "auto"
    x = turning_data.observations
    assert (loaded.transform(x) == chosen.transform(x)).all()
    loaded.partial_fit(turning_data)  # goes on with what was chosen
    assert loaded.n_iter_ == 120


def test_options_of_some_candidates_are_given_to_those(turning_data, short_descents):
    given = {"bias": True, "degree": 3, "max_iter": 4, "batch_size": 32, "random_state": 0}
    model = DCL(2, "auto", **given).fit(turning_data)
    assert not [row for row in model.choice_.rows if row.failed]
    assert DCL(2, "linear", max_iter=4, bias=True, batch_size=32).fit(turning_data)
    with pytest.raises(InputError, match="degree"):
        DCL(2, "linear", max_iter=4, degree=3).fit(turning_data)


def test_a_candidate_that_cannot_be_is_left_out_with_its_reason(turning_data):
    model = DCL(2, "auto", similarity="dot", stable=False, max_iter=4, batch_size=32,
                random_state=0).fit(turning_data)  # fmt: skip
    assert model.choice_.recommended is not None


def test_a_bad_parameter_is_refused_before_any_candidate_is_fitted(turning_data):
    with pytest.raises(InputError, match="batch_size: got 0"):
        DCL(2, "auto", batch_size=0).fit(turning_data)


def test_the_command_line_says_what_it_chose_and_resumes_it(world, tmp_path, short_descents):
    words = ("fit", world / "lds.npz", "--dynamics", "auto", "--components", 2, "--modes", 2,
             "--max-iter", 4, "--batch-size", 16, "--quiet", "--out", tmp_path / "run")  # fmt: skip
    said = dynacl(*words)
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert kept["verdict"][1:] in said
    chosen = kept["choice"]["parameters"]["dynamics"]
    assert (
        f"the choice is dynamics={chosen!r}" in kept["verdict"] or "the simplest is taken" in said
    )
    assert DCL.load(tmp_path / "run").choice_.parameters == {"dynamics": chosen}
    assert "a larger --max-iter goes on beyond them" in refusal(*words, "--resume")
