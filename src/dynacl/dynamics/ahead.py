"""The one roll-out: training, `predict`, `forecast` and dynR² all take their steps here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dynacl.dynamics.base import Dynamics


def rollout(
    f: Dynamics,
    x: Tensor,
    controls: Sequence[Tensor | None],
    weights: Sequence[Tensor] | None = None,
    project: Callable[[Tensor], Tensor] | None = None,
    goal: Tensor | None = None,
) -> Tensor:
    """States after 1, 2, … steps, (n, steps, d): as many steps as there are controls.

    x: (n, d), or a window (n, context + 1, d) with the present last. weights: of the modes, (n, K)
    for each step, where they are known. project: back to where states live, after each step. goal:
    where the last step should lead; only a module that asks for x_next looks at it.
    """
    path, last = [], len(controls) - 1
    for j, u in enumerate(controls):
        if weights is not None:
            following = f.step(x, u, weights[j])
        else:
            following = f(x, goal if j == last else None, u)
        following = following if project is None else project(following)
        path.append(following)
        x = follow(x, following)
    return torch.stack(path, dim=1)


def follow(x: Tensor, following: Tensor) -> Tensor:
    """What the dynamics sees next: the new state, or the window that has moved on to it."""
    return following if x.ndim == 2 else torch.cat([x[:, 1:], following[:, None]], dim=1)


def reach(
    f: Dynamics,
    x: Tensor,
    x_next: Tensor,
    controls: Sequence[Tensor | None],
    steps: Tensor | None = None,
) -> Tensor:
    """What training compares with x_next: where f leads from x, (n, d).

    Over as many steps as there are controls, or each row its own number of `steps`. A hidden mode
    lasts for all of them: each mode is rolled out, and the one that fits x_next is chosen.
    """
    f.observe(x)
    if f.infers_modes:
        if steps is not None:
            raise ValueError("rows that stop at different times have no mode in common")
        return f.choose(f.ends(x, controls), x_next)
    if steps is None and (end := f.leap(x, len(controls))) is not None:
        return end
    path = rollout(f, x, controls, goal=x_next)
    if steps is None:
        return path[:, -1]
    return path[torch.arange(len(path), device=path.device), (steps - 1).to(path.device)]
