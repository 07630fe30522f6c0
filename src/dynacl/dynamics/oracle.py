"""The true system in place of a learned one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, final

import torch
from torch import Tensor, nn

from dynacl.data import InputError
from dynacl.dynamics.base import SEVERAL, SHARP, Dynamics, Request
from dynacl.settings import Wish


@final
class TrueMap(Dynamics):
    """A map of the state, given as a function of tensors (n, d)."""

    def __init__(self, move: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.move = move

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        return self.move(x)


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
