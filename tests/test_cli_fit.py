"""`dynacl fit`: a flag reaches the model, a bad one ends in a sentence, and no run is lost.

Data and fits are as small as can be; whether a variant is right is for test_variants.py.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from command_line import dynacl, quick_fit, refusal
from dynacl import DCL, TimeSeries
from dynacl.cli import main, parser
from dynacl.cli.fit import keep
from dynacl.data import InputError
from dynacl.dynamics import Gated, Polynomial, Recurrent, ResidualMLP
from dynacl.encoders import Asymmetric, Projected
from dynacl.objective import Flat, Sphere
from dynacl.parameters import PARAMETERS
from dynacl.persistence import BESIDE, CHECKPOINT, MODEL
from dynacl.run import Snapshot
from dynacl.sealing import unsealed
from dynacl.settings import KINDS, Settings

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
        lambda m: isinstance(m.similarity_, Sphere) and isinstance(m.encoder_, Projected),
    ),
    "stable": (("--stable",), lambda m: m.stable and max(m.stability_.radius_after) <= 1 + 1e-6),
    "stable auto": (("--stable", "auto"), lambda m: m.stable == "auto"),
    "sampling-interval": (("--sampling-interval", 0.01), lambda m: m.sampling_interval == 0.01),
    "asymmetric": (("--asymmetric",), lambda m: isinstance(m.encoder_, Asymmetric)),
    "density": (
        ("--density-correction", "euclidean", "--bandwidth", 0.5),
        lambda m: (m.settings_.density_correction, m.settings_.bandwidth) == ("euclidean", 0.5),
    ),
    "density on the sphere": (
        ("--density-correction", "vmf", "--similarity", "dot"),
        lambda m: m.settings_.density_correction == "vmf",
    ),
    "settings": (
        ("--set", "horizon=2", "--set", "mixed=on", "--set", "refit_after=none", "--set",
         "time_lags=0,1"),
        lambda m: (m.settings_.horizon, m.settings_.mixed, m.settings_.refit_after,
                   m.settings_.time_lags) == (2, True, None, (0, 1)),
    ),
    "all at once": (
        ("--dynamics", "gated", "--time-lags", "0,2", "--time-offset", 2, "--similarity", "dot",
         "--asymmetric", "--density-correction", "vmf", "--n-negatives", 20),
        lambda m: isinstance(m.encoder_, Asymmetric) and isinstance(m.dynamics_, Gated),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_flag_of_a_variant_reaches_the_model_and_its_file(world, name, short_descents):
    flags, is_there = FITS[name]
    model = quick_fit(world, "one", *flags)
    assert is_there(model)
    assert np.isfinite(model.score(TimeSeries.read(world / "slds.npz")))
    plain = DCL.load(world / "driven", device="cpu")
    assert isinstance(plain.similarity_, Flat)
    assert not is_there(plain)


def test_fit_without_options_is_a_model_with_the_defaults(world, monkeypatch):
    asked = []
    monkeypatch.setattr(DCL, "fit", lambda self, *_, **__: asked.append(self) or sys.exit(0))
    with pytest.raises(SystemExit):
        main(["fit", str(world / "lds.npz"), "--out", str(world / "none"), "--quiet"])
    assert asked[0].get_params() == DCL(random_state=0).get_params()


def test_stranger_s_csv_and_npz_are_fitted(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((60, 4))
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,u", comments="")
    np.savez(tmp_path / "t.npz", spikes=table[:, :3], other=np.arange(4))
    common = ["--max-iter", "3", "--components", "2", "--trial-length", "20", "--quiet", "--json"]
    for i, arguments in enumerate(
        [["t.csv", "--key", "a,b,c", "--control-key", "u"], ["t.npz", "--key", "spikes"]]
    ):
        out = tmp_path / f"run{i}"
        assert main(["fit", str(tmp_path / arguments[0]), *arguments[1:], *common, "--out",
                     str(out)]) == 0  # fmt: skip
        config = json.loads((out / "config.json").read_text())
        assert config["n_features"] == 3
        assert config["n_controls"] == (1 if i == 0 else 0)


def test_run_folder_holds_what_it_should(recovered):
    assert {p.name for p in (recovered / "run").iterdir()} == {
        MODEL,
        "config.json",
        CHECKPOINT,
        *BESIDE,
    }
    lines = (recovered / "run" / "history.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 600
    metrics = json.loads((recovered / "run" / "metrics.json").read_text())
    assert metrics["n_iter"] == 600
    held = metrics["held_out"]
    assert held["horizons"][0] == 1
    assert held["model"][0] < held["linear start"][0] < held["persistence"][0] < 1
    assert 3 < metrics["score"] < math.log2(2049)
    assert len(metrics["spectrum"]["frequencies"]) == 2
    assert sum(metrics["mode_usage"]) == pytest.approx(1)
    assert metrics["unused_modes"] == metrics["alike_modes"] == []
    assert metrics["stability"] is None


def test_a_flag_that_may_have_a_value_takes_none_of_the_files(world):
    args = ["fit", "--stable", world / "slds.npz", "--components", 2, "--max-iter", 2, "--quiet",
            "--batch-size", 16, "--out", world / "flag first"]  # fmt: skip
    main([str(arg) for arg in args])
    assert DCL.load(world / "flag first").stable is True


def test_fit_says_which_modes_are_not_used_and_what_was_made_stable(world):
    """Three training steps: nearly the identity, whose nine copies nothing tells apart."""
    printed = dynacl("fit", world / "slds.npz", "--components", 2, "--max-iter", 3, "--batch-size",
                     16, "--dynamics", "switching", "--modes", 9, "--stable", "--quiet", "--out",
                     world / "spare")  # fmt: skip
    metrics = json.loads((world / "spare" / "metrics.json").read_text())
    model = DCL.load(world / "spare", device="cpu")
    assert metrics["unused_modes"] == model.unused_modes_
    assert (", a tenth of an even share" in printed) == bool(model.unused_modes_)
    assert printed.count("predict alike") == min(8, len(model.alike_modes_))
    assert model.unused_modes_ or model.alike_modes_
    assert str(model.stability_)[1:] in printed
    assert metrics["stability"]["radius_after"] == pytest.approx(list(model.spectral_radius_))
    assert "frequency (per sample)" in printed


def test_existing_run_is_never_overwritten_without_force(recovered, tmp_path, capsys):
    before = (recovered / "run" / "model.safetensors").read_bytes()
    command = ["fit", str(recovered / "slds.npz"), "--max-iter", "1", "--quiet", "--out"]
    assert main([*command, str(recovered / "run")]) == 2
    said = capsys.readouterr().err
    assert "--resume goes on" in said
    assert "--force overwrites" in said
    assert (recovered / "run" / "model.safetensors").read_bytes() == before
    assert main([*command, str(tmp_path / "new")]) == 0
    assert main([*command, str(tmp_path / "new"), "--force"]) == 0


BAD = {
    "vmf without a sphere": (
        ("--density-correction", "vmf"),
        '--density-correction: "vmf" does not fit --similarity euclidean; wanted '),
    "euclidean density on the sphere": (
        ("--similarity", "dot", "--density-correction", "euclidean"),
        '--density-correction: "euclidean" does not fit --similarity dot; wanted "vmf"'),
    "asymmetric recurrent": (
        ("--asymmetric", "--dynamics", "recurrent"), "asymmetric:"),
    "a lag twice": (("--time-lags", "0,0"), "--time-lags: got (0, 0)"),
    "a lag of the future": (("--time-lags=0,-1",), "--time-lags: got (0, -1)"),
    "lags longer than a trial": (
        ("--time-lags", "0,60"), "needs at least 62"),
    "no slope": (
        ("--dynamics", "mlp", "--lipschitz", "-1"), "lipschitz: got -1.0"),
    "degree 0": (
        ("--dynamics", "polynomial", "--degree", "0"), "degree: got 0"),
    "no bandwidth": (
        ("--density-correction", "euclidean", "--bandwidth", "0"),
        "bandwidth: got 0.0"),
    "offset 0": (("--time-offset", "0"), "--time-offset: got 0"),
    "setting out of range": (
        ("--set", "horizon=0"), "horizon: got 0; wanted a whole number of at least 1"),
    "option and setting": (
        ("--set", "max_iter=6"), "--set max_iter: given twice; --max-iter is the same setting"),
    "option at its default and setting": (
        ("--time-offset", "1", "--set", "time_offset=2"), "--set time_offset: given twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_value_ends_with_one_sentence_and_code_2(world, tmp_path, name):
    flags, sentence = BAD[name]
    small = ("--components", 2, "--max-iter", 3, "--out", tmp_path)
    assert sentence in refusal("fit", world / "slds.npz", *small, *flags)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--time-lags", "now", "got 'now'; wanted distinct whole numbers of steps back"),
        ("--similarity", "cosine", "invalid choice: 'cosine'"),
        ("--density-correction", "gauss", "invalid choice: 'gauss'"),
        ("--dynamics", "rnn", "invalid choice: 'rnn'"),
        ("--degree", "two", "got 'two'; wanted a whole number of at least 1"),
        ("--lipschitz", "tight", "got 'tight'; wanted a positive number"),
        ("--set", "horizon=x", "horizon: got 'x'; wanted a whole number of at least 1"),
        ("--set", "mixed=perhaps", "mixed: got 'perhaps'; wanted on or off"),
        ("--set", "optimizer=sgd", "optimizer: got 'sgd'; wanted one of soap, adam"),
        ("--set", "nothing=1", "got 'nothing=1'; wanted NAME=VALUE with NAME one of batch_size, "),
        ("--set", "horizon", "got 'horizon'; wanted NAME=VALUE"),
    ],
    ids=lambda value: value if str(value).startswith("--") else "",
)
def test_value_of_the_wrong_kind_exits_with_code_2_and_names_its_flag(
    world, flag, value, said, capsys
):
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(world / "slds.npz"), "--out", str(world / "refused"), flag, value])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"dynacl fit: error: argument {flag}: {said}")
    assert not (world / "refused").exists()


def test_every_parameter_is_an_option_under_all_its_names_unless_hidden():
    commands = next(a for a in parser()._actions if a.dest == "name").choices
    dest = {flag: a.dest for a in commands["fit"]._actions for flag in a.option_strings}
    for p in PARAMETERS.values():
        for flag in (p.option, *p.flags):
            there = not p.hidden or p.name == "device"  # which all commands have
            assert dest.get(flag) == (p.name if there else None)


def test_every_setting_can_be_typed():
    for name, kind in KINDS.items():
        value = getattr(Settings(), name)
        text = kind.word if value is None else kind.said(value)
        typed = parser().parse_args(["fit", "x.npz", "--out", "y", "--set", f"{name}={text}"])
        assert typed.settings == [(name, value)]


def test_checkpoints_on_the_way_hold_unit_scale_and_change_nothing(world, monkeypatch):
    fast = ("--similarity", "dot", "--max-iter", 8, "--dynamics-learning-rate", 0.3, "--seed", 0)
    series, scales = TimeSeries.read(world / "lds.npz"), []

    def watched(model, out, found):
        keep(model, out, found)
        saved = DCL.load(out, device="cpu")
        x = np.concatenate(saved.transform(series))
        scales.append(np.linalg.norm(x @ saved.dynamics_.matrix.detach().numpy().T, axis=1).mean())

    plain = quick_fit(world, "plain", *fast, data="lds.npz")
    monkeypatch.setattr("dynacl.cli.fit.CHECKPOINT_SECONDS", -1)
    monkeypatch.setattr("dynacl.cli.fit.keep", watched)
    often = quick_fit(world, "often", *fast, data="lds.npz")
    assert len(scales) > 8
    np.testing.assert_allclose(scales, 1, rtol=1e-5)
    assert torch.equal(plain.dynamics_.matrix, often.dynamics_.matrix)


CTRL_C = """
import os, signal, sys
from dynacl import training
from dynacl.cli import main
step = training.training_step
def interrupted(run, *rest):
    if run.step == 40:
        os.kill(os.getpid(), signal.SIGINT)
    return step(run, *rest)
