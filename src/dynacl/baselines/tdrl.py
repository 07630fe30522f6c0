"""Temporally disentangled representation learning (Yao et al. 2022): a VAE with a flow prior.

    r_i = f_i(x_{t,i}, history, domain) ~ N(0, 1),   log p(x_t | history) = Σ_i log N(r_i) + log|∂r_i/∂x_{t,i}|
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
        flat = y.flatten(0, 1)
        mean, log_variance = self.encoder(flat).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=generator).to(y.device)
        x = mean + torch.exp(0.5 * log_variance) * noise
        error = (self.decoder(x) - flat).square().sum() / n

        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)  # to N(0, 1)
        past = kl.view(n, length, -1)[:, :-1].sum() / n
        x, noise, log_variance = (v.view(n, length, -1) for v in (x, noise, log_variance))
        log_q = log_normal(noise[:, -1]) - 0.5 * log_variance[:, -1]
        log_p = self.log_prior(x[:, -1], x[:, :-1].flatten(1), domain)
        future = (log_q.sum(1) - log_p).mean()
        return error + PAST * past + FUTURE * future

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
