"""Latents on the sphere: von Mises–Fisher noise, unit vectors, a temperature that is a result."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, evaluate, info_nce, simulate
from dynacl.objective import Sphere
from dynacl.persistence import load_checkpoint, save_checkpoint
from quick_models import normal, small, tiny


@pytest.fixture(scope="module")
def sphere():
    return simulate.sphere(
        rng=np.random.default_rng(2), angle=20, noise=0.01, trials=100, steps=200, observed=10,
        layers=2,
    )  # fmt: skip


def test_dot_similarity_is_the_dot_product_of_unit_vectors_over_the_temperature():
    q, k, others = normal(7, 3), normal(7, 3, seed=1), normal(20, 3, seed=2)
    phi = Sphere(0.2).double()
    unit = [nn.functional.normalize(v, dim=1) for v in (q, k, others)]
    plain = torch.cat([(unit[0] * unit[1]).sum(1, keepdim=True), unit[0] @ unit[2].T], 1) / 0.2
    expected = (plain.logsumexp(1) - plain[:, 0]).mean()
    loss = info_nce(*unit, similarity=phi).total
    torch.testing.assert_close(loss, expected)
    torch.autograd.gradcheck(lambda *v: info_nce(*v, similarity=phi).total, [
        v.requires_grad_() for v in (q, k, others)
    ])  # fmt: skip
    loss.backward()
    assert phi.theta.grad.abs() > 0


def test_sphere_is_recovered_with_linear_dynamics_and_not_without(sphere):
    model = small(3, similarity="dot").fit(sphere)
    norms = np.linalg.norm(np.concatenate(model.transform(sphere)), axis=1)
    np.testing.assert_allclose(norms, 1, rtol=1e-5)
    found = evaluate(model, sphere)
    assert found["r2"] > 0.99
    # The scale of a matrix is free on the sphere; it is set so that A recovers a rotation.
    assert found["lds_error"] < 0.05
    # With few negatives the baseline blurs over the rotation: its latents trail by little, but it
    # does not know where they go.
    baseline = evaluate(small(3, "identity", similarity="dot").fit(sphere), sphere)
    assert baseline["r2"] < found["r2"] - 0.03
    assert baseline["dyn_r2_1"] < 0.9 < 0.99 < found["dyn_r2_1"]
    kappa = 1 / model.similarity_.temperature.item()
    ahead = model.forecast(sphere, 50)
    assert 3_000 < kappa < 12_000  # 1 / σ² is 10,000, and the encoder adds to the noise
    np.testing.assert_allclose(np.linalg.norm(ahead, axis=2), 1, rtol=1e-5)


def lengths(dynamics, x):
    """The mean length of what each matrix predicts."""
    matrices = dynamics.linear_maps().detach().numpy()
    return np.linalg.norm(np.einsum("kij,nj->nki", matrices, x), axis=2).mean(0)


@pytest.mark.parametrize("dynamics", ["linear", "switching"])
@pytest.mark.parametrize("how", ["callback", "ctrl-c"])
def test_stopped_fit_on_the_sphere_has_unit_scale_and_goes_on_as_if_not_stopped(
    rotating, tmp_path, dynamics, how
):
    # A rate at which the scale runs off within a few steps.
    settings = {"similarity": "dot", "n_modes": 2, "max_iter": 20, "dynamics_learning_rate": 0.2}
    whole, ran_off = tiny(3, dynamics, **settings).fit(rotating), []

    def stop(run, _):
        if run.step != 12:
            return False
        with torch.no_grad():
            x = run.encoder(torch.from_numpy(rotating.observations)).numpy()
        ran_off.append(lengths(run.dynamics, x))
        if how == "ctrl-c":
            raise KeyboardInterrupt
        return True

    broken = tiny(3, dynamics, **settings)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "training was interrupted")
        broken.fit(rotating, callback=stop)
    assert broken.n_iter_ == 12
    assert np.abs(ran_off[0] - 1).max() > 0.1
    broken.save(tmp_path)
    save_checkpoint(broken.run_, tmp_path / "checkpoint")
    loaded = DCL.load(tmp_path)
    for model in (whole, broken, loaded):
        x = np.concatenate(model.transform(rotating))
        np.testing.assert_allclose(lengths(model.dynamics_, x), 1, rtol=1e-5)

    load_checkpoint(loaded.run_, tmp_path / "checkpoint")
    for model in (broken, loaded):
        model.resume(rotating)
        for part in ("encoder", "dynamics", "geometry"):
            one, two = (getattr(m.run_, part).state_dict() for m in (whole, model))
            assert all(torch.equal(one[k], two[k]) for k in one)


def test_two_encoders_on_the_sphere_scale_the_predictions_of_references(rotating):
    settings = {"similarity": "dot", "asymmetric": True, "dynamics_learning_rate": 0.2}
    model = tiny(3, "linear", max_iter=20, **settings).fit(rotating)
    with torch.no_grad():
        x = model.encoder_.reference(torch.from_numpy(rotating.observations)).numpy()
    np.testing.assert_allclose(lengths(model.dynamics_, x), 1, rtol=1e-5)


def test_the_sphere_as_a_module_is_the_sphere_by_name(rotating):
    named, given = (tiny(3, similarity=s).fit(rotating) for s in ("dot", Sphere()))
    for a, b in zip(named.transform(rotating), given.transform(rotating), strict=True):
        np.testing.assert_array_equal(a, b)
    assert given.settings_ == named.settings_
    sharp = tiny(3, similarity=Sphere(0.1), dynamics_learning_rate=1e-9).fit(rotating)
    assert sharp.similarity_.temperature.item() == pytest.approx(0.1)
