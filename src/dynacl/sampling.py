"""What training sees of a series: rows, windows of them, and their embeddings. Never the truth."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from dynacl.data import TimeSeries
from dynacl.encoders import Asymmetric
from dynacl.settings import Settings

if TYPE_CHECKING:
    from dynacl.training import Run


class Rows(NamedTuple):
    """What training sees of a series, as tensors that share the arrays' memory."""

    y: Tensor  # (T_total, D)
    u: Tensor | None
    steps: Tensor  # references: their past and their positive are in the same trial
    seen: Tensor | None  # steps with a full window, from which negatives come; None: all
    lags: Tensor
    now_only: bool

    def window(self, t: Tensor) -> Tensor:
        """The observation of each step with its lags, (n, lags · D)."""
        return self.y[t] if self.now_only else self.y[t[:, None] - self.lags].flatten(1)

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Steps, uniform over all that can be embedded."""
        if self.seen is None:
            return torch.randint(len(self.y), (n,), generator=generator)
        return self.seen[torch.randint(len(self.seen), (n,), generator=generator)]


def rows(series: TimeSeries, settings: Settings, context: int = 0) -> Rows:
    """context: embeddings before the present that the dynamics wants."""
    lag = max(settings.time_lags)
    past = lag + context * settings.time_offset
    return Rows(
        _shared(series.observations),
        None if series.control is None else _shared(series.control),
        torch.from_numpy(series.steps(settings.time_offset * settings.horizon, past)),
        torch.from_numpy(series.with_past(lag)) if lag else None,
        torch.tensor(settings.time_lags),
        settings.time_lags == (0,),
    )


def _shared(array: Any) -> Tensor:
    if array.flags.writeable:
        return torch.from_numpy(array)
    # A read-only array (a memory map): we never write, but PyTorch cannot promise that and warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def encode(run: Run, data: Rows, t: Tensor, others: Tensor, device: Any) -> tuple[Tensor, Tensor]:
    """References (with their context, where the dynamics wants one) and others: each row once."""
    C, n = run.context, len(t)
    if C:
        t = (t[:, None] - run.settings.time_offset * torch.arange(C, -1, -1)).flatten()
    if isinstance(run.encoder, Asymmetric):
        now = run.encoder.reference(data.window(t).to(device))
        x: Tensor = run.encoder(data.window(others).to(device))
    else:
        now, x = run.encoder(data.window(torch.cat([t, others])).to(device)).tensor_split([len(t)])
    return now.view(n, C + 1, -1) if C else now, x


def encoded_pairs(run: Run, data: Rows, t: Tensor, device: Any) -> Any:
    """Latents of steps t, those a time offset later, and the control between them."""
    pairs = [
        encode(run, data, part, part + run.settings.time_offset, device)
        for part in torch.split(t, 2048)
    ]
    now, following = map(torch.cat, zip(*pairs, strict=True))
    return now, following, None if data.u is None else data.u[t]
