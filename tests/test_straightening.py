"""Latents of a flow that are a smooth redrawing of the state are straightened."""

import numpy as np
import pytest
import torch

from dynacl import DCL, metrics, persistence
from dynacl.dynamics.monomials import Monomials
from dynacl.encoders import MLP
from dynacl.encoders.redrawing import Redrawing, degree
from dynacl.straightening import Places, misfit, search, straighten


def bent(d=3, seed=0, size=0.05):
    psi = Redrawing(d, degree(d))
    random = torch.Generator().manual_seed(seed)
    psi.mean = torch.randn(d, generator=random)
    psi.root = torch.linalg.cholesky(torch.eye(d) + 0.3)
    psi.theta = size * torch.randn(psi.theta.shape, generator=random)
    return psi


def test_slopes_are_those_of_the_redrawing():
    psi, x = bent(), torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    slopes = torch.stack([torch.autograd.functional.jacobian(psi, one[None])[0, :, 0] for one in x])
    value, told = psi.with_slopes(x, torch.eye(3).expand(20, 3, 3))
    assert torch.allclose(value, psi(x))
    assert torch.allclose(told, slopes, atol=1e-4)


def test_far_out_it_grows_no_faster_than_its_latents():
    psi = bent()
    far, further = (torch.full((1, 3), value) for value in (100.0, 200.0))
    assert torch.allclose(psi(further) - psi(far), further - far, atol=1e-3)


@pytest.mark.parametrize(("d", "degrees"), [(2, 5), (3, 5), (5, 4), (7, 3), (12, 2)])
def test_many_dimensions_have_few_products(d, degrees):
    assert degree(d) == degrees
    psi = Redrawing(d, degrees)
    assert Redrawing.like(psi.theta, d).state_dict().keys() == psi.state_dict().keys()
    assert Redrawing.like(psi.theta, d).theta.shape == psi.theta.shape
    assert Redrawing.like(psi.theta[1:], d) is None
    assert Redrawing.like(psi.theta, d + 1) is None
    assert Redrawing.like(psi.theta[0], d) is None


def test_few_places_have_few_coefficients():
    _, many, terms = places()
    few = Places(many.z[:1000], many.noise[:1000], many.field[:1000])
    assert search(many, terms)[0].theta.numel() > 1000 / 20 >= search(few, terms)[0].theta.numel()


def test_an_encoder_keeps_its_redrawing_with_its_weights():
    y = torch.randn(30, 5, generator=torch.Generator().manual_seed(2))
    before, plain = MLP(5, 3), MLP(5, 3)
    weights = {name: value.clone() for name, value in before.state_dict().items()}
    straight = before(y)
    assert before.redraw(bent())
    assert not torch.allclose(before(y), straight, atol=1e-2)
    plain.load_state_dict(before.state_dict())
    assert torch.equal(plain(y), before(y))
    plain.load_state_dict(weights)
    assert torch.equal(plain(y), straight)


def test_slopes_of_an_encoder_go_through_its_redrawing():
    encoder, y = MLP(3, 3), torch.randn(8, 3, generator=torch.Generator().manual_seed(3))
    encoder.redraw(bent())
    slopes = torch.stack(
        [torch.autograd.functional.jacobian(encoder, one[None])[0, :, 0] for one in y]
    )
    x, told = encoder.with_slopes(y)
    assert torch.allclose(x, encoder(y), atol=1e-5)
    assert torch.allclose(told, slopes, atol=1e-4)


def test_a_saved_model_has_it_too(tmp_path):
    y = np.random.default_rng(0).normal(size=(400, 4))
    model = DCL(2, "linear", max_iter=5, random_state=0).fit(y)
    model.run_.encoder.redraw(bent(2))
    found = model.transform(y)
    model.save(tmp_path / "model.safetensors")
    assert np.array_equal(DCL.load(tmp_path / "model.safetensors").transform(y), found)
    persistence.save_checkpoint(model.run_, tmp_path / "run.pt")
    other = DCL(2, "linear", max_iter=5, random_state=0).fit(y)
    persistence.load_checkpoint(other.run_, tmp_path / "run.pt")
    assert np.array_equal(other.transform(y), found)


