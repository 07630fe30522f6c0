"""A bank of linear maps, and the choice among them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynacl.dynamics.linear import driven

MANY_MODES = 30  # more of them tile the space, and a state visits each only briefly
LOGITS = ("reciprocal", "mean", "relative")


class SwitchingLinear(nn.Module):
    """∇-SLDS: f(x) = W_k x (+ b_k) (+ B u) with k the mode that predicts x_next best.

    In training the choice is soft: weights softmax((1 / (e_k + eps) + Gumbel) / τ) over the errors
    e_k = ‖W_k x − x_next‖². At inference it is the hard argmin, without noise.

    logits: "reciprocal" is the paper's text, "mean" its published code, which averages the squared
    error over the d dimensions and so makes the choice d times sharper; "relative" divides by the
    smallest error of the row and does not depend on the embedding's scale (docs/log.md compares).
    """

    eps = 1e-16

    def __init__(
        self,
        d: int,
        n_modes: int,
        bias: bool = False,
        n_controls: int = 0,
        temperature: float | tuple[float, float] = 1.0,
        logits: str = "reciprocal",
        spread: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        """temperature: τ, or its start and end: `anneal` then moves it between them.

        spread: standard deviation of the start around the identity, which breaks ties.
        """
        super().__init__()
        if logits not in LOGITS:
            raise ValueError(f"logits: got {logits!r}; wanted one of {', '.join(LOGITS)}")
        noise = torch.randn(n_modes, d, d, generator=generator)
        self.matrices = nn.Parameter(torch.eye(d) + spread * noise)
        self.bias = nn.Parameter(torch.zeros(n_modes, d)) if bias else None
        self.control = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None
        self.schedule = temperature if isinstance(temperature, tuple) else (temperature,) * 2
        self.temperature = self.schedule[0]
        self.logits = logits
        self.hard = False  # the oracle never needs the soft choice: it has nothing to learn
        self.generator = generator

    def anneal(self, progress: float) -> None:
        """Set τ for this share (0 to 1) of the training, geometrically between start and end."""
        start, end = self.schedule
        self.temperature = start ** (1 - progress) * end**progress

    @property
    def n_modes(self) -> int:
        return len(self.matrices)

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        if x_next is None:
            raise ValueError("a switching model infers its mode from x_next; use advance(x, modes)")
        return self.choose(self.bank(x, u), x_next)

    def rollout(self, x: Tensor, x_next: Tensor, controls: list[Tensor | None]) -> Tensor:
        """Several steps in one mode, the one whose end is nearest to x_next.

        Wⁿ x + Σ_i Wⁿ⁻¹⁻ⁱ (b + B u_i): powers of K small matrices instead of n times K predictions.
        """
        power = torch.eye(x.shape[-1]).to(self.matrices).expand_as(self.matrices)
        pushed: Tensor | float = 0.0
        for u in reversed(controls):
            if self.bias is not None:
                pushed = pushed + (power @ self.bias[..., None])[..., 0]
            if self.control is not None:
                Bu = driven(torch.zeros_like(x), self.control, u)
                pushed = pushed + torch.einsum("kij,nj->nki", power, Bu)
            power = power @ self.matrices
        bank = (x @ power.flatten(0, 1).T).view(len(x), *power.shape[:2]) + pushed
        return self.choose(bank, x_next)

    def choose(self, bank: Tensor, x_next: Tensor) -> Tensor:
        """The prediction of the mode that fits x_next: hard at inference, soft in training."""
        errors = (bank - x_next[:, None]).square().sum(-1)
        if self.hard or not self.training:
            return bank[torch.arange(len(bank), device=bank.device), errors.argmin(-1)]
        if self.logits == "mean":
            errors = errors / bank.shape[-1]
        if self.logits == "relative":
            errors = errors / (errors.detach().amin(-1, keepdim=True) + self.eps)
        uniform = torch.rand(errors.shape, generator=self.generator, dtype=errors.dtype)
        gumbel = -torch.log(-torch.log(uniform.clamp_(1e-12, 1 - 1e-7)))
        weights = torch.softmax(
            (1 / (errors + self.eps) + gumbel.to(errors.device)) / self.temperature, dim=-1
        )
        return (weights[:, :, None] * bank).sum(1)

    def bank(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        """Every mode's prediction, (n, K, d)."""
        bank = (x @ self.matrices.flatten(0, 1).T).view(len(x), *self.matrices.shape[:2])
        return self._shifted(bank, u)

    def _shifted(self, bank: Tensor, u: Tensor | None) -> Tensor:
        if self.bias is not None:
            bank = bank + self.bias
        return driven(bank, self.control, None if u is None else u[:, None])

    @torch.no_grad()
    def errors(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> Tensor:
        """Squared prediction error of every mode, (n, K)."""
        return (self.bank(x, u) - x_next[:, None]).square().sum(-1)

    def modes(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> Tensor:
        """The mode of each step, (n,): the hard argmin of the prediction error."""
        return self.errors(x, x_next, u).argmin(-1)

    def advance(self, x: Tensor, modes: Tensor, u: Tensor | None = None) -> Tensor:
        """One step in modes that are known; mode −1 is "not known yet": the mean over the bank."""
        bank = self.bank(x, u)
        known = bank[torch.arange(len(x), device=x.device), modes.clamp(min=0)]
        return torch.where((modes >= 0)[:, None], known, bank.mean(1))
