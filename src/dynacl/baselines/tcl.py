"""Time-contrastive learning (Hyvärinen & Morioka 2016): tell the domain from |h(y)|."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynacl.baselines.networks import leaky_mlp


class TCL(nn.Module):
    """log p(domain | y) ∝ W |h(y)| + b, for each observation by itself."""

    def __init__(
        self, n_features: int, d: int, n_domains: int, generator: torch.Generator, width: int = 128
    ) -> None:
        super().__init__()
        self.encoder = leaky_mlp([n_features, width, width, d], generator)
        self.classifier = leaky_mlp([d, n_domains], generator)

    def loss(self, y: Tensor, domain: Tensor, generator: torch.Generator) -> Tensor:
        """y (n, length, D), domain (n,)."""
        logits = self.classifier(self.encoder(y.flatten(0, 1)).abs())
        return nn.functional.cross_entropy(logits, domain.repeat_interleave(y.shape[1]))

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.encoder(y)
        return x
