"""Several steps of any dynamics."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynacl.dynamics.nonlinear import Whitened
from dynacl.dynamics.switching import SwitchingLinear


def advance_in_training(
    dynamics: nn.Module,
    x: Tensor,
    x_next: Tensor,
    controls: list[Tensor | None],
    steps: Tensor | None = None,
) -> Tensor:
    """As many steps as there are controls, to where x_next should be; or each row its own `steps`.

    Rows that stop at different times have no mode in common: `steps` is for dynamics without one.
    """
    if isinstance(whitened := getattr(dynamics, "whitened", None), Whitened):
        whitened.update(x)
    if isinstance(dynamics, SwitchingLinear) and len(controls) > 1:
        return dynamics.rollout(x, x_next, controls)
    if steps is not None:
        path = [x := dynamics(x, None, u) for u in controls]
        return torch.stack(path)[(steps - 1).to(x.device), torch.arange(len(x), device=x.device)]
    for u in controls[:-1]:
        x = follow(x, dynamics(x, None, u))
    predicted: Tensor = dynamics(x, x_next, controls[-1])
    return predicted


def follow(x: Tensor, following: Tensor) -> Tensor:
    """What the dynamics sees next: the new state, or the window that has moved on to it."""
    return following if x.ndim == 2 else torch.cat([x[:, 1:], following[:, None]], dim=1)
