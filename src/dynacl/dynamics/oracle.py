"""The true system in place of learned dynamics. It never learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.data import Array, InputError
from dynacl.dynamics.base import SEVERAL, SHARP, Dynamics, Request, driven
from dynacl.settings import Wish

DIFFERENCE = 1e-5  # of states, relative to their size, from which slopes are told


@final
class TrueMap(Dynamics):
    """A map of the state, given as a function of tensors (n, d)."""

    def __init__(self, move: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.move = move

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        return self.move(x)


@final
class ArrayMap(Dynamics):
    """A map of the state, given as a function of arrays (n, d), plus B u."""

    def __init__(self, move: Callable[[Array], Array], control: Array | None = None) -> None:
        super().__init__()
        self.move = move
        if control is not None:
            self.control = nn.Parameter(torch.tensor(control, dtype=torch.float32))

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        moved: Tensor = _ByArrays.apply(x, self.move)  # type: ignore[no-untyped-call]
        return driven(moved, self.control, u)


class _ByArrays(torch.autograd.Function):
    """A function of arrays on tensors; its slopes are differences, d pairs of calls."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, move: Callable[[Array], Array]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.move = move
        return _moved(move, x.detach()).to(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (x,), (gradient,) = ctx.saved_tensors, gradients
        x, slopes = x.double(), []
        for i in range(x.shape[-1]):
            ahead = torch.zeros(x.shape[-1], dtype=x.dtype, device=x.device)
            ahead[i] = DIFFERENCE * float(x[..., i].abs().max().clamp(min=1))
            change = _moved(ctx.move, x + ahead) - _moved(ctx.move, x - ahead)
            slopes.append((change.to(gradient) * gradient).sum(-1) / (2 * float(ahead[i])))
        return torch.stack(slopes, dim=-1), None


def _moved(move: Callable[[Array], Array], x: Tensor) -> Tensor:
    return torch.from_numpy(np.asarray(move(x.double().cpu().numpy()), dtype=float))


@final
class Oracle(Dynamics):
    """The true map, frozen. Modes are picked by argmin, never told.

    A map that is not linear gets a scale, the only thing learned: x → s f(x / s). The embedding's
    own scale is set by the noise, and such an f does not commute with it.
    """

    identifies = True
    needs_system = True

    def __init__(self, true: Dynamics) -> None:
        super().__init__()
        self.true = true.requires_grad_(False)
        scaled = true.linear_maps() is None
        self.log_scale = nn.Parameter(torch.zeros(())) if scaled else None

    @classmethod
    def build(cls, request: Request) -> Self:
        if request.system is None:
            raise InputError('dynamics: "truth" needs data that carry their system')
        system = request.system()
        if request.d != system.d:
            raise InputError(
                f"n_components: got {request.d!r}; the true system has {system.d}, and "
                'dynamics="truth" has as many'
            )
        if system.n_controls and not request.n_controls:
            raise InputError('dynamics: "truth" of a driven system needs its control input u')
        made: Self = system.oracle()
        return made

    @property
    def n_modes(self) -> int:  # type: ignore[override]
        return self.true.n_modes

    @property
    def input_map(self) -> Tensor | None:
        return self.true.input_map

    @property
    def learns(self) -> bool:
        return False  # a scale is no reason to weigh the true modes softly

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        if self.log_scale is None:
            return self.true.step(x, u, weights)
        scale = self.log_scale.exp()
        return scale * self.true.step(x / scale, u, weights)

    def bank(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        return self.true.bank(x, u)

    def ends(self, x: Tensor, controls: Sequence[Any]) -> Tensor:
        return self.true.ends(x, controls)

    def wishes(self) -> Sequence[Wish]:
        return (SHARP, *SEVERAL)

    def refit(self, *_: Any, **__: Any) -> None:
        """The truth stays as it is."""

    def linear_maps(self) -> Tensor | None:
        return self.true.linear_maps()
