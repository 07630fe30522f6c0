"""The limit of the contrast: slopes by autograd, the likelihood by SciPy, its optimum by theory."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from dynacl import DCL, TimeSeries, metrics, prediction, simulate
from dynacl.data import InputError
from dynacl.encoders import MLP, Driven
from dynacl.objective import likelihood
from dynacl.objective.limit import BENT, log_volume
from dynacl.whitening import dimensions
from quick_models import begun


def encoder(d=3, linear_start=True):
    start = torch.eye(d) if linear_start else None
    return MLP(d, d, linear_start=start, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("linear_start", [True, False])
def test_slopes_of_the_encoder_are_those_of_autograd(linear_start):
    h, y = encoder(linear_start=linear_start), torch.randn(20, 3)
    x, slopes = h.with_slopes(y)
    torch.testing.assert_close(x, h(y))
    torch.testing.assert_close(slopes, torch.func.vmap(torch.func.jacrev(h))(y))


def test_past_inputs_do_not_change_slopes():
    h = Driven(encoder(), 2, 3)
    torch.nn.init.ones_(h.control)
    window = torch.randn(5, 5)
    x, slopes = h.with_slopes(window)
    torch.testing.assert_close(x, h(window))
    torch.testing.assert_close(slopes, h.inner.with_slopes(window[:, :3])[1])


def test_it_is_the_likelihood_of_observations_but_for_a_constant():
    rng = np.random.default_rng(0)
    errors, slopes = rng.standard_normal((4000, 2)), rng.standard_normal((2, 2))
    errors -= errors.mean(0)
    noise = multivariate_normal(cov=errors.T @ errors / len(errors))
    log_p = noise.logpdf(errors).mean() + np.log(abs(np.linalg.det(slopes)))
    found = likelihood(torch.tensor(errors), torch.tensor(slopes).expand(4000, 2, 2))
    constant = 1 + np.log(2 * np.pi)  # d/2 (1 + log 2π), d = 2
    assert found.total.item() + constant == pytest.approx(-log_p)
    assert found.total.item() == pytest.approx((found.alignment + found.uniformity).item())


def test_an_affine_map_of_latents_changes_nothing():
    errors, slopes = torch.randn(500, 3).double(), torch.randn(500, 3, 3).double()
    L = torch.tensor([[2.0, 0.3, 0.0], [0.0, 0.5, -1.0], [0.1, 0.0, 7.0]]).double()
    before, after = likelihood(errors, slopes), likelihood(errors @ L.T, L @ slopes)
    torch.testing.assert_close(before.total, after.total)


def test_the_state_is_likelier_than_a_bent_picture_of_it():
    """Of x' = A x + ε with the best f for each picture, which only the state has linear."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((40_000, 1))
    following = 0.8 * x + 0.2 * rng.standard_normal(x.shape)

    def loss(h, slope):
        z, after = h(x), h(following)
        best = np.polynomial.Polynomial.fit(z[:, 0], after[:, 0], 9)  # E[h(x') | h(x)]
        errors = after - best(z[:, 0])[:, None]
        return likelihood(torch.tensor(errors), torch.tensor(slope(following)[:, :, None])).total

    state = loss(lambda x: x, np.ones_like)
    for bend in (0.1, 0.3, -0.2):
        bent = loss(
            lambda x, b=bend: x + b * np.sin(2 * x), lambda x, b=bend: 1 + 2 * b * np.cos(2 * x)
        )
        assert state < bent


def test_folds_cost_more_the_wider_they_are_and_pull_with_bounded_force():
    volumes = torch.ones(100).index_fill(0, torch.tensor([0]), 1e-6).requires_grad_()
    log_volume(volumes[:, None, None]).backward()
    assert volumes.grad.max() == pytest.approx(1 / BENT / 100)
    folded = [log_volume(torch.cat([torch.ones(90), torch.full((10,), v)])[:, None, None])
              for v in (1.0, 0.5, 0.01, -0.5, -1.0)]  # fmt: skip
    assert folded == sorted(folded, reverse=True)


def test_orientation_does_not_matter():
    slopes = torch.randn(100, 2, 2).abs() + 3 * torch.eye(2)
    torch.testing.assert_close(
        log_volume(slopes), log_volume(slopes @ torch.diag(torch.tensor([1.0, -1.0])))
    )


