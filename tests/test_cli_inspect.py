"""`dynacl inspect`: what is inside, what would be used, what looks wrong."""

import json

import numpy as np
import pytest

from command_line import dynacl, refusal

RNG = np.random.default_rng(0)


def said(*words):
    return json.loads(dynacl("inspect", *words, "--json"))


def test_entries_have_roles_and_what_would_be_used_is_counted(tmp_path):
    arrays = {"y": RNG.standard_normal((40, 3)), "u": np.ones(40), "who": ["a", "b"] * 20,
              "lengths": [10, 30], "t": 0.25 * np.arange(40)}  # fmt: skip
    np.savez(tmp_path / "x.npz", **arrays)
    words = ["--key", "y", "--control-key", "u", "--label-key", "who", "--trial-key", "lengths"]
    found = said(tmp_path / "x.npz", *words)
    roles = {entry["name"]: entry["role"] for entry in found["entries"]}
    assert roles == {"y": "observed", "u": "control", "who": "label", "lengths": "trials",
                     "t": "time"}  # fmt: skip
    assert found["used"] == {"steps": 40, "features": 3, "trials": 2, "shortest": 10, "longest": 30,
                             "controls": 1, "control_names": None, "interval": 0.25,
                             "labels": {"who": "2 categories"}, "truth": False}  # fmt: skip
    assert found["error"] is None


def warnings_of(path, *words):
    return " ".join(said(path, *words)["warnings"])


def test_what_looks_wrong_is_told(tmp_path):
    y = RNG.standard_normal((60, 6))
    y[:, 2] = y[:, 0]
    y[:, 4] = 7
    y[10:13, 1] = y[30, 5] = np.nan
    times = np.arange(60.0)
    times[45:] += 5
    np.savez(tmp_path / "x.npz", y=y, time=times)
    found = warnings_of(tmp_path / "x.npz", "--key", "y")
    assert "column 4 never changes" in found
    assert "columns 0 and 2 are the same" in found
    assert "missing at 4 of 60 steps, in features 1, 5 (first at step 10" in found
    assert "the longest gap has length 3; --missing" in found
    assert "times leave samples out (before step 45); --missing split" in found


@pytest.mark.parametrize(("way", "trials", "steps"), [("split", 3, 54), ("interpolate", 2, 56)])
def test_what_would_be_used_is_without_the_missing_values_as_asked(tmp_path, way, trials, steps):
    y = RNG.standard_normal((60, 3))
    y[10:12, 1] = y[30:32, 0] = np.nan
    y[32:34] = np.nan  # a gap of four
    np.save(tmp_path / "x.npy", y)
    found = said(tmp_path / "x.npy", "--missing", way, "--max-gap", 3)
    assert (found["used"]["trials"], found["used"]["steps"]) == (trials, steps)
    assert not any("--missing … says" in sentence for sentence in found["warnings"])


def test_a_table_the_wrong_way_round_is_told(tmp_path):
    smooth = np.cumsum(RNG.standard_normal((2000, 5)), axis=0)
    np.save(tmp_path / "x.npy", smooth.T)
    said = warnings_of(tmp_path / "x.npy")
    assert "looks transposed" in said
    assert "(time, features): --transpose if rows are channels" in said
    assert "transposed" not in warnings_of(tmp_path / "x.npy", "--transpose")


def test_a_column_that_counts_is_told_in_an_array_too(tmp_path):
    y = RNG.standard_normal((40, 3))
    y[:, 1] = 0.5 * np.arange(40)
    np.save(tmp_path / "x.npy", y)
    found = warnings_of(tmp_path / "x.npy")
    assert "column 1 rises by the same step everywhere, which looks like time" in found


def test_a_clean_file_has_nothing_wrong_with_it(tmp_path):
    np.save(tmp_path / "x.npy", RNG.standard_normal((100, 3)))
    assert said(tmp_path / "x.npy")["warnings"] == []


def test_a_file_that_needs_a_key_is_listed_all_the_same(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.ones((5, 2)), b=np.ones((5, 3)))
    out = dynacl("inspect", tmp_path / "x.npz")
    assert "a  5 × 2" in out
    assert "Cannot be used so: holds several arrays (a, b); choose one with --key …." in out


def test_a_text_says_what_would_be_used(tmp_path):
    rows = "\n".join(f"{t},{x:.3f},walk" for t, x in enumerate(RNG.standard_normal(30)))
    (tmp_path / "x.csv").write_text(f"time,a,action\n{rows}\n")
    out = dynacl("inspect", tmp_path / "x.csv", "--label-key", "action")
    assert "30 steps of 1 feature in one trial; one step each 1 s; label action (1 categor" in out
    assert "! 'time' is taken for time, not for a feature; --key … says otherwise" in out


def test_dates_of_any_name_are_time_and_no_label(tmp_path):
    rows = "\n".join(f"2024-01-01T00:00:{t:02d},{RNG.standard_normal():.3f}" for t in range(30))
    (tmp_path / "x.csv").write_text(f"recorded,a\n{rows}\n")
    found = said(tmp_path / "x.csv")
    assert found["entries"][0]["role"] == "time"
    assert found["used"]["interval"] == 1
    assert "'recorded' is taken for time" in found["warnings"][0]


def test_a_file_that_is_not_there_is_an_error():
    assert refusal("inspect", "nowhere.csv").endswith("nowhere.csv: no such file")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--missing", "split"], "cut at 1 step with missing values: 2 trials from 1"),
        (["--missing", "interpolate"], "values were missing at 1 step, and are bridged"),
    ],
)
def test_missing_values_are_an_option_of_fit(tmp_path, capsys, words, message):
    y = RNG.standard_normal((60, 2))
    y[30, 1] = np.nan
    np.save(tmp_path / "x.npy", y)
    dynacl("fit", tmp_path / "x.npy", "--max-iter", 2, "--components", 2, *words,
           "--out", tmp_path / "run", "--quiet")  # fmt: skip
    assert message in capsys.readouterr().err
