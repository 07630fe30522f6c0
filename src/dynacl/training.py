"""The training loop: sample, encode once, predict, compare, step.

It sees observations and control input; the truth that a TimeSeries may carry is never looked at.
All randomness comes from the generator in the Run, so a run that is continued equals one that was
never stopped.
"""

from __future__ import annotations

import itertools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from dynacl.banks import split_modes
from dynacl.data import TimeSeries
from dynacl.dynamics import advance_in_training
from dynacl.encoders import Asymmetric
from dynacl.memory import kept_memory
from dynacl.objective import Emphasis, Euclidean, Loss, info_nce, log_density
from dynacl.optimizers import SOAP
from dynacl.progress import Progress
from dynacl.sampling import Rows, encode, rows
from dynacl.settings import Settings

WIDE = 200  # inputs of a layer, from where its rate falls
NEAR_CAP = 0.98  # share of the cap from which the goodness of fit says nothing more
Record = dict[str, float]
Callback = Callable[["Run", Record], bool | None]


class TrainingError(RuntimeError):
    """Training cannot go on."""


@dataclass
class Run:
    """Everything that a run needs to continue: models, optimisers, randomness, history."""

    encoder: nn.Module
    dynamics: nn.Module
    settings: Settings
    generator: torch.Generator
    similarity: nn.Module | None = None
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    step: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    pending: list[Loss] = field(default_factory=list)  # losses since the last record
    interrupted: bool = False
    whole: bool = True  # False: read from a file of weights, without optimisers and randomness
    emphasis: Emphasis | None = None
    as_trained: dict[str, Tensor] | None = None  # the dynamics' state, where inference has another

    def __post_init__(self) -> None:
        self.similarity = self.similarity or Euclidean(self.settings.temperature)
        # On the sphere the temperature is a result, 1/κ, which emphasis would change.
        plain = isinstance(self.similarity, Euclidean) and self.settings.density_correction is None
        if plain and self.settings.emphasis:
            where = next((p.device for p in self.encoder.parameters()), None)
            self.emphasis = self.emphasis or Emphasis(self.settings.emphasis).to(where)
        self.optimizers = self.optimizers or make_optimizers(self)
        for module in self.dynamics.modules():
            if hasattr(module, "generator"):
                module.generator = self.generator  # type: ignore[assignment]

    @property
    def horizon(self) -> int:
        """Steps from a reference to its positive, now; the most of them where they are mixed."""
        return 1 if self.step < self.settings.split_at else self.settings.horizon

    @property
    def context(self) -> int:
        """Embeddings before the present that the dynamics looks at."""
        return int(getattr(self.dynamics, "context", 0))

    @property
    def n_negatives(self) -> int:
        s = self.settings
        if s.n_negatives is not None:
            return s.n_negatives
        each = 1 if isinstance(self.encoder, Asymmetric) else 2  # candidates a pair brings
        return each * (s.batch_size - 1)

    @property
    def cap(self) -> float:
        """The most bits that the loss can show: log2(M + 1)."""
        return math.log2(self.n_negatives + 1)


