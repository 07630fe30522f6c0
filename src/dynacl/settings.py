"""How to train: our default protocol and those of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def tuples(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Named values from JSON, which has lists for tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()}


@dataclass(frozen=True)
class Settings:
    """How to train.

    n_negatives=None: the batch itself is the sample of negatives.
    horizon: steps of the dynamics from a reference to its positive, all in one mode, after a first
    share `one_step` of the training. A smooth error e(x) of the encoder enters a one-step contrast
    as A e(x) − e(A x), which nearly cancels where a step is short; over several steps it does not.
    But several steps of dynamics that are not known yet may go round in circles (docs/log.md).
    mixed: each pair has its own number of steps, from 1 to the horizon.
    refit: a bank of modes is fitted to the latents, by least squares, whenever training stops.
    emphasis: most weight that alignment gets beyond its own, where the contrast is too easy to
    teach more (objective.Emphasis), from the full horizon and a share `emphasis_from` of the
    training on; none with a density correction.
    linear_start: the encoder starts at the first principal components (encoders.MLP). From a random
    start it may fold what drifts far, or miss what is faint beside it (docs/log.md).
    density_correction: kernel of the density estimate in embedding space, with its bandwidth (None:
    that of the similarity) and number of support points (None: the batch size).
    """

    batch_size: int = 1024
    n_negatives: int | None = None
    max_iter: int = 6000
    learning_rate: float = 3e-2
    dynamics_learning_rate: float = 1e-2
    optimizer: str = "soap"
    schedule: str = "cosine"
    standardize: bool = True
    time_offset: int = 1
    horizon: int = 4
    one_step: float = 0.2
    mixed: bool = False
    refit: bool = False
    emphasis: float = 10.0
    emphasis_from: float = 0.0
    temperature: float = 1.0
    input_gain: float = 3.0
    linear_start: bool = True
    switching_logits: str = "mean"
    switching_spread: float = 0.0
    time_lags: tuple[int, ...] = (0,)
    density_correction: str | None = None
    bandwidth: float | None = None
    n_support: int | None = None

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> Settings:
        """From what JSON holds."""
        return cls(**tuples(saved))

    @property
    def split_at(self) -> int:
        """The step from which the contrast has its full horizon, and at which a bank of modes is
        fitted anew; −1 if it is never."""
        several = self.horizon > 1 or self.one_step == 0
        return round(self.one_step * self.max_iter) if several else -1

    @property
    def emphasis_at(self) -> int:
        """The first step that may weigh alignment more: not before the full horizon."""
        return max(self.split_at, round(self.emphasis_from * self.max_iter))


_PAPER = Settings(
    optimizer="adam",
    schedule="constant",
    standardize=False,
    horizon=1,
    emphasis=0.0,
    input_gain=1.0,
    linear_start=False,
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
    """Steps of the default protocol: 1,000 a latent dimension (of up to 8) for a million pairs,
    fewer for fewer pairs, by the cube root of the proportion. The same for every dynamics model,
    but for the polynomial, which takes 0.6 of them."""
    share: float = min(1.0, pairs / 1_000_000) ** (1 / 3)
    return max(300, round(1000 * min(d, 8) * share))
