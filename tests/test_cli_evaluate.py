"""`dynacl evaluate`: recovery of a real system from files, and what is printed."""

import json
import subprocess
import sys

import pytest

from command_line import dynacl, quick_fit, refusal
from dynacl import DCL, TimeSeries, evaluate


def test_tiny_switching_system_is_recovered_from_files(recovered):
    found = json.loads(dynacl("evaluate", recovered / "run", recovered / "slds.npz", "--json"))
    assert found["r2"] > 0.95
    assert found["mode_accuracy"] > 0.9
    assert found["dyn_r2_1"] > found["dyn_r2_1_control"]
    assert found["dyn_r2_10"] > found["dyn_r2_10_control"] + 0.3


def test_new_trials_of_the_same_system_are_recovered_too(recovered, tmp_path):
    out = tmp_path / "test.npz"
    dynacl("simulate", "--again", recovered / "slds.npz", "--trials", 10, "--seed", 7, "--out", out)
    found = json.loads(dynacl("evaluate", recovered / "run", out, "--json"))
    assert found["n_trials"] == 10
    assert found["r2"] > 0.95


def test_evaluate_prints_one_json_object_with_every_metric(recovered):
    words = ["evaluate", recovered / "run", recovered / "slds.npz", "--post-hoc", "switching"]
    command = [sys.executable, "-m", "dynacl", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    wanted = {"r2", "dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control",
              "mode_accuracy", "lds_error", "lds_error_post_hoc", "mcc"}  # fmt: skip
    assert wanted <= set(found)
    assert found["lds_error"] is None
    assert found["post_hoc"] == "switching"


def test_evaluate_fits_the_affine_map_on_the_training_data_too(world):
    judge = ("evaluate", world / "switching", world / "new.npz", "--json")
    found = json.loads(dynacl(*judge, "--train", world / "slds.npz"))
    series = [TimeSeries.read(world / name) for name in ("new.npz", "slds.npz")]
    model = DCL.load(world / "switching", device="cpu")
    expected = evaluate(model, series[0], train=series[1])
    assert found["r2_train_map"] == pytest.approx(expected["r2_train_map"])
    assert found["r2_train_map"] < found["r2"]  # the map of these very data is the best one
    assert json.loads(dynacl(*judge))["r2_train_map"] is None


def test_evaluate_prints_the_equations_of_a_polynomial(world):
    cubic = ("--dynamics", "polynomial", "--degree", 3)
    quick_fit(world, "cubic", *cubic, data="lds.npz")
    printed = dynacl("evaluate", world / "cubic", world / "lds.npz")
    assert printed.count("x1' =") == 2  # found and true
    for components in (1, 3):  # of two
        quick_fit(world, "other", *cubic, "--components", components, data="lds.npz")
        assert "x1' =" not in dynacl("evaluate", world / "other", world / "lds.npz")


def test_evaluate_tells_time_constants_and_frequencies(world):
    quick_fit(world, "timed", "--sampling-interval", 0.01, data="lds.npz")
    expected = DCL.load(world / "timed", device="cpu").spectrum_
    assert expected.units == ("s", "Hz")
    found = json.loads(dynacl("evaluate", world / "timed", world / "lds.npz", "--json"))["spectrum"]
    assert found["frequencies"] == expected.frequencies.tolist()
    assert (found["time_unit"], found["frequency_unit"], found["step"]) == ("s", "Hz", 0.01)
    printed = dynacl("evaluate", world / "timed", world / "lds.npz")
    assert all(line in printed for line in str(expected).splitlines())


def test_training_data_of_another_shape_are_refused(world):
    run, new, train = world / "switching", world / "new.npz", world / "u.csv"
    assert "X has 1 features" in refusal("evaluate", run, new, "--train", train)