training.training_step = interrupted
sys.exit(main(sys.argv[1:]))
"""


def stored(folder):
    """Every bit of every tensor of a model, by name."""
    tensors = unsealed(folder / MODEL)[0]
    return {name: x.numpy().tobytes() for name, x in tensors.items()}


def test_interrupted_fit_resumes_to_the_same_model(tmp_path):
    data = tmp_path / "lds.npz"
    dynacl("simulate", "lds", "--trials", 20, "--steps", 50, "--layers", 2, "--observed", 6,
           "--out", data)  # fmt: skip
    fit = ["fit", data, "--max-iter", 100, "--batch-size", 128]
    chosen = ["--set", "horizon=2", "--set", "time_offset=2", "--set", "n_negatives=batch"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    dynacl(*fit, *chosen, "--out", whole)
    stopped = subprocess.run(
        [sys.executable, "-c", CTRL_C, *map(str, fit), *chosen, "--out", str(broken)],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert stopped.returncode == 130, stopped.stderr
    assert "stopped at step 41 of 100" in stopped.stderr
    assert "--resume" in stopped.stderr
    expected = stored(whole)
    assert stored(broken) != expected
    for name, again in {"same": [*fit[2:], *chosen], "fewer": fit[2:], "none": []}.items():
        shutil.copytree(broken, tmp_path / name)
        dynacl("fit", data, *again, "--out", tmp_path / name, "--resume")
        assert stored(tmp_path / name) == expected
        assert DCL.load(tmp_path / name).settings_.horizon == 2


@pytest.fixture(scope="module")
def stopped(world):
    """A run that was stopped at step 2 of 4, none of its settings a default."""
    series = TimeSeries.read(world / "lds.npz")
    model = DCL(
        2, "polynomial", 2, degree=3, time_lags=(0, 1), similarity="dot", protocol="paper-lds",
        batch_size=16, n_negatives=20, max_iter=4, time_offset=2, settings={"horizon": 2},
        random_state=1, device="cpu",
    ).fit(series, callback=lambda run, _: run.step == 2)  # fmt: skip
    keep(model, world / "stopped", {})
    return world


def resume(folder, *flags):
    return main(["fit", str(folder / "lds.npz"), "--out", str(folder / "stopped"), "--quiet",
                 "--device", "cpu", "--resume", *flags])  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "value", "has"),
    [
        ("--dynamics", "linear", "polynomial"), ("--components", "3", "2"), ("--modes", "5", "2"),
        ("--degree", "2", "3"), ("--time-lags", "0", r"\(0, 1\)"), ("--time-offset", "1", "2"),
        ("--similarity", "euclidean", "dot"), ("--protocol", "default", "paper-lds"),
        ("--seed", "0", "1"), ("--n-negatives", "batch", "20"), ("--max-iter", "3", "4"),
        ("--standardize", "on", "False"), ("--learning-rate", "0.03", "0.0003"),
        ("--bandwidth", "1", "None"), ("--bias", None, "False"), ("--asymmetric", None, "False"),
        ("--set", "horizon=3", "2"), ("--set", "duration=2", "1.0"), ("--set", "max_iter=3", "4"),
        ("--set", "n_negatives=batch", "20"), ("--set", "time_offset=1", "2"),
    ],
    ids=lambda value: value if str(value).startswith("--") else "",
)  # fmt: skip
def test_resume_refuses_an_option_that_the_run_does_not_have(stopped, flag, value, has, capsys):
    """Above all one that was typed at the parser's default."""
    before = (stopped / "stopped" / "checkpoint").read_bytes()
    capsys.readouterr()
    assert resume(stopped, flag, *([] if value is None else [value])) == 2
    said = capsys.readouterr().err
    names = {"--components": "n-components", "--modes": "n-modes", "--seed": "random-state",
             "--set": f"set {str(value).split('=')[0]}"}  # fmt: skip
    named = names.get(flag, flag.removeprefix("--"))
    assert re.search(rf"--{named}: got .*, but the run in .* has {has}; --resume keeps", said)
    assert (stopped / "stopped" / "checkpoint").read_bytes() == before


