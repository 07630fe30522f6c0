"""`dynacl embed`: latents and modes in files."""

import numpy as np
import pytest

from command_line import dynacl


@pytest.mark.parametrize("suffix", ["npz", "npy", "csv"])
def test_embed_and_forecast_write_the_format_of_the_suffix(recovered, tmp_path, suffix):
    z, future = tmp_path / f"z.{suffix}", tmp_path / f"future.{suffix}"
    dynacl("embed", recovered / "run", recovered / "slds.npz", "--out", z)
    dynacl("forecast", recovered / "run", recovered / "slds.npz", "--steps", 5, "--out", future)
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


@pytest.mark.parametrize(("pad", "lost"), [((), 2), (("--pad",), 0)])
def test_embed_leaves_out_or_pads_the_steps_without_a_full_window(world, tmp_path, pad, lost):
    out = tmp_path / "z.npz"
    dynacl("embed", world / "lagged", world / "slds.npz", *pad, "--out", out)
    z = np.load(out)
    assert (np.diff(z["bounds"]) == 40 - lost).all()
    assert z["latents"].shape == (6 * (40 - lost), 2)
    ends = z["bounds"][1:] - 1
    assert (z["modes"][ends] == -1).all()
    assert (np.delete(z["modes"], ends) >= 0).all()
