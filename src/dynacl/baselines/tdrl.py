"""Temporally disentangled representation learning (Yao et al. 2022): a VAE with a flow prior.

r_i = f_i(x_{t,i}, history, domain) ~ N(0, 1)
log p(x_t | history, domain) = Σ_i log N(r_i; 0, 1) + log|∂r_i/∂x_{t,i}|
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dynacl.baselines.networks import PerDimensionMLP, leaky_mlp

PAST, FUTURE = 2e-3, 2e-2  # weights of the two KL terms
EMBEDDING = 8  # dimensions of a domain's embedding: ours


class TDRL(nn.Module):
    def __init__(
        self,
        n_features: int,
        d: int,
        length: int,
        n_domains: int,
        generator: torch.Generator,
        width: int = 128,
        layers: int = 4,
        prior_width: int = 128,
    ) -> None:
        super().__init__()
        self.d = d
        hidden = [width] * layers
        self.encoder = leaky_mlp([n_features, *hidden, 2 * d], generator)
        self.decoder = leaky_mlp([d, *hidden, n_features], generator)
        self.embedding = nn.Parameter(torch.randn(n_domains, EMBEDDING, generator=generator))
        sizes = [EMBEDDING + (length - 1) * d + 1, *[prior_width] * 3]
        self.prior = PerDimensionMLP(d, sizes, generator)

    def loss(self, y: Tensor, domain: Tensor, generator: torch.Generator) -> Tensor:
        """y (n, length, D), domain (n,): squared error + weighted KL, for one window."""
        n, length, _ = y.shape
        rows = y.transpose(0, 1).flatten(0, 1)  # oldest first: the last n rows are the present
        mean, log_variance = self.encoder(rows).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=generator).to(y.device)
        x = torch.addcmul(mean, torch.exp(0.5 * log_variance), noise)
        error = nn.functional.mse_loss(self.decoder(x), rows, reduction="sum")

        old, old_log_variance = mean[:-n], log_variance[:-n]
        past = 0.5 * (old.square() + old_log_variance.exp() - 1 - old_log_variance).sum()
        log_q = log_normal(noise[-n:]).sum() - 0.5 * log_variance[-n:].sum()
        history = x[:-n].view(length - 1, n, -1).transpose(0, 1).flatten(1)
        future = log_q - self.log_prior(x[-n:], history, domain).sum()
        loss: Tensor = (error + PAST * past + FUTURE * future) / n
        return loss

    def log_prior(self, now: Tensor, history: Tensor, domain: Tensor) -> Tensor:
        """log p(x_t | history, domain): (n, d), (n, lags · d), (n,) to (n,)."""
        shared = torch.cat([self.embedding[domain], history], dim=1)
        inputs = torch.cat([shared.expand(self.d, -1, -1), now.T[:, :, None]], dim=2)
        residual, derivative = self.prior.with_derivative(inputs)
        log_slope = derivative.abs().clamp_min(1e-12).log()
        return (log_normal(residual) + log_slope).sum(0)

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.encoder(y)[:, : self.d]
        return x


def log_normal(x: Tensor) -> Tensor:
    return -0.5 * x.square() - 0.5 * math.log(2 * math.pi)
