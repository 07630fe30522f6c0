"""One training step at the paper's SLDS setting: ours, and the same written plainly in PyTorch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from dynacl import DCL, TimeSeries, assembly
from dynacl.memory import kept_memory
from dynacl.request import Request
from dynacl.run import Run
from dynacl.sampling import Rows
from dynacl.sampling import rows as training_rows
from dynacl.settings import PROTOCOLS
from dynacl.training import training_step

B, M, D, d, K = 2048, 2**16, 50, 6, 5


def plain_step(encoder: nn.Module, dynamics: nn.Module, adam: Any, y: Tensor) -> Tensor:
    """What one would write first: three encoder passes, the whole matrix, autograd, Adam."""
    t = torch.randint(len(y) - 1, (B,))
    m = torch.randint(len(y), (M,))
    now, following, negatives = encoder(y[t]), encoder(y[t + 1]), encoder(y[m])
    predicted = dynamics(now, following)
    positive = -(predicted - following).square().sum(1)
    others = -torch.cdist(predicted, negatives).square()
    logits = torch.cat([positive[:, None], others], dim=1)
    loss = (logits.logsumexp(1) - positive).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
    return loss


def timed(function: Callable[[], Any], times: int, into: list[float]) -> None:
    for _ in range(times):
        started = time.perf_counter()
        function()
        into.append(time.perf_counter() - started)


def medians(functions: dict[str, tuple[Callable[[], Any], int]]) -> dict[str, float]:
    """Seconds per call, alternating between the functions, each called its own number of times."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for i in range(max(n for _, n in functions.values())):
        for name, (function, n) in functions.items():
            if i < n:
                timed(function, 1, times[name])
    return {name: statistics.median(values) for name, values in times.items()}


def begun(model: DCL, series: TimeSeries) -> Run:
    """The run of `model.fit(series)` before its first step."""
    seed = int(check_random_state(model.random_state).randint(2**31))
    return assembly.begin(Request.of(model.get_params(deep=False)), series, seed)


def prepared(protocol: str, rows: int = 1_000_000, **changed: Any) -> tuple[Run, Rows]:
    """A run that can take steps on random data of the paper's size, and what it sees of them."""
    rng = np.random.default_rng(1000)
    series = TimeSeries.of(rng.standard_normal((rows, D), dtype=np.float32), trial_length=1000)
    settings = {"protocol": protocol, "max_iter": 1, "random_state": 0} | changed
    run = begun(DCL(d, "switching", K, **settings), series)
    return run, training_rows(series, run)


def measure(rows: int = 1_000_000) -> list[dict[str, Any]]:
    run, data = prepared("paper-slds", rows)
    batch, batch_data = prepared("default", rows)
    parameters = [*run.encoder.parameters(), *run.dynamics.parameters()]
    adam = torch.optim.Adam(parameters, lr=PROTOCOLS["paper-slds"].settings.learning_rate)
    times: dict[str, list[float]] = {"ours, paper's setting": [], "ours, default": [],
                                     "plain eager": []}  # fmt: skip
    for _ in range(3):
        with kept_memory():  # as in `train`; the plain step has the memory that PyTorch has
            training_step(run, data)
            timed(lambda: training_step(run, data), 4, times["ours, paper's setting"])
            timed(lambda: training_step(batch, batch_data), 30, times["ours, default"])
        timed(lambda: plain_step(run.encoder, run.dynamics, adam, data.y), 2, times["plain eager"])
    found = {name: statistics.median(values) for name, values in times.items()}
    plain = found["plain eager"]
    return [
        {"what": f"step: {name}", "seconds": seconds, "times_faster": plain / seconds}
        for name, seconds in found.items()
    ]


if __name__ == "__main__":
    for row in measure():
        print(f"{row['what']:<30} {row['seconds'] * 1e3:9.1f} ms  {row['times_faster']:7.1f} x")
