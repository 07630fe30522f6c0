"""Every variant through the command line: a flag reaches the model, a bad one ends in a sentence.

Data and fits are as small as can be; whether a variant is right is for test_variants.py.
"""

import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch

from dynacl import DCL, TimeSeries, evaluate
from dynacl.cli import _keep, main
from dynacl.dynamics import Gated, Polynomial, Recurrent, ResidualMLP
from dynacl.encoders import Asymmetric, OnSphere
from dynacl.objective import Dot, Euclidean

TRIALS, STEPS = 6, 40


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A switching system, new trials of it, a driven one, and models of them."""
    p = tmp_path_factory.mktemp("variants")
    size = ("--trials", TRIALS, "--steps", STEPS, "--observed", 5, "--layers", 1)
    call("simulate", "slds", "--d", 2, "--modes", 2, "--switch-probability", 0.1, *size,
         "--out", p / "slds.npz")  # fmt: skip
    call("simulate", "--again", p / "slds.npz", "--trials", 3, "--seed", 1, "--out", p / "new.npz")
    call("simulate", "control-step", "--d", 2, *size, "--out", p / "driven.npz")
    call("simulate", "lds", "--d", 2, *size, "--out", p / "lds.npz")
    np.savetxt(p / "u.csv", np.ones((4, 1)), delimiter=",")
    fit(p, "switching", "--dynamics", "switching", "--modes", 2)
    fit(p, "lagged", "--dynamics", "switching", "--modes", 2, "--time-lags", "0,1,2")
    fit(p, "gated", "--dynamics", "gated", "--modes", 2)
    fit(p, "asymmetric", "--asymmetric")
    fit(p, "driven", data="driven.npz")
    return p


def call(*arguments):
    assert main([str(a) for a in arguments]) == 0


def fit(folder, out, *flags, data="slds.npz"):
    call("fit", folder / data, "--components", 2, "--max-iter", 3, "--batch-size", 16, "--quiet",
         "--device", "cpu", "--out", folder / out, "--force", *flags)  # fmt: skip
    return DCL.load(folder / out, device="cpu")


FITS = {
    "polynomial": (
        ("--dynamics", "polynomial", "--degree", 3),
        lambda m: isinstance(m.dynamics_, Polynomial) and m.dynamics_.degree == 3,
    ),
    "mlp": (
        ("--dynamics", "mlp", "--lipschitz", 0.9),
        lambda m: isinstance(m.dynamics_, ResidualMLP) and m.dynamics_.lipschitz == 0.9,
    ),
    "gated": (
        ("--dynamics", "gated", "--modes", 3),
        lambda m: isinstance(m.dynamics_, Gated) and m.dynamics_.n_modes == 3,
    ),
    "recurrent": (("--dynamics", "recurrent"), lambda m: isinstance(m.dynamics_, Recurrent)),
    "time-lags": (
        ("--time-lags", "0,1,2"),
        lambda m: m.settings_.time_lags == (0, 1, 2) and m.encoder_.whitening.window is not None,
    ),
    "spread lags": (("--time-lags", "5/9"), lambda m: m.settings_.time_lags == (0, 2, 4, 6, 8)),
    "time-offset": (("--time-offset", 3), lambda m: m.settings_.time_offset == 3),
    "dot": (
        ("--similarity", "dot"),
        lambda m: isinstance(m.run_.similarity, Dot) and isinstance(m.encoder_, OnSphere),
    ),
    "asymmetric": (("--asymmetric",), lambda m: isinstance(m.encoder_, Asymmetric)),
    "density": (
        ("--density-correction", "euclidean", "--bandwidth", 0.5),
        lambda m: (m.settings_.density_correction, m.settings_.bandwidth) == ("euclidean", 0.5),
    ),
    "density on the sphere": (
        ("--density-correction", "vmf", "--similarity", "dot"),
        lambda m: m.settings_.density_correction == "vmf",
    ),
    "all at once": (
        ("--dynamics", "gated", "--time-lags", "0,2", "--time-offset", 2, "--similarity", "dot",
         "--asymmetric", "--density-correction", "vmf", "--n-negatives", 20),
        lambda m: isinstance(m.encoder_, Asymmetric) and isinstance(m.dynamics_, Gated),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_flag_of_a_variant_reaches_the_model_and_its_file(world, name):
    flags, is_there = FITS[name]
    model = fit(world, "one", *flags)
    assert is_there(model)
    assert np.isfinite(model.score(TimeSeries.read(world / "slds.npz")))
    plain = DCL.load(world / "driven", device="cpu")
    assert isinstance(plain.run_.similarity, Euclidean)
    assert not is_there(plain)


def test_evaluate_fits_the_affine_map_on_the_training_data_too(world, capsys):
    call("evaluate", world / "switching", world / "new.npz", "--train", world / "slds.npz",
         "--json")  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    series = [TimeSeries.read(world / name) for name in ("new.npz", "slds.npz")]
    model = DCL.load(world / "switching", device="cpu")
    expected = evaluate(model, series[0], train=series[1])
    assert found["r2_train_map"] == pytest.approx(expected["r2_train_map"])
    assert found["r2_train_map"] < found["r2"]  # the map of these very data is the best one
    call("evaluate", world / "switching", world / "new.npz", "--json")
    assert json.loads(capsys.readouterr().out)["r2_train_map"] is None


def test_evaluate_prints_the_equations_of_a_polynomial(world, capsys):
    fit(world, "cubic", "--dynamics", "polynomial", "--degree", 3, data="lds.npz")
    capsys.readouterr()
    call("evaluate", world / "cubic", world / "lds.npz")
    said = capsys.readouterr()
    assert said.out.count("x1' =") == 2  # found and true
    for components in (1, 3):  # of two
        fit(world, "cubic", "--dynamics", "polynomial", "--components", components, data="lds.npz")
        capsys.readouterr()
        call("evaluate", world / "cubic", world / "lds.npz")
        assert "x1' =" not in capsys.readouterr().out


def test_forecast_by_markov_chain_differs_from_holding_the_mode(world):
    future = {}
    for modes in ("hold", "markov"):
        out = world / f"{modes}.npy"
        call("forecast", world / "switching", world / "slds.npz", "--steps", 5, "--modes", modes,
             "--out", out)  # fmt: skip
        future[modes] = np.load(out)
        assert future[modes].shape == (5 * TRIALS, 2)
    assert np.abs(future["hold"] - future["markov"]).max() > 0


def test_gated_forecast_and_spectral_radius(world, capsys):
    call("forecast", world / "gated", world / "slds.npz", "--steps", 5, "--modes", "gated")
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 5 * TRIALS
    radius = DCL.load(world / "gated", device="cpu").spectral_radius_
    assert said.err.startswith("spectral radius: " + ", ".join(f"{r:.5f}" for r in radius))


def test_forecast_that_runs_off_warns_and_still_answers(world, capsys):
    model = DCL.load(world / "switching", device="cpu")
    with torch.no_grad():
        model.dynamics_.matrices.copy_(2 * torch.eye(2).expand(2, 2, 2))
    model.save(world / "wild")
    capsys.readouterr()
    call("forecast", world / "wild", world / "slds.npz", "--steps", 30)
    said = capsys.readouterr()
    assert f"warning: the roll-out of {TRIALS} of {TRIALS} trials leaves the data" in said.err
    assert "spectral radius: 2.00000, 2.00000" in said.err
    assert len(said.out.splitlines()) == 30 * TRIALS


def test_forecast_takes_the_control_to_come(world, capsys):
    steps = ("--steps", 4, "--control", world / "u.csv")
    call("forecast", world / "driven", world / "driven.npz", *steps)
    assert len(capsys.readouterr().out.splitlines()) == 4 * TRIALS


def test_forecast_finds_the_control_in_a_file_with_more(world):
    series = TimeSeries.read(world / "driven.npz")
    ahead = []
    for name, arrays in {
        "ours": {"observations": series.observations, "control": series.control,
                 "bounds": series.bounds},
        "alone": {"control": series.control},
    }.items():  # fmt: skip
        np.savez(world / f"{name}_u.npz", **arrays)
        call("forecast", world / "driven", world / "driven.npz", "--steps", STEPS,
             "--control", world / f"{name}_u.npz", "--out", world / f"{name}.npy")  # fmt: skip
        ahead.append(np.load(world / f"{name}.npy"))
    model = DCL.load(world / "driven", device="cpu")
    expected = model.forecast(series, STEPS, u=series.split(series.control))
    for found in ahead:
        np.testing.assert_array_equal(found, np.concatenate(expected))


@pytest.mark.parametrize(("pad", "lost"), [((), 2), (("--pad",), 0)])
def test_embed_leaves_out_or_pads_the_steps_without_a_full_window(world, pad, lost):
    out = world / f"z{lost}.npz"
    call("embed", world / "lagged", world / "slds.npz", *pad, "--out", out)
    z = np.load(out)
    assert (np.diff(z["bounds"]) == STEPS - lost).all()
    assert z["latents"].shape == (TRIALS * (STEPS - lost), 2)
    ends = z["bounds"][1:] - 1
    assert (z["modes"][ends] == -1).all()
    assert (np.delete(z["modes"], ends) >= 0).all()


def test_noise_has_one_standard_deviation_or_one_for_each_dimension(tmp_path):
    for noise, expected in {"0.1": np.eye(2) * 0.1, "0.1,0.3": np.diag([0.1, 0.3])}.items():
        out = tmp_path / f"{noise}.npz"
        call(
            "simulate", "lds", "--d", 2, "--noise", noise, "--trials", 2, "--steps", 9, "--out", out
        )
        np.testing.assert_array_equal(TimeSeries.read(out).truth.system["noise"], expected)


SMALL = ("--components", 2, "--max-iter", 3)
BAD = {
    "vmf without a sphere": (
        ("fit", "slds.npz", "--density-correction", "vmf"), 'wanted similarity="dot"'),
    "euclidean density on the sphere": (
        ("fit", "slds.npz", "--similarity", "dot", "--density-correction", "euclidean"),
        'wanted "vmf"'),
    "asymmetric recurrent": (
        ("fit", "slds.npz", "--asymmetric", "--dynamics", "recurrent"), "asymmetric:"),
    "a lag twice": (("fit", "slds.npz", "--time-lags", "0,0"), "time_lags: got (0, 0)"),
    "a lag of the future": (("fit", "slds.npz", "--time-lags=0,-1"), "time_lags: got (0, -1)"),
    "lags longer than a trial": (
        ("fit", "slds.npz", "--time-lags", "0,60"), "needs at least 62"),
    "no slope": (
        ("fit", "slds.npz", "--dynamics", "mlp", "--lipschitz", "-1"), "lipschitz: got -1.0"),
    "degree 0": (
        ("fit", "slds.npz", "--dynamics", "polynomial", "--degree", "0"), "degree: got 0"),
    "no bandwidth": (
        ("fit", "slds.npz", "--density-correction", "euclidean", "--bandwidth", "0"),
        "bandwidth: got 0.0"),
    "offset 0": (("fit", "slds.npz", "--time-offset", "0"), "time_offset: got 0"),
    "gate of a switching model": (
        ("forecast", "switching", "slds.npz", "--steps", "3", "--modes", "gated"),
        "'gated' does not fit SwitchingLinear"),
    "chain of a gated model": (
        ("forecast", "gated", "slds.npz", "--steps", "3", "--modes", "markov"),
        "'markov' does not fit Gated"),
    "forecast of an asymmetric model": (
        ("forecast", "asymmetric", "slds.npz", "--steps", "3"), "asymmetric:"),
    "no control to come": (
        ("forecast", "driven", "driven.npz", "--steps", "4"), "u: missing"),
    "control of another length": (
        ("forecast", "driven", "driven.npz", "--steps", "3", "--control", "u.csv"),
        "u: got shape (4, 1)"),
    "control of trials of another length": (
        ("forecast", "driven", "driven.npz", "--steps", "4", "--control", "driven.npz"),
        f"u[0]: got shape ({STEPS}, 1); wanted (4, 1)"),
    "control for a free system": (
        ("forecast", "gated", "slds.npz", "--steps", "4", "--control", "u.csv"),
        "fitted without a control"),
    "training data of another shape": (
        ("evaluate", "switching", "new.npz", "--train", "u.csv"), "X has 1 features"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_value_ends_with_one_sentence_and_code_2(world, name, monkeypatch, capsys):
    monkeypatch.chdir(world)
    command, sentence = BAD[name]
    more = (*map(str, SMALL), "--out", "refused", "--force") if command[0] == "fit" else ()
    capsys.readouterr()
    assert main([*command, *more]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith(f"dynacl {command[0]}: error: ")
    assert sentence in said.err
    assert not (world / "refused" / "model.safetensors").exists()


@pytest.mark.parametrize(
    "flags",
    [("--time-lags", "now"), ("--similarity", "cosine"), ("--density-correction", "gauss"),
     ("--dynamics", "rnn"), ("--degree", "two"), ("--lipschitz", "tight")],
    ids=lambda flags: flags[0],
)  # fmt: skip
def test_value_of_the_wrong_kind_exits_with_code_2_and_names_its_flag(world, flags, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(world / "slds.npz"), "--out", str(world / "refused"), *flags])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"dynacl fit: error: argument {flags[0]}: ")
    assert flags[1] in last


def test_checkpoints_on_the_way_hold_unit_scale_and_change_nothing(world, monkeypatch):
    fast = ("--similarity", "dot", "--max-iter", 8, "--dynamics-learning-rate", 0.3, "--seed", 0)
    series, scales = TimeSeries.read(world / "lds.npz"), []

    def keep(model, out, found):
        _keep(model, out, found)
        saved = DCL.load(out, device="cpu")
        x = np.concatenate(saved.transform(series))
        scales.append(np.linalg.norm(x @ saved.dynamics_.matrix.detach().numpy().T, axis=1).mean())

    plain = fit(world, "plain", *fast, data="lds.npz")
    monkeypatch.setattr("dynacl.cli.CHECKPOINT_SECONDS", -1)
    monkeypatch.setattr("dynacl.cli._keep", keep)
    often = fit(world, "often", *fast, data="lds.npz")
    assert len(scales) > 8
    np.testing.assert_allclose(scales, 1, rtol=1e-5)
    assert torch.equal(plain.dynamics_.matrix, often.dynamics_.matrix)


@pytest.fixture(scope="module")
def stopped(world):
    """A run that was stopped at step 2 of 4, none of its settings a default."""
    series = TimeSeries.read(world / "lds.npz")
    model = DCL(
        2, "gated", 2, degree=3, time_lags=(0, 1), similarity="dot", protocol="paper-lds",
        batch_size=16, n_negatives=20, max_iter=4, time_offset=2, random_state=1, device="cpu",
    ).fit(series, callback=lambda run, _: run.step == 2)  # fmt: skip
    _keep(model, world / "stopped", {})
    return world


def resume(folder, *flags):
    return main(["fit", str(folder / "lds.npz"), "--out", str(folder / "stopped"), "--quiet",
                 "--device", "cpu", "--resume", *flags])  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "value", "has"),
    [
        ("--dynamics", "linear", "gated"), ("--components", "3", "2"), ("--modes", "5", "2"),
        ("--degree", "2", "3"), ("--time-lags", "0", r"\(0, 1\)"), ("--time-offset", "1", "2"),
        ("--similarity", "euclidean", "dot"), ("--protocol", "default", "paper-lds"),
        ("--seed", "0", "1"), ("--n-negatives", "batch", "20"), ("--max-iter", "5", "4"),
        ("--standardize", "on", "False"), ("--learning-rate", "0.03", "0.0003"),
        ("--bandwidth", "1", "None"), ("--bias", None, "False"), ("--asymmetric", None, "False"),
    ],
    ids=lambda value: value if str(value).startswith("--") else "",
)  # fmt: skip
def test_resume_refuses_an_option_that_the_run_does_not_have(stopped, flag, value, has, capsys):
    """Above all one that was typed at the parser's default."""
    before = (stopped / "stopped" / "checkpoint").read_bytes()
    capsys.readouterr()
    assert resume(stopped, flag, *([] if value is None else [value])) == 2
    said = capsys.readouterr().err
    names = {"--components": "n-components", "--modes": "n-modes", "--seed": "random-state"}
    named = names.get(flag, flag.removeprefix("--"))
    assert re.search(rf"--{named}: got .*, but the run in .* has {has}; --resume keeps", said)
    assert (stopped / "stopped" / "checkpoint").read_bytes() == before