def places(seed=0, n=3000):
    """A quadratic field, seen through a cubic bend of its state, with noise alike everywhere."""
    random = torch.Generator().manual_seed(seed)
    s = torch.randn(n, 3, generator=random, dtype=torch.double).clamp(-2.5, 2.5)
    terms = Monomials(3, 2)
    field = terms(s) @ torch.randn(len(terms), 3, generator=random, dtype=torch.double)

    def bend(s):
        a, b, c = s.unbind(-1)
        return torch.stack([a + 0.4 * b**2, b + 0.06 * c**3, c + 0.3 * a * b], -1)

    slopes = torch.stack([torch.autograd.functional.jacobian(bend, one) for one in s])
    z = bend(s)
    root = torch.linalg.cholesky(torch.cov(z.T))
    noise = torch.linalg.solve_triangular(root, 0.01 * slopes, upper=False)
    along = torch.einsum("nij,nj->ni", slopes, field)
    moved = torch.linalg.solve_triangular(root, along.T, upper=False).T
    return s, Places(torch.linalg.solve_triangular(root, (z - z.mean(0)).T, upper=False).T,
                     noise, moved), terms  # fmt: skip


def test_a_bent_state_is_found_again():
    s, seen, terms = places()
    psi, gain = search(seen, terms)
    assert metrics.r2(s.numpy(), seen.z.numpy()) < 0.95
    assert metrics.r2(s.numpy(), psi(seen.z).detach().numpy()) > 0.99
    assert gain > 0.1


def test_a_straight_state_stays():
    random = torch.Generator().manual_seed(0)
    s, terms = torch.randn(3000, 3, generator=random, dtype=torch.double), Monomials(3, 2)
    even = 0.01 * torch.eye(3).expand(len(s), 3, 3).double()
    psi, gain = search(Places(s, even, terms(s) @ torch.ones(len(terms), 3).double()), terms)
    assert abs(gain) < 0.01
    assert metrics.r2(s.numpy(), psi(s).detach().numpy()) > 0.999


def test_misfit_is_small_for_a_field_of_its_terms_alone():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(500, 3, generator=random, dtype=torch.double)
    terms = Monomials(3, 2)
    inside = terms(x) @ torch.randn(len(terms), 3, generator=random, dtype=torch.double)
    assert misfit(x, inside, terms) < misfit(x, x**3, terms) - 1


def test_nothing_is_done_where_no_noise_was_seen():
    model = DCL(2, "linear", max_iter=5, random_state=0)
    model.fit(np.random.default_rng(0).normal(size=(400, 4)))
    from dynacl.data import TimeSeries
    from dynacl.sampling import rows

    series = TimeSeries.of(np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32))
    assert straighten(model.run_, rows(series, model.run_), lambda run: "") == ""


@pytest.fixture
def noisy(monkeypatch):
    """Fits see noise wherever they look, and a search finds a bend that makes it more even."""
    from dynacl import straightening, training
    from dynacl.sampling import Noise

    def with_noise(data, series, run):
        roots = 0.1 * torch.eye(2).expand(len(data.y), 2, 2)
        return data._replace(noise=Noise(data.ready(data.y), roots))

    def found(places, terms):
        psi = Redrawing(2).double()
        psi.theta[:] = 0.01
        return psi, 0.5

    monkeypatch.setattr(training, "with_noise", with_noise)
    monkeypatch.setattr(straightening, "search", found)
    rng = np.random.default_rng(0)
    angle = 0.2 * np.arange(1500)[:, None] + rng.normal(size=(1500, 1)) * 0.05
    return np.hstack([np.cos(angle), np.sin(angle)]) + 0.01 * rng.normal(size=(1500, 2))


