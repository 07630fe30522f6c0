"""The training loop: sample, encode once, predict, compare, step.

It sees observations and control input; the truth that a TimeSeries may carry is never looked at.
All randomness comes from the generator in the Run, so a run that is continued equals one that was
never stopped.
"""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dynacl.data import TimeSeries
from dynacl.dynamics import SwitchingLinear, advance_in_training, fit_post_hoc
from dynacl.objective import Loss, info_nce
from dynacl.optimizers import SOAP
from dynacl.progress import Progress

SPLIT_PAIRS = 20_000
NEAR_CAP = 0.98  # share of the cap from which the goodness of fit says nothing more
Record = dict[str, float]
Callback = Callable[["Run", Record], bool | None]


@dataclass(frozen=True)
class Settings:
    """How to train.

    n_negatives=None: the batch itself is the sample of negatives.
    horizon: steps of the dynamics from a reference to its positive, all in one mode, after a first
    share `one_step` of the training. A smooth error e(x) of the encoder enters a one-step contrast
    as A e(x) − e(A x), which nearly cancels where a step is short; over several steps it does not.
    But several steps of dynamics that are not known yet may go round in circles (docs/log.md).
    """

    batch_size: int = 1024
    n_negatives: int | None = None
    max_iter: int = 7200
    learning_rate: float = 3e-2
    dynamics_learning_rate: float = 1e-2
    optimizer: str = "soap"
    schedule: str = "cosine"
    standardize: bool = True
    time_offset: int = 1
    horizon: int = 4
    one_step: float = 0.2
    temperature: float = 1.0
    input_gain: float = 3.0
    switching_logits: str = "mean"
    switching_spread: float = 0.0

    @property
    def split_at(self) -> int:
        """The step from which the contrast goes several steps ahead; −1 if it never does."""
        return round(self.one_step * self.max_iter) if self.horizon > 1 else -1


_PAPER = Settings(
    optimizer="adam",
    schedule="constant",
    standardize=False,
    horizon=1,
    input_gain=1.0,
    switching_logits="reciprocal",
)


def _paper(batch: int, negatives: int, steps: int, rate: float, dynamics_rate: float) -> Settings:
    changed = dict(zip(
        ("batch_size", "n_negatives", "max_iter", "learning_rate", "dynamics_learning_rate"),
        (batch, negatives, steps, rate, dynamics_rate), strict=True))  # fmt: skip
    return Settings(**{**_PAPER.__dict__, **changed})


# "default" is ours; the others train as the paper did (Section "Experiments", "Model estimation").
PROTOCOLS: dict[str, Settings] = {
    "default": Settings(),
    "paper-lds": _paper(2048, 20_000, 30_000, 3e-4, 3e-4),
    "paper-slds": _paper(2048, 2**16, 50_000, 1e-3, 1e-2),
    "paper-lorenz": _paper(1024, 20_000, 30_000, 1e-4, 1e-4),
}


def default_steps(d: int, pairs: int) -> int:
    """Steps of the default protocol, the same for every dynamics model: 1,200 a latent dimension
    (of up to 8) for a million pairs, fewer for fewer pairs, by the cube root of the proportion."""
    share: float = min(1.0, pairs / 1_000_000) ** (1 / 3)
    return max(300, round(1200 * min(d, 8) * share))


class TrainingError(RuntimeError):
    """Training cannot go on."""