def test_resume_refuses_other_data(stopped, tmp_path, capsys):
    shutil.copytree(stopped / "stopped", tmp_path / "stopped")
    data = TimeSeries.read(stopped / "lds.npz")
    data.select(range(data.n_trials - 1)).write(tmp_path / "lds.npz")
    capsys.readouterr()
    assert resume(tmp_path) == 2
    assert "X: is not the data that this run was begun with" in capsys.readouterr().err
    assert DCL.load(tmp_path / "stopped").n_iter_ < 4


def test_resume_takes_the_options_that_the_run_has(stopped, tmp_path):
    shutil.copytree(stopped / "stopped", tmp_path / "stopped")
    shutil.copy(stopped / "lds.npz", tmp_path)
    assert resume(
        tmp_path, "--dynamics", "gated", "--components", "2", "--modes", "2", "--degree", "3",
        "--time-lags", "0,1", "--similarity", "dot", "--protocol", "paper-lds", "--seed", "1",
        "--batch-size", "16", "--n-negatives", "20", "--max-iter", "4", "--time-offset", "2",
        "--standardize", "off", "--learning-rate", "3e-4",
    ) == 0  # fmt: skip
    assert DCL.load(tmp_path / "stopped").n_iter_ == 4


def test_fit_without_options_is_a_model_with_the_defaults(world, monkeypatch):
    asked = []
    monkeypatch.setattr(DCL, "fit", lambda self, *_, **__: asked.append(self) or sys.exit(0))
    with pytest.raises(SystemExit):
        main(["fit", str(world / "lds.npz"), "--out", str(world / "none"), "--quiet"])
    assert asked[0].get_params() == DCL(random_state=0).get_params()
