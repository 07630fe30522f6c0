"""Each variant of the method on small data with known truth: it fails when the variant is wrong."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from torch import nn

from dynacl import DCL, InputError, TimeSeries, evaluate, metrics, simulate
from dynacl.data import Truth
from dynacl.dynamics import Gated, Linear, Polynomial, Recurrent, ResidualMLP, fit_post_hoc
from dynacl.dynamics import Truth as Oracle
from dynacl.evaluation import equations
from dynacl.inference import transition_matrix
from dynacl.objective import Dot, Euclidean, info_nce, log_density, log_sum
from dynacl.persistence import load_checkpoint, save_checkpoint
from dynacl.simulate.systems import rotation
from dynacl.whitening import observed_dimensions, whitening


def small(n, dynamics="linear", **changed):
    settings = {"max_iter": 600, "batch_size": 512, "random_state": 0} | changed
    return DCL(n, dynamics, **settings)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# -- noise on the sphere -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def sphere():
    return simulate.sphere(
        rng=np.random.default_rng(2), angle=20, noise=0.01, trials=100, steps=200, observed=10,
        layers=2,
    )  # fmt: skip


def test_dot_similarity_is_the_dot_product_of_unit_vectors_over_the_temperature():
    q, k, others = normal(7, 3), normal(7, 3, seed=1), normal(20, 3, seed=2)
    phi = Dot(0.2).double()
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
    kappa = 1 / model.run_.similarity.temperature.item()
    ahead = model.forecast(sphere, 50)
    assert 3_000 < kappa < 12_000  # 1 / σ² is 10,000, and the encoder adds to the noise
    np.testing.assert_allclose(np.linalg.norm(ahead, axis=2), 1, rtol=1e-5)


def test_asymmetric_encoders_recover_the_sphere_without_a_model_of_the_dynamics():
    data = simulate.sphere(
        rng=np.random.default_rng(2), angle=20, noise=0.1, trials=100, steps=200, observed=10,
        layers=2,
    )  # fmt: skip
    model = small(3, "identity", asymmetric=True, similarity="dot").fit(data)
    assert evaluate(model, data)["r2"] > 0.99
    # h₁ leads to where h₂ puts the next step; the other way round is off by two rotations.
    x, ahead = np.stack(model.transform(data)), np.stack(model.predict(data))
    miss = np.linalg.norm(ahead[:, :-1] - x[:, 1:], axis=2).mean()
    assert miss < 0.5 * np.linalg.norm(ahead[:, 1:] - x[:, :-1], axis=2).mean()
    assert miss < 0.2  # the noise: σ 0.1 in two dimensions


def test_asymmetric_encoders_are_two_and_transform_uses_the_second(sphere):
    model = small(3, "identity", asymmetric=True, max_iter=20).fit(sphere)
    y = torch.from_numpy(sphere.observations[:50])
    with torch.no_grad():
        h1, h2 = model.encoder_.reference(y).numpy(), model.encoder_.target(y).numpy()
    np.testing.assert_array_equal(model.transform(sphere.observations[:50]), h2)
    np.testing.assert_array_equal(model.predict(sphere.observations[:50]), h1)
    assert np.abs(h1 - h2).max() > 1e-3
    with pytest.raises(InputError, match="asymmetric"):
        model.forecast(sphere, 3)


def lengths(dynamics, x):
    """The mean length of what each matrix predicts."""
    bank = getattr(dynamics, "matrices", getattr(dynamics, "matrix", None))
    matrices = bank.detach().numpy().reshape(-1, 3, 3)
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
        for part in ("encoder", "dynamics", "similarity"):
            one, two = (getattr(m.run_, part).state_dict() for m in (whole, model))
            assert all(torch.equal(one[k], two[k]) for k in one)


def test_two_encoders_on_the_sphere_scale_the_predictions_of_references(rotating):
    settings = {"similarity": "dot", "asymmetric": True, "dynamics_learning_rate": 0.2}
    model = tiny(3, "linear", max_iter=20, **settings).fit(rotating)
    with torch.no_grad():
        x = model.encoder_.reference(torch.from_numpy(rotating.observations)).numpy()
    np.testing.assert_allclose(lengths(model.dynamics_, x), 1, rtol=1e-5)


# -- density correction ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["euclidean", "vmf"])
def test_log_density_equals_a_loop_and_leaves_out_the_point_itself(kernel):
    x = nn.functional.normalize(normal(30, 3), dim=1)
    skip = torch.arange(30)[:, None]
    got = log_density(x, x, kernel=kernel, bandwidth=0.3, skip=skip)
    for i in range(30):
        rest = torch.cat([x[:i], x[i + 1 :]])
        if kernel == "euclidean":
            terms = torch.exp(-(x[i] - rest).square().sum(1) / 0.3)
        else:
            terms = torch.exp((rest @ x[i] - 1) / 0.3)
        assert got[i].item() == pytest.approx(terms.mean().log().item())
    # Leaving out matters: with the point itself, a narrow kernel sees nothing else.
    narrow = log_density(x, x, kernel=kernel, bandwidth=1e-6)
    torch.testing.assert_close(narrow, torch.full_like(narrow, -np.log(30)))


def test_gradients_pass_through_the_density_to_points_and_support():
    x, support = normal(6, 2).requires_grad_(), normal(9, 2, seed=1).requires_grad_()
    torch.autograd.gradcheck(lambda a, b: log_density(a, b, bandwidth=0.7), [x, support])
    potential = log_density(x, support)
    loss = info_nce(x, x + 0.1, x, potential=(potential, potential)).total
    assert torch.autograd.grad(loss, support)[0].abs().max() > 0


def test_potential_enters_the_loss_as_minus_alpha():
    q, k, others = normal(5, 2), normal(5, 2, seed=1), normal(8, 2, seed=2)
    a, b = normal(5, seed=3), normal(8, seed=4)
    psi = torch.cat([(Euclidean()(q, k) - a)[:, None], Euclidean()(q[:, None], others) - b], 1)
    expected = (psi.logsumexp(1) - psi[:, 0]).mean()
    torch.testing.assert_close(info_nce(q, k, others, potential=(a, b)).total, expected)


@pytest.mark.parametrize("correction", [None, "euclidean"])
def test_correction_restores_the_metric_and_the_dynamics(correction):
    """With α = log q: LᵀL = ½Σ⁻¹ and L⁻¹ÂL = A; without: off by the known factors."""
    rng = np.random.default_rng(0)
    sigma2, s2, shrink = 0.1, 0.2, np.sqrt(0.5)  # stationary: A Aᵀ S + Σ = S
    A = shrink * rotation(2, np.array([25.0]))
    x = np.sqrt(s2) * rng.standard_normal((100_000, 2))
    following = x @ A.T + np.sqrt(sigma2) * rng.standard_normal(x.shape)
    rows = np.stack([x, following], 1).reshape(-1, 2).astype(np.float32)
    data = TimeSeries(rows, np.arange(0, len(rows) + 1, 2), truth=Truth(rows))
    encoder = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        encoder.weight.copy_(torch.eye(2))
    model = DCL(
        2, "linear", encoder=encoder, protocol="paper-lds", batch_size=1024, n_negatives=2048,
        max_iter=1000, learning_rate=0.02, dynamics_learning_rate=0.003, random_state=0,
        density_correction=correction, bandwidth=None if correction is None else 0.2,
    )  # fmt: skip
    tail = []

    def remember(run, record):
        if run.step > 500:
            tail.append((run.encoder.weight.detach().clone(), run.dynamics.matrix.detach().clone()))

    model.fit(data, callback=remember)
    gram = torch.stack([L.T @ L for L, _ in tail]).mean(0).numpy()
    moved = torch.stack([torch.linalg.solve(L, a @ L) for L, a in tail]).mean(0).numpy()
    corrected, plain = 0.5 / sigma2 * np.eye(2), 0.5 * (1 / sigma2 - 1 / s2) * np.eye(2)
    wanted, other = (plain, corrected) if correction is None else (corrected, plain)
    assert np.linalg.norm(gram - wanted) < 0.12 * np.linalg.norm(wanted)
    assert np.linalg.norm(gram - other) > 0.3 * np.linalg.norm(other)
    right = A / (1 - sigma2 / s2) if correction is None else A
    assert np.linalg.norm(moved - right) < 0.1 * np.linalg.norm(right)


def test_correction_halves_what_a_concentrated_marginal_costs():
    """The effect of the paper's figure on kernel density estimates."""
    data = simulate.sphere(
        rng=np.random.default_rng(1), angle=0, noise=0.3, concentration=8, trials=20_000, steps=2,
    )  # fmt: skip
    loss = {}
    for correction in (None, "vmf"):
        model = small(3, "identity", similarity="dot", density_correction=correction).fit(data)
        loss[correction] = 1 - evaluate(model, data)["r2"]
    assert loss[None] > 0.05
    assert loss["vmf"] < 0.5 * loss[None]


