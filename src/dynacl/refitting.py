"""Dynamics fitted anew to the present latents: in the middle of training, and at its end.

Gradient descent may leave two modes merged, or modes that fit few pairs and throw others far away.
Least squares and argmin in turn avoid that. The truth is never used.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from dynacl.data import TimeSeries
from dynacl.dynamics.post_hoc import fit_post_hoc
from dynacl.run import Run
from dynacl.sampling import Rows, encoded_pairs, rows

PAIRS = 20_000
MANY = 1 << 23  # references that are put into a random order, at most


def refit(run: Run, data: Rows, generator: torch.Generator) -> None:
    """Fit the dynamics to pairs of latents: all there are, or some drawn at random."""
    n = len(data.steps)
    some = torch.randint(n, (PAIRS,), generator=generator) if n > PAIRS else slice(None)
    fit_dynamics(run, data, data.steps[some], generator)


def spread(data: Rows) -> Tensor:
    """All references, or as many as a fit takes, evenly spread."""
    return data.steps[:: max(1, -(-len(data.steps) // PAIRS))]


@torch.no_grad()
def fit_dynamics(
    run: Run, data: Rows, t: Tensor, generator: torch.Generator, penalty: float = 0.0
) -> None:
    """Fit the dynamics to the pairs of latents that start at t, in the way that suits it."""
    now, following, drive = encoded_pairs(run, data, t)
    on_cpu = copy.deepcopy(run.dynamics).cpu()  # the least-squares solver runs on the CPU only
    fit_post_hoc(on_cpu, now.cpu(), following.cpu(), drive, penalty=penalty, generator=generator)
    run.dynamics.load_state_dict(on_cpu.state_dict())


def refit_at_rest(run: Run, series: TimeSeries) -> None:
    """Fit the dynamics anew whenever training stands still, where the settings say so.

    The new fit is kept if it predicts better on pairs that it was not fitted to; otherwise the
    dynamics stays as it was trained. Random numbers are drawn from a copy of the generator: a run
    that goes on has its own.
    """
    if not run.settings.refit_at_end:
        return
    run.keep_dynamics()
    generator = torch.Generator()
    generator.set_state(run.generator.get_state())
    data = rows(series, run)
    mixed = data.steps[_mixed(len(data.steps), generator)]
    judges, others = mixed.tensor_split([min(PAIRS, len(mixed) // 4)])
    run.dynamics.eval()
    before = one_step_error(run, data, judges)
    refit(run, data._replace(steps=others), generator)
    if not one_step_error(run, data, judges) < before and run.as_trained is not None:
        run.dynamics.load_state_dict(run.as_trained)


def _mixed(n: int, generator: torch.Generator) -> Tensor:
    """The numbers below n in random order; of very many some, evenly spread."""
    few = min(n, MANY)
    return torch.randperm(few, generator=generator) * (n // few)


@torch.no_grad()
def one_step_error(run: Run, data: Rows, t: Tensor) -> float:
    """Mean squared error of the dynamics, its modes inferred, over pairs that start at t."""
    now, following, drive = encoded_pairs(run, data, t)
    drive = None if drive is None else drive.to(run.device)
    return float((run.dynamics(now, following, drive) - following).square().mean())