def train(
    run: Run,
    series: TimeSeries,
    *,
    until: int | None = None,
    callback: Callback | None = None,
    verbose: bool = False,
) -> Run:
    """Take the run to step `until` (default: its max_iter). Ctrl-C stops it, nothing is lost.

    callback(run, record) is called with every record of the history; if it returns True, training
    stops.
    """
    settings = run.settings
    until = settings.max_iter if until is None else until
    every = max(1, settings.max_iter // 200)
    device = next((p.device for p in run.encoder.parameters()), torch.device("cpu"))
    data = rows(series, settings, run.context)
    go_on(run)
    run.interrupted = False
    started = time.perf_counter() - run.seconds
    with (
        Progress(until, run.step, enabled=verbose) as bar,
        noted_interrupt() as interrupted,
        kept_memory(),
    ):
        try:
            while run.step < until and not interrupted:
                set_rates(run)
                if run.step == settings.split_at:
                    split_modes(run, data, device, run.generator)
                run.pending.append(training_step(run, data, device))
                run.step += 1
                if run.step % every == 0 or run.step == until:
                    run.seconds = time.perf_counter() - started
                    record = take_record(run)
                    bar.show(run.step, record, run.cap)
                    if callback is not None and callback(run, record):
                        break
        except KeyboardInterrupt:
            interrupted.append(True)
        if interrupted and run.step < until:
            run.interrupted = True
            bar.say(f"stopped at step {run.step} of {until}; what was trained is kept")
        if run.history and run.history[-1]["bits"] > NEAR_CAP * run.cap:
            bar.say(
                f"the goodness of fit is at its cap of log2({run.n_negatives} + 1) = {run.cap:.2f} "
                "bits: it cannot tell better models apart; more negatives raise the cap"
            )
    run.seconds = time.perf_counter() - started
    run.encoder.eval()
    run.dynamics.eval()
    return run


def go_on(run: Run) -> None:
    """The modules as training left them: in its mode, and the dynamics as it was."""
    if run.as_trained is not None:
        run.dynamics.load_state_dict(run.as_trained)
        run.as_trained = None
    run.encoder.train()
    run.dynamics.train()


@contextmanager
def noted_interrupt() -> Iterator[list[bool]]:
    """Ctrl-C is noted and acted on between two steps, so a step is taken whole or not at all.

    A second Ctrl-C does not wait. Signals reach the main thread only; elsewhere this does nothing.
    """
    noted: list[bool] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(True)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def training_step(run: Run, data: Rows, device: Any) -> Loss:
    """One step of the paper's Eq. 3: references, their successors, and negatives."""
    s, h = run.settings, run.horizon
    t = data.steps[torch.randint(len(data.steps), (s.batch_size,), generator=run.generator)]
    m = data.draw(s.n_negatives or 0, run.generator)
    steps = torch.randint(1, h + 1, t.shape, generator=run.generator) if s.mixed else None
    after = t + (h if steps is None else steps) * s.time_offset
    support = _support(run, data)

    now, others = encode(run, data, t, torch.cat([after, m, support]), device)
    following, negatives, anchors = others.tensor_split([len(t), len(t) + len(m)])
    drive = [None if data.u is None else data.u[t + i * s.time_offset].to(device) for i in range(h)]
    predicted = advance_in_training(run.dynamics, now, following, drive, steps)
    skip = potential = None
    if s.n_negatives is None:
        m, negatives, skip = in_batch(run, t, after, now, following)
    if s.density_correction is not None:
        # The batch as negatives ends with its positives: they need no second estimate.
        fresh = s.n_negatives is not None
        at = torch.cat([m, after]) if fresh else m
        alpha = log_density(
            torch.cat([negatives, following]) if fresh else negatives,
            anchors,
            kernel=s.density_correction,
            bandwidth=bandwidth(run),
            skip=_own(at, support).to(device),
        )
        potential = alpha[-len(t) :], alpha[: len(m)]
    loss = info_nce(
        predicted, following, negatives, similarity=run.similarity, potential=potential, skip=skip
    )

    total = loss.total
    if run.emphasis is not None and run.step >= s.emphasis_at:
        total = run.emphasis(loss)

    for optimizer in run.optimizers:
        optimizer.zero_grad()
    total.backward()  # type: ignore[no-untyped-call]
    for optimizer in run.optimizers:
        optimizer.step()
    return Loss(*(part.detach() for part in loss))


def in_batch(
    run: Run, t: Tensor, after: Tensor, now: Tensor, following: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The batch as its own sample of negatives: their steps, embeddings, and what a row leaves out.

    A row leaves out its own pair. References of an asymmetric encoder live in another space, so
    there only the positives serve.
    """
    own = torch.arange(len(t), device=following.device)
    if isinstance(run.encoder, Asymmetric):
        return after, following, own[:, None]
    present = now if now.ndim == 2 else now[:, -1]
    skip = torch.stack([own, own + len(t)], dim=1)
    return torch.cat([t, after]), torch.cat([present, following]), skip


def bandwidth(run: Run) -> float:
    """Of the density estimate: as wide as the noise, φ's own kernel, unless told otherwise."""
    if run.settings.bandwidth is not None:
        return run.settings.bandwidth
    return float(torch.as_tensor(getattr(run.similarity, "temperature", 1.0)).detach())


def _support(run: Run, data: Rows) -> Tensor:
    """Steps, sorted and distinct, whose embeddings carry the density estimate."""
    s = run.settings
    size = 0 if s.density_correction is None else s.n_support or s.batch_size
    drawn: Tensor = torch.unique(data.draw(size, run.generator))
    return drawn


def _own(steps: Tensor, support: Tensor) -> Tensor:
    """(n, 1): where each step is in the support, −1 if it is not."""
    at = torch.searchsorted(support, steps).clamp(max=len(support) - 1)
    return torch.where(support[at] == steps, at, -1)[:, None]


def make_optimizers(run: Run) -> list[torch.optim.Optimizer]:
    """Adam with one rate for the encoder and one for the dynamics; or SOAP for the encoder."""
    s = run.settings
    encoder = [p for p in run.encoder.parameters() if p.requires_grad]
    others = [*run.dynamics.parameters(), *cast(nn.Module, run.similarity).parameters()]
    dynamics = [p for p in others if p.requires_grad]
    optimizers: list[torch.optim.Optimizer] = []
    if s.optimizer == "soap" and encoder:
        eased = itertools.groupby(encoder, _ease)
        groups = [{"params": list(p), "lr": s.learning_rate * ease} for ease, p in eased]
        optimizers.append(SOAP(groups))
        encoder = []
    groups = [{"params": encoder, "lr": s.learning_rate}] if encoder else []
    if dynamics:
        groups.append({"params": dynamics, "lr": s.dynamics_learning_rate})
    if groups:
        optimizers.append(torch.optim.Adam(groups, fused=s.optimizer == "soap"))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def _ease(p: nn.Parameter) -> float:
    """Factor on the rate of a wide layer: each weight moves alike, so its output moves by their
    number."""
    return min(1.0, WIDE / p.shape[1]) if p.ndim == 2 else 1.0


def set_rates(run: Run) -> None:
    """Learning rates and mode temperature for this step."""
    progress = min(1.0, run.step / max(1, run.settings.max_iter))
    anneal = getattr(run.dynamics, "anneal", None)
    if anneal is not None:
        anneal(progress)
    if run.settings.schedule == "constant":
        return
    warm = min(1.0, (run.step + 1) / max(1, run.settings.max_iter // 50))
    factor = warm * 0.5 * (1 + math.cos(math.pi * progress))
    for optimizer in run.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor


def take_record(run: Run) -> Record:
    """Mean of the losses since the last record: the only place where the loop waits."""
    losses = torch.stack([torch.stack(list(loss)) for loss in run.pending])
    parts = losses.double().mean(0).tolist()
    run.pending = []
    total, alignment, uniformity = parts
    if not math.isfinite(total):
        raise TrainingError(
            f"the loss is {total} at step {run.step}; lower learning_rate (now "
            f"{run.settings.learning_rate}) or dynamics_learning_rate (now "
            f"{run.settings.dynamics_learning_rate})"
        )
    record = {
        "step": run.step,
        "loss": total,
        "alignment": alignment,
        "uniformity": uniformity,
        "bits": run.cap - total / math.log(2),
        "seconds": round(run.seconds, 3),
    }
    run.history.append(record)
    return record
