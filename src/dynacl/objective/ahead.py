"""What is missed of observations ahead, where a frame shows less than the state.

    ½ log E[(y_{t+k} − C f^k(h(w_t)) − D u_{t+k} − c)²], the mean over channels and over k

The likelihood of observations k steps after a window w_t, each channel with noise of its own width.
A contrast of windows is won by latents that store what the next window shares with this one; here
nothing is won by storing, as what is told was not seen yet. Where inputs drive the system they tell
its state, too: x' = f(x) + B u holds in no redrawing of it but affine ones. C, D and c are least
squares on the batch, so there is nothing else to train. One step ahead counts for half: there the
linear start is the best linear model, and a user would not have less.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dynacl.objective.infonce import Loss

NEAR = 0.5  # weight of one step ahead beside the mean over all
FAINT = 1e-8  # share of the mean variance, added to each: directions may be empty
EXACT = 1e-12  # share of the variance of a channel; less is rounding


def ahead(now: Tensor, y: Tensor, path: Tensor, after: Tensor, u: Tensor | None = None) -> Loss:
    """now: latents (n, d) of steps where y (n, D) was observed. path: predicted latents (n, H, d),
    the first of them one step ahead. after: observations there, (n, H, D); u: inputs, (n, H, d_u).
    """
    now, y, path, after = now.double(), y.double(), path.double(), after.double()
    readout = solved(_with_one(now), y)
    missed = after - _with_one(path) @ readout
    if u is not None:
        known = _with_one(path)
        new = u.double() - known @ solved(known.flatten(0, 1), u.double().flatten(0, 1))
        missed = missed - new @ solved(new[:, 0], missed[:, 0])
    squares = missed.square().mean(0)
    total = 0.5 * (squares + EXACT * after.var((0, 1)) + torch.finfo(torch.float32).tiny).log()
    loss = (NEAR * total[0].mean() + (1 - NEAR) * total.mean()).to(torch.float32)
    return Loss(loss, loss, torch.zeros_like(loss))


def solved(features: Tensor, target: Tensor) -> Tensor:
    """W with features @ W ≈ target, least squares."""
    gram = features.T @ features
    ridge = FAINT * gram.diagonal().mean() * torch.eye(len(gram)).to(gram)
    found: Tensor = torch.linalg.solve(gram + ridge, features.T @ target)
    return found


def _with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
