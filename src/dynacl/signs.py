"""Signs of a fit that went wrong, each with what to try. `fit` warns of them when it ends."""

from __future__ import annotations

import numpy as np

from dynacl import inference
from dynacl.data import Array, TimeSeries
from dynacl.run import Run

CHANCE = 0.1  # bits of `score` on training data, below which predictions tell nothing
FLIPS = 0.5  # share of the switches that modes drawn anew at each step would have
COLLAPSED = 1e-6  # of the largest variance of the latents: a dimension that has less tells nothing
FEW = 256  # negatives, below which a loss at its floor says little


def signs(run: Run, series: TimeSeries, now: Array, x: Array, bits: float) -> list[str]:
    """Sentences, from latents of training data and how predictions of them score."""
    found = [*_collapsed(x), *_flips(run, series, now, x), *_easy(run)]
    if bits < CHANCE:
        found.append(f"predictions of the training data score {bits:.2f} bits: no better "
                     "than chance. Is there a time order in X? Try time_lags, fewer n_components, "
                     "or a longer time_offset")  # fmt: skip
    return found


def _collapsed(x: Array) -> list[str]:
    """Directions of the latents in which nothing varies beside the others."""
    variance = np.linalg.eigvalsh(np.cov(x.T.astype(float)).reshape(x.shape[1], -1))
    lost = int((variance <= COLLAPSED * variance[-1]).sum())
    if not lost:
        return []
    return [f"{lost} of the {len(variance)} latent dimensions collapsed: the latents span fewer. "
            "Try fewer n_components, or time_lags if a frame shows less than the state"
            ]  # fmt: skip


def _flips(run: Run, series: TimeSeries, now: Array, x: Array) -> list[str]:
    """Modes that should last, and change about as often as modes drawn anew at each step."""
    f, offset = run.dynamics, run.settings.time_offset
    if not (f.infers_modes and f.identifies):
        return []
    modes = inference.modes(f, series, now, x, offset, "sequence")
    t = series.steps(2 * offset, allow_short=True)
    if len(t) == 0:
        return []
    flips = float((modes[t] != modes[t + offset]).mean())
    share = np.bincount(modes[t], minlength=f.n_modes) / len(t)
    chance = float(1 - np.square(share).sum())
    if flips <= FLIPS * chance or flips == 0:
        return []
    return [f"the mode changes at {flips:.0%} of the steps, where modes drawn anew at each step "
            f"would at {chance:.0%}: these are no regimes that last. Try fewer n_modes, or "
            'dynamics="linear", and compare by prediction_score']  # fmt: skip


def _easy(run: Run) -> list[str]:
    """A loss at its floor, where so few negatives make that easy."""
    if run.n_negatives >= FEW or not run.at_floor:
        return []
    return [f"the loss is at its floor with {run.n_negatives} negatives, too few to teach more. "
            "Try more n_negatives, or a larger batch_size"]  # fmt: skip