def test_a_fit_of_a_flow_ends_with_it_and_says_so(noisy, tmp_path):
    model = DCL(2, "flow", max_iter=30, random_state=0, settings={"validation": 0.0}).fit(noisy)
    assert "straightened" in model.verdict_
    assert model.run_.encoder.redrawing is not None
    found = model.transform(noisy)
    model.save(tmp_path / "model")
    assert np.array_equal(DCL.load(tmp_path / "model").transform(noisy), found)
    again = DCL(2, "flow", max_iter=30, random_state=0, settings={"validation": 0.0}).fit(noisy)
    assert np.array_equal(again.transform(noisy), found)


def test_it_is_taken_back_where_the_judge_does_not_accept_it(noisy, monkeypatch):
    from dynacl.judging import Judge

    monkeypatch.setattr(Judge, "said_of", lambda self, run: None)
    model = DCL(2, "flow", max_iter=30, random_state=0).fit(noisy)
    assert model.run_.judged, "a judge looked"
    assert "straightened" not in model.verdict_
    assert model.run_.encoder.redrawing is None


def test_an_interrupted_fit_is_straightened_at_its_end_alone(noisy):
    model = DCL(2, "flow", max_iter=30, random_state=0, settings={"validation": 0.0})
    model.fit(noisy, callback=lambda run, record: run.step >= 10)
    assert model.run_.encoder.redrawing is None
    model.resume(noisy)
    assert model.run_.encoder.redrawing is not None


def test_what_is_beside_a_straightened_model_leaves_it_as_it_is(noisy, monkeypatch):
    from dynacl import evaluate
    from dynacl.judging import Judge

    monkeypatch.setattr(Judge, "said_of", lambda self, run: "; so it was")
    monkeypatch.setattr(Judge, "conclude", lambda self, run: "")
    model = DCL(2, "flow", max_iter=30, random_state=0).fit(noisy)
    assert model.verdict_.endswith("; so it was")
    found = model.transform(noisy)
    assert model.held_out_ is not None
    evaluate(model, noisy)
    model.forecast(noisy, steps=5)
    assert model.run_.encoder.redrawing is not None
    assert np.array_equal(model.transform(noisy), found)


def test_training_that_goes_on_does_so_unstraightened(noisy):
    settings = {"validation": 0.0}
    model = DCL(2, "flow", max_iter=30, random_state=0, settings=settings).fit(noisy)
    seen = []
    model.resume(noisy, max_iter=40, callback=lambda run, _: seen.append(run.encoder.redrawing))
    assert seen
    assert all(redrawing is None for redrawing in seen)
    assert model.run_.encoder.redrawing is not None
    assert model.verdict_.count("straightened") == 1
    assert model.run_.as_trained is not None


def test_a_run_that_died_after_its_last_step_is_straightened_when_it_is_resumed(noisy, tmp_path):
    settings = {"validation": 0.0}
    kept = tmp_path / "run.pt"

    def keep(run, record):
        if run.step == 30:
            persistence.save_checkpoint(run, kept)

    model = DCL(2, "flow", max_iter=30, random_state=0, settings=settings)
    found = model.fit(noisy, callback=keep).transform(noisy)
    other = DCL(2, "flow", max_iter=30, random_state=0, settings=settings)
    other.fit(noisy, callback=lambda run, record: run.step >= 10)
    persistence.load_checkpoint(other.run_, kept)
    other.resume(noisy)
    assert "straightened" in other.verdict_
    assert np.array_equal(other.transform(noisy), found)


def test_a_start_that_is_handed_out_stays_linear(noisy, monkeypatch):
    from dynacl.judging import Judge

    def conclude(self, run):
        self.kept_start = True
        return "the linear start is handed out"

    monkeypatch.setattr(Judge, "conclude", conclude)
    monkeypatch.setattr(Judge, "said_of", lambda self, run: "")
    model = DCL(2, "flow", max_iter=30, random_state=0).fit(noisy)
    assert model.run_.encoder.redrawing is None


def test_too_few_places_are_left_alone():
    from dynacl.straightening import too_few

    assert too_few(torch.zeros(100, 3))
    assert not too_few(torch.zeros(1000, 3))
    assert too_few(torch.zeros(2000, 8))
    assert not too_few(torch.zeros(10_000, 8))
    assert too_few(torch.zeros(10_000, 20))
