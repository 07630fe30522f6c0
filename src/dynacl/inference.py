"""What a trained run says of data: latents, modes, predictions, roll-outs.

Arrays in and out, a bounded number of rows at a time. x is always one row a step of a series that
was trimmed to the steps with a full window.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from dynacl import decoding
from dynacl.banks import keep_dynamics
from dynacl.data import Array, InputError, TimeSeries
from dynacl.dynamics import Gated, Linear, SwitchingLinear, follow
from dynacl.encoders import references
from dynacl.objective import Dot
from dynacl.training import Run

ROWS = 1 << 15  # rows in work at a time: bounds the memory
NUMBERS = 1 << 22  # of their observations, where rows are wide


def latents(run: Run, series: TimeSeries, *, of_references: bool = False) -> Array:
    """Latents of all steps with a full window, (n, d): h₂, or h₁ of an asymmetric pair."""
    encoder = references(run.encoder) if of_references else run.encoder
    lags = np.array(run.settings.time_lags)
    t = series.with_past(int(lags.max()))
    size = max(1, min(ROWS // len(lags), NUMBERS // (len(lags) * series.n_features)))
    parts = []
    with torch.inference_mode():
        for i in range(0, len(t), size):
            if run.settings.time_lags == (0,):  # a slice of a memory map is read in one go
                window = np.array(series.observations[t[i] : t[min(i + size, len(t)) - 1] + 1])
            else:
                window = series.observations[t[i : i + size, None] - lags]
            part = torch.from_numpy(window.reshape(len(window), -1))
            parts.append(encoder(part.to(where(run))).cpu().numpy())
    x: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if not np.isfinite(x).all():
        raise InputError("X: its embedding is not finite; was the model trained to an end?")
    return x


def modes(
    dynamics: nn.Module,
    series: TimeSeries,
    now: Array,
    x: Array,
    offset: int,
    decode: str = "step",
) -> Array:
    """The mode of each step, −1 at a trial's end.

    decode: from the pair (t, t + Δ) alone ("step"), or the likeliest given all pairs ("sequence"),
    which holds an error for each pair and mode. A gated model reads its mode off the state at t.
    """
    if not isinstance(dynamics, SwitchingLinear | Gated):
        raise InputError(
            f"dynamics: {type(dynamics).__name__} has no modes; wanted a switching or gated model"
        )
    found = np.full(len(x), -1, dtype=np.int64)
    t = series.steps(offset, allow_short=True)
    along = decode == "sequence" and isinstance(dynamics, SwitchingLinear)
    errors = np.empty((len(t), dynamics.n_modes), dtype=np.float32) if along else None
    for i in range(0, len(t), ROWS):
        rows = t[i : i + ROWS]
        u = None if series.control is None else tensor(series.control[rows], dynamics)
        pair = tensor(now[rows], dynamics), tensor(x[rows + offset], dynamics)
        if errors is not None and isinstance(dynamics, SwitchingLinear):
            errors[i : i + ROWS] = dynamics.errors(*pair, u).cpu().numpy()
        else:
            found[rows] = dynamics.modes(*pair, u).cpu().numpy()
    if errors is not None and len(t):
        found[t] = decoding.decode(errors, _stretches(t), x.shape[1])
    return found


def _stretches(t: Array) -> Array:
    """Where runs of consecutive steps begin among the rows t, and their end."""
    return np.concatenate([[0], np.flatnonzero(np.diff(t) != 1) + 1, [len(t)]])


def held_modes(
    dynamics: nn.Module,
    series: TimeSeries,
    now: Array,
    x: Array,
    offset: int,
    decode: str = "step",
) -> Array | None:
    """The mode known at each step: that of the pair that ends there, −1 if none does.

    From that pair alone, or by decoding, which is of the past only at a trial's last step.
    """
    if not isinstance(dynamics, SwitchingLinear):
        return None
    held = np.full(len(x), -1, dtype=np.int64)
    t = series.steps(offset, allow_short=True)
    held[t + offset] = modes(dynamics, series, now, x, offset, decode)[t]
    return held


def predict(run: Run, series: TimeSeries, now: Array, x: Array) -> Array:
    """One step ahead of every row, from that row and what came before it only."""
    held = held_modes(run.dynamics, series, now, x, run.settings.time_offset)
    out = np.empty_like(x)
    with torch.inference_mode():
        for i in range(0, len(x), ROWS):
            rows = np.arange(i, min(i + ROWS, len(x)))
            u = None if series.control is None else tensor(series.control[rows], run.dynamics)
            chosen = None if held is None else one_hot(held[rows], run.dynamics)
            out[rows] = advance(run, states(run, series, now, rows), chosen, u).cpu().numpy()
    return out


def rollout(
    run: Run,
    series: TimeSeries,
    x: Array,
    steps: int,
    control: Tensor | None,
    transitions: Array | None = None,
) -> Array:
    """From the last row of each trial, (trials, steps, d).

    A switching model holds its last mode; with `transitions` (K, K) its modes drift apart as a
    Markov chain does, and the prediction is the mean over them.
    """
    last = series.bounds[1:] - 1
    held = held_modes(run.dynamics, series, x, x, run.settings.time_offset, "sequence")
    out = np.empty((len(last), steps, x.shape[1]), dtype=np.float32)
    with torch.inference_mode():
        state = states(run, series, x, last)
        chosen = None if held is None else one_hot(held[last], run.dynamics)
        move = None if transitions is None else tensor(transitions, run.dynamics)
        for j in range(steps):
            if chosen is not None and move is not None:
                chosen = chosen @ move
            u = None if control is None else control[:, j].to(where(run))
            following = advance(run, state, chosen, u)
            out[:, j] = following.cpu().numpy()
            state = follow(state, following)
    return out


def advance(run: Run, state: Tensor, chosen: Tensor | None, u: Tensor | None) -> Tensor:
    """One step of the dynamics; `chosen` is the weight of each mode, where modes are known."""
    if chosen is not None:
        assert isinstance(run.dynamics, SwitchingLinear)
        following = (chosen[:, :, None] * run.dynamics.bank(state, u)).sum(1)
    else:
        following = run.dynamics(state, None, u)
    return normalize(following, dim=-1) if isinstance(run.similarity, Dot) else following


@torch.no_grad()
def unit_scale(run: Run, x: Array) -> None:
    """On the sphere only directions count, so a matrix is free in its scale: predictions get 1.

    The optimisers remember steps in the old scale, so the run keeps it for when it goes on.
    """
    bank = getattr(run.dynamics, "matrices", getattr(run.dynamics, "matrix", None))
    if not isinstance(bank, nn.Parameter):
        return
    if bank.requires_grad and isinstance(run.dynamics, Linear | SwitchingLinear):
        keep_dynamics(run)
        matrices = bank.view(-1, *bank.shape[-2:])
        moved = tensor(x, run.dynamics) @ matrices.mT
        scale = moved.norm(dim=-1).mean(1)
        if run.dynamics.control is not None:  # shared by all modes, so one scale for all
            scale = scale.mean().expand_as(scale)
            run.dynamics.control.div_(scale[0])
        matrices.div_(scale[:, None, None])
        if run.dynamics.bias is not None:
            run.dynamics.bias.view(len(scale), -1).div_(scale[:, None])


def states(run: Run, series: TimeSeries, x: Array, rows: Array) -> Tensor:
    """What the dynamics sees at these rows: the state, or a window that ends there.

    Before a trial's first step nothing is known: the window repeats that step.
    """
    if run.context == 0:
        return tensor(x[rows], run.dynamics)
    first = np.repeat(series.bounds[:-1], series.lengths)[rows]
    back = run.settings.time_offset * np.arange(run.context, -1, -1)
    return tensor(x[np.maximum(rows[:, None] - back, first[:, None])], run.dynamics)


def one_hot(modes: Array, dynamics: nn.Module) -> Tensor:
    """Weights (n, K) of modes; where the mode is not known (−1), all alike."""
    assert isinstance(dynamics, SwitchingLinear)
    K = dynamics.n_modes
    weights = np.where(modes[:, None] < 0, 1 / K, modes[:, None] == np.arange(K))
    return tensor(weights.astype(np.float32), dynamics)


def transition_matrix(modes: Array, series: TimeSeries, n_modes: int, offset: int) -> Array:
    """P[i, j]: how often mode j follows mode i inside trials; one count more for staying."""
    t = series.steps(2 * offset, allow_short=True)
    counts = np.eye(n_modes)
    np.add.at(counts, (modes[t], modes[t + offset]), 1)
    chain: Array = counts / counts.sum(1, keepdims=True)
    return chain.astype(np.float32)


def spectral_radius(dynamics: nn.Module) -> Array | None:
    """|λ| of the largest eigenvalue, one a mode; above 1 a long roll-out grows. None: not known"""
    if isinstance(dynamics, Gated):
        root = torch.linalg.cholesky(dynamics.whitened.covariance)
        turned = root @ dynamics.matrices @ torch.linalg.inv(root)
        matrices = torch.eye(len(root)).to(turned) + turned
    elif isinstance(dynamics, SwitchingLinear):
        matrices = dynamics.matrices
    elif isinstance(dynamics, Linear):
        matrices = dynamics.matrix[None]
    else:
        return None
    radius: Array = torch.linalg.eigvals(matrices.detach().cpu().double()).abs().amax(1).numpy()
    return radius


def where(run: Run) -> torch.device:
    parameter = next(run.encoder.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def tensor(x: Array, dynamics: nn.Module) -> Tensor:
    """An array where the dynamics lives, in its precision."""
    like = next(dynamics.parameters(), None)
    found = torch.from_numpy(np.ascontiguousarray(x))
    return found if like is None else found.to(like.device, like.dtype)