def test_dimensions_that_observations_span_are_counted():
    rng = np.random.default_rng(0)
    y = (rng.standard_normal((5000, 3)) @ rng.standard_normal((3, 50)) + 7).astype(np.float32)
    assert dimensions(y, 3) == 3
    assert dimensions(y, 2) == 3
    assert dimensions(y + 1e-2 * rng.standard_normal(y.shape).astype(np.float32), 3) == 4


def data(noise=0.0, **how):
    found = simulate.lds(rng=np.random.default_rng(0), d=2, trials=20, steps=200, noise=0.05, **how)
    bent = found.observations + noise * np.random.default_rng(1).standard_normal(
        found.observations.shape
    )
    return TimeSeries(bent.astype(np.float32), found.bounds, truth=found.truth)


def test_it_is_used_where_observations_have_as_many_dimensions_as_the_state():
    def objective(series, **how):
        return begun(DCL(2, "mlp", max_iter=1, **how), series).settings.objective

    clean, noisy = data(), data(noise=0.1)
    assert objective(clean) == "likelihood"
    assert objective(noisy) == "contrast"
    assert objective(clean, time_lags=(0, 1)) == "contrast"
    assert objective(clean, n_negatives=100) == "contrast"
    assert objective(clean, density_correction="euclidean") == "contrast"
    assert objective(clean, asymmetric=True) == "contrast"
    assert objective(clean, similarity="dot") == "contrast"
    assert objective(clean, protocol="paper-lds", batch_size=64) == "contrast"
    assert objective(clean, settings={"objective": "contrast"}) == "contrast"


def test_free_dynamics_find_a_state_where_the_noise_can_be_seen():
    series = simulate.lds(
        rng=np.random.default_rng(3), d=2, trials=40, steps=250, noise=0.1, angle=20, layers=2
    )
    model = DCL(2, "mlp", random_state=0, validation=False, max_iter=400).fit(series)
    start = DCL(2, "mlp", random_state=0, validation=False, max_iter=1).fit(series)
    found = metrics.r2(series.truth.latents, model.transform(series.observations))
    began = metrics.r2(series.truth.latents, start.transform(series.observations))
    assert 1 - found < 0.3 * (1 - began)


def test_a_likelihood_of_windows_that_share_frames_is_refused():
    with pytest.raises(InputError, match=r"objective: got 'likelihood'.*wanted"):
        DCL(2, max_iter=1, time_lags=(0, 1), settings={"objective": "likelihood"}).fit(data())


def test_an_encoder_that_sees_the_whole_state_is_undone_exactly():
    series = data(layers=3)
    model = DCL(2, "mlp", max_iter=30, random_state=0, validation=False).fit(series)
    y, run = series.observations[::7], model.run_
    x = model.transform(y)
    found = prediction.observed(run.encoder, run.readout, x)
    by_readout = run.readout(torch.from_numpy(x)).detach().numpy()
    missed = [np.square(y - guess).mean() / y.var() for guess in (found, by_readout)]
    assert missed[0] < 1e-9
    assert missed[0] < 1e-2 * missed[1]


def test_latents_of_no_observation_leave_the_readouts_guess(short_descents):
    model = DCL(2, "mlp", max_iter=5, random_state=0).fit(data())
    far = np.full((3, 2), 1e4, dtype=np.float32)
    assert np.isfinite(prediction.observed(model.run_.encoder, model.run_.readout, far)).all()
    noisy = DCL(2, max_iter=5, time_lags=(0, 1), random_state=0).fit(data(noise=0.1))
    x = noisy.transform(data(noise=0.1).observations)[:5]
    by_readout = noisy.readout_(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_array_equal(
        prediction.observed(noisy.run_.encoder, noisy.readout_, x), by_readout
    )


def test_one_row_at_which_an_encoder_folds_does_not_decide_a_judgement():
    volumes = torch.ones(1000).index_fill(0, torch.tensor([3]), -1e6)[:, None, None]
    assert log_volume(volumes) < -1000
    assert log_volume(volumes, most=10.0) == pytest.approx(-10 / 1000)
