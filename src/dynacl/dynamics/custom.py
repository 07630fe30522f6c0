"""A user's own nn.Module as dynamics, with the facts that it declares as attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from dynacl.data import InputError
from dynacl.dynamics.base import Dynamics
from dynacl.settings import Settings, Wish, checked
from dynacl.values import Whole


@final
class Custom(Dynamics):
    """A module with forward(x, x_next=None, u=None), and what it declares as attributes.

    context, n_modes, identifies: as in `base.Dynamics`.
    wishes: a dict of training settings.
    bank(x, u=None) -> (n, K, d): every mode's prediction; needed with n_modes, and forward is not.
    linear_maps() -> (K, d, d), observe(x): as in `base.Dynamics`.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for name in ("context", "n_modes"):
            value = getattr(module, name, 0)
            if not Whole(0).accepts(value):
                raise InputError(f"dynamics: its {name} is {value!r}; wanted {Whole(0).wanted}")
            setattr(self, name, int(value))
        self.identifies = bool(getattr(module, "identifies", False))
        if self.n_modes and not callable(getattr(module, "bank", None)):
            raise InputError(f"dynamics: {self.given_name} has {self.n_modes} modes and no bank; "
                             "wanted a method bank(x, u) that gives (n, K, d)")  # fmt: skip
        wishes = getattr(module, "wishes", {})
        if not isinstance(wishes, Mapping):
            raise InputError(f"dynamics: its wishes are {wishes!r}; wanted a dict of settings")
        self._wishes = tuple(
            Wish(name, checked(name, value, "dynamics: its wishes: "), "The module asks for it.")
            for name, value in wishes.items()
        )

    @property
    def given(self) -> nn.Module:
        return self.module

    @property
    def takes_control(self) -> bool:
        return True  # what a module does with it is not known

    @property
    def learns(self) -> bool:
        return True  # a module may learn in ways of its own

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        if self.infers_modes:
            return super().forward(x, x_next, u)
        predicted: Tensor = self.module(x, x_next, u)
        return predicted

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        if not self.n_modes:
            return self.forward(x, None, u)
        bank = self.bank(x, u)
        return bank.mean(1) if weights is None else (weights[:, :, None] * bank).sum(1)

    def bank(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        if not self.n_modes:
            return super().bank(x, u)
        bank: Tensor = self.module.bank(x, u)  # type: ignore[operator]
        return bank

    def wishes(self) -> Sequence[Wish]:
        return self._wishes

    def linear_maps(self) -> Tensor | None:
        declared = getattr(self.module, "linear_maps", None)
        return declared() if callable(declared) else None

    def observe(self, x: Tensor) -> None:
        declared = getattr(self.module, "observe", None)
        if callable(declared):
            declared(x)

    def begin(self, settings: Settings, generator: torch.Generator) -> None:
        """A part that draws random numbers by a `generator` of its own draws from the run's."""
        super().begin(settings, generator)
        for part in self.module.modules():
            if hasattr(part, "generator"):
                part.generator = generator  # type: ignore[assignment]

    def anneal(self, progress: float) -> None:
        super().anneal(progress)
        declared: Any = getattr(self.module, "anneal", None)
        if callable(declared):
            declared(progress)
