"""`dynacl embed`: latents and modes in files."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from command_line import dynacl
from dynacl import DCL, TimeSeries


@pytest.mark.parametrize("suffix", ["npz", "npy", "csv"])
def test_embed_and_forecast_write_the_format_of_the_suffix(recovered, tmp_path, suffix):
    z, future = tmp_path / f"z.{suffix}", tmp_path / f"future.{suffix}"
    dynacl("embed", recovered / "run", recovered / "slds.npz", "--out", z)
    dynacl("forecast", recovered / "run", recovered / "slds.npz", "--steps", 5, "--out", future)
    assert read(z).shape == (40 * 250, 2)
    assert read(future).shape == (40 * 5, 2)
    if suffix == "npz":
        modes = np.load(z)["mode"]
        assert (modes[249::250] == -1).all()
        assert set(np.unique(modes)) == {-1, 0, 1}


def read(path):
    if path.suffix == ".csv":
        with open(path) as file:
            names = file.readline().strip().split(",")
        return np.loadtxt(path, delimiter=",", skiprows=1)[
            :, [names.index("x1"), names.index("x2")]
        ]
    loaded = np.load(path)
    return loaded["latents"] if path.suffix == ".npz" else loaded


@pytest.mark.parametrize(("pad", "lost"), [((), 2), (("--pad",), 0)])
def test_embed_leaves_out_or_pads_the_steps_without_a_full_window(world, tmp_path, pad, lost):
    out = tmp_path / "z.npz"
    dynacl("embed", world / "lagged", world / "slds.npz", *pad, "--out", out)
    z = np.load(out)
    assert (np.diff(z["bounds"]) == 40 - lost).all()
    assert z["latents"].shape == (6 * (40 - lost), 2)
    ends = z["bounds"][1:] - 1
    assert (z["mode"][ends] == -1).all()
    assert (np.delete(z["mode"], ends) >= 0).all()


def test_embed_tables_say_trial_step_time_and_mode(world, tmp_path):
    series = TimeSeries.read(world / "slds.npz")
    times = np.arange(len(series)) * 0.5
    series = replace(series, times=times)
    series.write(tmp_path / "timed.npz")
    dynacl("embed", world / "lagged", tmp_path / "timed.npz", "--out", tmp_path / "z.csv")
    with open(tmp_path / "z.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["trial", "step", "time", "mode", "x1", "x2"]
    assert [int(row["trial"]) for row in rows] == np.repeat(np.arange(6), 38).tolist()
    assert [int(row["step"]) for row in rows] == list(range(2, 40)) * 6
    assert [float(row["time"]) for row in rows[:38]] == times[2:40].tolist()
    model = DCL.load(world / "lagged", device="cpu")
    assert [int(row["mode"]) for row in rows[:37]] == model.modes(series)[0].tolist()
    assert rows[37]["mode"] == "-1"
    x = np.array([[row["x1"], row["x2"]] for row in rows], dtype=float)
    np.testing.assert_allclose(x, np.concatenate(model.transform(series)), rtol=1e-6)


@pytest.mark.parametrize("run", ["switching", "lagged"])
def test_embed_streams_into_an_npy_what_transform_gives(world, tmp_path, run, monkeypatch):
    monkeypatch.setattr("dynacl.inference.ROWS", 21)  # several parts
    dynacl("embed", world / run, world / "new.npz", "--out", tmp_path / "z.npy")
    whole = DCL.load(world / run).transform(TimeSeries.read(world / "new.npz"))
    found = np.load(tmp_path / "z.npy")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.concatenate(whole), rtol=1e-4, atol=1e-5)


def test_embed_streams_into_a_table_too(world, tmp_path, monkeypatch):
    series = TimeSeries.read(world / "slds.npz")
    times = np.arange(len(series)) * 0.5
    series = replace(series, times=times)
    series.write(tmp_path / "timed.npz")
    model = DCL(2, "linear", time_lags=(0, 1, 2), max_iter=2, batch_size=16, random_state=0)
    model.fit(series).save(tmp_path / "run")
    whole = np.concatenate(model.transform(series))

    def at_once(*arguments, **more):
        raise AssertionError("all latents at once")

    monkeypatch.setattr(DCL, "transform", at_once)
    monkeypatch.setattr("dynacl.inference.ROWS", 75)  # parts of 25 rows; a trial has 38
    dynacl("embed", tmp_path / "run", tmp_path / "timed.npz", "--out", tmp_path / "z.csv")
    with open(tmp_path / "z.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["trial", "step", "time", "x1", "x2"]
    assert [int(row["trial"]) for row in rows] == np.repeat(np.arange(6), 38).tolist()
    assert [int(row["step"]) for row in rows] == list(range(2, 40)) * 6
    assert [float(row["time"]) for row in rows] == times.reshape(6, 40)[:, 2:].ravel().tolist()
    x = np.array([[row["x1"], row["x2"]] for row in rows], dtype=float)
    np.testing.assert_allclose(x, whole, rtol=1e-4, atol=1e-5)
