"""Fitting maps to pairs of states: closed form where there is one, gradient descent elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STEPS, BATCH = 500, 1024  # of a descent


def linear_fit(
    x: Tensor, x_next: Tensor, u: Tensor | None, bias: bool, penalty: Tensor | None = None
) -> dict[str, Tensor]:
    """x_next ≈ A x (+ b) (+ B u), in float64: "matrix", "bias" and "control".

    penalty: (columns of x,), on the squares of their coefficients, per row; None: of no column.
    """
    parts = [x] + ([u] if u is not None else []) + ([x.new_ones(len(x), 1)] if bias else [])
    regressors = torch.cat(parts, dim=1).double()
    target, d = x_next.double(), x.shape[1]
    if penalty is not None:
        rows = regressors.new_zeros(d, regressors.shape[1])
        rows[:, :d] = torch.diag((len(x) * penalty.double()).sqrt())
        regressors = torch.cat([regressors, rows])
        target = torch.cat([target, target.new_zeros(d, target.shape[1])])
    # The normal equations lose half the digits; the orthogonal driver does not.
    solution = torch.linalg.lstsq(regressors, target, driver="gelsd").solution.T
    fit = {"matrix": solution[:, :d]}
    if u is not None:
        fit["control"] = solution[:, d : d + u.shape[1]]
    if bias:
        fit["bias"] = solution[:, -1]
    return fit


@torch.no_grad()
def assign(parameter: Tensor | None, value: Tensor, part: int | slice = slice(None)) -> None:
    """Write a fit into a parameter, or into one mode of it."""
    if parameter is not None:
        parameter[part] = value.to(parameter.dtype)


@torch.enable_grad()
def descend(
    model: nn.Module,
    x: Tensor,
    x_next: Tensor,
    u: Tensor | None,
    generator: torch.Generator | None,
) -> None:
    """Adam on the mean squared error, for models without a closed form; rates fall to 0."""
    learned = [p for p in model.parameters() if p.requires_grad]
    if not learned:
        return
    optimizer = torch.optim.Adam(learned, lr=1e-2)
    now = x if x.ndim == 2 else x[:, -1]
    scale = (x_next - now).square().mean().clamp(min=torch.finfo(x.dtype).tiny)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (min(len(x), BATCH),), generator=generator)
        drive = None if u is None else u[rows]
        loss = (model(x[rows], x_next[rows], drive) - x_next[rows]).square() / scale
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
        falling.step()
