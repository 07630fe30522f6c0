"""Dynamics fitted anew to the latents: in the middle of training, and whenever it stops."""

import numpy as np
import pytest
import torch

from dynacl import DCL, simulate
from dynacl.dynamics import SwitchingLinear, Tiles
from dynacl.encoders import CustomEncoder
from dynacl.persistence import load_checkpoint, save_checkpoint
from dynacl.refitting import refit
from dynacl.run import Run
from dynacl.sampling import rows
from dynacl.settings import Settings


@pytest.fixture
def refits(monkeypatch):
    """The steps at which a fit begins, instead of the fit."""
    when = []
    for room in ("training", "refitting"):
        monkeypatch.setattr(f"dynacl.{room}.refit", lambda run, *_: when.append(run.step))
    return when


def test_modes_that_have_merged_are_parted():
    """Latents that are known, a bank whose modes have merged: the fit finds both again."""
    data = simulate.slds(
        rng=np.random.default_rng(5), d=2, modes=2, angle=60, noise=1e-3, trials=20, steps=50,
        mixing="none", switch_probability=0.02,
    )  # fmt: skip
    encoder = torch.nn.Identity()
    encoder.weight = torch.nn.Parameter(torch.zeros(1))
    dynamics = SwitchingLinear(2, 2)
    run = Run(CustomEncoder(encoder), dynamics, Settings(), torch.Generator().manual_seed(0))
    refit(run, rows(data, run), run.generator)
    found, true = dynamics.matrices.detach().numpy(), data.truth.system["matrices"]
    errors = [max(np.abs(found[[i, 1 - i]] - true).max(axis=(1, 2))) for i in (0, 1)]
    assert min(errors) < 0.01


@pytest.mark.parametrize("n_modes", [2, 31])
def test_a_switching_bank_is_fitted_once_after_a_fifth_of_the_training(
    n_modes, trials, small, refits
):
    model = small(n_modes=n_modes, max_iter=10).fit(trials)
    assert refits == [2]
    assert model.settings_.learning_rate == 0.03


def test_tiles_start_at_a_bank_fitted_to_the_linear_start_and_are_fitted_at_rest(
    trials, small, refits
):
    many = small(dynamics="tiles", n_modes=31, max_iter=10).fit(trials)
    assert refits == [0, 10]  # and anew when training stands still
    assert (many.settings_.horizon, many.settings_.learning_rate) == (1, 1e-3)
    assert many.encoder_.linear is not None
    chosen = small(dynamics="tiles", n_modes=31, max_iter=1, learning_rate=0.01).fit(trials)
    assert chosen.settings_.learning_rate == 0.01


@pytest.mark.parametrize("dynamics", ["linear", "mlp", "gated", "recurrent"])
def test_any_dynamics_is_fitted_anew_where_the_user_asks(
    dynamics, trials, small, refits, short_descents
):
    contrast = {"objective": "contrast", "refit_after": None}
    small(dynamics=dynamics, max_iter=10, settings=contrast).fit(trials)
    assert refits == []
    asked = contrast | {"refit_after": 0.5, "refit_at_end": True}
    small(dynamics=dynamics, max_iter=10, settings=asked).fit(trials)
    assert refits == [5, 10]


def test_tiles_are_fitted_to_the_latents_wherever_training_stops_and_it_goes_on(
    tmp_path, small, weights, assert_equal
):
    """Gradient steps leave modes that fit few pairs and throw others far away."""
    data = simulate.lorenz(rng=np.random.default_rng(0), steps=3000, observed=8)
    settings = {"dynamics": "tiles", "n_modes": 31, "max_iter": 60, "dynamics_learning_rate": 0.1}

    def error(bank, x):
        now, following = torch.from_numpy(x[:-1]), torch.from_numpy(x[1:])
        with torch.no_grad():
            return float((bank.eval()(now, following) - following).square().mean())

    whole = small(**settings).fit(data)
    broken = small(**settings).fit(data, callback=lambda run, _: run.step == 40)
    assert broken.n_iter_ == 40
    for model in (whole, broken):
        x = np.concatenate(model.transform(data))
        trained = Tiles(3, 31)
        trained.load_state_dict(model.run_.as_trained)
        assert error(model.dynamics_, x) < 0.5 * error(trained, x)
    broken.save(tmp_path)
    save_checkpoint(broken.run_, tmp_path / "checkpoint")
    loaded = DCL.load(tmp_path)
    assert_equal(weights(broken), weights(loaded))
    load_checkpoint(loaded.run_, tmp_path / "checkpoint")
    for model in (broken, loaded):
        assert_equal(weights(whole), weights(model.resume(data)))
    paper = small(protocol="paper-lorenz", n_negatives=8, **settings).fit(data)
    assert paper.run_.as_trained is None


def test_a_bank_that_predicts_new_pairs_worse_does_not_replace_the_trained_one(monkeypatch, small):
    def spoil(run, *_):
        run.dynamics.matrices.mul_(2)

    for room in ("training", "refitting"):
        monkeypatch.setattr(f"dynacl.{room}.refit", torch.no_grad()(spoil))
    data = simulate.lorenz(rng=np.random.default_rng(0), steps=1000, observed=8)
    model = small(dynamics="tiles", n_modes=31, max_iter=3).fit(data)
    # Spoiled once, at the start of the training, and not at its end.
    assert (model.dynamics_.matrices.diagonal(dim1=1, dim2=2) - 2).abs().max() < 0.2
    for name, value in model.dynamics_.state_dict().items():
        assert torch.equal(value, model.run_.as_trained[name])
