"""The public surface: every name that is promised is there, and a fitted model has what it says."""

import re
from importlib import import_module

import pytest
import torch
from torch import nn

import dynacl
from dynacl import DCL
from quick_models import Laplace, Shift, tiny

PACKAGES = ("dynacl", "dynacl.dynamics", "dynacl.objective", "dynacl.simulate", "dynacl.baselines")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported(package):
    module = import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    scope = {}
    exec(f"from {package} import *", scope)
    for name in module.__all__:
        assert scope[name] is getattr(module, name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = import_module(package).nothing_of_this_name


def test_names_of_dynamics_are_listed_once_and_found():
    for name, (module, cls) in dynacl.dynamics.BY_NAME.items():
        assert cls in dynacl.dynamics.__all__
        assert dynacl.dynamics.named(name) is getattr(dynacl.dynamics, cls)
        assert getattr(import_module(f"dynacl.dynamics.{module}"), cls).__final__


@pytest.mark.parametrize(
    "settings", [{}, {"dynamics": "switching"}, {"similarity": "dot"}], ids=str
)
def test_a_fitted_model_has_every_attribute_of_its_docstring(rotating, settings):
    model = tiny(3, **settings).fit(rotating)
    section = DCL.__doc__.split("Attributes")[1].split("Examples")[0]
    listed = [n for line in re.findall(r"^ *([\w, ]+_) :", section, re.M) for n in line.split(", ")]
    assert {"encoder_", "dynamics_", "similarity_", "settings_", "history_"} <= set(listed)
    for name in set(listed) - {"feature_names_in_"}:  # scikit-learn's: only where X has names
        assert hasattr(model, name)
    assert model.n_features_in_ == 6
    assert model.n_iter_ == 3
    assert (model.transitions_ is None) == (settings.get("dynamics") != "switching")


def test_temperature_of_the_sphere_is_learned_and_saved(rotating, tmp_path):
    model = tiny(3, similarity="dot", max_iter=20).fit(rotating)
    temperature = float(model.similarity_.temperature.detach())
    assert 0 < temperature < 0.95  # it starts at 1
    model.save(tmp_path)
    assert float(DCL.load(tmp_path).similarity_.temperature.detach()) == temperature
    assert float(tiny(3).fit(rotating).similarity_.temperature) == 1  # of the plane, not learned


def test_parts_of_ones_own_come_back_as_they_are(two_modes):
    model = tiny(8, Shift(), encoder=nn.Linear(8, 8), similarity=Laplace()).fit(two_modes)
    assert type(model.encoder_) is nn.Linear
    assert type(model.dynamics_) is Shift
    assert type(model.similarity_) is Laplace
    with torch.no_grad():
        x = model.encoder_(torch.from_numpy(two_modes.observations)).numpy()
    assert (x == model.transform(two_modes.observations)).all()
