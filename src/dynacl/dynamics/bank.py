"""A bank of linear maps, one per mode: what switching and tiled dynamics share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dynacl.dynamics.base import Dynamics, Request, control_matrix, driven
from dynacl.dynamics.choice import Choice
from dynacl.dynamics.least_squares import assign, linear_fit
from dynacl.dynamics.stable import bound
from dynacl.settings import Wish

ROWS = 1 << 9  # at a time when modes are inferred: their errors stay in cache
SAMPLE = 100_000  # most pairs that a bank is fitted to


class Bank(Dynamics):
    """∇-SLDS: f(x) = W_k x (+ b_k) (+ B u) with k the mode that predicts x_next best.

    In training the choice is soft (`choice.Choice`); at inference it is the hard argmin of the
    error, without noise. All matrices start at the identity, give or take `spread`.
    """

    options = ("n_modes", "bias", "stable")
    restarts: int  # of a fit to latents
    rounds: int  # of each, at most

    @classmethod
    def least_weights(cls, request: Request) -> int:
        return int(request.options["n_modes"]) * request.d**2

    def __init__(
        self,
        d: int,
        n_modes: int,
        bias: bool = False,
        n_controls: int = 0,
        temperature: float | tuple[float, float] = 1.0,
        logits: str | None = None,
        spread: float = 0.0,
        generator: torch.Generator | None = None,
        stable: bool | str = False,
    ) -> None:
        """logits: None leaves the choice of `choice.Choice.logits` to the training settings."""
        super().__init__()
        noise = torch.randn(n_modes, d, d, generator=generator)
        self.matrices = nn.Parameter(torch.eye(d) + spread * noise)
        self.bias = nn.Parameter(torch.zeros(n_modes, d)) if bias else None
        self.control = control_matrix(d, n_controls)
        self.choice = Choice(logits or "reciprocal", temperature, generator)
        self.asked_logits = logits
        self.stable = stable

    @property
    def n_modes(self) -> int:  # type: ignore[override]
        return len(self.matrices)

    def asked(self) -> Sequence[Wish]:
        """What was asked for when the bank was made."""
        if self.asked_logits is None:
            return ()
        return (Wish("switching_logits", self.asked_logits, "The model was built with them."),)

    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        bank = self.bank(x, u)
        return bank.mean(1) if weights is None else (weights[:, :, None] * bank).sum(1)

    def bank(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        bank = (x @ self.matrices.flatten(0, 1).T).view(len(x), *self.matrices.shape[:2])
        if self.bias is not None:
            bank = bank + self.bias
        return driven(bank, self.control, None if u is None else u[:, None])

    def ends(self, x: Tensor, controls: Sequence[Tensor | None]) -> Tensor:
        """Wⁿ x + Σ_i Wⁿ⁻¹⁻ⁱ (b + B u_i): powers of K small matrices, not n times K predictions."""
        if len(controls) == 1:
            return self.bank(x, controls[0])
        power = torch.eye(x.shape[-1]).to(self.matrices).expand_as(self.matrices)
        pushed: Tensor | float = 0.0
        for u in reversed(controls):
            if self.bias is not None:
                pushed = pushed + (power @ self.bias[..., None])[..., 0]
            if self.control is not None:
                Bu = driven(torch.zeros_like(x), self.control, u)
                pushed = pushed + torch.einsum("kij,nj->nki", power, Bu)
            power = power @ self.matrices
        return (x @ power.flatten(0, 1).T).view(len(x), *power.shape[:2]) + pushed

    def bound(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> float:
        bias = None if self.bias is None else self.bias.data
        return bound(self.matrices.data, bias, x, self.best_modes(x, x_next, u))

    def linear_maps(self) -> Tensor:
        return self.matrices

    @torch.no_grad()
    def unit_scale(self, x: Tensor) -> None:
        if not self.learns:
            return
        scale = (x @ self.matrices.mT).norm(dim=-1).mean(1)
        if self.control is not None:  # shared by all modes, so one scale for all
            scale = scale.mean().expand_as(scale)
            self.control.div_(scale[0])
        self.matrices.div_(scale[:, None, None])
        if self.bias is not None:
            self.bias.div_(scale[:, None])

    @torch.no_grad()
    def refit(self, x: Tensor, x_next: Tensor, u: Tensor | None = None, **how: Any) -> None:
        """Alternate argmin and closed form until the modes stand still, best of several starts."""
        generator = how.get("generator")
        sample = torch.randperm(len(x), generator=generator)[:SAMPLE]
        x, x_next = x[sample], x_next[sample]
        u = None if u is None or self.control is None else u[sample]
        whole = linear_fit(x, x_next, u, self.bias is not None)
        spread = (x_next - x).square().mean().sqrt() / x.square().mean().sqrt()
        best: tuple[float, dict[str, Tensor]] | None = None
        for _ in range(how.get("restarts") or self.restarts):
            self._write(whole, slice(None))
            noise = torch.randn(self.matrices.shape, generator=generator, dtype=x.dtype)
            self.matrices.add_(spread * noise / x.shape[1] ** 0.5)
            self._alternate(x, x_next, u, how.get("rounds") or self.rounds)
            bank = self.bank(x, u)
            modes = (bank - x_next[:, None]).square().sum(-1).argmin(-1)
            error = float((bank[torch.arange(len(x)), modes] - x_next).square().mean())
            if best is None or error < best[0]:
                best = error, {k: v.clone() for k, v in self.state_dict().items()}
        assert best is not None
        self.load_state_dict(best[1])

    def _alternate(self, x: Tensor, x_next: Tensor, u: Tensor | None, rounds: int) -> None:
        before = None
        for _ in range(rounds):
            modes = self.best_modes(x, x_next, u)
            if before is not None and torch.equal(modes, before):
                break
            before = modes
            # B is shared by the modes: they are fitted to what it leaves, then it to what they do.
            Bu = 0.0 if u is None or self.control is None else u @ self.control.T
            order = modes.argsort(stable=True)
            counts = torch.bincount(modes, minlength=self.n_modes).tolist()
            left = x_next - Bu
            parts = zip(torch.split(x[order], counts), torch.split(left[order], counts),
                        strict=True)  # fmt: skip
            for k, (now, following) in enumerate(parts):
                if len(now) > x.shape[1] + 1:
                    self._write(linear_fit(now, following, None, self.bias is not None), k)
            if u is not None:
                moved = self.bank(x, u)[torch.arange(len(x)), modes]
                rest = x_next - (moved - Bu)
                assign(self.control, linear_fit(u, rest, None, False)["matrix"])

    def _write(self, fit: dict[str, Tensor], k: int | slice) -> None:
        """A least-squares fit into mode k, or into all of them."""
        parameters: dict[str, Any] = {"matrix": self.matrices, "bias": self.bias}
        for name, value in fit.items():
            if name == "control":
                assign(self.control, value)
            else:
                assign(parameters[name], value, k)

    @torch.no_grad()
    def best_modes(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> Tensor:
        """What `modes` gives, as one matrix product: far faster where there are many.

        ‖W x − r‖² = (x xᵀ)·(WᵀW) − 2 (r xᵀ)·W + ‖r‖², and the last term is the same for all modes.
        The difference of squares costs digits, so it is taken in float64 whatever came.
        """
        x, W, rest = x.double(), self.matrices.double(), x_next.double()
        if u is not None and self.control is not None:
            rest = rest - u.double() @ self.control.double().T
        if self.bias is not None:  # a mode's offset is a column of W for an input of ones
            W = torch.cat([W, self.bias.double()[:, :, None]], dim=2)
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        weights = torch.cat([(W.mT @ W).flatten(1), -2 * W.flatten(1)], dim=1).T
        factors = torch.cat([x, rest], dim=1)
        found = []
        for left, right in zip(torch.split(factors, ROWS), torch.split(x, ROWS), strict=True):
            found.append(((left[:, :, None] * right[:, None]).flatten(1) @ weights).argmin(1))
        return torch.cat(found)