# -- time lags ---------------------------------------------------------------------------------


class Remember(nn.Module):
    """An encoder that keeps the windows it saw; row t of the data holds t."""

    def __init__(self, width):
        super().__init__()
        self.map = nn.Linear(width, 2)
        self.seen = []

    def forward(self, y):
        self.seen.append(y.detach().clone())
        return self.map(y / 1000)

    def __deepcopy__(self, memo):
        return self


def test_windows_hold_the_lags_and_never_cross_a_trial():
    lengths = [30, 9, 50]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(bounds[-1], dtype=np.float32)[:, None]
    series, lags = TimeSeries(rows, bounds), (0, 2, 5)
    encoder = Remember(3)
    model = small(2, encoder=encoder, time_lags=lags, max_iter=30, batch_size=64).fit(series)
    trial = np.repeat(np.arange(3), lengths)
    seen = torch.cat(encoder.seen).numpy().astype(int)
    np.testing.assert_array_equal(seen[:, [0]] - seen, np.tile(lags, (len(seen), 1)))
    assert (trial[seen[:, 0]] == trial[seen[:, 2]]).all()
    assert set(range(5, 26)) <= set(seen[:, 0])  # and all that can be used are
    encoder.seen.clear()
    out = model.transform(series)
    assert [len(x) for x in out] == [25, 4, 45]
    seen = torch.cat(encoder.seen).numpy().astype(int)
    np.testing.assert_array_equal(seen[:, 0], np.r_[5:30, 35:39, 44:89])
    assert [len(x) for x in model.transform(series, pad=True)] == lengths
    assert [len(x) for x in model.predict(series)] == [25, 4, 45]
    with pytest.raises(InputError, match="reach 5 steps back"):
        model.transform(rows[:5])


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_lags_recover_what_a_low_rank_mixing_hides(kind):
    data = simulate.lds(
        rng=np.random.default_rng(1), d=4, angle=10, noise=1e-3, trials=60, steps=300, rank=2,
        mixing=kind, observed=20, layers=2,
    )  # fmt: skip
    blind = small(4, time_lags=(0,))
    if kind == "linear":
        with pytest.warns(UserWarning, match="span 2 dimensions, fewer than the 4 latents"):
            blind.fit(data)
    else:
        blind.fit(data)
    seeing = small(4, time_lags=range(0, 12, 2)).fit(data)
    r2 = {name: evaluate(m, data)["r2"] for name, m in (("blind", blind), ("seeing", seeing))}
    assert r2["seeing"] > 0.9
    assert r2["blind"] < r2["seeing"] - 0.15


