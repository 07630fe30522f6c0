"""Dynamics beyond linear: polynomial, residual network, gated bank, recurrent context.

Each is x plus a correction that starts at nothing, computed in coordinates of zero mean and unit
covariance: the embedding's scale is set by the noise and grows a thousandfold in training, and a
power of x must not notice.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from dynacl.dynamics.linear import driven

M = TypeVar("M", bound=nn.Module)


class Whitened(nn.Module):
    """Running mean and covariance of the states seen in training, as z = R⁻¹ (x − mean)."""

    mean: Tensor
    covariance: Tensor
    count: Tensor
    slowest = 0.01  # weight of a new batch in the running estimate, once there were many

    def __init__(self, d: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("covariance", torch.eye(d))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates z and the root R that takes them back."""
        root, failed = torch.linalg.cholesky_ex(self.covariance)
        root = root.where(failed == 0, torch.nan)  # states ran off: the loss is NaN and says so
        inverse = torch.linalg.solve_triangular(root, torch.eye(len(root)).to(root), upper=False)
        return (x - self.mean) @ inverse.T, root

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Learn from states of the encoder (not from predictions, which may run off)."""
        x = x.flatten(0, -2)
        if len(x) < 2:
            return
        self.count += 1
        weight = torch.clamp(1 / self.count, min=self.slowest)
        centred = x - x.mean(0)
        covariance = centred.T @ centred / len(x)
        d = len(covariance)
        # A direction that the encoder does not use yet must not make the root singular.
        covariance += 1e-6 * (covariance.trace() / d + 1e-12) * torch.eye(d).to(covariance)
        self.mean.lerp_(x.mean(0), weight)
        self.covariance.lerp_(covariance, weight)


class Polynomial(nn.Module):
    """f(x) = x + R W m(z) (+ B u), m all monomials of z up to `degree`. W starts at zero.

    Beyond `reach` standard deviations, where no data are, the correction is that of the border: a
    power must not throw a roll-out to infinity.
    """

    powers: Tensor
    reach = 4.0

    def __init__(self, d: int, degree: int = 2, n_controls: int = 0) -> None:
        super().__init__()
        if degree < 1:
            raise ValueError(f"degree: got {degree}; wanted at least 1")
        self.degree = degree
        # Each monomial is a product of `degree` columns of [z, 1]; column d is the 1.
        columns = list(combinations_with_replacement(range(d + 1), degree))
        self.register_buffer("powers", torch.tensor(columns), persistent=False)
        self.whitened = Whitened(d)
        self.weight = nn.Parameter(torch.zeros(d, len(columns)))
        self.control = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        z = z.clamp(-self.reach, self.reach)
        return driven(x + self.monomials(z) @ self.weight.T @ root.T, self.control, u)

    def monomials(self, z: Tensor) -> Tensor:
        with_one = torch.cat([z, torch.ones_like(z[..., :1])], -1)
        out = with_one[..., self.powers[:, 0]]
        for column in self.powers.T[1:]:
            out = out * with_one[..., column]
        return out


class ResidualMLP(nn.Module):
    """f(x) = x + R g(z) (+ B u), g a small network whose last layer starts near zero.

    lipschitz: bound on g's Lipschitz constant; below 1, f is invertible. Each layer whose largest
    singular value exceeds its share of the bound is scaled down to it; tanh has slope 1 at most.
    """

    def __init__(
        self,
        d: int,
        hidden: tuple[int, ...] = (64, 64),
        lipschitz: float | None = None,
        n_controls: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if lipschitz is not None and not lipschitz > 0:
            raise ValueError(f"lipschitz: got {lipschitz}; wanted a positive number")
        self.whitened = Whitened(d)
        self.lipschitz = lipschitz
        self.layers = nn.ModuleList(
            seeded(nn.Linear(a, b), generator) for a, b in pairwise((d, *hidden, d))
        )
        with torch.no_grad():
            self.layers[-1].weight.mul_(1e-2)  # type: ignore[operator]
            self.layers[-1].bias.zero_()  # type: ignore[operator]
        self.control = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        return driven(x + self.residual(z) @ root.T, self.control, u)

    def residual(self, z: Tensor) -> Tensor:
        """g(z); its slope is bounded layer by layer where a bound was asked for."""
        share = None if self.lipschitz is None else self.lipschitz ** (1 / len(self.layers))
        for i, layer in enumerate(self.layers):
            weight: Tensor = layer.weight  # type: ignore[assignment]
            bias: Tensor = layer.bias  # type: ignore[assignment]
            if share is not None:
                weight = weight * (share / torch.linalg.matrix_norm(weight, 2)).clamp(max=1.0)
            z = nn.functional.linear(z, weight, bias)
            if i < len(self.layers) - 1:
                z = torch.tanh(z)
        return z


class Gated(nn.Module):
    """f(x) = x + R Σ_k p_k(z) (W_k z + b_k) (+ B u): the state itself says which mode it is in.

    p = softmax of a small network, so f needs no x_next and can forecast through a switch.
    """

    def __init__(
        self,
        d: int,
        n_modes: int,
        hidden: int = 64,
        n_controls: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.whitened = Whitened(d)
        self.matrices = nn.Parameter(1e-3 * torch.randn(n_modes, d, d, generator=generator))
        self.bias = nn.Parameter(torch.zeros(n_modes, d))
        self.gate = nn.Sequential(
            seeded(nn.Linear(d, hidden), generator),
            nn.Tanh(),
            seeded(nn.Linear(hidden, n_modes), generator),
        )
        self.control = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None

    @property
    def n_modes(self) -> int:
        return len(self.matrices)

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        z, root = self.whitened(x)
        flow = (z @ self.matrices.flatten(0, 1).T).view(*z.shape[:-1], *self.bias.shape)
        share = self.gate(z).softmax(-1)
        correction = (share[..., None] * (flow + self.bias)).sum(-2)
        return driven(x + correction @ root.T, self.control, u)

    @torch.no_grad()
    def modes(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        """The likeliest mode of each state, (n,), from the state alone."""
        z, _ = self.whitened(x)
        modes: Tensor = self.gate(z).argmax(-1)
        return modes


class Recurrent(nn.Module):
    """f(x_{t−C..t}) = x_t + R W c_t (+ B u), c_t the state of a GRU run over the last embeddings.

    CPC (van den Oord et al., 2018) is this with the loss unchanged: an autoregressive summary of
    past embeddings and a linear map to the prediction; without the skip connection if skip=False.
    """

    def __init__(
        self,
        d: int,
        context: int = 8,
        hidden: int = 64,
        n_controls: int = 0,
        skip: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.context, self.skip = context, skip
        self.whitened = Whitened(d)
        self.gru = seeded(nn.GRU(d, hidden, batch_first=True), generator)
        self.head = seeded(nn.Linear(hidden, d), generator)
        with torch.no_grad():
            self.head.weight.mul_(1e-2 if skip else 1.0)
            self.head.bias.zero_()
        self.control = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        """x: (n, steps, d), the present last; (n, d) is a present that nothing led up to."""
        if x.ndim == 2:
            x = x[:, None].expand(-1, self.context + 1, -1)
        z, root = self.whitened(x)
        _, state = self.gru(z)
        now = x[:, -1] if self.skip else self.whitened.mean.expand(len(x), -1)
        return driven(now + self.head(state[0]) @ root.T, self.control, u)


def seeded(module: M, generator: torch.Generator | None) -> M:
    """PyTorch's own initial distribution for linear and recurrent layers, from this generator."""
    width = int(getattr(module, "hidden_size", 0) or module.in_features)  # type: ignore[arg-type]
    bound = float(width**-0.5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return module
