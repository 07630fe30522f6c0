"""Maps that are bounded in a norm that all of them share."""

from itertools import combinations

import numpy as np
import pytest
import torch

from dynacl.dynamics import Linear, SwitchingLinear, Tiles
from dynacl.dynamics.stable import FURTHEST, clipped, stable
from quick_models import normal


def rotation(d, generator, most=0.3):
    found = torch.eye(d, dtype=torch.float64)
    for i, j in combinations(range(d), 2):
        a = most * torch.rand((), generator=generator, dtype=torch.float64)
        turn = torch.eye(d, dtype=torch.float64)
        turn[i, i] = turn[j, j] = a.cos()
        turn[i, j], turn[j, i] = -a.sin(), a.sin()
        found = found @ turn
    return found


def in_other_coordinates(d, K, seed=0, radius=1.0, noise=0.0):
    """K rotations in the same oblique coordinates, and the covariance of states on their sphere."""
    generator = torch.Generator().manual_seed(seed)
    L = torch.randn(d, d, generator=generator, dtype=torch.float64)
    turns = [L @ rotation(d, generator) @ torch.linalg.inv(L) for _ in range(K)]
    W = radius * torch.stack(turns)
    W = W + noise * torch.randn(W.shape, generator=generator, dtype=torch.float64)
    return W, (L @ L.T).expand(K, d, d), torch.full((K,), 1 / K, dtype=torch.float64)


def effect(D, S, share):
    """Σ share E‖D x‖², by the trace."""
    return sum(float(s * torch.trace(d @ c @ d.T)) for d, c, s in zip(D, S, share, strict=True))


def norms(found, maps):
    return torch.linalg.matrix_norm(found.root @ maps @ torch.linalg.inv(found.root), 2)


def walk(maps, steps, seed=0):
    """‖x‖ after each step of a random sequence of modes."""
    rng, x, path = np.random.default_rng(seed), np.ones(maps.shape[-1]), []
    for k in rng.integers(0, len(maps), steps):
        x = maps[k] @ x
        path.append(np.linalg.norm(x))
        if not path[-1] < 1e12:
            break
    return np.array(path)


