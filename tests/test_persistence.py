"""Save, load and resume: the same model again, without code in the files."""

import json
import pickle

import numpy as np
import pytest
import torch

from dynacl import DCL, __version__, simulate
from dynacl.dynamics import Oracle
from dynacl.persistence import save_checkpoint
from quick_models import Shift, small, tiny


def test_saved_model_is_the_same_model(two_modes, switching_model, tmp_path):
    switching_model.save(tmp_path)
    loaded = DCL.load(tmp_path, device="cpu")
    for name in ("transform", "modes", "predict"):
        for a, b in zip(
            getattr(switching_model, name)(two_modes), getattr(loaded, name)(two_modes), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    assert loaded.score(two_modes) == switching_model.score(two_modes)
    assert loaded.history_ == switching_model.history_
    assert json.loads((tmp_path / "config.json").read_text())["dynacl"] == __version__
    parameters = {k: v for k, v in switching_model.get_params().items() if k != "device"}
    assert parameters == {k: v for k, v in loaded.get_params().items() if k != "device"}
    loaded.partial_fit(two_modes)
    assert loaded.n_iter_ == 60


def test_saved_files_hold_no_code(switching_model, tmp_path):
    switching_model.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads((tmp_path / "model.safetensors").read_bytes())
    json.loads((tmp_path / "config.json").read_text())


def test_numpy_scalars_are_parameters_like_any_other(two_modes, tmp_path):
    scalars = {"n_components": np.int64(3), "max_iter": np.int32(2), "batch_size": np.int64(16),
               "learning_rate": np.float32(0.01), "standardize": np.bool_(True),
               "density_correction": "euclidean", "bandwidth": np.float32(0.5),
               "n_support": np.int64(8)}  # fmt: skip
    model = DCL(**scalars, random_state=np.int64(0)).fit(two_modes)
    model.save(tmp_path)
    save_checkpoint(model.run_, tmp_path / "checkpoint")
    loaded = DCL.load(tmp_path)
    assert {k: getattr(loaded, k) for k in scalars} == scalars
    assert loaded.settings_ == model.settings_


def test_what_cannot_be_saved_leaves_nothing_behind(two_modes, tmp_path):
    model = DCL(3, max_iter=2, random_state=0).fit(two_modes)
    model.run_.history = [object()]
    with pytest.raises(TypeError):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_custom_parts_are_given_again_at_load(two_modes, tmp_path):
    model = DCL(8, torch.nn.Identity(), encoder=torch.nn.Linear(8, 8), max_iter=2)
    model.dynamics = Shift()
    model.fit(two_modes)
    model.save(tmp_path)
    with pytest.raises(ValueError, match=r"DCL\.load\(path, encoder=module\)"):
        DCL.load(tmp_path, dynamics=Shift())
    loaded = DCL.load(tmp_path, encoder=torch.nn.Linear(8, 8), dynamics=Shift())
    np.testing.assert_array_equal(loaded.predict(two_modes)[0], model.predict(two_modes)[0])


def test_oracle_trains_with_the_true_system(two_modes, tmp_path):
    model = DCL(3, "truth", max_iter=3, random_state=0).fit(two_modes)
    model.save(tmp_path)
    loaded = DCL.load(tmp_path)
    for m in (model, loaded):
        assert isinstance(m.dynamics_, Oracle)
        maps = m.dynamics_.linear_maps().numpy()
        np.testing.assert_allclose(maps, two_modes.truth.system["matrices"], rtol=1e-6)


def test_a_model_with_lags_is_saved_whole(tmp_path):
    data = simulate.lds(rng=np.random.default_rng(1), trials=5, steps=60, observed=6)
    model = small(3, time_lags=(0, 3), max_iter=5, similarity="dot", asymmetric=True).fit(data)
    model.save(tmp_path)
    again = DCL.load(tmp_path)
    for a, b in zip(model.predict(data), again.predict(data), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.score(data) == model.score(data)


VARIANTS = [
    {"dynamics": "polynomial"}, {"dynamics": "mlp"}, {"dynamics": "gated"},
    {"dynamics": "recurrent"}, {"dynamics": "tiles", "n_modes": 8}, {"similarity": "dot"},
    {"dynamics": "polynomial", "time_offset": 2},
    {"similarity": "dot", "asymmetric": True, "density_correction": "vmf"},
    {"dynamics": "switching", "density_correction": "euclidean", "n_negatives": 50,
     "time_lags": (0, 3)},
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_variant_resumes_exactly(rotating, variant, short_descents):
    whole = tiny(3, max_iter=12, **variant).fit(rotating)
    broken = tiny(3, max_iter=12, **variant).fit(rotating, callback=lambda run, _: run.step == 5)
    assert broken.n_iter_ == 5
    broken.resume(rotating)
    for a, b in zip(
        whole.run_.dynamics.state_dict().values(), broken.run_.dynamics.state_dict().values(),
        strict=True,
    ):  # fmt: skip
        assert torch.equal(a, b)
    np.testing.assert_array_equal(
        np.concatenate(whole.transform(rotating)), np.concatenate(broken.transform(rotating))
    )
