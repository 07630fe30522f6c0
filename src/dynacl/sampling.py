"""What training sees of a series: rows, windows of them, and their embeddings. Never the truth."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, final

import torch
from torch import Tensor

from dynacl.data import Steps, TimeSeries
from dynacl.local_noise import local_noise
from dynacl.run import Run

PART = 4096  # rows in work at a time
LISTED = 1 << 23  # steps: 64 MB
MOST = 1 << 27  # numbers of a series whose frames are made ready at once: half a gigabyte


class Listed(Protocol):
    """Steps by their number: a tensor, or what stands for one."""

    def __len__(self) -> int: ...

    def __getitem__(self, k: Tensor | slice) -> Tensor: ...


@final
class Unlisted:
    """Steps of a recording so long that a list of them would fill the memory."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, k: Tensor | slice) -> Tensor:
        return torch.from_numpy(self.steps[k if isinstance(k, slice) else k.numpy()])


def listed(steps: Steps) -> Listed:
    """As a list, which is quicker, unless it is long."""
    return torch.from_numpy(steps.all()) if len(steps) <= LISTED else Unlisted(steps)


class Noise(NamedTuple):
    """Frames where noise arrived, and roots of its covariance there (`local_noise`)."""

    frames: Tensor  # (n, d)
    roots: Tensor  # (n, d, d)


class Rows(NamedTuple):
    """What training sees of a series, as tensors that share the arrays' memory where they can."""

    y: Tensor  # (T_total, D), or frames that are made ready for the encoder
    observed: Tensor  # (T_total, D), as they are
    ready: Callable[[Tensor], Tensor]  # makes them so: from rows of y, where the encoder lives
    u: Tensor | None
    steps: Listed  # references: their past and their positive are in the same trial
    seen: Listed | None  # steps with a full window, from which negatives come; None: all
    lags: Tensor
    now_only: bool
    control_lags: Tensor  # of the inputs that a window has beside observations
    noise: Noise | None = None  # of the system, where it was seen; only training asks for it

    def window(self, t: Tensor) -> Tensor:
        """The frame of each step with its lags, side by side, and past inputs behind them."""
        y = self.ready(self.y[t] if self.now_only else self.y[t[:, None] - self.lags]).flatten(1)
        return y if (u := self.inputs(t)) is None else torch.cat([y, u.to(y.device)], dim=1)

    def inputs(self, t: Tensor) -> Tensor | None:
        """The past inputs in the window of each step, (n, control lags · d_u); None: there are
        none."""
        if self.u is None or not len(self.control_lags):
            return None
        return self.u[t[:, None] - self.control_lags].flatten(1)

    def drive(self, t: Tensor, steps: int, offset: int, like: Tensor) -> list[Tensor | None]:
        """The control that acts at each of so many steps from t on, where `like` lives."""
        if self.u is None:
            return [None] * steps
        return [self.u[t + i * offset].to(like.device) for i in range(steps)]

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Steps, uniform over all that can be embedded."""
        if self.seen is None:
            return torch.randint(len(self.y), (n,), generator=generator)
        return self.seen[torch.randint(len(self.seen), (n,), generator=generator)]


def rows(series: TimeSeries, run: Run) -> Rows:
    """What this run trains on: its windows, its references and where negatives come from."""
    settings = run.settings
    lag = settings.past
    past = lag + run.dynamics.context * settings.time_offset
    y, alone = _shared(series.observations), settings.time_lags == (0,)

    def ready(rows: Tensor) -> Tensor:
        return run.encoder.frames(rows.to(run.device))

    whole = not alone and y.numel() <= MOST  # frames are in several windows: all at once, then
    if whole:
        with torch.no_grad():
            y = torch.cat([ready(part).cpu() for part in torch.split(y, PART)])
    return Rows(
        y,
        _shared(series.observations),
        partial(torch.Tensor.to, device=run.device) if whole else ready,
        None if series.control is None else _shared(series.control),
        listed(series.references(settings.time_offset * settings.horizon, past)),
        listed(series.windowed(lag)) if lag else None,
        torch.tensor(settings.time_lags),
        alone,
        torch.tensor(settings.past_inputs, dtype=torch.long),
    )


def with_noise(data: Rows, series: TimeSeries, run: Run) -> Rows:
    """The same rows, and the noise of the system where these settings want it and data show it."""
    s = run.settings
    wanted = s.objective == "likelihood" and s.evenness
    if not wanted or data.u is not None or not run.encoder.square or len(data.y) > LISTED:
        return data
    with torch.no_grad():
        y = torch.cat([data.ready(part).cpu() for part in torch.split(data.y, PART)])
    offset = s.time_offset
    found = local_noise(y.double().numpy(), series.references(offset).spread(LISTED), offset)
    if found is None:
        return data
    roots = torch.linalg.cholesky(torch.from_numpy(found.covariances))
    frames = y[torch.from_numpy(found.steps)]
    return data._replace(noise=Noise(frames.to(run.device), roots.float().to(run.device)))


def _shared(array: Any) -> Tensor:
    if array.flags.writeable:
        return torch.from_numpy(array)
    # A read-only array (a memory map): we never write, but PyTorch cannot promise that and warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def encode(run: Run, data: Rows, t: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """References (with their context, where the dynamics wants one) and others: each row once."""
    C, n = run.dynamics.context, len(t)
    if C:
        t = (t[:, None] - run.settings.time_offset * torch.arange(C, -1, -1)).flatten()
    now, x = run.encoder.pair(data.window, t, others)
    return now.view(n, C + 1, -1) if C else now, x


def without_inputs(run: Run, data: Rows, x: Tensor, t: Tensor) -> Tensor:
    """Latents x, encoded or predicted, less what the past inputs of steps t add to them."""
    inputs = data.inputs(t)
    return x if inputs is None else run.encoder.without_inputs(x, inputs.to(run.device))


def encoded_pairs(run: Run, data: Rows, t: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Latents of steps t, those a time offset later, and the control between them."""
    pairs = [
        encode(run, data, part, part + run.settings.time_offset) for part in torch.split(t, 2048)
    ]
    now, following = map(torch.cat, zip(*pairs, strict=True))
    return now, following, None if data.u is None else data.u[t]


def steps_apart(lags: Sequence[int], offset: int, least: int = 1) -> int:
    """The fewest steps, from `least` on, after which a window has no frame of the window before.

    Shared frames are known, and no prediction: with them, data without any order would score, and a
    contrast would be won by latents that store frames.
    """
    shared = {a - b for a in lags for b in lags}
    return next(h for h in itertools.count(least) if h * offset not in shared)
