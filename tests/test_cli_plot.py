"""`dynacl plot`: every picture that applies, in a folder."""

import shutil

import numpy as np
import pytest
from PIL import Image

from command_line import dynacl, refusal

OF_RUN = {"training", "eigenvalues", "time-constants", "transitions"}
OF_DATA = {"embedding-2d-time", "embedding-2d-trial", "embedding-2d-mode", "modes", "durations"}


def names(folder, suffix=".png"):
    return {path.stem for path in folder.iterdir() if path.suffix == suffix}


def test_pictures_are_written_into_the_folder_whatever_labels_are_called(world, tmp_path):
    saved = dict(np.load(world / "slds.npz"))
    saved["label.../../<b>$x"] = np.arange(len(saved["observations"])) % 3
    np.savez(tmp_path / "labelled.npz", **saved)
    out = tmp_path / "a" / "b"
    said = dynacl("plot", world / "switching", tmp_path / "labelled.npz", "--out", out)
    found = names(out)
    assert found >= OF_RUN | OF_DATA
    assert any(name.startswith("forecast-") for name in found)
    assert any("label" in name for name in found)
    assert f"{len(found)} pictures" in said
    assert {p.name for p in tmp_path.iterdir()} == {"labelled.npz", "a"}
    assert {p.name for p in (tmp_path / "a").iterdir()} == {"b"}
    for name in found:
        with Image.open(out / f"{name}.png") as image:
            assert len(np.unique(np.asarray(image.convert("L")))) > 5  # something is drawn


@pytest.fixture
def alone(world, tmp_path):
    """A run that does not know what it was fitted to."""
    run = tmp_path / "alone"
    shutil.copytree(world / "switching", run, ignore=shutil.ignore_patterns("metrics.json"))
    return run


def test_without_data_the_run_alone_is_drawn(alone, tmp_path, capsys):
    dynacl("plot", alone, "--out", tmp_path / "plots", "--format", "svg")
    assert names(tmp_path / "plots", ".svg") >= OF_RUN
    assert not names(tmp_path / "plots", ".svg") & OF_DATA
    assert "drawn without data" in capsys.readouterr().err


def test_runs_beside_each_other_give_a_matrix_also_with_time_lags(world, tmp_path):
    # On the data of the fit, as none are given.
    dynacl("plot", world / "switching", "--out", tmp_path, "--format", "svg",
           "--beside", world / "lagged")  # fmt: skip
    assert "consistency" in names(tmp_path, ".svg")
    assert "embedding-2d-time" in names(tmp_path, ".svg")
    assert "lagged" in (tmp_path / "consistency.svg").read_text()


def test_what_cannot_be_done_is_said_in_a_sentence(alone, world, tmp_path):
    assert "--beside: wanted DATA" in refusal("plot", alone, "--beside", world / "lagged")
    said = refusal("plot", alone, "--out", tmp_path)
    assert "is there already" in said
