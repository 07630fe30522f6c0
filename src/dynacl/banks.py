"""Banks of modes, fitted to the latents found so far: in the middle of training, and at its end.

Gradient descent may leave two modes merged, or modes that fit few pairs and throw others far away;
least squares and argmin in turn do not. Only observations are used.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dynacl.data import TimeSeries
from dynacl.dynamics import MANY_MODES, SwitchingLinear, fit_post_hoc
from dynacl.sampling import Rows, encoded_pairs, rows

if TYPE_CHECKING:
    from dynacl.training import Run

SPLIT_PAIRS = 20_000


def keep_dynamics(run: Run) -> None:
    """Before inference changes the dynamics: the run goes on with what training left."""
    state = run.dynamics.state_dict()
    run.as_trained = run.as_trained or {k: v.clone() for k, v in state.items()}


def settle_modes(run: Run, series: TimeSeries, device: Any) -> None:
    """Fit a bank anew whenever training stands still, where the settings say so.

    It takes the place of the trained one if it predicts pairs better that neither has seen last.
    Random numbers are drawn from a copy: a run that goes on has its own.
    """
    if not run.settings.refit:
        return
    keep_dynamics(run)
    generator = torch.Generator()
    generator.set_state(run.generator.get_state())
    data = rows(series, run.settings, run.context)
    mixed = data.steps[torch.randperm(len(data.steps), generator=generator)]
    judges, others = mixed.tensor_split([min(SPLIT_PAIRS, len(mixed) // 4)])
    run.dynamics.eval()
    before = one_step_error(run, data, judges, device)
    split_modes(run, data._replace(steps=others), device, generator)
    if not one_step_error(run, data, judges, device) < before and run.as_trained is not None:
        run.dynamics.load_state_dict(run.as_trained)


@torch.no_grad()
def one_step_error(run: Run, data: Rows, t: Tensor, device: Any) -> float:
    """Mean squared error of the dynamics, its modes inferred, over pairs that start at t."""
    now, following, drive = encoded_pairs(run, data, t, device)
    drive = None if drive is None else drive.to(device)
    return float((run.dynamics(now, following, drive) - following).square().mean())


@torch.no_grad()
def split_modes(run: Run, data: Rows, device: Any, generator: torch.Generator) -> None:
    """Fit the bank anew to the latents found so far, best of several starts.

    Gradient descent may leave two modes merged; least squares and argmin in turn, on latents that
    are nearly there, do not. Only observations are used.
    """
    if not isinstance(run.dynamics, SwitchingLinear) or run.dynamics.hard:
        return
    t = data.steps[torch.randint(len(data.steps), (SPLIT_PAIRS,), generator=generator)]
    now, following, drive = encoded_pairs(run, data, t, device)
    on_cpu = copy.deepcopy(run.dynamics).cpu()  # its least squares know no other place
    # Hundreds of modes tile the space: no start is better than another, and each takes long.
    effort = {"restarts": 1, "rounds": 15} if on_cpu.n_modes > MANY_MODES else {}
    fit_post_hoc(on_cpu, now.cpu(), following.cpu(), drive, generator=generator, **effort)
    run.dynamics.load_state_dict(on_cpu.state_dict())