@pytest.mark.parametrize(("rank", "lags"), [(1, 9), (2, 6), (3, 4)])
def test_enough_consecutive_lags_see_six_latents_behind_a_mixing_of_low_rank(rank, lags):
    """Each lag shows `rank` numbers of the state: six take 6 / rank of them, and more help."""
    data = simulate.lds(
        rng=np.random.default_rng(1), d=6, angle=40, noise=0.01, trials=100, steps=60, rank=rank,
        mixing="linear", observed=6,
    )  # fmt: skip

    def recovered(k, steps):
        """Whitened windows and a linear map: they are wider than the state, so it must be found."""
        windows = data.with_past(k - 1)[:, None] - np.arange(k)
        scaling = whitening(data.observations, windows)
        torch.manual_seed(0)
        encoder = nn.Sequential(scaling, nn.Linear(scaling.n_outputs, 6))
        model = small(
            6, encoder=encoder, time_lags=range(k), max_iter=steps, batch_size=256,
            dynamics_learning_rate=0.04,
        ).fit(data)  # fmt: skip
        return scaling.n_outputs, evaluate(model, data)["r2"]

    width, r2 = recovered(lags, 600)
    assert width == lags * rank > 6
    assert r2 > 0.97
    few = 6 // rank - 1
    width, r2 = recovered(few, 50)
    assert width == few * rank < 6
    assert r2 < width / 6 + 0.05  # of six alike latents it can explain as many

    with pytest.warns(UserWarning, match=f"span {few * rank} dimensions, fewer than the 6 latents"):
        small(6, time_lags=range(few), max_iter=1).fit(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(6, time_lags=range(lags), max_iter=1).fit(data)


def planes(seen, noise=0.01):
    """Three planes that turn at three speeds, and a mixing C of rank 2 that sees some of them."""
    rng = np.random.default_rng(0)
    A = np.zeros((6, 6))
    for i, turn in enumerate((0.3, 0.7, 1.2)):
        A[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [
            [np.cos(turn), -np.sin(turn)],
            [np.sin(turn), np.cos(turn)],
        ]
    C = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 6)) * np.repeat(seen, 2)
    x = np.empty((60, 100, 6))
    x[:, 0] = rng.standard_normal((60, 6))
    for t in range(99):
        x[:, t + 1] = x[:, t] @ A.T + noise * rng.standard_normal((60, 6))
    stacked = np.concatenate([C @ np.linalg.matrix_power(A, -k) for k in range(5)])
    return list((x @ C.T).astype(np.float32)), int(np.linalg.matrix_rank(stacked))


