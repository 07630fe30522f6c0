"""Permutation-contrastive learning (Hyvärinen & Morioka 2017): tell true from permuted history."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynacl.baselines.networks import PerDimensionMLP, leaky_mlp


class PCL(nn.Module):
    """logit p(true) = Σ_i r_i(h_i(y_t), h_i(y_{t−1}), …): one scorer for each dimension."""

    def __init__(
        self,
        n_features: int,
        d: int,
        length: int,
        generator: torch.Generator,
        width: int = 50,
        layers: int = 4,
        scorer_width: int = 50,
    ) -> None:
        super().__init__()
        self.encoder = leaky_mlp([n_features, *[width] * layers, d], generator)
        self.scorer = PerDimensionMLP(d, [length, scorer_width], generator)

    def loss(self, y: Tensor, domain: Tensor, generator: torch.Generator) -> Tensor:
        """y (n, length, D). A window's last observation is set against another window's history."""
        n, length, _ = y.shape
        x = self.encoder(y.flatten(0, 1)).view(n, length, -1)
        order = torch.randperm(n, generator=generator).to(y.device)
        permuted = torch.cat([x[order, :-1], x[:, -1:]], dim=1)
        pairs = torch.cat([x, permuted]).permute(2, 0, 1)  # (d, 2n, length)
        logits = self.scorer(pairs).sum(0)
        return nn.functional.binary_cross_entropy_with_logits(
            logits, (torch.arange(2 * n, device=y.device) < n).to(logits)
        )

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.encoder(y)
        return x
