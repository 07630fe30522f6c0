"""Linear maps whose products stay bounded, in any order.

Maps that are stable one by one can have products that grow. So one norm holds for all: with a
matrix T that all modes share, W_k = T⁻¹ C_k T and ‖C_k‖₂ ≤ 1. Then no product of any length is
larger than cond(T), which is held near `FURTHEST` or below, in units of the data. The bound on C
can be reached: a rotation, in whatever coordinates, has ‖C‖₂ = 1. (In terms of P = TᵀT, the norm
of x is (xᵀ P x)^½.)

What is looked for is the set of such maps whose predictions differ least from those of the maps
that are given, over the states that each of them is used at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

POWERS = (1, 4, 16, 64)  # of squared singular values: smooth stand-ins for the largest of them
ROUNDS = 300  # of a search, at most; each takes milliseconds
ENOUGH = 1e-9  # above 1, where a norm counts as 1: far below the rounding of float32
FURTHEST = 100.0  # times the spread of the data that a product may lead to (without it, a norm in
# which slow growth looks like none can be found for every map of radius 1, however far it leads)
RIDGE = 1e-6  # of the mean variance: a direction that no state takes must not make T singular


class Stable(NamedTuple):
    """Maps that are bounded in a common norm."""

    matrices: Tensor  # V_k, (K, d, d), in float64
    root: Tensor  # T, (d, d)
    norm: float  # the largest ‖T W_k T⁻¹‖₂ of the maps as they were given


@torch.no_grad()
def bound(matrices: Tensor, bias: Tensor | None, x: Tensor, modes: Tensor) -> float:
    """Replace matrices (K, d, d) by bounded ones, in place, for states x (n, d) in these modes.

    An offset (K, d) moves along, so that the mean prediction of each mode stays. Gives the largest
    norm of the maps as they were: up to 1, nothing had to change.
    """
    means, moments, shares = _usage(x.double().cpu(), modes.cpu(), len(matrices), bias is not None)
    found = stable(matrices, moments, shares)
    if found.norm > 1 + ENOUGH:
        change = found.matrices - matrices.double().cpu()
        matrices.copy_(found.matrices)
        if bias is not None:
            bias.sub_((change @ means[:, :, None])[:, :, 0].to(bias))
    return found.norm


def _usage(x: Tensor, modes: Tensor, n_modes: int, centred: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Of the states in each mode: their mean, E[x xᵀ] (about the mean if centred), their share.

    Those of a mode with few states lean towards those of all: as if it had d states more.
    """
    n, d = x.shape
    mean = x.mean(0) if centred else x.new_zeros(d)
    whole = (x - mean).T @ (x - mean) / n
    means, moments = mean.repeat(n_modes, 1), whole.repeat(n_modes, 1, 1)
    counts = torch.bincount(modes, minlength=n_modes).to(x)
    for k in torch.nonzero(counts).flatten().tolist():
        mine = x[modes == k]
        if centred:
            means[k] = (mine.sum(0) + d * mean) / (len(mine) + d)
        moments[k] = ((mine - means[k]).T @ (mine - means[k]) + d * whole) / (len(mine) + d)
    return means, moments, (counts + 1) / (n + n_modes)


def stable(matrices: Tensor, moments: Tensor, shares: Tensor) -> Stable:
    """The bounded maps nearest to `matrices` W_k (K, d, d), by what they do to the data.

    Minimises Σ_k share_k E‖(V_k − W_k) x‖² over T and all C_k. moments: E[x xᵀ] of the states that
    each map is used at, (K, d, d); shares: how often, (K,). Maps that are bounded in a common norm
    already come back as they are.
    """
    W, S, share = (a.detach().cpu().double() for a in (matrices, moments, shares))
    stationary = _inverse_root((share[:, None, None] * S).sum(0) / share.sum())
    far = partial(_far, torch.linalg.inv(stationary))
    T = stationary  # in the norm of its own covariance, a stationary process does not grow
    for power in POWERS:  # log σ is convex along geodesics of TᵀT: any start finds the best norm
        (T,) = _search(lambda T, p=power: _largest(T, W, p) + far(T), T)
        if (norm := _norm(T, W)) <= 1 + ENOUGH:
            return Stable(W, T, norm)
    found = [_nearest(W, S, share, start, far) for start in (stationary, T)]
    return min(found, key=lambda one: float(_effect(one.matrices - W, S, share)))


def _nearest(
    W: Tensor, S: Tensor, share: Tensor, start: Tensor, far: Callable[[Tensor], Tensor]
) -> Stable:
    """The nearest bounded maps, from a start of T, with a penalty where T leads too far."""
    size = _effect(W, S, share)

    def maps(T: Tensor, M: Tensor) -> Tensor:
        found: Tensor = torch.linalg.solve(T, clipped(M) @ T)
        return found

    def cost(T: Tensor, M: Tensor) -> Tensor:
        return _effect(maps(T, M) - W, S, share) / size + far(T)

    T, M = _search(cost, start, clipped(_turned(start, W)))
    return Stable(maps(T, M), T, _norm(T, W))


