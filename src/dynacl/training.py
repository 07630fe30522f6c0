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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynacl.data import TimeSeries
from dynacl.dynamics.ahead import reach, rollout
from dynacl.judging import Judge, begin_at_floor
from dynacl.memory import kept_memory
from dynacl.objective.ahead import ahead
from dynacl.objective.density import log_density
from dynacl.objective.evenness import evenness
from dynacl.objective.infonce import Loss, info_nce
from dynacl.objective.limit import likelihood
from dynacl.progress import Progress
from dynacl.refitting import refit
from dynacl.run import Record, Run, Weights
from dynacl.sampling import Rows, encode, rows, with_noise, without_inputs
from dynacl.settings import Settings
from dynacl.straightening import straighten

NOISY = 256  # places per step where noise tells slopes
SLOPED = 4  # rows for each whose slopes are taken: these cost d times what the row does
FAR = 1e3  # latents further out are stopped there: a roll-out that runs off stays a number
POINTS = 8  # steps ahead that are looked at, from one to the horizon, ever further apart
STEEPEST = 1.0  # gradient of what is missed ahead; a roll-out that runs off has no bound on it
Callback = Callable[[Run, Record], bool | None]


class TrainingError(RuntimeError):
    """Training cannot go on; the run has the last weights that were good."""

    def __init__(self, said: str, step: int = 0) -> None:
        super().__init__(said)
        self.step = step  # the first that went wrong


