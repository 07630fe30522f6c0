"""`dynacl forecast`: with held, wandering and gated modes, and under a control to come."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest
import torch

from command_line import dynacl, quick_fit, refusal
from dynacl import DCL, TimeSeries, simulate
from dynacl.forecasting import when

TRIALS, STEPS = 6, 40  # of the data in `world`


def test_forecast_without_out_prints_csv(recovered):
    printed = dynacl("forecast", recovered / "run", recovered / "slds.npz", "--steps", 2)
    head, *rows = printed.splitlines()
    assert head == "trial,step,ahead,x1,x2"
    assert np.loadtxt(rows, delimiter=",").shape == (80, 5)


def test_forecast_by_markov_chain_differs_from_holding_the_mode(world, tmp_path):
    long = ("--max-iter", 60, "--batch-size", 64)  # enough to see modes come and go
    quick_fit(world, "learned", "--dynamics", "switching", "--modes", 2, *long)
    future = {}
    for modes in ("hold", "markov"):
        out = tmp_path / f"{modes}.npy"
        dynacl("forecast", world / "learned", world / "slds.npz", "--steps", 5, "--modes", modes,
               "--out", out)  # fmt: skip
        future[modes] = np.load(out)
        assert future[modes].shape == (5 * TRIALS, 2)
    assert np.abs(future["hold"] - future["markov"]).max() > 0


def test_gated_forecast_and_spectral_radius(world, capsys):
    gated = ("--steps", 5, "--modes", "gated")
    printed = dynacl("forecast", world / "gated", world / "slds.npz", *gated)
    assert len(printed.splitlines()) == 1 + 5 * TRIALS
    radius = DCL.load(world / "gated", device="cpu").spectral_radius_
    said = capsys.readouterr().err
    assert said.startswith("spectral radius: " + ", ".join(f"{r:.5f}" for r in radius))


def test_forecast_that_runs_off_warns_and_still_answers(world, tmp_path, capsys):
    model = DCL.load(world / "switching", device="cpu")
    with torch.no_grad():
        model.dynamics_.matrices.copy_(2 * torch.eye(2).expand(2, 2, 2))
    model.save(tmp_path / "wild")
    capsys.readouterr()
    printed = dynacl("forecast", tmp_path / "wild", world / "slds.npz", "--steps", 30)
    said = capsys.readouterr().err
    assert f"warning: the roll-out of {TRIALS} of {TRIALS} trials leaves the data" in said
    assert "spectral radius: 2.00000, 2.00000" in said
    assert len(printed.splitlines()) == 1 + 30 * TRIALS


def test_forecast_takes_the_control_to_come(world):
    steps = ("--steps", 4, "--control", world / "u.csv")
    printed = dynacl("forecast", world / "driven", world / "driven.npz", *steps)
    assert len(printed.splitlines()) == 1 + 4 * TRIALS


def test_forecast_finds_the_control_in_a_file_with_more(world, tmp_path):
    series = TimeSeries.read(world / "driven.npz")
    ahead = []
    for name, arrays in {
        "ours": {"observations": series.observations, "control": series.control,
                 "bounds": series.bounds},
        "alone": {"control": series.control},
    }.items():  # fmt: skip
        u, out = tmp_path / f"{name}_u.npz", tmp_path / f"{name}.npy"
        np.savez(u, **arrays)
        dynacl("forecast", world / "driven", world / "driven.npz", "--steps", STEPS,
               "--control", u, "--out", out)  # fmt: skip
        ahead.append(np.load(out))
    model = DCL.load(world / "driven", device="cpu")
    expected = model.forecast(series, STEPS, u=series.split(series.control))
    for found in ahead:
        np.testing.assert_array_equal(found, np.concatenate(expected))


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A table with names and times, and a model of it that has errors on held-out data."""
    folder = tmp_path_factory.mktemp("named")
    made = simulate.lds(rng=np.random.default_rng(0), d=2, trials=12, steps=100, observed=3,
                        mixing="linear", noise=0.05)  # fmt: skip
    series = replace(made, truth=None, names=("flow", "level, m", "step"),
                     times=np.tile(np.arange(100) * 0.25, 12))  # fmt: skip
    series.write(folder / "data.npz")
    quick_fit(folder, "run", data="data.npz")
    return folder


def test_observations_to_come_have_the_names_and_times_of_the_input(named, tmp_path):
    out = tmp_path / "future.csv"
    dynacl("forecast", named / "run", named / "data.npz", "--steps", 4, "--observations",
           "--interval", 0.9, "--out", out)  # fmt: skip
    with open(out) as file:
        rows = list(csv.DictReader(file))
    columns = [f"{name}{end}" for name in ("flow", "level, m", "observations_step")
               for end in ("", "_lower", "_upper")]  # fmt: skip
    assert list(rows[0]) == ["trial", "step", "ahead", "time", *columns]
    assert [int(row["trial"]) for row in rows] == np.repeat(np.arange(12), 4).tolist()
    assert [int(row["step"]) for row in rows] == [100, 101, 102, 103] * 12
    assert [int(row["ahead"]) for row in rows] == [1, 2, 3, 4] * 12
    assert [float(row["time"]) for row in rows[:4]] == [25, 25.25, 25.5, 25.75]
    model, series = DCL.load(named / "run", device="cpu"), TimeSeries.read(named / "data.npz")
    found = model.forecast(series, 4, observations=True, interval=0.9)
    for i, name in enumerate(("flow", "level, m", "observations_step")):
        for end, part in zip(("", "_lower", "_upper"), found, strict=True):
            written = [float(row[name + end]) for row in rows]
            np.testing.assert_allclose(written, np.concatenate(part)[:, i], rtol=1e-6)
            assert written == [float(f"{cell:.7g}") for cell in written]  # no digits of chance