def _search(cost: Callable[..., Tensor], start: Tensor, *others: Tensor) -> list[Tensor]:
    """T, and what else a cost depends on, where it is least: quasi-Newton steps from a start.

    T = Z · start, and the steps are those of Z, which is well scaled.
    """
    shapes = [start.shape, *(other.shape for other in others)]
    sizes = [shape.numel() for shape in shapes]

    def parts(flat: Tensor) -> list[Tensor]:
        Z, *rest = (p.view(s) for p, s in zip(torch.split(flat, sizes), shapes, strict=True))
        return [Z @ start, *rest]

    def value(flat: Any) -> tuple[float, Any]:
        at = torch.from_numpy(flat).requires_grad_()
        with torch.enable_grad():
            found = cost(*parts(at))
            (slope,) = torch.autograd.grad(found, at)
        return found.item(), slope.numpy()

    begin = torch.cat([torch.eye(len(start)).to(start).flatten(), *(o.flatten() for o in others)])
    options = {"maxiter": ROUNDS, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-12}
    best = minimize(value, begin.numpy(), jac=True, method="L-BFGS-B", options=options)
    return parts(torch.from_numpy(np.ascontiguousarray(best.x)))


def _turned(T: Tensor, W: Tensor) -> Tensor:
    """T W T⁻¹."""
    found: Tensor = T @ W @ torch.linalg.inv(T)
    return found


def _norm(T: Tensor, W: Tensor) -> float:
    return float(torch.linalg.matrix_norm(_turned(T, W), 2).max())


def _largest(T: Tensor, W: Tensor, power: int) -> Tensor:
    """log of the largest ‖T W_k T⁻¹‖₂, smoothly: (Σ σ²ᵖ)^(1/2p) over all modes."""
    M = _turned(T, W)
    squares = M.mT @ M
    scale = squares.detach().diagonal(dim1=1, dim2=2).sum(1).amax()
    sums = torch.linalg.matrix_power(squares / scale, power).diagonal(dim1=1, dim2=2).sum()
    found: Tensor = (sums.log() / power + scale.log()) / 2
    return found


def _far(spread: Tensor, T: Tensor) -> Tensor:
    """0 where the norm is within `FURTHEST` of that of the data, of covariance `spread`².

    A smooth condition number, in the place of the largest singular value over the smallest.
    """
    there, back = T @ spread, torch.linalg.inv(T @ spread)
    condition = torch.linalg.matrix_norm(there) * torch.linalg.matrix_norm(back) / len(T)
    found: Tensor = (condition / FURTHEST).log().clamp(min=0).square()
    return found


def _effect(D: Tensor, S: Tensor, share: Tensor) -> Tensor:
    """Σ_k share_k E‖D_k x‖²."""
    return (share[:, None, None] * (D @ S * D)).sum()


def clipped(M: Tensor) -> Tensor:
    """The nearest matrices with singular values up to 1."""
    found: Tensor = _Clip.apply(M)  # type: ignore[no-untyped-call]
    return found


class _Clip(torch.autograd.Function):
    """The singular vectors of a rotation are not unique and have no gradient; the clipped matrix
    has one, made of divided differences."""

    @staticmethod
    def forward(ctx: Any, M: Tensor) -> Tensor:
        U, s, Vh = torch.linalg.svd(M)
        ctx.save_for_backward(U, s, Vh)
        found: Tensor = (U * s.clamp(max=1)[:, None]) @ Vh
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        U, s, Vh = ctx.saved_tensors
        c, below = s.clamp(max=1), (s <= 1).to(s)
        inner = U.mT @ grad @ Vh.mT
        gap, sums = s[:, :, None] - s[:, None], s[:, :, None] + s[:, None]
        close = gap.abs() < 1e-12
        difference = (c[:, :, None] - c[:, None]) / gap.where(~close, torch.ones_like(gap))
        even = difference.where(~close, below[:, :, None].expand_as(gap))
        odd = (c[:, :, None] + c[:, None]) / sums.clamp(min=torch.finfo(s.dtype).tiny)
        slope: Tensor = U @ (even * (inner + inner.mT) + odd * (inner - inner.mT)) @ Vh / 2
        return slope


def _inverse_root(S: Tensor) -> Tensor:
    """S^(−½), as if every direction had a little more variance."""
    d = len(S)
    scale = S.trace() / d + torch.finfo(S.dtype).tiny
    values, vectors = torch.linalg.eigh(S / scale + RIDGE * torch.eye(d).to(S))
    found: Tensor = vectors * values.rsqrt() @ vectors.T
    return found
