"""The soft choice among modes in training (paper, ∇-SLDS)."""

from __future__ import annotations

import torch
from torch import Tensor

from dynacl.settings import LOGITS

EPS = 1e-16


class Choice:
    """Weights softmax((1 / (e_k + eps) + Gumbel) / τ) over the errors e_k = ‖f_k(x) − x_next‖².

    logits: "reciprocal" is the paper's text, "mean" its published code, which averages the squared
    error over the d dimensions and so makes the choice d times sharper; "relative" divides by the
    smallest error of the row and does not depend on the embedding's scale (docs/log.md compares).
    temperature: τ, or its start and end, between which `anneal` moves it geometrically.
    """

    def __init__(
        self,
        logits: str = "reciprocal",
        temperature: float | tuple[float, float] = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        if logits not in LOGITS:
            raise ValueError(f"logits: got {logits!r}; wanted one of {', '.join(LOGITS)}")
        self.logits = logits
        self.schedule = temperature if isinstance(temperature, tuple) else (temperature,) * 2
        self.temperature = self.schedule[0]
        self.generator = generator

    def anneal(self, progress: float) -> None:
        start, end = self.schedule
        self.temperature = start ** (1 - progress) * end**progress

    def weights(self, errors: Tensor, d: int) -> Tensor:
        """(n, K), from squared errors (n, K) that are summed over d dimensions."""
        if self.logits == "mean":
            errors = errors / d
        if self.logits == "relative":
            errors = errors / (errors.detach().amin(-1, keepdim=True) + EPS)
        uniform = torch.rand(errors.shape, generator=self.generator, dtype=errors.dtype)
        gumbel = -torch.log(-torch.log(uniform.clamp_(1e-12, 1 - 1e-7)))
        logits = 1 / (errors + EPS) + gumbel.to(errors.device)
        return torch.softmax(logits / self.temperature, dim=-1)