def test_resume_refuses_other_data(stopped, tmp_path, capsys):
    shutil.copytree(stopped / "stopped", tmp_path / "stopped")
    data = TimeSeries.read(stopped / "lds.npz")
    data.select(range(data.n_trials - 1)).write(tmp_path / "lds.npz")
    capsys.readouterr()
    assert resume(tmp_path) == 2
    assert "DATA: is not the data that this run was begun with" in capsys.readouterr().err
    assert DCL.load(tmp_path / "stopped").n_iter_ < 4


def test_resume_takes_the_options_that_the_run_has(stopped, tmp_path):
    shutil.copytree(stopped / "stopped", tmp_path / "stopped")
    shutil.copy(stopped / "lds.npz", tmp_path)
    assert resume(
        tmp_path, "--dynamics", "polynomial", "--components", "2", "--modes", "2", "--degree", "3",
        "--time-lags", "0,1", "--similarity", "dot", "--protocol", "paper-lds", "--seed", "1",
        "--batch-size", "16", "--n-negatives", "20", "--max-iter", "4", "--time-offset", "2",
        "--standardize", "off", "--learning-rate", "3e-4", "--set", "horizon=2",
        "--set", "mixed=off",
    ) == 0  # fmt: skip
    assert DCL.load(tmp_path / "stopped").n_iter_ == 4


