"""The oracle: the true system in place of a learned one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.data import InputError
from dynacl.dynamics.linear import Linear
from dynacl.dynamics.switching import SwitchingLinear


class Lorenz(nn.Module):
    """The Lorenz system in coordinates scaled by exp(log_scale): x → s f(x / s).

    The scale is the only thing learned: the embedding's own scale is set by the noise, and f does
    not commute with it.
    """

    def __init__(self, system: Mapping[str, Any]) -> None:
        super().__init__()
        self.dt, self.sigma, self.beta, self.rho = (
            float(system[k]) for k in ("dt", "sigma", "beta", "rho")
        )
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        scale = self.log_scale.exp()
        x1, x2, x3 = (x / scale).unbind(-1)
        flow = torch.stack(
            [self.sigma * (x2 - x1), x1 * (self.rho - x3) - x2, x1 * x2 - self.beta * x3], dim=-1
        )
        return x + scale * self.dt * flow


def Truth(system: Mapping[str, Any]) -> nn.Module:
    """The oracle: the true system, frozen. Modes are picked by argmin, never told."""
    kind = str(system.get("kind"))
    wanted = {"lorenz": ("dt", "sigma", "beta", "rho"), "slds": ("matrices",)}.get(
        kind, ("matrix",)
    )
    if missing := [name for name in ("kind", *wanted) if name not in system]:
        raise InputError(f"system: lacks {', '.join(missing)}; wanted one made by a simulator")
    model: nn.Module
    if kind == "lorenz":
        return Lorenz(system)
    if kind == "slds":
        K, d, _ = system["matrices"].shape
        model = SwitchingLinear(d, K)
        model.matrices.data = torch.as_tensor(np.array(system["matrices"]), dtype=torch.float32)
        model.hard = True
    else:
        control = system.get("control")
        model = Linear(len(system["matrix"]), n_controls=0 if control is None else control.shape[1])
        model.matrix.data = torch.as_tensor(np.array(system["matrix"]), dtype=torch.float32)
        if model.control is not None:
            model.control.data = torch.as_tensor(np.array(control), dtype=torch.float32)
    return model.requires_grad_(False)