@dataclass
class Run:
    """Everything that a run needs to continue: models, optimisers, randomness, history."""

    encoder: nn.Module
    dynamics: nn.Module
    settings: Settings
    generator: torch.Generator
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    step: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    pending: list[Loss] = field(default_factory=list)  # losses since the last record
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.optimizers = self.optimizers or make_optimizers(self)
        for module in self.dynamics.modules():
            if hasattr(module, "generator"):
                module.generator = self.generator  # type: ignore[assignment]

    @property
    def horizon(self) -> int:
        """Steps from a reference to its positive, now."""
        return 1 if self.step < self.settings.split_at else self.settings.horizon

    @property
    def n_negatives(self) -> int:
        s = self.settings
        return 2 * s.batch_size - 2 if s.n_negatives is None else s.n_negatives

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
    device = next(run.encoder.parameters()).device
    y, u, t = tensors(series, settings)
    run.encoder.train()
    run.dynamics.train()
    run.interrupted = False
    started = time.perf_counter() - run.seconds
    with Progress(until, run.step, enabled=verbose) as bar, noted_interrupt() as interrupted:
        try:
            while run.step < until and not interrupted:
                set_rates(run)
                if run.step == settings.split_at:
                    split_modes(run, y, u, t, device)
                run.pending.append(training_step(run, y, u, t, device))
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


def training_step(run: Run, y: Tensor, u: Tensor | None, steps: Tensor, device: Any) -> Loss:
    """One step of the paper's Eq. 3: references, their successors, and negatives."""
    s = run.settings
    B = s.batch_size
    t = steps[torch.randint(len(steps), (B,), generator=run.generator)]
    m = torch.randint(len(y), (s.n_negatives or 0,), generator=run.generator)

    h = run.horizon
    x = run.encoder(y[torch.cat([t, t + h * s.time_offset, m])].to(device))  # each row once
    now, following, negatives = x[:B], x[B : 2 * B], x[2 * B :]
    drive = [None if u is None else u[t + i * s.time_offset].to(device) for i in range(h)]
    predicted = advance_in_training(run.dynamics, now, following, drive)
    skip = None
    if s.n_negatives is None:  # the batch is the sample: each row leaves out its own pair
        own = torch.arange(B, device=device)
        negatives, skip = x, torch.stack([own, own + B], dim=1)
    loss = info_nce(predicted, following, negatives, temperature=s.temperature, skip=skip)

    for optimizer in run.optimizers:
        optimizer.zero_grad()
    loss.total.backward()  # type: ignore[no-untyped-call]
    for optimizer in run.optimizers:
        optimizer.step()
    return Loss(*(part.detach() for part in loss))


@torch.no_grad()
def split_modes(run: Run, y: Tensor, u: Tensor | None, steps: Tensor, device: Any) -> None:
    """Fit the bank anew to the latents found so far, best of several starts.

    Gradient descent may leave two modes merged; least squares and argmin in turn, on latents that
    are nearly there, do not. Only observations are used.
    """
    if not isinstance(run.dynamics, SwitchingLinear) or run.dynamics.hard:
        return
    t = steps[torch.randint(len(steps), (SPLIT_PAIRS,), generator=run.generator)]
    now, following = run.encoder(y[torch.cat([t, t + run.settings.time_offset])].to(device)).chunk(
        2
    )
    drive = None if u is None else u[t].to(device)
    fit_post_hoc(run.dynamics, now, following, drive, generator=run.generator)


def tensors(series: TimeSeries, settings: Settings) -> tuple[Tensor, Tensor | None, Tensor]:
    """Observations, control and valid reference steps as tensors that share the arrays' memory."""
    control = None if series.control is None else _shared(series.control)
    steps = series.steps(settings.time_offset * settings.horizon)
    return _shared(series.observations), control, torch.from_numpy(steps)


def _shared(array: Any) -> Tensor:
    if array.flags.writeable:
        return torch.from_numpy(array)
    # A read-only array (a memory map): we never write, but PyTorch cannot promise that and warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def make_optimizers(run: Run) -> list[torch.optim.Optimizer]:
    """Adam with one rate for the encoder and one for the dynamics; or SOAP for the encoder."""
    s = run.settings
    encoder = [p for p in run.encoder.parameters() if p.requires_grad]
    dynamics = [p for p in run.dynamics.parameters() if p.requires_grad]
    optimizers: list[torch.optim.Optimizer] = []
    if s.optimizer == "soap":
        optimizers.append(SOAP(encoder, lr=s.learning_rate))
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