def test_an_archive_of_observations_to_come_holds_the_same(named, tmp_path):
    out = tmp_path / "future.npz"
    dynacl("forecast", named / "run", named / "data.npz", "--steps", 4, "--observations",
           "--interval", 0.9, "--out", out)  # fmt: skip
    found = np.load(out)
    assert found["observations"].shape == found["lower"].shape == (48, 3)
    assert (found["lower"] < found["upper"]).all()
    assert TimeSeries.read(out).n_trials == 12


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
@pytest.mark.parametrize(
    ("run", "asked"),
    [
        ("switching", ()),
        ("switching", ("--modes", "markov")),
        ("lagged", ()),
        ("gated", ()),
        ("recurrent", ()),
        ("driven", ("--control", "u.csv")),
        ("gated", ("--observations",)),
        ("named", ("--observations", "--interval", 0.9)),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(map(str, given)) or "held",
)
def test_all_that_forecast_writes_may_be_larger_than_memory(
    world, named, tmp_path, request, run, asked, suffix
):
    if run == "recurrent":
        quick_fit(world, run, "--dynamics", "recurrent")
    folder = named if run == "named" else world
    data = folder / {"named": "data.npz", "driven": "driven.npz"}.get(run, "slds.npz")
    steps = 4 if run == "driven" else 11
    model = DCL.load(folder / ("run" if run == "named" else run), device="cpu")
    how = dict(zip(asked[::2], asked[1::2], strict=False))
    u = np.ones((4, 1)) if "--control" in how else None
    observed = "--observations" in asked
    whole = model.forecast(
        TimeSeries.read(data), steps, u=u, modes=how.get("--modes"), observations=observed,
        interval=0.9 if "--interval" in asked else None,
    )  # fmt: skip
    whole = whole if isinstance(whole, tuple) else (whole,)
    on_disk = request.getfixturevalue("on_disk")
    asked = [world / "u.csv" if one == "u.csv" else one for one in asked]
    out = tmp_path / f"future.{suffix}"
    dynacl("forecast", folder / ("run" if run == "named" else run), data, "--steps", steps, *asked,
           "--out", out)  # fmt: skip
    found = table_of(out, "observations" if observed else "latents")
    for part, values in zip(found, whole, strict=suffix != "npy"):
        np.testing.assert_allclose(part, np.concatenate(values), rtol=1e-4, atol=1e-5)
    made = [array.shape for array in on_disk]
    assert all((len(whole[0]), steps, part.shape[1]) in made for part in found)
    assert made.count((len(whole[0]), steps)) == 3 + (run == "named")  # trial, step, ahead, time


def table_of(path, main):
    """Forecasts from a file of any kind, with the ends around them where it has these."""
    if path.suffix == ".npy":
        return [np.load(path)]
    if path.suffix == ".npz":
        with np.load(path) as file:
            return [file[k] for k in (main, "lower", "upper") if k in file]
    if path.suffix == ".parquet":
        columns = pyarrow.parquet.read_table(path).to_pydict()
    else:
        with open(path) as file:
            rows = list(csv.DictReader(file))
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    kept = [k for k in columns if k not in ("trial", "step", "ahead", "time")]
    parts = [[k for k in kept if k.endswith(end)] for end in ("_lower", "_upper")]
    parts.insert(0, [k for k in kept if k not in parts[0] + parts[1]])
    return [np.array([columns[k] for k in part], dtype=float).T for part in parts if part]


def test_dates_go_on_at_the_interval_of_the_recording():
    days = np.datetime64("2024-02-27") + np.arange(3)
    series = replace(TimeSeries.of(np.zeros((3, 1))), times=days)
    found = when(series, 2, 1)["time"].astype(str)
    assert found.tolist() == ["2024-03-01", "2024-03-02"]


BAD = {
    "an interval without observations": (
        ("switching", "slds.npz", "--steps", "3", "--interval", "0.9"),
        "interval: is of observations"),
    "gate of a switching model": (
        ("switching", "slds.npz", "--steps", "3", "--modes", "gated"),
        "'gated' does not fit SwitchingLinear"),
    "chain of a gated model": (
        ("gated", "slds.npz", "--steps", "3", "--modes", "markov"),
        "'markov' does not fit Gated"),
    "forecast of an asymmetric model": (
        ("asymmetric", "slds.npz", "--steps", "3"), "asymmetric:"),
    "no control to come": (
        ("driven", "driven.npz", "--steps", "4"), "--control: missing"),
    "control of another length": (
        ("driven", "driven.npz", "--steps", "2", "--control", "u.csv"), "--control: got shape (4"),
    "control of trials of another length": (
        ("driven", "driven.npz", "--steps", "4", "--control", "driven.npz"),
        f"u[0]: got shape ({STEPS}, 1); wanted (4, 1)"),
    "control for a free system": (
        ("gated", "slds.npz", "--steps", "4", "--control", "u.csv"),
        "fitted without a control"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_forecast_that_cannot_be_made_is_refused_in_one_sentence(world, name, monkeypatch):
    monkeypatch.chdir(world)
    arguments, sentence = BAD[name]
    assert sentence in refusal("forecast", *arguments)
