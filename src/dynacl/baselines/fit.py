"""Fit a baseline by name: windows, batches, a loss, an optimiser, and a metric along the way.

The settings are those of the benchmark of Yao et al. (2022), as the paper used them. A metric may
look at the truth; the training does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from dynacl.baselines.pcl import PCL
from dynacl.baselines.tcl import TCL
from dynacl.baselines.tdrl import TDRL
from dynacl.baselines.windows import checked_labels, windows
from dynacl.data import Array, Floats, InputError, TimeSeries, Units
from dynacl.progress import Progress
from dynacl.training import TrainingError, noted_interrupt

LENGTH = 3  # observations in a window: two lags and the present
EPOCHS = 50
WEIGHT_DECAY = 1e-4  # of AdamW
ROWS = 1 << 16  # encoded at once
Record = dict[str, float]
Metric = Callable[[Floats], float | Mapping[str, float]]


class Model(Protocol):
    def loss(self, y: Tensor, domain: Tensor, generator: torch.Generator) -> Tensor: ...


@dataclass(frozen=True)
class Recipe:
    """make(n_features, d, n_domains, generator); domains: whether the method needs them."""

    make: Callable[[int, int, int, torch.Generator], nn.Module]
    rate: float
    batch_size: int
    domains: bool
    decay: bool = True  # AdamW, else Adam


BASELINES: dict[str, Recipe] = {
    "tcl": Recipe(lambda D, d, K, g: TCL(D, d, K, g), 1e-4, 64, domains=True),
    "pcl": Recipe(lambda D, d, K, g: PCL(D, d, LENGTH, g), 1e-3, 32, domains=False, decay=False),
    "pcl-large": Recipe(
        lambda D, d, K, g: PCL(D, d, LENGTH, g, width=160, layers=3),
        1e-3, 32, domains=False, decay=False,
    ),
    "tdrl": Recipe(lambda D, d, K, g: TDRL(D, d, LENGTH, K, g), 5e-4, 64, domains=True),
    "tdrl-large": Recipe(
        lambda D, d, K, g: TDRL(D, d, LENGTH, K, g, width=256), 5e-4, 64, domains=True
    ),
}  # fmt: skip


@dataclass
class Baseline:
    """A fitted baseline. history: step, epoch, loss, seconds and the metric, now and then."""

    name: str
    model: nn.Module
    n_features: int
    units: Units | None = None  # of the observations it was fitted to
    history: list[Record] = field(default_factory=list)
    interrupted: bool = False

    def transform(self, y: Any) -> Floats:
        """Latents (T_total, d) of observations: an array, a list of trials or a TimeSeries."""
        series = TimeSeries.of(y, name="y")
        if series.n_features != self.n_features:
            raise InputError(
                f"y: has {series.n_features} features; {self.name} was fitted on {self.n_features}"
            )
        return encode(self.model, series.within(self.units, None).observations)

    def last(self, metric: str = "metric") -> float:
        """The metric at the end of training."""
        return self._values(metric)[-1]

    def best(self, metric: str = "metric") -> float:
        """The highest value during training: what the paper reports for these methods."""
        return max(self._values(metric))

    def _values(self, metric: str) -> list[float]:
        if not self.history or metric not in self.history[-1]:
            raise InputError(f"metric: {metric!r} was not recorded; pass one to fit_baseline")
        return [record[metric] for record in self.history]


def fit_baseline(
    name: str,
    series: TimeSeries,
    *,
    n_components: int,
    domains: Any = None,
    epochs: int | None = None,
    steps: int | None = None,
    metric: Metric | None = None,
    evaluations: int = 50,
    device: str = "cpu",
    seed: int = 0,
    verbose: bool = False,
) -> Baseline:
    """Fit "tcl", "pcl", "pcl-large", "tdrl" or "tdrl-large".

    domains: one label for each row, as Truth.modes; TCL and TDRL need them, and with them windows
    stay inside one domain. The length of training is `epochs` (default 50) or `steps`, not both.
    metric: of the latents (T_total, d) of `series`; a number, recorded as "metric", or a dict of
    numbers. It is taken `evaluations` times, evenly spread, the last time at the end.
    """
    if name not in BASELINES:
        raise InputError(f"name: got {name!r}; wanted one of {', '.join(BASELINES)}")
    recipe = BASELINES[name]
    series = TimeSeries.of(series, name="series")
    for what, value in (
        ("n_components", n_components), ("epochs", epochs), ("steps", steps),
        ("evaluations", evaluations),
    ):  # fmt: skip
        if value is not None and not (isinstance(value, int | np.integer) and value >= 1):
            raise InputError(f"{what}: got {value!r}; wanted a whole number of at least 1")
    if not isinstance(seed, int | np.integer):
        raise InputError(f"seed: got {seed!r}; wanted a whole number")
    if epochs is not None and steps is not None:
        raise InputError(f"epochs, steps: got {epochs} and {steps}; wanted one of them")
    if recipe.domains and domains is None:
        raise InputError(f"domains: {name} needs a label for each row, as Truth.modes; got None")

    starts = windows(
        series, None if domains is None else checked_labels(series, domains, "domains")
    )
    kinds, labels = np.unique(
        np.zeros_like(starts) if domains is None else domains[starts],
        return_inverse=True,
    )
    if name == "tcl" and len(kinds) < 2:
        raise InputError("domains: tcl tells domains apart, but all windows are of one domain")
    if len(starts) < recipe.batch_size:
        raise InputError(
            f"series: has {len(starts)} windows of {LENGTH} steps; {name} needs at least one batch "
            f"of {recipe.batch_size}"
        )
    generator = torch.Generator().manual_seed(int(seed))
    model = recipe.make(series.n_features, n_components, len(kinds), generator).to(device)
    optimizer = make_optimizer(model, recipe)
    total = steps or (epochs or EPOCHS) * (len(starts) // recipe.batch_size)

    observations = np.require(series.observations, requirements="W")  # PyTorch wants them writeable
    y, first, domain = (torch.from_numpy(a) for a in (observations, starts, labels))
    run = Baseline(name, model, series.n_features, series.units)
    due = {round(total * (i + 1) / evaluations) for i in range(evaluations)}
    losses: list[Tensor] = []
    started = time.perf_counter()
    model.train()
    with Progress(total, enabled=verbose) as bar, noted_interrupt() as interrupted:
        for step, chosen in enumerate(batches(len(first), recipe.batch_size, generator), 1):
            rows = first[chosen, None] + torch.arange(LENGTH)
            loss = cast(Model, model).loss(y[rows].to(device), domain[chosen].to(device), generator)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.detach())
            run.interrupted = bool(interrupted) and step < total
            if step in due or step == total or run.interrupted:
                record = {
                    "step": step,
                    "epoch": step * recipe.batch_size / len(first),
                    "loss": float(torch.stack(losses).double().mean()),
                    "seconds": round(time.perf_counter() - started, 3),
                }
                losses = []
                if not np.isfinite(record["loss"]):
                    raise TrainingError(f"{name}: the loss is {record['loss']} at step {step}")
                if metric is not None:
                    score = metric(encode(model, series.observations))
                    record |= score if isinstance(score, Mapping) else {"metric": float(score)}
                run.history.append(record)
                bar.tell(step, ", ".join(f"{k} {v:.4f}" for k, v in record.items() if k not in
                                         ("step", "epoch", "seconds")))  # fmt: skip
            if step == total or run.interrupted:
                break
    model.eval()
    return run


def batches(n: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Without end: every epoch in a new order, its incomplete last batch left out."""
    while True:
        order = torch.randperm(n, generator=generator)
        for i in range(0, n - n % size, size):
            yield order[i : i + size]


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.decay:
        return torch.optim.AdamW(
            model.parameters(), lr=recipe.rate, weight_decay=WEIGHT_DECAY, fused=True
        )
    return torch.optim.Adam(model.parameters(), lr=recipe.rate, fused=True)


@torch.no_grad()
def encode(model: nn.Module, observations: Array) -> Floats:
    device = next(model.parameters()).device
    parts = [
        model(torch.as_tensor(np.array(observations[i : i + ROWS])).to(device)).cpu().numpy()
        for i in range(0, len(observations), ROWS)
    ]
    return np.concatenate(parts)
