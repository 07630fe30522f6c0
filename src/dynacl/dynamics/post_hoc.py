"""Dynamics fitted to latents that are there already."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from dynacl.dynamics.linear import Linear
from dynacl.dynamics.nonlinear import Polynomial
from dynacl.dynamics.switching import SwitchingLinear

ROWS = 1 << 9  # at a time when modes are inferred: their errors stay in cache


def fit_post_hoc(
    model: nn.Module,
    x: Tensor,
    x_next: Tensor,
    u: Tensor | None = None,
    *,
    restarts: int = 4,
    rounds: int = 200,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Fit dynamics to latents that are there already, by least squares: the paper's baseline.

    Linear and polynomial: closed form. Switching: alternate argmin and closed form until the modes
    stand still or for so many rounds, best of several starts. Anything else: Adam on the mean
    squared error.
    """
    u = None if getattr(model, "control", None) is None else u
    if not (x.isfinite().all() and x_next.isfinite().all()):
        return model  # they ran off in training, which its loss says
    with torch.no_grad():
        if not list(model.parameters()):
            return model
        if isinstance(model, Linear):
            _assign(model, _least_squares(x, x_next, u, model.bias is not None), slice(None))
            return model
        if isinstance(model, Polynomial):
            return _fit_polynomial(model, x, x_next, u)
        if isinstance(model, SwitchingLinear):
            return _fit_switching(model, x, x_next, u, restarts, rounds, generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(500):
        rows = torch.randint(len(x), (min(len(x), 4096),), generator=generator)
        loss = (
            model(x[rows], x_next[rows], None if u is None else u[rows]) - x_next[rows]
        ).square()
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
    return model


def _fit_polynomial(model: Polynomial, x: Tensor, x_next: Tensor, u: Tensor | None) -> Polynomial:
    model.whitened.count.zero_()  # the first batch counts alone
    model.whitened.update(x)
    z, root = model.whitened(x)
    target = torch.linalg.solve_triangular(root, (x_next - x).T, upper=False).T
    u = None if model.control is None else u
    fit = _least_squares(model.monomials(z), target, u, False)
    model.weight.copy_(fit["matrix"])
    if model.control is not None:
        model.control.copy_(root.double() @ fit["control"])
    return model


def _fit_switching(
    model: SwitchingLinear,
    x: Tensor,
    x_next: Tensor,
    u: Tensor | None,
    restarts: int,
    rounds: int,
    generator: torch.Generator | None,
) -> SwitchingLinear:
    sample = torch.randperm(len(x), generator=generator)[:100_000]
    x, x_next = x[sample], x_next[sample]
    u = None if u is None or model.control is None else u[sample]
    d, K = x.shape[1], model.n_modes
    whole = _least_squares(x, x_next, u, model.bias is not None)
    driven = whole.pop("control", None)
    spread = (x_next - x).square().mean().sqrt() / x.square().mean().sqrt()
    best: tuple[float, dict[str, Tensor]] | None = None
    for _ in range(restarts):
        _assign(model, whole, slice(None))
        if driven is not None:
            _assign(model, {"control": driven}, slice(None))
        noise = torch.randn(model.matrices.shape, generator=generator, dtype=x.dtype)
        model.matrices.add_(spread * noise / d**0.5)
        before = None
        for _ in range(rounds):
            modes = best_modes(model, x, x_next, u)
            if before is not None and torch.equal(modes, before):
                break
            before = modes
            # B is shared by the modes: they are fitted to what it leaves, then it to what they do.
            left = x_next if u is None else x_next - u @ _control(model).T
            order, counts = modes.argsort(stable=True), torch.bincount(modes, minlength=K).tolist()
            parts = zip(
                torch.split(x[order], counts), torch.split(left[order], counts), strict=True
            )
            for k, (now, following) in enumerate(parts):
                if len(now) > d + 1:
                    fit = _least_squares(now, following, None, model.bias is not None)
                    _assign(model, fit, k)
            if u is not None:
                rest = x_next - (model.advance(x, modes, u) - u @ _control(model).T)
                fit = _least_squares(u, rest, None, False)
                _assign(model, {"control": fit["matrix"]}, slice(None))
        error = float((model.advance(x, model.modes(x, x_next, u), u) - x_next).square().mean())
        if best is None or error < best[0]:
            best = error, {k: v.clone() for k, v in model.state_dict().items()}
    assert best is not None
    model.load_state_dict(best[1])
    return model


def best_modes(
    model: SwitchingLinear, x: Tensor, x_next: Tensor, u: Tensor | None = None
) -> Tensor:
    """What model.modes gives, as one matrix product: far faster where there are many.

    ‖W x − r‖² = (x xᵀ)·(WᵀW) − 2 (r xᵀ)·W + ‖r‖², and the last term is the same for all modes. The
    difference of squares costs digits, so it is taken in float64 whatever came.
    """
    x, W = x.double(), model.matrices.double()
    rest = x_next.double()
    if u is not None:
        rest = rest - u.double() @ _control(model).double().T
    if model.bias is not None:  # a mode's offset is a column of W for an input of ones
        W = torch.cat([W, model.bias.double()[:, :, None]], dim=2)
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    weights = torch.cat([(W.mT @ W).flatten(1), -2 * W.flatten(1)], dim=1).T
    factors = torch.cat([x, rest], dim=1)
    found = []
    for left, right in zip(torch.split(factors, ROWS), torch.split(x, ROWS), strict=True):
        found.append(((left[:, :, None] * right[:, None]).flatten(1) @ weights).argmin(1))
    return torch.cat(found)


def _control(model: SwitchingLinear) -> Tensor:
    assert model.control is not None
    return model.control


def _least_squares(x: Tensor, x_next: Tensor, u: Tensor | None, bias: bool) -> dict[str, Tensor]:
    """x_next ≈ A x (+ b) (+ B u), in float64."""
    parts = [x] + ([u] if u is not None else []) + ([x.new_ones(len(x), 1)] if bias else [])
    regressors = torch.cat(parts, dim=1).double()
    # The normal equations lose half the digits; the orthogonal driver does not.
    solution = torch.linalg.lstsq(regressors, x_next.double(), driver="gelsd").solution.T
    d = x.shape[1]
    fit = {"matrix": solution[:, :d]}
    if u is not None:
        fit["control"] = solution[:, d : d + u.shape[1]]
    if bias:
        fit["bias"] = solution[:, -1]
    return fit


def _assign(model: nn.Module, fit: dict[str, Tensor], k: Any) -> None:
    """Write a least-squares fit into a Linear, or into mode(s) k of a bank."""
    names = {"matrix": "matrices" if isinstance(model, SwitchingLinear) else "matrix"}
    for name, value in fit.items():
        parameter = cast(Tensor, getattr(model, names.get(name, name)))
        with torch.no_grad():
            parameter[k] = value.to(parameter.dtype)
