"""The command line as a user has it: real files, and real processes where a process matters."""

import contextlib
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from dynacl.cli import main, parser

STEPS = 600


def dynacl(*arguments):
    """Call a command here, which saves the seconds that a process needs to import everything."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([*map(str, arguments)]) == 0
    return printed.getvalue()


def process(*arguments):
    command = [sys.executable, "-m", "dynacl", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny switching system, fitted through the command line."""
    out = tmp_path_factory.mktemp("cli")
    dynacl("simulate", "slds", "--d", 2, "--modes", 2, "--angle", 40, "--noise", 0.01,
           "--trials", 40, "--steps", 250, "--switch-probability", 0.01, "--layers", 2,
           "--observed", 8, "--seed", 3, "--out", out / "slds.npz")  # fmt: skip
    dynacl("fit", out / "slds.npz", "--dynamics", "switching", "--modes", 2, "--components", 2,
           "--max-iter", STEPS, "--batch-size", 512, "--out", out / "run")  # fmt: skip
    return out


def evaluated(folder, *more):
    return json.loads(dynacl("evaluate", folder / "run", *more, "--json"))


def test_tiny_switching_system_is_recovered_from_files(folder):
    found = evaluated(folder, folder / "slds.npz")
    assert found["r2"] > 0.95
    assert found["mode_accuracy"] > 0.9
    assert found["dyn_r2_1"] > found["dyn_r2_1_control"]
    assert found["dyn_r2_10"] > found["dyn_r2_10_control"] + 0.3


def test_new_trials_of_the_same_system_are_recovered_too(folder):
    out = folder / "test.npz"
    dynacl("simulate", "--again", folder / "slds.npz", "--trials", 10, "--seed", 7, "--out", out)
    found = evaluated(folder, out)
    assert found["n_trials"] == 10
    assert found["r2"] > 0.95


def test_evaluate_prints_one_json_object_with_every_metric(folder):
    done = process("evaluate", folder / "run", folder / "slds.npz", "--post-hoc", "switching",
                   "--json")  # fmt: skip
    found = json.loads(done.stdout)
    wanted = {"r2", "dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control",
              "mode_accuracy", "lds_error", "lds_error_post_hoc", "mcc"}  # fmt: skip
    assert wanted <= set(found)
    assert found["lds_error"] is None
    assert found["post_hoc"] == "switching"


def test_run_folder_holds_what_it_should(folder):
    names = {p.name for p in (folder / "run").iterdir()}
    assert names == {"model.safetensors", "config.json", "metrics.json", "history.jsonl",
                     "checkpoint"}  # fmt: skip
    lines = (folder / "run" / "history.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == STEPS
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["n_iter"] == STEPS
    assert metrics["bits"] < metrics["bits_cap"]


@pytest.mark.parametrize("suffix", ["npz", "npy", "csv"])
def test_embed_and_forecast_write_the_format_of_the_suffix(folder, suffix):
    z, future = folder / f"z.{suffix}", folder / f"future.{suffix}"
    dynacl("embed", folder / "run", folder / "slds.npz", "--out", z)
    dynacl("forecast", folder / "run", folder / "slds.npz", "--steps", 5, "--out", future)
    assert read(z).shape == (40 * 250, 2)
    assert read(future).shape == (40 * 5, 2)
    if suffix == "npz":
        modes = np.load(z)["modes"]
        assert (modes[249::250] == -1).all()
        assert set(np.unique(modes)) == {-1, 0, 1}


def read(path):
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", skiprows=1)
    loaded = np.load(path)
    return loaded["latents"] if path.suffix == ".npz" else loaded


def test_forecast_without_out_prints_csv(folder):
    printed = dynacl("forecast", folder / "run", folder / "slds.npz", "--steps", 2)
    assert np.loadtxt(printed.splitlines(), delimiter=",").shape == (80, 2)


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


def test_interrupted_fit_resumes_to_the_same_model(tmp_path):
    data = tmp_path / "lds.npz"
    dynacl("simulate", "lds", "--trials", 20, "--steps", 50, "--layers", 2, "--observed", 6,
           "--out", data)  # fmt: skip
    fit = ["fit", data, "--max-iter", 100, "--batch-size", 128]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    dynacl(*fit, "--out", whole)
    stopped = subprocess.run(
        [sys.executable, "-c", CTRL_C, *map(str, fit), "--out", str(broken)],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert stopped.returncode == 130, stopped.stderr
    assert "stopped at step 41 of 100" in stopped.stderr
    assert "--resume" in stopped.stderr
    models = [p / "model.safetensors" for p in (whole, broken)]
    assert models[0].read_bytes() != models[1].read_bytes()
    dynacl(*fit, "--out", broken, "--resume")
    assert models[0].read_bytes() == models[1].read_bytes()


def test_existing_run_is_never_overwritten_without_force(folder, tmp_path, capsys):
    before = (folder / "run" / "model.safetensors").read_bytes()
    command = ["fit", str(folder / "slds.npz"), "--max-iter", "1", "--quiet", "--out"]
    assert main([*command, str(folder / "run")]) == 2
    assert "--force" in capsys.readouterr().err
    assert (folder / "run" / "model.safetensors").read_bytes() == before
    assert main([*command, str(tmp_path / "new")]) == 0
    assert main([*command, str(tmp_path / "new"), "--force"]) == 0


def test_every_command_helps_with_an_example(capsys):
    commands = next(a for a in parser()._actions if hasattr(a, "choices") and a.choices).choices
    assert set(commands) >= {"demo", "simulate", "fit", "evaluate", "embed", "forecast"}
    for name in commands:
        with pytest.raises(SystemExit) as stop:
            main([name, "--help"])
        assert stop.value.code == 0
        assert f"example:\n  dynacl {name}" in capsys.readouterr().out


def test_demo_writes_metrics_and_pictures(tmp_path, capsys):
    from dynacl.demo import demo

    found = demo(tmp_path / "demo", trials=4, steps=60, max_iter=5, verbose=False)
    names = {p.name for p in (tmp_path / "demo").iterdir()}
    assert {"metrics.json", "latents.png", "modes.png", "loss.png"} <= names
    stored = json.loads((tmp_path / "demo" / "metrics.json").read_text())
    assert stored["DCL"]["r2"] == found["DCL"]["r2"]
    printed = capsys.readouterr().out
    assert f"{found['DCL']['r2']:.4f}" in printed
    assert f"{found['baseline']['r2']:.4f}" in printed
