"""Dynamics whose roll-outs stay bounded: how they are changed when training stops, and the cost.

Training itself is free: the optimum of its loss is (I − ΣS⁻¹)⁻¹ A, whose radius may be above 1
where that of A is not. A run that goes on does so with what it had learned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dynacl.data import TimeSeries
from dynacl.progress import share
from dynacl.refitting import PAIRS, one_step_error
from dynacl.run import Run
from dynacl.sampling import encoded_pairs, rows
from dynacl.spectrum import radius

MUCH = 0.1  # of the error of one step: more than that and the system may be no stable one
AUTO = "auto"  # bounded if held-out observations are predicted as well
ANY = 30.0  # a mean logarithm above which it does not matter how much is missed
# What a run misses of held-out observations, as it is; lower is better.
Judged = Callable[[], float]


@dataclass(frozen=True)
class Stability:
    """What was changed so that roll-outs stay bounded.

    norm: the largest norm of the maps before, in the best norm that all modes share; up to 1,
    nothing had to change. radius_before, radius_after: spectral radii, one for each mode.
    error_before, error_after: mean squared error of one step, over training data.
    missed_before, missed_after: where held-out data decided, the mean logarithm of the share of the
    variance of observations that is missed as it was trained, and bounded. left: they decided for
    what was trained.
    """

    norm: float
    radius_before: list[float]
    radius_after: list[float]
    error_before: float
    error_after: float
    missed_before: float | None = None
    missed_after: float | None = None
    left: bool = False

    @property
    def cost(self) -> float:
        """By how much the error of one step has risen, as a share of what it was."""
        tiny = torch.finfo(torch.float64).tiny
        return (self.error_after - self.error_before) / max(self.error_before, tiny)

    def __str__(self) -> str:
        before, after = max(self.radius_before), max(self.radius_after)
        if self.norm <= 1:
            return f"stable as it was trained: the largest spectral radius is {before:.4f}"
        judged = ""
        if self.missed_before is not None and self.missed_after is not None:
            judged = (f"; of held-out observations it misses {share(self.missed_after)} of the "
                      f"variance if bounded, {share(self.missed_before)} as trained")  # fmt: skip
        if self.left:
            return f"left as it was trained: the largest spectral radius is {before:.4f}{judged}"
        return (f"made stable: the largest spectral radius was {before:.4f} and is {after:.4f}; "
                f"the error of one step has changed by {self.cost:+.1%}{judged}")  # fmt: skip


@torch.no_grad()
def keep_stable(run: Run, series: TimeSeries, judge: Judged | None = None) -> Stability | None:
    """Bound the dynamics of a run that stands still, where it is asked for, or a judge is for it.

    Random numbers are drawn from a copy of the generator: a run that goes on has its own.
    """
    f = run.dynamics
    if not f.stable or (f.stable == AUTO and judge is None):
        return None
    generator = torch.Generator()
    generator.set_state(run.generator.get_state())
    data = rows(series, run)
    t = data.steps[torch.randint(len(data.steps), (PAIRS,), generator=generator)]
    now, following, drive = encoded_pairs(run, data, t)
    if not (now.isfinite().all() and following.isfinite().all()):
        return None  # states ran off in training, which says so
    run.keep_dynamics()
    free = {k: v.clone() for k, v in f.state_dict().items()}
    before = _radii(run), one_step_error(run, data, t)
    norm = f.bound(now, following, None if drive is None else drive.to(run.device))
    found = Stability(norm, before[0], _radii(run), before[1], one_step_error(run, data, t))
    if f.stable == AUTO and judge is not None:
        return found if norm <= 1 else _chosen(run, found, free, judge)
    if found.cost > MUCH:
        warnings.warn(
            f"stable: {found}. What the data do may not be bounded, or not by maps of this kind; "
            "compare with stable=False",
            stacklevel=5,
        )
    return found


def _chosen(run: Run, found: Stability, free: dict[str, Tensor], judge: Judged) -> Stability:
    """Of dynamics that was bounded, and as it was: the bounded one, unless it predicts worse."""
    f = run.dynamics
    bounded = {k: v.clone() for k, v in f.state_dict().items()}
    after = min(judge(), ANY)
    f.load_state_dict(free)
    before = min(judge(), ANY)
    if after <= before:
        f.load_state_dict(bounded)
        return replace(found, missed_before=before, missed_after=after)
    return replace(found, radius_after=found.radius_before, error_after=found.error_before,
                   missed_before=before, missed_after=after, left=True)  # fmt: skip


def _radii(run: Run) -> list[float]:
    maps = run.dynamics.linear_maps()
    assert maps is not None  # what has none has no bound either
    found: list[float] = radius(maps.detach().cpu().numpy()).tolist()
    return found
