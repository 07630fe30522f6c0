"""Makes a run ready for use when training stops, and says what is then read off it.

This happens at the end of `fit` and at each of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch

from dynacl.data import Array, TimeSeries
from dynacl.inference import latents, modes, references, spread, tensor
from dynacl.refitting import refit_at_rest
from dynacl.run import Run
from dynacl.stability import Judged, Stability, keep_stable
from dynacl.usage import alike, shares

COMPARED = 20_000  # steps at which modes are compared with each other, at most
PIECE = 250  # steps of a piece that is decoded …
FEWEST, MOST = 20_000, 100_000  # … of so many in all, …
NUMBERS = 4_000_000  # … where errors of all modes are so many numbers: seconds


class Settled(NamedTuple):
    """What is read off a stopped run; None: it does not apply."""

    transitions: Array | None  # (K, K): how often one hidden mode follows another
    usage: Array | None  # (K,): the share of steps in each hidden mode
    alike: list[tuple[int, int]] | None  # hidden modes that may be one regime
    stability: Stability | None

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "transitions": None if self.transitions is None else self.transitions.tolist(),
            "usage": None if self.usage is None else self.usage.tolist(),
            "alike": self.alike,
            "stability": None if self.stability is None else asdict(self.stability),
        }

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Settled:
        chain, usage, pairs, bounded = (config.get(name) for name in cls._fields)
        return cls(
            None if chain is None else np.array(chain, dtype=np.float32),
            None if usage is None else np.array(usage, dtype=np.float32),
            None if pairs is None else [(i, j) for i, j in pairs],
            None if bounded is None else Stability(**bounded),
        )


def settle(run: Run, series: TimeSeries, judge: Judged | None = None) -> Settled:
    """Make a run ready for use: its dynamics fitted anew and bounded where that is asked for.

    judge: what the run misses of held-out observations as it is, for what is left to these.

    Where only directions count, maps are free in their scale, and predictions get unit length. The
    optimisers remember steps in the old scale, so the run keeps it for when it goes on.
    """
    run.rest()
    refit_at_rest(run, series)
    stability = keep_stable(run, series, judge)
    if run.geometry.scale_free:
        few = series.head(20_000)
        run.keep_dynamics()
        x = references(run, few, latents(run, few))  # where predictions start
        run.dynamics.unit_scale(tensor(x, run.dynamics))
    if not run.dynamics.infers_modes:
        return Settled(None, None, None, stability)
    return _decoded(run, series)._replace(stability=stability)


def _decoded(run: Run, series: TimeSeries) -> Settled:
    """What modes that are decoded from data say."""
    f, offset = run.dynamics, run.settings.time_offset
    past = run.settings.past
    some = sample(series, f.n_modes, past, offset)
    x, part = latents(run, some), some.trimmed(past)
    now = references(run, some, x)
    found = modes(f, part, now, x, offset, "sequence")
    chain = transition_matrix(found, part, f.n_modes, offset)
    pairs: list[tuple[int, int]] = []
    if f.identifies:  # neighbouring expansions of a curved flow are alike, and should be
        t = spread(part.steps(offset, allow_short=True), COMPARED)
        u = None if part.control is None else tensor(part.control[t], f)
        with torch.inference_mode():
            bank = f.bank(tensor(now[t], f), u).cpu().numpy()
        pairs = alike(bank, found[t], x[t + offset])
    return Settled(chain, shares(found, f.n_modes), pairs, None)


def sample(series: TimeSeries, n_modes: int, past: int = 0, offset: int = 1) -> TimeSeries:
    """Short pieces, evenly spread over the recording, or all of it if it is short.

    A mode lasts for long, so many pieces say more about its share than a few whole trials do.
    """
    rows = max(FEWEST, min(MOST, NUMBERS // n_modes))
    return series.pieces(past + PIECE * offset, rows)


def transition_matrix(modes: Array, series: TimeSeries, n_modes: int, offset: int) -> Array:
    """P[i, j]: how often mode j follows mode i inside trials; one count more for staying."""
    t = series.steps(2 * offset, allow_short=True)
    counts = np.eye(n_modes)
    np.add.at(counts, (modes[t], modes[t + offset]), 1)
    chain: Array = counts / counts.sum(1, keepdims=True)
    return chain.astype(np.float32)
