"""info_nce against a loop in float64, against gradcheck, and at every scale."""

import json
import math
import subprocess
import sys

import pytest
import torch

from dynacl import info_nce
from dynacl.objective import Flat, Sphere, native, reference


def brute_force(predicted, following, negatives, temperature=1.0, skip=None):
    """The definition, one pair at a time, in Python floats."""
    total = 0.0
    for i, (p, f) in enumerate(zip(predicted.tolist(), following.tolist(), strict=True)):
        left_out = set() if skip is None else set(skip[i].tolist())
        psi = [-(math.dist(p, f) ** 2) / temperature]
        psi += [
            -(math.dist(p, n) ** 2) / temperature
            for j, n in enumerate(negatives.tolist())
            if j not in left_out
        ]
        top = max(psi)
        total += -psi[0] + top + math.log(sum(math.exp(v - top) for v in psi))
    return total / len(predicted)


def draw(B, M, d, scale=1.0, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = [scale * torch.randn(n, d, generator=g, dtype=torch.float64) for n in (B, B, M)]
    return [v.to(dtype) for v in x]


@pytest.mark.parametrize(("B", "M", "d"), [(1, 1, 1), (5, 3, 2), (17, 40, 6)])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("skipping", [False, True])
def test_loss_equals_brute_force(B, M, d, temperature, skipping):
    x = draw(B, M, d)
    skip = torch.randint(-1, M, (B, 2)) if skipping else None
    loss = info_nce(*x, temperature=temperature, skip=skip)
    assert loss.total.item() == pytest.approx(brute_force(*x, temperature, skip), rel=1e-12)


def test_total_is_the_sum_of_its_parts():
    predicted, following, negatives = draw(7, 9, 3)
    loss = info_nce(predicted, following, negatives)
    assert loss.total.item() == pytest.approx((loss.alignment + loss.uniformity).item())
    assert loss.alignment.item() == pytest.approx(
        (predicted - following).square().sum(1).mean().item()
    )


@pytest.mark.parametrize("geometry", [Flat(), Flat(0.3), Sphere(), Sphere(0.2)])
def test_the_fast_sum_of_a_geometry_is_that_of_its_similarity(geometry):
    predicted, following, negatives = draw(5, 12, 3)
    skip = torch.randint(-1, 12, (5, 2))
    bias = torch.randn(12, dtype=torch.float64)
    logits = geometry(predicted[:, None], negatives) + bias
    logits = logits.masked_fill(reference.left_out(skip, 12), -torch.inf)
    fast = geometry.log_sum(predicted, negatives, bias, skip)
    torch.testing.assert_close(fast, logits.logsumexp(1), rtol=1e-6, atol=1e-6)
    positive, rest = geometry(predicted, following), geometry.log_sum(predicted, negatives)
    expected = (torch.logaddexp(positive, rest) - positive).mean()
    mine = info_nce(predicted, following, negatives, similarity=geometry).total
    torch.testing.assert_close(mine, expected, rtol=1e-6, atol=1e-6)


def test_a_temperature_is_that_of_the_plane():
    x = draw(6, 8, 2)
    by_number = info_nce(*x, temperature=0.3)
    assert by_number == info_nce(*x, similarity=Flat(0.3))
    assert Flat(0.3).temperature.item() == pytest.approx(0.3)
    assert Sphere(0.3).temperature.item() == pytest.approx(0.3)


def test_states_live_on_the_plane_or_on_the_unit_sphere():
    x = draw(6, 8, 3)[0]
    assert torch.equal(Flat().project(x), x)
    torch.testing.assert_close(Sphere().project(x).norm(dim=1), torch.ones(6).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_log_of_a_sum_is_that_of_torch_also_where_terms_are_lost(dtype):
    z = 1e4 * torch.randn(50, 30, generator=torch.Generator().manual_seed(0), dtype=dtype)
    z[0], z[1, :5] = -torch.inf, -torch.inf
    z[2:40] /= torch.logspace(0, 6, 38, dtype=dtype)[:, None]
    torch.testing.assert_close(reference.log_sum(z), z.logsumexp(1))


def test_gradients_are_right():
    x = [v.requires_grad_() for v in draw(4, 6, 3)]
    skip = torch.tensor([[0, 1], [2, 2], [-1, 5], [-1, -1]])
    assert torch.autograd.gradcheck(lambda *x: info_nce(*x, skip=skip).total, x)


def test_chunks_change_nothing(monkeypatch):
    x = [v.requires_grad_() for v in draw(23, 31, 4)]
    skip = torch.randint(-1, 31, (23, 2))
    whole = info_nce(*x, skip=skip).total
    gradients = torch.autograd.grad(whole, x)
    monkeypatch.setattr(reference, "CHUNK", 31 * 5)
    parts = info_nce(*x, skip=skip).total
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(torch.autograd.grad(parts, x), gradients)


@pytest.mark.parametrize("scale", [1e-3, 1e-1, 1.0, 10.0, 1e2, 1e3, 1e4])
@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("path", ["native", "reference"])
def test_float32_loss_holds_at_every_embedding_scale(scale, near, path, monkeypatch):
    if path == "reference":
        monkeypatch.setattr(native, "supports", lambda *x: False)
    elif not native.available():
        pytest.skip("no C compiler: the native path is not there")
    x = draw(64, 512, 6, scale, torch.float32)
    if near:  # as after training: the prediction is right up to noise of size one
        x[1] = x[0] + draw(64, 1, 6, 0.5, torch.float32, seed=1)[0]
    x = [v.requires_grad_() for v in x]
    exact = [v.detach().double().requires_grad_() for v in x]
    loss, truth = info_nce(*x).total, info_nce(*exact).total
    error = abs(loss.item() - truth.item())
    assert error < 1e-6 or error < 1e-5 * abs(truth.item())
    for mine, right in zip(
        torch.autograd.grad(loss, x), torch.autograd.grad(truth, exact), strict=True
    ):
        assert (mine - right).abs().max() <= 1e-4 * right.abs().max() + 1e-12


def test_equal_embeddings_give_the_loss_of_a_guess():
    x = torch.ones(5, 3)
    loss = info_nce(x, x, torch.ones(7, 3))
    assert loss.total.item() == pytest.approx(math.log(8), rel=1e-6)


PAPER_SIZE_NEGATIVES = """
import json, resource, torch
from dynacl.objective import info_nce, native
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
x = [torch.randn(rows, 2).requires_grad_() for rows in (1024, 1024, 65536)]
supports, found = native.supports, {}
for path in ("native", "reference"):
    native.supports = supports if path == "native" else lambda *x: False
    info_nce(*(v[:64] for v in x)).total.backward()
    before = peak()
    info_nce(*x).total.backward()
    found[path] = peak() - before
print(json.dumps(found))
"""

pytestmark = pytest.mark.loss


@pytest.fixture(scope="module")
def megabytes():
    """By which the peak of memory grows, native first; in a process of its own, as it never falls.

    What the first path reached, the second may use unseen: both are held to the same limit.
    """
    done = subprocess.run(
        [sys.executable, "-c", PAPER_SIZE_NEGATIVES], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", ["reference", "native"])
def test_paper_size_sample_of_negatives_does_not_make_the_pair_matrix(path, megabytes):
    """1,024 × 65,536 entries are 268 MB."""
    if path == "native" and not native.available():
        pytest.skip("no C compiler: the native path is not there")
    assert megabytes[path] < 75
