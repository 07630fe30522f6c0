"""`dynacl embed`: latents and modes in files."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

from command_line import dynacl, refusal
from dynacl import DCL, TimeSeries, writing


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


def test_columns_unlike_those_of_the_fit_end_in_the_options_that_it_had(tmp_path):
    table = np.random.default_rng(0).standard_normal((60, 4)).astype(str)
    rows = [["a1", "a2", "b", "place"], *table.tolist()]
    (tmp_path / "x.csv").write_text("\n".join(map(",".join, rows)))
    dynacl("fit", tmp_path / "x.csv", "--key", "a*", "--trial-length", 30, "--components", 1,
           "--max-iter", 3, "--batch-size", 16, "--quiet", "--out", tmp_path / "run")  # fmt: skip
    embed = ("embed", tmp_path / "run", tmp_path / "x.csv", "--out", tmp_path / "z.csv")
    told = "X has 4 features, but DCL is expecting 2 features as input; the fit read its data with "
    assert refusal(*embed).endswith(f"{told}--key 'a*' --trial-length 30")
    assert refusal(*embed, "--trial-length", 30).endswith(f"{told}--key 'a*'")
    dynacl(*embed, "--key", "a*")


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


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("run", ["switching", "lagged", "gated", "driven"])
def test_all_that_embed_writes_may_be_larger_than_memory(
    world, tmp_path, on_disk, run, pad, suffix
):
    data = world / ("driven.npz" if run == "driven" else "slds.npz")
    series = TimeSeries.read(data)
    series = replace(series, times=np.arange(len(series)) * 0.5)
    series.write(tmp_path / "timed.npz")
    out, model = tmp_path / f"z.{suffix}", DCL.load(world / run)
    dynacl("embed", world / run, tmp_path / "timed.npz", *["--pad"] * pad, "--out", out)
    past = 0 if pad else model.settings_.past
    x = np.concatenate(model.transform(series, pad=pad))
    found = table(out)
    np.testing.assert_allclose(found["x"], x, rtol=1e-4, atol=1e-5)
    modes = bool(model.dynamics_.n_modes)
    columns = 0 if suffix == "npy" else 3 + modes
    assert len(on_disk) >= 1 + columns
    assert set(found) == {"x", *["trial", "step", "time", "mode"][:columns]}
    if columns:
        assert found["trial"].tolist() == np.repeat(np.arange(6), 40 - past).tolist()
        assert found["step"].tolist() == list(range(past, 40)) * 6
        assert found["time"].tolist() == series.times.reshape(6, 40)[:, past:].ravel().tolist()
    if columns == 4:
        ends = found["step"] == 39
        assert (found["mode"][ends] == -1).all()
        whole = model.modes(series)
        kept = found["mode"][~ends & (found["step"] >= model.settings_.past)]
        if not (pad and model.settings_.past):  # what is padded is decoded too
            assert kept.tolist() == np.concatenate(whole).tolist()
        assert set(kept) <= {0, 1}


def table(path):
    """Latents and the columns beside them, from a file of any kind."""
    if path.suffix == ".npy":
        return {"x": np.load(path)}
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {"x": file["latents"]} | {k: file[k] for k in file.files if k in BESIDE}
    if path.suffix == ".parquet":
        columns = pyarrow.parquet.read_table(path).to_pydict()
    else:
        with open(path) as file:
            rows = list(csv.DictReader(file))
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    found = {k: np.array(v, dtype=float) for k, v in columns.items()}
    x = np.stack([found.pop(k) for k in list(found) if k.startswith("x")], axis=1)
    return {"x": x} | found


BESIDE = ("trial", "step", "time", "mode")


def test_a_disk_without_room_says_so_before_it_is_filled(world, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "SMALL", 0)
    monkeypatch.setattr(writing.os, "posix_fallocate", full)
    (tmp_path / "z.npy").write_bytes(b"old")
    out = ("--out", tmp_path / "z.npy", "--force")
    said = refusal("embed", world / "lagged", world / "slds.npz", *out)
    assert "No space left on device: wanted 0 MB for a while" in said
    assert (tmp_path / "z.npy").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["z.npy"]
