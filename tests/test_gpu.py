"""A fit on a GPU against the same fit on the CPU. Untried: no machine of ours has a GPU.

The judge is the CPU. Products on a GPU add in another order, so numbers agree, bits do not.
"""

import numpy as np
import pytest
import torch

from dynacl import DCL, dynamics, simulate
from dynacl.objective.infonce import info_nce

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU here: this suite is untried"
)


@pytest.fixture(scope="module")
def data():
    return simulate.slds(
        rng=np.random.default_rng(0), d=2, modes=2, trials=20, steps=60, observed=8, layers=1
    )


def fitted(name, device, data, **changed):
    settings = {"max_iter": 20, "batch_size": 128, "n_negatives": 1024, "random_state": 0} | changed
    return DCL(2, name, 2, device=device, **settings).fit(data)


@pytest.mark.parametrize("name", dynamics.BY_NAME)
def test_a_short_fit_has_the_latents_and_predictions_of_the_cpu(name, data):
    here, there = fitted(name, "cpu", data), fitted(name, "cuda", data)
    assert next(there.encoder_.parameters()).is_cuda
    for say in ("transform", "predict"):
        one, other = (np.concatenate(getattr(m, say)(data)) for m in (here, there))
        assert np.abs(other - one).max() <= 0.05 * one.std()
    assert all(np.isfinite(x).all() for x in there.forecast(data, 5))


def test_the_same_seed_gives_the_same_losses_again(data):
    one, other = (fitted("linear", "cuda", data).history_ for _ in range(2))
    np.testing.assert_allclose([r["loss"] for r in other], [r["loss"] for r in one], rtol=1e-4)


def test_a_model_of_a_gpu_is_saved_and_loaded_on_a_cpu(data, tmp_path):
    there = fitted("switching", "cuda", data)
    there.save(tmp_path / "run")
    here = DCL.load(tmp_path / "run", device="cpu")
    for one, other in zip(there.transform(data), here.transform(data), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_loss_is_that_of_double_precision_on_the_cpu(scale):
    generator = torch.Generator().manual_seed(0)
    q, k, m = (scale * torch.randn(n, 3, generator=generator) for n in (64, 64, 512))
    there = info_nce(q.cuda(), k.cuda(), m.cuda()).total.cpu()
    here = info_nce(q.double(), k.double(), m.double()).total
    torch.testing.assert_close(there.double(), here, rtol=1e-3, atol=1e-3)


VARIANTS = [
    {"similarity": "dot"},
    {"density_correction": "euclidean"},
    {"time_lags": (0, 1, 2)},
    {"asymmetric": True},
]


@pytest.mark.parametrize("changed", VARIANTS, ids=str)
def test_variants_train_on_a_gpu(changed, data):
    model = fitted("linear", "cuda", data, **changed)
    assert np.isfinite([r["loss"] for r in model.history_]).all()
    assert np.isfinite(np.concatenate(model.transform(data))).all()