def train(
    run: Run,
    series: TimeSeries,
    *,
    until: int | None = None,
    callback: Callback | None = None,
    judge: Judge | None = None,
    verbose: bool = False,
) -> Run:
    """Take the run to step `until` (default: its max_iter). Ctrl-C stops it, nothing is lost.

    callback(run, record) is called with every record of the history; if it returns True, training
    stops. judge: looks at the run now and then; it may end the training, and says what is handed
    out.
    """
    settings = run.settings
    until = settings.max_iter if until is None else until
    every = max(1, settings.max_iter // 200)
    step = step_of(settings)
    data = with_noise(rows(series, run), series, run)
    run.go_on()
    run.interrupted = ended = False
    if judge is not None and run.step == 0:
        judge.begin(run)
    elif run.step == 0 and settings.objective == "prediction":
        begin_at_floor(run, series)
    marks = [(run.step, run.weights())]  # at the last two records: where to go back to
    started = time.perf_counter() - run.seconds
    with (
        Progress(until, run.step, enabled=verbose) as bar,
        noted_interrupt() as interrupted,
        kept_memory(),
    ):
        try:
            while run.step < until and not interrupted:
                run.set_rates()
                if run.step == settings.refit_at:
                    refit(run, data, run.generator)
                if run.step == settings.several_from > 0:
                    bar.say(f"from step {run.step} on, the loss is of predictions "
                            f"{'up to ' * settings.mixed}{settings.horizon} steps ahead, not of "
                            "one: it rises at first")  # fmt: skip
                run.pending.append(step(run, data))
                run.step += 1
                if judge is not None and judge.due(run):
                    check_finite(run)
                    ended = judge.look(run)
                if run.step % every == 0 or run.step == until or ended:
                    run.seconds = time.perf_counter() - started
                    check_finite(run)
                    record = take_record(run)
                    marks = [marks[-1], (run.step, run.weights())]
                    bar.show(run.step, record, run.chance)
                    if (callback is not None and callback(run, record)) or ended:
                        break
        except KeyboardInterrupt:
            interrupted.append(True)
        except TrainingError as error:
            go_back(run, marks, error.step)
            raise TrainingError(f"{error}; the weights of step {run.step} are kept") from None
        if interrupted and run.step < until:
            run.interrupted = True
            bar.say(f"stopped at step {run.step} of {until}; what was trained is kept")
        if run.at_floor:
            bar.say(
                f"the loss is at its floor with {run.n_negatives} negatives: it cannot tell better "
                "models apart; what is missed of held-out data can"
            )
        ended = ended or run.step >= settings.max_iter
        if judge is not None and ended:
            run.verdict = judge.conclude(run)
        if data.noise is not None and ended and not (judge and judge.kept_start):
            said = straighten(run, data, judge.said_of if judge else lambda run: "")
            run.verdict = "; ".join(filter(None, (run.verdict if judge else "", said)))
        if run.verdict and ended:
            bar.say(run.verdict)
    run.seconds = time.perf_counter() - started
    run.rest()
    return run


def training_step(run: Run, data: Rows) -> Loss:
    """One step of the paper's Eq. 3: references, their successors, and negatives."""
    s, h, random = run.settings, run.horizon, run.generator
    t = data.steps[torch.randint(len(data.steps), (s.batch_size,), generator=random)]
    m = data.draw(s.n_negatives or 0, random)
    steps = torch.randint(1, h + 1, t.shape, generator=random) if s.mixed else None
    after = t + (h if steps is None else steps) * s.time_offset
    support = draw_support(run, data)

    now, others = encode(run, data, t, torch.cat([after, m, support]))
    following, negatives, anchors = others.tensor_split([len(t), len(t) + len(m)])
    predicted = reach(run.dynamics, now, following, data.drive(t, h, s.time_offset, now), steps)
    # Inputs are known: all candidates for a step have its inputs, which then tell nothing.
    bare = partial(without_inputs, run, data)
    predicted, following = bare(predicted, after), bare(following, after)
    negatives, anchors = bare(negatives, m), bare(anchors, support)
    skip = None
    if s.n_negatives is None:
        now = bare(now if now.ndim == 2 else now[:, -1], t)
        m, negatives, skip = in_batch(run, t, after, now, following)
    alpha = correction(run, m, after, negatives, following, support, anchors)
    loss = info_nce(
        predicted, following, negatives, similarity=run.geometry, potential=alpha, skip=skip
    )
    descend(run, loss)
    return Loss(*(part.detach() for part in loss))


def likely_step(run: Run, data: Rows) -> Loss:
    """The same step with infinitely many negatives: how likely the successors are."""
    s, random = run.settings, run.generator
    t = data.steps[torch.randint(len(data.steps), (s.batch_size,), generator=random)]
    h = int(torch.randint(1, run.horizon + 1, (), generator=random)) if s.mixed else run.horizon
    after = t + h * s.time_offset

    some, others = after.tensor_split([-(-len(t) // SLOPED)])
    first, slopes = run.encoder.with_slopes(data.window(some))
    now, rest = run.encoder.pair(data.window, t, others)
    following = torch.cat([first, rest])
    predicted = reach(run.dynamics, now, following, data.drive(t, h, s.time_offset, now))
    loss = likelihood(following - predicted, slopes)
    descend(run, loss, unevenness(run, data))
    return Loss(*(part.detach() for part in loss))


def predicting_step(run: Run, data: Rows) -> Loss:
    """One step towards what is observed up to the horizon, by roll-outs as inference has them."""
    s = run.settings
    t = data.steps[torch.randint(len(data.steps), (s.batch_size,), generator=run.generator)]
    now, _ = encode(run, data, t, t[:0])
    run.dynamics.eval()
    drive = data.drive(t, run.horizon, s.time_offset, now)
    path = rollout(run.dynamics, now, drive, project=lambda x: x.clamp(-FAR, FAR))
    h = torch.from_numpy(np.unique(np.geomspace(1, run.horizon, POINTS).round().astype(int)))
    then = t[:, None] + h * s.time_offset
    y, after = data.observed[t].to(now.device), data.observed[then].to(now.device)
    u = None if data.u is None else data.u[then].to(now.device)
    loss = ahead(now if now.ndim == 2 else now[:, -1], y, path[:, h - 1], after, u)
    descend(run, loss, most=STEEPEST)
    return Loss(*(part.detach() for part in loss))


def step_of(s: Settings) -> Callable[[Run, Rows], Loss]:
    """The step that minimises what these settings say."""
    steps = {"contrast": training_step, "likelihood": likely_step, "prediction": predicting_step}
    return steps[s.objective]


def unevenness(run: Run, data: Rows) -> Tensor | float:
    """How uneven the noise is in the state; less and less, as a likelihood sees the noise too once
    it is precise enough."""
    weight = run.settings.evenness * (1 - run.step / run.settings.max_iter)
    if data.noise is None or weight <= 0:
        return 0.0
    frames, roots = data.noise
    at = torch.randint(len(frames), (NOISY,), generator=run.generator).to(frames.device)
    return weight * evenness(run.encoder.with_slopes(frames[at])[1], roots[at])


def descend(run: Run, loss: Loss, beside: Tensor | float = 0.0, most: float | None = None) -> None:
    """One step down the loss, with more weight on alignment where the contrast is too easy.

    most: the largest norm of the gradient; None: any.
    """
    weighs = run.emphasis is not None and run.step >= run.settings.emphasis_at
    total = run.emphasis(loss) if run.emphasis is not None and weighs else loss.total
    for optimizer in run.optimizers:
        optimizer.zero_grad()
    (total + beside).backward()
    if most is not None:
        weights = [p for part in run.parts.values() for p in part.parameters()]
        torch.nn.utils.clip_grad_norm_(weights, most)
    for optimizer in run.optimizers:
        optimizer.step()


def in_batch(
    run: Run, t: Tensor, after: Tensor, now: Tensor, following: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The batch as its own sample of negatives: their steps, embeddings, and what a row leaves out.

    A row leaves out its own pair, wherever the encoder lets it serve as a negative.
    """
    offered = run.encoder.candidates(now, following)
    own = torch.arange(len(t), device=following.device)
    skip = torch.stack([own + i * len(t) for i in range(len(offered))], dim=1)
    return torch.cat([t, after][-len(offered) :]), torch.cat(offered), skip


def correction(
    run: Run,
    m: Tensor,
    after: Tensor,
    negatives: Tensor,
    following: Tensor,
    support: Tensor,
    anchors: Tensor,
) -> tuple[Tensor, Tensor] | None:
    """α of the positives and of the negatives, at the steps `after` and `m`; None without it."""
    s = run.settings
    if s.density_correction is None:
        return None
    # The batch as negatives ends with its positives: they need no second estimate.
    fresh = s.n_negatives is not None
    at = torch.cat([m, after]) if fresh else m
    alpha = log_density(
        torch.cat([negatives, following]) if fresh else negatives,
        anchors,
        kernel=s.density_correction,
        bandwidth=run.bandwidth,
        skip=_own(at, support).to(anchors.device),
    )
    return alpha[-len(after) :], alpha[: len(m)]


def draw_support(run: Run, data: Rows) -> Tensor:
    """Steps, sorted and distinct, whose embeddings carry the density estimate."""
    s = run.settings
    size = 0 if s.density_correction is None else s.n_support or s.batch_size
    drawn: Tensor = torch.unique(data.draw(size, run.generator))
    return drawn


def _own(steps: Tensor, support: Tensor) -> Tensor:
    """(n, 1): where each step is in the support, −1 if it is not."""
    at = torch.searchsorted(support, steps).clamp(max=len(support) - 1)
    return torch.where(support[at] == steps, at, -1)[:, None]


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


def check_finite(run: Run) -> None:
    """That no loss since the last record, and no weight, is NaN or infinite: the loop waits here.

    Before the judge looks and before a record, so that neither sees what is lost already.
    """
    totals = [float(loss.total) for loss in run.pending]
    bad = next((i for i, total in enumerate(totals) if not math.isfinite(total)), None)
    if bad is not None:
        step = run.step - len(totals) + bad + 1
        said = f"the loss is {totals[bad]} at step {step}"
    elif all(bool(p.isfinite().all()) for part in run.parts.values() for p in part.parameters()):
        return
    else:
        step = run.step + 1
        said = f"weights are not finite after step {run.step}"
    s = run.settings
    raise TrainingError(
        f"{said}; lower learning_rate (now {s.learning_rate}) or dynamics_learning_rate (now "
        f"{s.dynamics_learning_rate})",
        step,
    )


def go_back(run: Run, marks: list[tuple[int, Weights]], bad: int) -> None:
    """To the last of these steps whose weights still gave a finite loss at the step after."""
    run.step, weights = next((m for m in reversed(marks) if m[0] + 1 < bad), marks[0])
    run.restore(weights)
    run.history = [record for record in run.history if record["step"] <= run.step]
    run.pending, run.whole = [], False  # optimisers and randomness are beyond that step
    run.rest()


def take_record(run: Run) -> Record:
    """Mean of the losses since the last record."""
    losses = torch.stack([torch.stack(list(loss)) for loss in run.pending])
    parts = losses.double().mean(0).tolist()
    run.pending = []
    total, alignment, uniformity = parts
    record = {
        "step": run.step,
        "loss": total,
        "alignment": alignment,
        "uniformity": uniformity,
        "seconds": round(run.seconds, 3),
    }
    if run.judged:
        record["held_out"] = run.judged[-1][1]
    run.history.append(record)
    return record