@pytest.mark.parametrize(("d", "K"), [(2, 1), (3, 1), (6, 1), (3, 4), (6, 12)])
@pytest.mark.parametrize("radius", [1.0, 0.999])
def test_rotations_in_any_coordinates_are_left_as_they_are(d, K, radius):
    W, S, share = in_other_coordinates(d, K, radius=radius)
    for moments in (S, torch.eye(d, dtype=torch.float64).expand_as(S)):
        found = stable(W, moments, share)
        change = torch.linalg.matrix_norm(found.matrices - W) / torch.linalg.matrix_norm(W)
        assert change.max() < 1e-6
        assert found.norm == pytest.approx(radius, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_maps_that_a_common_norm_holds_already_come_back_untouched(seed):
    generator = torch.Generator().manual_seed(seed)
    L = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    C = torch.randn(5, 4, 4, generator=generator, dtype=torch.float64)
    C = 0.98 * C / torch.linalg.matrix_norm(C, 2)[:, None, None]  # of norm 0.98, not of radius
    W = L @ C @ torch.linalg.inv(L)
    assert torch.linalg.matrix_norm(W, 2).max() > 1.5  # which the plain norm does not see
    found = stable(W, torch.eye(4, dtype=torch.float64).expand_as(W), torch.ones(5) / 5)
    assert torch.equal(found.matrices, W)
    assert found.norm < 1


@pytest.mark.parametrize("seed", range(3))
def test_long_products_stay_bounded_where_those_of_the_given_maps_grow(seed):
    bounded, S, share = in_other_coordinates(4, 3, seed=seed)
    W = in_other_coordinates(4, 3, seed=seed, radius=1.005, noise=0.01)[0]
    found = stable(W, S, share)
    assert found.norm > 1
    assert norms(found, found.matrices).max() < 1 + 1e-12
    before, after = walk(W.numpy(), 20_000), walk(found.matrices.numpy(), 20_000)
    assert before[-1] > 1e12
    limit = float(torch.linalg.cond(found.root)) * 2  # ‖x‖ is 2 at the start
    assert after.max() <= limit * (1 + 1e-9)
    # Bounded maps are known from which W was made: the nearest are no further away.
    assert effect(found.matrices - W, S, share) < effect(bounded - W, S, share)


def test_stable_modes_with_an_unstable_product_are_bounded_at_little_cost():
    c, s = np.cos(0.4), np.sin(0.4)
    turn, tall = torch.tensor([[c, -s], [s, c]]), torch.tensor([1.15, 1.0]).double()
    one = 0.995 * torch.diag(tall) @ turn @ torch.diag(1 / tall)
    two = 0.995 * torch.diag(1 / tall) @ turn @ torch.diag(tall)
    W = torch.stack([one, two])
    assert torch.linalg.eigvals(W).abs().max() < 1
    product = torch.linalg.matrix_power(one, 4) @ torch.linalg.matrix_power(two, 4)
    assert torch.linalg.eigvals(product).abs().max() > 1
    S = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    found = stable(W, S, torch.tensor([0.5, 0.5]))
    V = found.matrices
    assert norms(found, V).max() < 1 + 1e-12
    assert effect(V - W, S, [0.5, 0.5]) < 0.005 * effect(W, S, [0.5, 0.5])
    back = torch.linalg.matrix_power(V[0], 4) @ torch.linalg.matrix_power(V[1], 4)
    assert torch.linalg.eigvals(back).abs().max() <= 1


@pytest.mark.parametrize(("d", "K"), [(2, 1), (3, 2)])
def test_no_bounded_maps_nearby_are_nearer(d, K):
    """Brute force: other norms and other maps within them, from where the search has ended."""
    W, S, share = in_other_coordinates(d, K, seed=5, noise=0.05)
    W = 1.03 * W
    found = stable(W, S, share)
    best = effect(found.matrices - W, S, share)
    assert best < effect(W / found.norm - W, S, share)  # all made smaller: one way, not the best
    C = found.root @ found.matrices @ torch.linalg.inv(found.root)
    generator = torch.Generator().manual_seed(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(200):
            Z = torch.eye(d) + size * torch.randn(d, d, generator=generator)
            T = Z.double() @ found.root
            moved = C + size * torch.randn(C.shape, generator=generator).double()
            V = torch.linalg.solve(T, clipped(moved) @ T)
            assert effect(V - W, S, share) > 0.999 * best


@pytest.mark.parametrize("growth", [1.0, 1.02])
def test_slow_growth_is_not_hidden_by_a_norm_that_sees_little_of_it(growth):
    """An integrator has radius 1 and leads anywhere."""
    W = torch.tensor([[growth, 0.5], [0.0, growth]], dtype=torch.float64)[None]
    found = stable(W, torch.eye(2, dtype=torch.float64)[None], torch.ones(1))
    assert walk(W.numpy(), 20_000).max() > 5_000
    assert walk(found.matrices.numpy(), 20_000).max() < 2 * FURTHEST
    assert torch.linalg.matrix_norm(found.matrices - W).max() < 0.04


def test_clipping_has_a_gradient_where_singular_values_are_equal():
    M = normal(3, 4, 4).requires_grad_()
    assert torch.autograd.gradcheck(clipped, (M,))
    turn = 1.2 * rotation(3, torch.Generator().manual_seed(0))[None]
    assert torch.autograd.gradcheck(clipped, (turn.requires_grad_(),))


@pytest.mark.parametrize("make", [Linear, lambda d, **how: SwitchingLinear(d, 3, **how),
                                  lambda d, **how: Tiles(d, 3, **how)])  # fmt: skip
@pytest.mark.parametrize("bias", [False, True])
def test_models_bound_themselves_where_they_are_used(make, bias):
    f = make(3, bias=bias, stable=True).double()
    assert f.stable
    maps = f.linear_maps()
    with torch.no_grad():
        maps.copy_(1.1 * in_other_coordinates(3, len(maps))[0])
        if f.bias is not None:
            f.bias.copy_(normal(*f.bias.shape, seed=3))
    x = normal(500, 3) + 2.0
    near = f.bank(x)[:, 0] if f.n_modes else f.step(x)
    before = near.detach().clone()
    assert f.bound(x, near.detach()) > 1.05
    found = f.linear_maps().detach()
    assert torch.linalg.eigvals(found).abs().max() <= 1 + 1e-9
    if bias:  # the mean prediction stays
        after = f.bank(x)[:, 0] if f.n_modes else f.step(x)
        np.testing.assert_allclose(after.mean(0).detach(), before.mean(0), rtol=0.02, atol=0.05)


def test_modes_that_are_never_used_are_bounded_too():
    f = SwitchingLinear(2, 3, stable=True).double()
    with torch.no_grad():
        f.matrices[0] = 0.9 * torch.eye(2)
        f.matrices[1] = 5.0 * torch.eye(2)
        f.matrices[2] = torch.tensor([[0.0, 50.0], [0.0, 0.0]])
    x = normal(300, 2)
    f.bound(x, 0.9 * x)
    np.testing.assert_allclose(f.matrices[0].detach(), 0.9 * np.eye(2), atol=1e-3)
    assert walk(f.matrices.detach().numpy(), 2000).max() < 4 * FURTHEST