@pytest.mark.parametrize("option", [("--max-iter", "6"), ("--set", "max_iter=6")], ids=" ".join)
def test_resume_goes_beyond_the_end_of_a_run(stopped, tmp_path, option, capsys):
    shutil.copytree(stopped / "stopped", tmp_path / "stopped")
    shutil.copy(stopped / "lds.npz", tmp_path)
    assert resume(tmp_path) == 0
    capsys.readouterr()
    assert resume(tmp_path) == 2
    assert "its 4 steps are done; a larger --max-iter goes on" in capsys.readouterr().err
    assert resume(tmp_path, *option) == 0
    longer = DCL.load(tmp_path / "stopped")
    assert longer.n_iter_ == longer.settings_.max_iter == longer.history_[-1]["step"] == 6
    assert [record["step"] for record in longer.history_] == [1, 2, 3, 4, 5, 6]


def test_a_longer_run_goes_on_from_its_training_not_from_the_linear_start(two_modes):
    model = DCL(3, "linear", max_iter=30, batch_size=64, random_state=0).fit(two_modes)
    run = model.run_
    run.go_on()
    trained = run.weights()
    run.best = Snapshot(0.0, 30, trained)
    start = {part: {k: 0 * v for k, v in one.items()} for part, one in trained.items()}
    run.restore(start)  # as the judge does where training gained nothing
    run.lengthen(40)
    for part, weights in run.best.weights.items():
        for name, value in run.parts[part].state_dict().items():
            assert torch.equal(value, weights[name])
    assert model.resume(two_modes).n_iter_ == 40
    with pytest.raises(InputError, match="max_iter: got 20; wanted at least the 40 of the run"):
        model.resume(two_modes, max_iter=20)
