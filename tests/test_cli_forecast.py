"""`dynacl forecast`: with held, wandering and gated modes, and under a control to come."""

import numpy as np
import pytest
import torch

from command_line import dynacl, refusal
from dynacl import DCL, TimeSeries

TRIALS, STEPS = 6, 40  # of the data in `world`


def test_forecast_without_out_prints_csv(recovered):
    printed = dynacl("forecast", recovered / "run", recovered / "slds.npz", "--steps", 2)
    assert np.loadtxt(printed.splitlines(), delimiter=",").shape == (80, 2)


def test_forecast_by_markov_chain_differs_from_holding_the_mode(world, tmp_path):
    future = {}
    for modes in ("hold", "markov"):
        out = tmp_path / f"{modes}.npy"
        dynacl("forecast", world / "switching", world / "slds.npz", "--steps", 5, "--modes", modes,
               "--out", out)  # fmt: skip
        future[modes] = np.load(out)
        assert future[modes].shape == (5 * TRIALS, 2)
    assert np.abs(future["hold"] - future["markov"]).max() > 0


def test_gated_forecast_and_spectral_radius(world, capsys):
    gated = ("--steps", 5, "--modes", "gated")
    printed = dynacl("forecast", world / "gated", world / "slds.npz", *gated)
    assert len(printed.splitlines()) == 5 * TRIALS
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
    assert len(printed.splitlines()) == 30 * TRIALS


def test_forecast_takes_the_control_to_come(world):
    steps = ("--steps", 4, "--control", world / "u.csv")
    printed = dynacl("forecast", world / "driven", world / "driven.npz", *steps)
    assert len(printed.splitlines()) == 4 * TRIALS


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


BAD = {
    "gate of a switching model": (
        ("switching", "slds.npz", "--steps", "3", "--modes", "gated"),
        "'gated' does not fit SwitchingLinear"),
    "chain of a gated model": (
        ("gated", "slds.npz", "--steps", "3", "--modes", "markov"),
        "'markov' does not fit Gated"),
    "forecast of an asymmetric model": (
        ("asymmetric", "slds.npz", "--steps", "3"), "asymmetric:"),
    "no control to come": (
        ("driven", "driven.npz", "--steps", "4"), "u: missing"),
    "control of another length": (
        ("driven", "driven.npz", "--steps", "3", "--control", "u.csv"), "u: got shape (4, 1)"),
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
