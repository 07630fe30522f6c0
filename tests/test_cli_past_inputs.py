"""Past inputs on the command line: fit, embed, forecast and evaluate."""

import numpy as np
import pytest

from command_line import dynacl, quick_fit, refusal
from dynacl import DCL, simulate


@pytest.fixture(scope="module")
def driven(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driven")
    data = simulate.controlled(rng=np.random.default_rng(0), d=2, trials=6, steps=30, observed=4)
    data.write(folder / "driven.npz")
    return folder


@pytest.mark.parametrize(
    ("flags", "lags"),
    [((), (1, 2)), (("--control-lags", "off"), ()), (("--control-lags", "1"), (1,)),
     (("--set", "control_lags=auto"), (1, 2))], ids=str,
)  # fmt: skip
def test_fit_takes_the_lags_of_inputs(driven, flags, lags):
    model = quick_fit(driven, "run", "--time-lags", "0,1,2", *flags, data="driven.npz")
    assert model.settings_.past_inputs == lags


def test_embed_forecast_and_evaluate_read_past_inputs_from_the_data(driven):
    quick_fit(driven, "run", "--time-lags", "0,1,2", data="driven.npz")
    run, data = driven / "run", driven / "driven.npz"
    out = driven / "z.npz"
    dynacl("embed", run, data, "--out", out, "--force")
    expected = np.concatenate(DCL.load(run, device="cpu").transform(data))
    np.testing.assert_array_equal(np.load(out)["latents"], expected)
    dynacl("embed", run, data, "--out", out, "--force", "--pad")
    assert len(np.load(out)["latents"]) == 6 * 30
    np.savetxt(driven / "future.csv", np.ones((3, 1)), delimiter=",", header="u", comments="")
    future = driven / "future.csv"
    lines = dynacl("forecast", run, data, "--steps", 3, "--control", future).splitlines()
    assert len(lines) == 1 + 6 * 3  # a header, and three rows for each trial
    assert "r2" in dynacl("evaluate", run, data)


def test_data_without_the_inputs_are_refused(driven):
    quick_fit(driven, "run", "--time-lags", "0,1,2", data="driven.npz")
    run, data = driven / "run", driven / "driven.npz"
    said = refusal("embed", run, data, "--no-control", "--out", driven / "none.npz")
    assert "--control-key: missing; this model was fitted with a control input of 1: pass" in said
    said = refusal("forecast", run, data, "--no-control", "--steps", 3)
    assert (
        "DATA: the state to start from is told from past inputs too; wanted --control-key" in said
    )
    said = refusal("fit", data, "--control-lags", "1,1", "--out", driven / "other")
    assert "--control-lags" in said or "control_lags: got" in said