@pytest.mark.parametrize("seen", [(1, 1, 1), (1, 1, 0), (0, 1, 0)])
def test_windows_that_span_enough_but_miss_a_part_of_the_state_are_told(seen):
    """Five lags of rank 2 span ten dimensions, most of them noise; the rank of O is another."""
    trials, rank = planes(seen)
    assert rank == 2 * sum(seen)
    series = TimeSeries.of(trials)
    t, lags = series.steps(5, 4)[:, None], np.arange(5)
    y = series.observations
    scaling = whitening(y)
    assert observed_dimensions(scaling, y, t - lags, t + 1 + lags) == rank
    assert observed_dimensions(scaling, y, (t - lags)[:50], (t + 1 + lags)[:50]) is None

    lagged = {"time_lags": range(5), "max_iter": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(rank, **lagged).fit(trials)
    if rank < 6:
        with pytest.warns(UserWarning, match=f"show {rank} dimensions .* fewer than the 6 latents"):
            small(6, **lagged).fit(trials)


def test_a_model_with_lags_is_saved_whole(tmp_path):
    data = simulate.lds(rng=np.random.default_rng(1), trials=5, steps=60, observed=6)
    model = small(3, time_lags=(0, 3), max_iter=5, similarity="dot", asymmetric=True).fit(data)
    model.save(tmp_path)
    again = DCL.load(tmp_path)
    for a, b in zip(model.predict(data), again.predict(data), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.score(data) == model.score(data)


# -- control -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamics", ["linear", "switching", "polynomial"])
def test_control_matrix_is_recovered_up_to_the_affine_map(dynamics):
    rng = np.random.default_rng(0)
    A, B = rotation(2, np.array([10.0])), np.array([[0.1], [0.05]])
    u = rng.uniform(-1, 1, (100, 200, 1))
    x = np.zeros((100, 200, 2))
    x[:, 0] = rng.standard_normal((100, 2))
    for t in range(199):
        x[:, t + 1] = x[:, t] @ A.T + u[:, t] @ B.T + 0.02 * rng.standard_normal((100, 2))
    latents = x.reshape(-1, 2).astype(np.float32)
    y = latents @ rng.standard_normal((2, 6)).astype(np.float32)
    series = TimeSeries(
        y, np.arange(0, 20_001, 200), u.reshape(-1, 1).astype(np.float32), Truth(latents)
    )
    model = small(2, dynamics, n_modes=1, max_iter=1200).fit(series)
    back, _ = metrics.affine(np.concatenate(model.transform(series)), latents)
    found = back @ model.dynamics_.control.detach().numpy()
    np.testing.assert_allclose(found, B, atol=0.01)
    future = model.forecast(series, 5, u=np.ones((5, 1), dtype=np.float32))
    still = model.forecast(series, 5, u=np.zeros((5, 1), dtype=np.float32))
    moved = (np.stack(future) - np.stack(still))[:, 0].mean(0) @ back.T
    np.testing.assert_allclose(moved, B[:, 0], atol=0.01)


def test_control_matrix_of_the_papers_driven_system_is_found():
    series = simulate.controlled(
        rng=np.random.default_rng(0), control="step", trials=60, steps=400, observed=20,
        mixing="linear",
    )  # fmt: skip
    found = evaluate(small(5, max_iter=1000).fit(series), series)
    assert found["r2"] > 0.99
    assert found["control_error"] < 0.05  # 1 without B, 0.5 where a plane of the state is lost
    assert found["control_error_post_hoc"] < 0.05


def driven(*angles, trials=100, steps=100):
    """x' = A_k x + B u + ε in two dimensions, seen in six; modes last a hundred steps or so."""
    rng = np.random.default_rng(0)
    A = np.stack([rotation(2, np.array([angle])) for angle in angles])
    B = np.array([[0.3], [0.15]])
    u = rng.uniform(-1, 1, (trials, steps, 1))
    x = np.zeros((trials, steps, 2))
    x[:, 0] = rng.standard_normal((trials, 2))
    k = rng.integers(len(A), size=trials)
    for t in range(steps - 1):
        k = np.where(rng.random(trials) < 0.01, rng.integers(len(A), size=trials), k)
        moved = np.einsum("nij,nj->ni", A[k], x[:, t]) + u[:, t] @ B.T
        x[:, t + 1] = moved + 0.05 * rng.standard_normal((trials, 2))
    latents = x.reshape(-1, 2).astype(np.float32)
    y = latents @ rng.standard_normal((2, 6)).astype(np.float32)
    control = u.reshape(-1, 1).astype(np.float32)
    return TimeSeries(y, np.arange(0, len(y) + 1, steps), control, Truth(latents)), B


@pytest.mark.parametrize(
    ("dynamics", "angles", "steps"),
    [("mlp", (10,), 400), ("gated", (10,), 400), ("recurrent", (10,), 600),
     ("switching", (30, -30), 600)],
    ids=["mlp", "gated", "recurrent", "switching"],
)  # fmt: skip
def test_free_and_switching_dynamics_learn_what_the_control_does(dynamics, angles, steps):
    data, B = driven(*angles)
    torch.manual_seed(0)  # of the encoder: any map of full rank is right, and quick
    model = small(
        2, dynamics, n_modes=2, encoder=nn.Linear(6, 2), max_iter=steps, batch_size=256,
        dynamics_learning_rate=0.05,
    ).fit(data)  # fmt: skip
    back, shift = metrics.affine(np.concatenate(model.transform(data)), data.truth.latents)
    np.testing.assert_allclose(back @ model.dynamics_.control.detach().numpy(), B, atol=0.02)

    now, ahead = 95, 5
    y, u, x = (data.split(v) for v in (data.observations, data.control, data.truth.latents))
    past = TimeSeries.of([v[:now] for v in y], [v[:now] for v in u])
    true, future = np.stack([v[now:] for v in x]), [v[now - 1 : now - 1 + ahead] for v in u]

    def error(control):
        """Of the middle trial: a switch in the future, or a mode mistaken, is not the control's."""
        found = np.stack(model.forecast(past, ahead, u=control)) @ back.T + shift
        return np.median(np.square(found - true).mean((1, 2)))

    right = error(future)
    assert right < 0.3 * error([0 * v for v in future])
    assert right < 0.2 * error(future[1:] + future[:1])  # the control of other trials


# -- dynamics beyond linear --------------------------------------------------------------------


def test_polynomial_has_every_monomial_once_and_starts_at_the_identity():
    z = normal(4, 3)
    for degree, count in ((1, 4), (2, 10), (3, 20)):
        model = Polynomial(3, degree).double()
        m = model.monomials(z)
        assert m.shape == (4, count)
        a, b, c = z.T
        named = [a * a, a * b, a * c, b * b, b * c, c * c, a, b, c, torch.ones_like(a)]
        if degree == 3:
            named += [v * square for v in (a, b, c) for square in named[:6]]
        for column in named[6:] if degree == 1 else named:
            assert (m - column[:, None]).abs().amax(0).min() < 1e-12
        torch.testing.assert_close(model(z), z)


def test_polynomial_does_not_notice_the_scale_of_the_embedding():
    from dynacl.dynamics import advance_in_training

    x = normal(500, 2)
    outs = []
    for scale in (1.0, 1000.0):
        model = Polynomial(2).double()
        with torch.no_grad():
            model.weight.copy_(0.1 * normal(*model.weight.shape, seed=1))
        outs.append(advance_in_training(model, scale * x, scale * x, [None]) / scale)
    torch.testing.assert_close(outs[0], outs[1])


def test_lipschitz_bound_makes_the_network_invertible():
    model = ResidualMLP(3, (32, 32), lipschitz=0.7).double()
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.mul_(20)  # far beyond the bound, were it not held
    a, b = normal(2000, 3), normal(2000, 3, seed=1)
    slope = (model.residual(a) - model.residual(b)).norm(dim=1) / (a - b).norm(dim=1)
    assert slope.max() <= 0.7
    assert slope.max() > 0.01
    x = a.clone()
    y = model(a)
    for _ in range(200):  # x = y − g(x) contracts
        x = y - model.residual(x)
    torch.testing.assert_close(x, a)


def lorenz(steps):
    return simulate.lorenz(
        rng=np.random.default_rng(1), steps=steps, noise=0.02, observed=20, layers=2
    )


def test_polynomial_finds_lorenz_where_linear_dynamics_do_not():
    data = simulate.lorenz(rng=np.random.default_rng(1), steps=20_000, observed=10, layers=1)
    model = small(3, "polynomial", max_iter=400).fit(data)
    found, linear = evaluate(model, data), evaluate(small(3, max_iter=400).fit(data), data)
    assert found["r2"] > 0.93 > linear["r2"] + 0.05
    assert found["dyn_r2_10"] > 0.9
    assert found["dyn_r2_10"] > found["dyn_r2_10_control"] + 0.2
    flow = equations(model, data)
    true = dict(zip(flow["monomials"], flow["true"][1], strict=True))
    assert true["x1·x3"] == pytest.approx(-1, rel=1e-3)
    assert true["x1"] == pytest.approx(28, rel=1e-3)
    assert flow["true_text"][0] == "x1' = -10 x1 +10 x2"


def test_horizon_of_a_polynomial_follows_the_data_and_not_its_noise():
    clean = lorenz(5000)
    y = clean.observations
    noisy = y + 0.01 * y.std(0) * normal(*y.shape, dtype=torch.float32).numpy()
    short = TimeSeries.of([y[:30], y[30:]])  # the first trial says little
    centred = y - y.mean(0)
    correlation = [np.mean((centred[h:] * centred[:-h]).sum(1)) for h in range(1, 30)]
    low = np.array(correlation) < 0.25 * np.square(centred).sum(1).mean()
    expected = min(1 + int(low.argmax()), 20)
    assert expected > 10
    for series in (clean, TimeSeries.of(noisy), short):
        assert small(3, "polynomial", max_iter=1).fit(series).settings_.horizon == expected
    turned = TimeSeries.of(y[::40])
    assert small(3, "polynomial", max_iter=1).fit(turned).settings_.horizon == 1
    assert small(3, "polynomial", degree=3, max_iter=1).fit(clean).settings_.horizon == 1


def test_each_pair_of_a_polynomial_has_its_own_number_of_steps(monkeypatch):
    from dynacl import training
    from dynacl.dynamics import advance_in_training

    seen, drawn = [], []

    def capture(dynamics, x, x_next, controls, steps):
        drawn.append(steps)
        ends = advance_in_training(dynamics, x, x_next, controls, steps)
        seen.append((int(steps.min()), int(steps.max())))
        for row in (0, 100):  # each by itself, step by step
            alone = x[row : row + 1]
            for _ in range(steps[row]):
                alone = dynamics(alone)
            torch.testing.assert_close(ends[row], alone[0])
        return ends

    apart, encode = [], training.encode

    def watch(run, data, t, others, device):
        apart.append(others[: len(t)] - t)  # of positives and references, in time
        return encode(run, data, t, others, device)

    monkeypatch.setattr(training, "advance_in_training", capture)
    monkeypatch.setattr(training, "encode", watch)
    model = small(3, "polynomial", max_iter=20).fit(lorenz(5000))
    last = model.settings_.horizon
    assert seen == [(1, last)] * 20
    assert all(torch.equal(a, b) for a, b in zip(apart, drawn, strict=True))


def test_only_whitened_input_gives_a_linear_start():
    assert small(3, "polynomial", max_iter=1).fit(lorenz(5000)).encoder_.linear is not None
    plain = small(3, "polynomial", max_iter=1, standardize=False).fit(lorenz(5000))
    assert plain.encoder_.linear is None


def exact(series, moved, **changed):
    """A model whose latents are the observations, with a quadratic map fitted to where they go."""
    d = series.n_features
    unmixed = nn.Linear(d, d, bias=False)
    with torch.no_grad():
        unmixed.weight.copy_(torch.eye(d))
    settings = {"encoder": unmixed, "max_iter": 1, "learning_rate": 1e-9} | changed
    model = small(d, "polynomial", **settings).fit(series)
    fit_post_hoc(model.dynamics_.double(), torch.from_numpy(series.observations).double(), moved)
    return model


def test_equations_are_exact_for_an_exact_model():
    """Latents in other coordinates and a quadratic map fitted to them: the truth comes back."""
    data = lorenz(5000)
    latents = torch.from_numpy(data.truth.latents).double()
    M = torch.tensor([[1.0, 0.3, 0], [0, 0.5, 0.2], [0.1, 0, 2.0]]).double()
    x, moved = latents @ M.T, Oracle(data.truth.system).double()(latents).detach() @ M.T
    series = TimeSeries(x.float().numpy(), data.bounds, truth=data.truth)
    flow = equations(exact(series, moved), series, tolerance=1e-4)
    np.testing.assert_allclose(flow["recovered"], flow["true"], atol=0.01)
    # −x2 is 0.2 % of the flow of x2: by default the other terms take it over.
    assert equations(exact(series, moved), series)["recovered_text"][1].count("x") == 4


@pytest.mark.parametrize(
    ("make", "offset", "growth", "settings"),
    [(simulate.lds, 3, 1, {}), (simulate.sphere, 1, 2, {"similarity": "dot"})],
    ids=["over several steps", "on the sphere, where lengths are free"],
)
def test_equations_are_the_mean_flow_of_a_step(make, offset, growth, settings):
    data = make(rng=np.random.default_rng(0), d=2, angle=20, trials=20, steps=50, mixing="none")
    A = data.truth.system["matrix"]
    over = np.linalg.matrix_power(A, offset)
    series = TimeSeries(data.truth.latents, data.bounds, truth=data.truth)
    moved = growth * torch.from_numpy(data.truth.latents @ over.T)
    flow = equations(exact(series, moved, time_offset=offset, **settings), series)
    linear = [flow["monomials"].index(name) for name in ("x1", "x2")]
    for side in ("recovered", "true"):
        np.testing.assert_allclose(flow[side][:, linear], (over - np.eye(2)) / offset, atol=1e-3)
        assert np.abs(np.delete(flow[side], linear, axis=1)).max() < 1e-3


@pytest.mark.parametrize(
    ("make", "changed", "message"),
    [
        (simulate.lds, {"n_components": 2}, "n_components: got 2; wanted 3"),
        (simulate.lds, {"n_components": 4, "standardize": False}, "n_components: got 4; wanted 3"),
        (simulate.lds, {"asymmetric": True}, "asymmetric: "),
        (simulate.controlled, {}, "data: carries no true system without modes and control"),
    ],
)
def test_equations_are_refused_where_they_mean_nothing(make, changed, message):
    data = make(rng=np.random.default_rng(0), d=3, trials=3, steps=30, observed=6, layers=1)
    series = TimeSeries(data.observations, data.bounds, truth=data.truth)  # control left out
    model = tiny(changed.pop("n_components", 3), "polynomial", **changed).fit(series)
    with pytest.raises(InputError, match=message):
        equations(model, series)


@pytest.mark.parametrize(
    ("kind", "steps", "settings"),
    [
        ("mlp", 60_000, {"max_iter": 1000}),
        ("gated", 10_000, {"n_modes": 10}),
        ("recurrent", 10_000, {"batch_size": 256}),
    ],
)
def test_free_dynamics_predict_better_than_standing_still(kind, steps, settings):
    data = lorenz(steps)
    model = small(3, kind, **settings).fit(data)
    found = evaluate(model, data)
    assert found["dyn_r2_10"] > found["dyn_r2_10_control"] + 0.1
    assert found["r2"] > 0.7
    assert np.isfinite(model.forecast(data, 20)).all()


def test_gated_modes_come_from_the_state_alone():
    gated = Gated(2, 3)
    x = normal(50, 2, dtype=torch.float32)
    assert torch.equal(gated.modes(x), gated.modes(x, normal(50, 2, seed=1, dtype=torch.float32)))
    assert len(gated.modes(x).unique()) > 1


@pytest.mark.parametrize("offset", [1, 2])
def test_recurrent_context_uses_the_past_inside_the_trial_only(offset):
    data = simulate.lds(rng=np.random.default_rng(1), trials=6, steps=40, observed=6)
    model = small(3, "recurrent", max_iter=30, batch_size=64, time_offset=offset).fit(data)
    y = data.observations[:40].copy()
    before = model.predict(y)
    y[10] += 1
    after = model.predict(y)
    changed = np.abs(after - before).max(1) > 0
    C = model.dynamics_.context
    np.testing.assert_array_equal(np.flatnonzero(changed), 10 + offset * np.arange(C + 1))
    whole = np.concatenate(model.predict(data))
    np.testing.assert_allclose(whole[:40], before, rtol=1e-4, atol=1e-5)


def test_recurrent_without_skip_is_cpc():
    """An affine map of an autoregressive summary, and nothing else."""
    torch.manual_seed(0)
    model = Recurrent(2, context=3, hidden=5, skip=False)
    x = normal(7, 4, 2, dtype=torch.float32)
    _, state = model.gru(x)
    torch.testing.assert_close(model(x), model.head(state[0]))


# -- roll-outs ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def switching():
    data = simulate.slds(
        rng=np.random.default_rng(1), d=2, modes=2, trials=20, steps=100, observed=6, layers=1,
        switch_probability=0.05,
    )  # fmt: skip
    return small(2, "switching", n_modes=2, max_iter=50, batch_size=64).fit(data), data


def test_transition_matrix_counts_moves_inside_trials():
    series = TimeSeries(np.zeros((9, 1), np.float32), np.array([0, 5, 9]))
    modes = np.array([0, 0, 1, 1, -1, 1, 1, 1, -1])
    # moves: 0→0, 0→1, 1→1 | 1→1, 1→1; and one more for staying
    expected = [[2 / 3, 1 / 3], [0, 1]]
    np.testing.assert_allclose(transition_matrix(modes, series, 2, 1), expected, rtol=1e-6)


def test_markov_forecast_is_the_mean_over_modes_that_move(switching):
    model, data = switching
    np.testing.assert_allclose(model.transitions_.sum(1), 1, rtol=1e-5)
    held = model.forecast(data, 3)[0]
    mean = model.forecast(data, 3, modes="markov")[0]
    x = model.transform(data)[0][-1].astype(float)
    p = np.eye(2)[model.modes(data)[0][-1]]
    W = model.dynamics_.matrices.detach().numpy().astype(float)
    still = x.copy()
    for j in range(3):
        p = p @ model.transitions_
        x = np.einsum("k,kij,j->i", p, W, x)
        still = W[model.modes(data)[0][-1]] @ still
        np.testing.assert_allclose(mean[j], x, rtol=1e-4)
        np.testing.assert_allclose(held[j], still, rtol=1e-4)
    assert np.abs(mean - held).max() > 0


def test_forecast_modes_must_fit_the_model(switching):
    model, data = switching
    with pytest.raises(InputError, match="'gated' does not fit SwitchingLinear"):
        model.forecast(data, 3, modes="gated")
    with pytest.raises(InputError, match="wanted one of hold, markov, gated"):
        model.forecast(data, 3, modes="guess")
    gated = small(2, "gated", n_modes=2, max_iter=5, batch_size=64).fit(data)
    default, named = gated.forecast(data, 3), gated.forecast(data, 3, modes="gated")
    np.testing.assert_array_equal(np.stack(default), np.stack(named))
    with pytest.raises(InputError, match="'markov' does not fit Gated"):
        gated.forecast(data, 3, modes="markov")


def test_diverging_forecast_warns_and_names_the_spectral_radius(switching):
    model, data = switching
    before = model.dynamics_.matrices.detach().clone()
    try:
        with torch.no_grad():
            model.dynamics_.matrices.copy_(1.5 * torch.eye(2).expand(2, 2, 2))
        np.testing.assert_allclose(model.spectral_radius_, [1.5, 1.5], rtol=1e-6)
        with pytest.warns(UserWarning, match=r"20 of 20 trials leaves .* 1.5000, 1.5000"):
            model.forecast(data, 30)
    finally:
        with torch.no_grad():
            model.dynamics_.matrices.copy_(before)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.full((2, 1), 3.0))

    def forward(self, x, x_next=None, u=None):
        return x * self.matrix[:, 0]


def test_a_matrix_of_your_own_dynamics_is_not_taken_for_theirs(switching):
    _, data = switching
    model = small(2, Scaled(), max_iter=2, batch_size=16).fit(data)
    assert model.spectral_radius_ is None
    with pytest.warns(UserWarning, match="spectral radius: not known"):
        model.forecast(data, 30)


# -- generalisation ----------------------------------------------------------------------------


def test_new_trials_are_judged_with_the_map_of_the_training_data_too():
    data = simulate.lds(rng=np.random.default_rng(1), trials=50, steps=100, observed=10, layers=2)
    fresh = simulate.again(data, rng=np.random.default_rng(2), trials=10)
    model = small(3).fit(data)
    found = evaluate(model, fresh, train=data)
    x = np.concatenate(model.transform(data))
    there = LinearRegression().fit(x, data.truth.latents)
    expected = there.score(np.concatenate(model.transform(fresh)), fresh.truth.latents)
    assert found["r2_train_map"] == pytest.approx(expected, abs=1e-6)
    assert 0.9 < found["r2_train_map"] < found["r2"]
    assert evaluate(model, data, train=data)["r2_train_map"] == pytest.approx(
        evaluate(model, data)["r2"]
    )


def test_training_data_of_another_system_give_no_map(rotating):
    y, latents = rotating.observations, rotating.truth.latents[:, :2]
    other = TimeSeries(y, rotating.bounds, truth=Truth(latents))
    with pytest.raises(InputError, match="train: has 2 true latents; wanted 3"):
        evaluate(tiny(3).fit(rotating), rotating, train=other)


# -- custom similarity -------------------------------------------------------------------------


class Laplace(nn.Module):
    def forward(self, q, k):
        return -(q - k).abs().sum(-1)


def test_any_similarity_is_summed_in_chunks(monkeypatch):
    q, k = normal(40, 3).requires_grad_(), normal(70, 3, seed=1).requires_grad_()
    bias = normal(70, seed=2)
    skip = torch.randint(-1, 70, (40, 3), generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr("dynacl.objective.reference.CHUNK", 1000)  # a few rows at a time
    got = log_sum(Laplace(), q, k, bias, skip)
    logits = -(q[:, None] - k).abs().sum(-1) + bias
    mask = torch.zeros(40, 71, dtype=torch.bool)
    mask[torch.arange(40)[:, None], torch.where(skip < 0, 70, skip)] = True
    expected = logits.masked_fill(mask[:, :-1], -torch.inf).logsumexp(1)
    torch.testing.assert_close(got, expected)
    for a, b in zip(
        torch.autograd.grad(got.sum(), (q, k)), torch.autograd.grad(expected.sum(), (q, k)),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(a, b)
    same = log_sum(lambda a, b: Euclidean()(a, b), q, k, bias, skip)
    torch.testing.assert_close(same, log_sum(Euclidean(), q, k, bias, skip))


# -- what a review found -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def rotating():
    return simulate.lds(rng=np.random.default_rng(1), trials=4, steps=30, observed=6)


def tiny(*args, **changed):
    return small(*args, **({"max_iter": 3, "batch_size": 32} | changed))


def test_a_single_lag_is_a_lag_too(rotating):
    model = tiny(3, time_lags=(2,)).fit(rotating)
    for x, y in zip(model.transform(rotating), rotating.split(rotating.observations), strict=True):
        with torch.no_grad():
            expected = model.encoder_(torch.from_numpy(y[:-2].copy())).numpy()
        np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)


def test_a_path_gives_all_trials(rotating, tmp_path):
    rotating.write(tmp_path / "x.npz")
    model = tiny(3).fit(tmp_path / "x.npz")
    assert len(model.transform(tmp_path / "x.npz")) == 4
    assert len(model.forecast(str(tmp_path / "x.npz"), 2)) == 4


def test_a_driven_truth_without_its_control_is_judged_by_its_latents_alone():
    data = simulate.controlled(rng=np.random.default_rng(0), trials=4, steps=30, observed=6)
    plain = TimeSeries(data.observations, data.bounds, None, data.truth)
    found = evaluate(tiny(5).fit(plain), plain)
    assert found["dyn_r2_1"] is None
    assert found["r2"] > 0
    with pytest.raises(InputError, match="needs its control input"):
        tiny(5, "truth").fit(plain)


class Convolving(nn.Module):
    def __init__(self):
        super().__init__()
        self.over_lags, self.out = nn.Conv1d(3, 1, 1), nn.Linear(6, 3)

    def forward(self, y):
        return self.out(self.over_lags(y.view(len(y), 3, 6))[:, 0])


def test_encoders_with_other_than_matrices_train(rotating):
    model = tiny(3, encoder=Convolving(), time_lags=(0, 1, 2)).fit(rotating)
    assert [len(x) for x in model.transform(rotating)] == [28] * 4


def test_custom_parts_must_come_again_on_loading(rotating, tmp_path):
    tiny(3, similarity=Laplace()).fit(rotating).save(tmp_path)
    with pytest.raises(InputError, match="similarity: this model was fitted with a custom one"):
        DCL.load(tmp_path)
    assert isinstance(DCL.load(tmp_path, similarity=Laplace()).run_.similarity, Laplace)


@pytest.mark.parametrize("kind", ["polynomial", "mlp", "gated", "recurrent", "linear"])
def test_dynamics_advance_states_as_predict_does(rotating, kind):
    model = tiny(3, kind).fit(rotating)
    x = model.transform(rotating)[0]
    with torch.no_grad():
        first = model.dynamics_(torch.from_numpy(x[:1])).numpy()
    np.testing.assert_allclose(first, model.predict(rotating)[0][:1], rtol=1e-4, atol=1e-5)


class Answer(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, *given):
        return self.answer(*given)


VARIANTS = [
    {"dynamics": "polynomial"}, {"dynamics": "mlp"}, {"dynamics": "gated"},
    {"dynamics": "recurrent"}, {"similarity": "dot"}, {"dynamics": "polynomial", "time_offset": 2},
    {"similarity": "dot", "asymmetric": True, "density_correction": "vmf"},
    {"dynamics": "switching", "density_correction": "euclidean", "n_negatives": 50,
     "time_lags": (0, 3)},
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_variant_resumes_exactly(rotating, variant):
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


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bandwidth": 0.1}, "bandwidth: got 0.1, which has no effect here"),
        ({"n_support": 10}, "n_support: got 10, which has no effect"),
        ({"lipschitz": 0.5}, 'needs dynamics="mlp"'),
        ({"dynamics": "polynomial", "bias": True}, "bias: got True, which has no effect"),
        ({"n_components": True}, "n_components: got True"),
        ({"standardize": "no"}, "standardize: got 'no'"),
        ({"asymmetric": "no"}, "asymmetric: got 'no'"),
        ({"degree": None}, "degree: got None"),
        ({"similarity": Dot()}, 'wanted "dot"'),
        ({"encoder": nn.Linear(7, 3)}, "encoder: cannot take windows"),
        ({"encoder": nn.Linear(6, 2)}, "encoder: gave shape"),
        ({"dynamics": Linear(4)}, r"dynamics: cannot take x \(2, 3\), .*; wanted \(2, 3\)"),
        ({"dynamics": Linear(3, n_controls=1)}, "dynamics: cannot take .* u None: .* u is missing"),
        ({"dynamics": nn.Linear(3, 3)}, "dynamics: cannot take .* positional arguments"),
        ({"dynamics": Laplace()}, "dynamics: cannot take"),
        ({"dynamics": Answer(lambda x, *_: x[:, :2])}, r"dynamics: gave shape \(2, 2\) for x"),
        ({"dynamics": Answer(lambda x, *_: (x, x))}, "dynamics: cannot take .* no attribute"),
        ({"similarity": Answer(lambda q, k: -(q - k).square().sum())},
         r"similarity: gave shape \(\) for q \(2, 3\), k \(2, 3\); wanted \(2,\)"),
        ({"similarity": Answer(lambda q, k: q - k)}, r"similarity: gave shape \(2, 3\)"),
        ({"similarity": Answer(lambda q, k: torch.einsum("nd,nd->n", q, k))},
         r"similarity: cannot take q \(2, 1, 3\), k \(3, 3\): .*; wanted \(2, 3\)"),
        ({"similarity": nn.Linear(3, 3)}, "similarity: cannot take q"),
    ],
)  # fmt: skip
def test_what_cannot_be_or_has_no_effect_is_refused(rotating, changed, message):
    with pytest.raises(InputError, match=message):
        tiny(changed.pop("n_components", 3), **changed).fit(rotating)


def test_dynamics_of_your_own_must_take_the_control_of_the_data(rotating):
    u = np.zeros((len(rotating), 1))
    with pytest.raises(InputError, match=r"dynamics: cannot take .*, u \(2, 1\): .*; wanted"):
        tiny(3, Linear(3, n_controls=2)).fit(rotating, u=u)
    assert tiny(3, Linear(3, n_controls=1)).fit(rotating, u=u).n_iter_ == 3
    assert tiny(3, Linear(3)).fit(rotating, u=u).n_iter_ == 3


class Noisy(nn.Module):
    """Draws at random and remembers, even where it should not."""

    tried = 0  # by all copies

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, x_next=None, u=None):
        self.calls += 1
        Noisy.tried += 1
        return x + torch.rand(())


def test_trying_a_part_leaves_it_and_the_random_numbers_alone(rotating):
    part, drawn = Noisy(), torch.get_rng_state()
    run = tiny(3, part)._start(rotating)
    assert Noisy.tried == 1
    assert run.dynamics.calls == part.calls == 0
    assert torch.equal(torch.get_rng_state(), drawn)
