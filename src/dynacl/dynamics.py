"""Dynamics f: where a latent state goes in one step.

All have one signature, forward(x, x_next=None, u=None) -> prediction of x_next, for x (n, d) and
u (n, d_u). Only a model that must infer a mode looks at x_next. `advance` takes the mode instead,
so whatever predicts from the past alone can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.data import InputError

LOGITS = ("reciprocal", "mean", "relative")


class Identity(nn.Module):
    """f(x) = x: contrastive learning without dynamics, the baseline."""

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        return x


class Linear(nn.Module):
    """f(x) = A x (+ b) (+ B u). A starts at the identity."""

    def __init__(self, d: int, bias: bool = False, n_controls: int = 0) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(d))
        self.bias = nn.Parameter(torch.zeros(d)) if bias else None
        self.control = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        return _driven(nn.functional.linear(x, self.matrix, self.bias), self.control, u)


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
        """Several steps in one mode, the one whose end is nearest to x_next."""
        bank = self.bank(x, controls[0])
        for u in controls[1:]:
            bank = torch.einsum("nkj,kij->nki", bank, self.matrices)
            bank = self._shifted(bank, u)
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
        return _driven(bank, self.control, None if u is None else u[:, None])

    @torch.no_grad()
    def modes(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> Tensor:
        """The mode of each step, (n,): the hard argmin of the prediction error."""
        return (self.bank(x, u) - x_next[:, None]).square().sum(-1).argmin(-1)

    def advance(self, x: Tensor, modes: Tensor, u: Tensor | None = None) -> Tensor:
        """One step in modes that are known; mode −1 is "not known yet": the mean over the bank."""
        bank = self.bank(x, u)
        known = bank[torch.arange(len(x), device=x.device), modes.clamp(min=0)]
        return torch.where((modes >= 0)[:, None], known, bank.mean(1))


class Lorenz(nn.Module):
    """The Lorenz system in coordinates scaled by exp(log_scale): x → s f(x / s).

    The scale is the only thing learned: the embedding's own scale is set by the noise, and f does
    not commute with it.
    """

    def __init__(self, system: Mapping[str, Any]) -> None:
        super().__init__()
        self.dt, self.sigma, self.beta, self.rho = (
            float(system[k]) for k in ("dt", "sigma", "beta", "rho")
        )
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        scale = self.log_scale.exp()
        x1, x2, x3 = (x / scale).unbind(-1)
        flow = torch.stack(
            [self.sigma * (x2 - x1), x1 * (self.rho - x3) - x2, x1 * x2 - self.beta * x3], dim=-1
        )
        return x + scale * self.dt * flow


def Truth(system: Mapping[str, Any]) -> nn.Module:
    """The oracle: the true system, frozen. Modes are picked by argmin, never told."""
    kind = str(system.get("kind"))
    wanted = {"lorenz": ("dt", "sigma", "beta", "rho"), "slds": ("matrices",)}.get(
        kind, ("matrix",)
    )
    if missing := [name for name in ("kind", *wanted) if name not in system]:
        raise InputError(f"system: lacks {', '.join(missing)}; wanted one made by a simulator")
    model: nn.Module
    if kind == "lorenz":
        return Lorenz(system)
    if kind == "slds":
        K, d, _ = system["matrices"].shape
        model = SwitchingLinear(d, K)
        model.matrices.data = torch.as_tensor(np.array(system["matrices"]), dtype=torch.float32)
        model.hard = True
    else:
        control = system.get("control")
        model = Linear(len(system["matrix"]), n_controls=0 if control is None else control.shape[1])
        model.matrix.data = torch.as_tensor(np.array(system["matrix"]), dtype=torch.float32)
        if model.control is not None:
            model.control.data = torch.as_tensor(np.array(control), dtype=torch.float32)
    return model.requires_grad_(False)


def advance_in_training(
    dynamics: nn.Module, x: Tensor, x_next: Tensor, controls: list[Tensor | None]
) -> Tensor:
    """As many steps as there are controls, to where x_next should be."""
    if len(controls) == 1:
        predicted: Tensor = dynamics(x, x_next, controls[0])
        return predicted
    if isinstance(dynamics, SwitchingLinear):
        return dynamics.rollout(x, x_next, controls)
    for u in controls:
        x = dynamics(x, None, u)
    return x


def fit_post_hoc(
    model: nn.Module,
    x: Tensor,
    x_next: Tensor,
    u: Tensor | None = None,
    *,
    restarts: int = 4,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Fit dynamics to latents that are there already, by least squares: the paper's baseline.

    Linear: closed form. Switching: alternate argmin and closed form until the modes stand still,
    best of several starts. Anything else: Adam on the mean squared error.
    """
    with torch.no_grad():
        if not list(model.parameters()):
            return model
        if isinstance(model, Linear):
            _assign(model, _least_squares(x, x_next, u, model.bias is not None), slice(None))
            return model
        if isinstance(model, SwitchingLinear):
            return _fit_switching(model, x, x_next, u, restarts, generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(500):
        rows = torch.randint(len(x), (min(len(x), 4096),), generator=generator)
        loss = (
            model(x[rows], x_next[rows], None if u is None else u[rows]) - x_next[rows]
        ).square()
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
    return model


def _fit_switching(
    model: SwitchingLinear,
    x: Tensor,
    x_next: Tensor,
    u: Tensor | None,
    restarts: int,
    generator: torch.Generator | None,
) -> SwitchingLinear:
    sample = torch.randperm(len(x), generator=generator)[:100_000]
    x, x_next = x[sample], x_next[sample]
    u = None if u is None or model.control is None else u[sample]
    d, K = x.shape[1], model.n_modes
    whole = _least_squares(x, x_next, u, model.bias is not None)
    driven = whole.pop("control", None)
    spread = (x_next - x).square().mean().sqrt() / x.square().mean().sqrt()
    best: tuple[float, dict[str, Tensor]] | None = None
    for _ in range(restarts):
        _assign(model, whole, slice(None))
        if driven is not None:
            _assign(model, {"control": driven}, slice(None))
        noise = torch.randn(model.matrices.shape, generator=generator, dtype=x.dtype)
        model.matrices.add_(spread * noise / d**0.5)
        before = None
        for _ in range(200):
            modes = model.modes(x, x_next, u)
            if before is not None and torch.equal(modes, before):
                break
            before = modes
            # B is shared by the modes: they are fitted to what it leaves, then it to what they do.
            left = x_next if u is None else x_next - u @ _control(model).T
            for k in range(K):
                mine = modes == k
                if int(mine.sum()) > d + 1:
                    fit = _least_squares(x[mine], left[mine], None, model.bias is not None)
                    _assign(model, fit, k)
            if u is not None:
                rest = x_next - (model.advance(x, modes, u) - u @ _control(model).T)
                fit = _least_squares(u, rest, None, False)
                _assign(model, {"control": fit["matrix"]}, slice(None))
        error = float((model.advance(x, model.modes(x, x_next, u), u) - x_next).square().mean())
        if best is None or error < best[0]:
            best = error, {k: v.clone() for k, v in model.state_dict().items()}
    assert best is not None
    model.load_state_dict(best[1])
    return model


def _control(model: SwitchingLinear) -> Tensor:
    assert model.control is not None
    return model.control


def _least_squares(x: Tensor, x_next: Tensor, u: Tensor | None, bias: bool) -> dict[str, Tensor]:
    """x_next ≈ A x (+ b) (+ B u), in float64."""
    parts = [x] + ([u] if u is not None else []) + ([x.new_ones(len(x), 1)] if bias else [])
    regressors = torch.cat(parts, dim=1).double()
    # The normal equations lose half the digits; the orthogonal driver does not.
    solution = torch.linalg.lstsq(regressors, x_next.double(), driver="gelsd").solution.T
    d = x.shape[1]
    fit = {"matrix": solution[:, :d]}
    if u is not None:
        fit["control"] = solution[:, d : d + u.shape[1]]
    if bias:
        fit["bias"] = solution[:, -1]
    return fit


def _assign(model: nn.Module, fit: dict[str, Tensor], k: Any) -> None:
    """Write a least-squares fit into a Linear, or into mode(s) k of a bank."""
    names = {"matrix": "matrices" if isinstance(model, SwitchingLinear) else "matrix"}
    for name, value in fit.items():
        parameter = cast(Tensor, getattr(model, names.get(name, name)))
        with torch.no_grad():
            parameter[k] = value.to(parameter.dtype)


def _driven(x: Tensor, control: Tensor | None, u: Tensor | None) -> Tensor:
    if control is None:
        return x
    if u is None:
        raise ValueError("this model was built with a control input; u is missing")
    return x + u @ control.T
