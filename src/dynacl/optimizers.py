"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al., ICLR 2025).

For a weight matrix with gradient G it keeps running averages of G Gᵀ and Gᵀ G, turns gradients into
their eigenbases, takes Adam's step there, and turns it back. The encoder is small, so this costs a
few products of small matrices, and it needs several times fewer steps than Adam (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor

WIDEST = 1000  # of a side that is turned: its basis takes a decomposition of width³


class SOAP(torch.optim.Optimizer):
    """For matrices; a vector takes Adam's step. Bases turn by one QR iteration every few steps."""

    def __init__(
        self,
        params: Any,
        lr: float = 0.03,
        momentum: float = 0.95,
        decay: float = 0.95,
        every: int = 10,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(
            params,
            {"lr": lr, "momentum": momentum, "decay": decay, "every": every, "eps": eps},
        )

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group)
        return loss

    def _move(self, p: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, flat = self.state[p], p.ndim != 2
        if not state:
            state["step"] = torch.zeros((), dtype=torch.int64)
            state["mean"] = torch.zeros_like(p)
            state["square"] = torch.zeros_like(p)
            if not flat:
                for side, G in _sides(gradient):
                    state[side] = G @ G.T
                    state[f"{side}_basis"] = _eigenbasis(state[side])
        step = int(state["step"].add_(1))
        momentum, decay = group["momentum"], group["decay"]
        state["mean"].lerp_(gradient, 1 - momentum)
        left, right = state.get("left_basis"), state.get("right_basis")
        turned, mean = _turned(gradient, left, right), _turned(state["mean"], left, right)
        state["square"].lerp_(turned.square(), 1 - decay)
        spread = (state["square"] / (1 - decay**step)).sqrt_().add_(group["eps"])
        move = mean / (1 - momentum**step) / spread
        back = [None if basis is None else basis.T for basis in (left, right)]
        p.add_(_turned(move, *back), alpha=-group["lr"])
        if flat:
            return
        for side, G in _sides(gradient):
            state[side].lerp_(G @ G.T, 1 - decay)
            if step % group["every"] == 0:
                turned = torch.linalg.qr(state[side] @ state[f"{side}_basis"])[0]
                # Row-major, as a checkpoint keeps it: products must round alike after loading.
                state[f"{side}_basis"] = turned.contiguous()


def _sides(gradient: Tensor) -> list[tuple[str, Tensor]]:
    sides = (("left", gradient), ("right", gradient.T))
    return [(side, G) for side, G in sides if len(G) <= WIDEST]


def _eigenbasis(S: Tensor) -> Tensor:
    """NaN if S is not finite: the next loss is NaN then, and training stops with a word on it."""
    if not S.isfinite().all():
        return torch.full_like(S, torch.nan)
    basis: Tensor = torch.linalg.eigh(S)[1]
    return basis.contiguous()


def _turned(G: Tensor, left: Tensor | None, right: Tensor | None) -> Tensor:
    """G in these bases; None leaves a side as it is."""
    if left is not None:
        G = left.T @ G
    return G if right is None else G @ right
