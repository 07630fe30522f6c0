"""A model of every format that was ever written loads, and a newer one is refused by name.

tests/models has small ones: `linear` (paper-lds, one latent) and `switching` (two modes, one
latent), fitted to two columns. What they say is judged by their weights, multiplied by hand.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.special import erf

from dynacl import DCL, InputError, __version__
from dynacl.configuration import FORMAT, READABLE
from dynacl.persistence import CHECKPOINT, MODEL
from dynacl.sealing import sealed, unsealed

FOLDER = Path(__file__).with_name("models")
Y = np.random.default_rng(5).standard_normal((30, 2)).astype(np.float32)


def encoded(weights, y):
    """h(y), as the paper's MLP and what we put before and beside it say."""
    w = {k.removeprefix("encoder."): v.astype(float) for k, v in weights.items()}
    if "whitening.frame" in w:
        y = (y - w["whitening.shift"]) @ w["whitening.frame"]
    x = y
    for i in (0, 2, 4, 6):
        x = x @ w[f"layers.{i}.weight"].T + w[f"layers.{i}.bias"]
        x = x * (1 + erf(x / np.sqrt(2))) / 2 if i < 6 else x
    return x + y @ w["linear.weight"].T + w["linear.bias"] if "linear.weight" in w else x


@pytest.mark.parametrize("format", READABLE)
@pytest.mark.parametrize("name", ["linear", "switching"])
def test_a_model_of_every_format_says_what_its_weights_say(format, name):
    folder = FOLDER / f"format-{format}" / name
    weights, model = load_file(folder / MODEL), DCL.load(folder, device="cpu")
    assert json.loads((folder / "config.json").read_text())["format"] == format
    x = model.transform(Y)
    np.testing.assert_allclose(x, encoded(weights, Y.astype(float)), rtol=1e-4, atol=1e-5)
    if name == "linear":
        ahead = x @ weights["dynamics.matrix"].T
        np.testing.assert_allclose(model.predict(Y), ahead, rtol=1e-4, atol=1e-6)
    else:
        errors = np.abs(weights["dynamics.matrices"][:, 0] * x[:-1, 0] - x[1:, 0])
        np.testing.assert_array_equal(model.modes(Y, decode="step"), errors.argmin(0))


def test_a_model_of_an_old_format_is_saved_in_the_new_one(tmp_path):
    old = DCL.load(FOLDER / "format-3" / "switching", device="cpu")
    old.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["format"] == FORMAT
    np.testing.assert_array_equal(DCL.load(tmp_path, device="cpu").transform(Y), old.transform(Y))


@pytest.mark.parametrize("format", [2, FORMAT + 1])
def test_another_format_is_refused_with_both_versions_named(format, tmp_path):
    shutil.copytree(FOLDER / f"format-{FORMAT}" / "linear", tmp_path / "run")
    for file, checkpoint in ((MODEL, False), (CHECKPOINT, True)):
        tensors, texts = unsealed(tmp_path / "run" / file)
        config = json.loads(texts["config"]) | {"format": format, "dynacl": "7.8.9"}
        texts["config"] = json.dumps(config)
        (tmp_path / "run" / file).write_bytes(sealed(tensors, texts))
        (tmp_path / "run" / "config.json").write_text(texts["config"])
        said = f"format {format} by dynacl '7.8.9'; this is dynacl {__version__}, which reads"
        with pytest.raises(InputError, match=re.escape(f"{said} format 3 and {FORMAT}")):
            DCL.load(tmp_path / "run", checkpoint=checkpoint)


def test_what_has_lost_its_checksum_is_not_taken_for_an_older_format(tmp_path):
    shutil.copytree(FOLDER / f"format-{FORMAT}" / "linear", tmp_path / "run")
    path = tmp_path / "run" / MODEL
    save_file(load_file(path), path)
    (tmp_path / "run" / CHECKPOINT).unlink()
    with pytest.raises(InputError, match="is damaged, or was not written by dynacl: it has no ch"):
        DCL.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n_components": 3000}, "its encoder has 1341 weights; wanted at least 8"),
        ({"n_components": 0}, "n_components: got 0; wanted a whole number"),
        ({"n_components": "x"}, "n_components: got 'x'; wanted a whole number"),
        ({"dynamics": "os.system"}, "dynamics: got 'os.system'; wanted one of"),
        ({"similarity": "nearly"}, "similarity: got 'nearly'; wanted one of"),
        ({"dynamics": "polynomial", "degree": 100_000}, "its dynamics has 1 weights"),
        ({"dynamics": "switching", "n_modes": 10**8}, "its dynamics has 1 weights"),
        ({"more": 1}, "parameters: none is called 'more'"),
    ],
    ids=str,
)
def test_a_made_up_configuration_is_refused_before_anything_is_built(changed, said, tmp_path):
    shutil.copytree(FOLDER / f"format-{FORMAT}" / "linear", tmp_path / "run")
    tensors, texts = unsealed(tmp_path / "run" / MODEL)
    config = json.loads(texts["config"])
    config["parameters"] |= changed
    texts["config"] = json.dumps(config)
    (tmp_path / "run" / MODEL).write_bytes(sealed(tensors, texts))
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(InputError) as caught:
        DCL.load(tmp_path / "run")
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "run"))


def test_a_readable_copy_that_was_changed_is_refused(tmp_path):
    shutil.copytree(FOLDER / f"format-{FORMAT}" / "linear", tmp_path / "run")
    beside = tmp_path / "run" / "config.json"
    beside.write_text(beside.read_text().replace('"n_iter": 2', '"n_iter": 3'))
    with pytest.raises(InputError, match="is not as it was written with model"):
        DCL.load(tmp_path / "run")
    beside.unlink()
    assert DCL.load(tmp_path / "run").n_iter_ == 2
