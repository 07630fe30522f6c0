"""How to train: every setting with its kind, and the protocols, ours and the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from dynacl.data import InputError
from dynacl.values import (
    POSITIVE,
    SHARE,
    Flag,
    HeldOut,
    Kind,
    Lags,
    Number,
    OneOf,
    OrNone,
    PastLags,
    Whole,
)

KERNELS = ("euclidean", "vmf")  # of the density estimate α
LOGITS = ("reciprocal", "mean", "relative")  # of the choice among modes
OPTIMIZERS = ("soap", "adam")
SCHEDULES = ("cosine", "constant")
OBJECTIVES = ("contrast", "likelihood", "prediction")


class Wish(NamedTuple):
    """What a part (dynamics, geometry, encoder) changes in the training settings, and why."""

    setting: str
    value: Any
    why: str


def setting(default: Any, kind: Kind, help: str) -> Any:
    return field(default=default, metadata={"kind": kind, "help": help})


@dataclass(frozen=True)
class Settings:
    """How to train. Each field says what it means; `KINDS` has what each may be.

    The defaults are those of our protocol before the parts of a model and the data change them
    (`recipe.settings`). They suit a dynamics model about which nothing is known.
    """

    batch_size: int = setting(1024, Whole(), "pairs per training step")
    n_negatives: int | None = setting(
        None, OrNone(Whole(), "batch"), "negatives per step, drawn anew; None: the batch itself"
    )
    max_iter: int = setting(6000, Whole(), "training steps")
    duration: float = setting(
        1.0, POSITIVE, "factor on the number of training steps that the data suggest"
    )
    learning_rate: float = setting(3e-2, POSITIVE, "learning rate of the encoder")
    dynamics_learning_rate: float = setting(
        1e-2, POSITIVE, "learning rate of the dynamics and the similarity"
    )
    optimizer: str = setting("soap", OneOf(OPTIMIZERS), "optimizer of the encoder")
    dynamics_optimizer: str = setting(
        "adam", OneOf(OPTIMIZERS), "optimizer of the dynamics and the similarity"
    )
    objective: str = setting(
        "contrast",
        OneOf(OBJECTIVES),
        "what is minimised: InfoNCE; its limit for infinitely many negatives "
        "(objective.likelihood); or what is missed of observations up to the horizon "
        "(objective.ahead)",
    )
    evenness: float = setting(
        0.0,
        Number(),
        "weight at the start, falling to 0, that the evenness of the noise has beside a "
        "likelihood, where the data show noise by themselves (objective.evenness)",
    )
    schedule: str = setting("cosine", OneOf(SCHEDULES), "schedule of the learning rates")
    standardize: bool = setting(True, Flag(), "whiten the input of the encoder")
    time_offset: int = setting(1, Whole(), "steps Δ from a reference to its positive")
    time_lags: tuple[int, ...] = setting(
        (0,), Lags(), "steps back from now that the encoder sees together"
    )
    control_lags: tuple[int, ...] | None = setting(
        None,
        OrNone(PastLags(), "auto"),
        "steps back from now of the control input that the encoder sees beside the observations; "
        "None: the time lags but 0, where there are any; (), on the command line off: none. With 0 "
        "among them, what an input adds to its own step's observation is no part of the state",
    )
    horizon: int = setting(
        1,
        Whole(),
        "steps of the dynamics from a reference to its positive, all in one mode. A smooth error "
        "e(x) of the encoder enters a one-step contrast as A e(x) − e(A x), which nearly cancels "
        "where a step is short; over several steps it does not",
    )
    one_step: float = setting(
        0.2,
        SHARE,
        "share of the training before the horizon grows from one step to its full length; several "
        "steps of dynamics that are still unknown may go round in circles",
    )
    mixed: bool = setting(False, Flag(), "each pair has its own number of steps, 1 to the horizon")
    refit_after: float | None = setting(
        None,
        OrNone(SHARE),
        "share of the training after which the dynamics are fitted anew to the latents; "
        "None: never",
    )
    refit_at_end: bool = setting(
        False, Flag(), "fit the dynamics to the latents whenever training stops"
    )
    emphasis: float = setting(
        0.0,
        Number(),
        "largest extra weight of alignment, where the contrast is too easy to teach more "
        "(objective.Emphasis)",
    )
    emphasis_from: float = setting(
        0.0, SHARE, "share of the training before alignment may get extra weight"
    )
    input_gain: float = setting(
        1.0,
        Number(1.0),
        "how sharply hidden units bend at the start; lower for few inputs without a linear start",
    )
    linear_start: bool = setting(
        False,
        Flag(),
        "start the encoder at a linear map of the input. From a random start it may fold what "
        "drifts far, or miss what is faint beside it",
    )
    validation: float | tuple[int, ...] = setting(
        0.1,
        HeldOut(),
        "what is held out to judge the training by the prediction of observations: a share of the "
        "data, or trials by their indices; 0: nothing, and then nothing is judged",
    )
    switching_logits: str = setting("mean", OneOf(LOGITS), "logits of the soft choice among modes")
    density_correction: str | None = setting(
        None, OrNone(OneOf(KERNELS)), "kernel of the density estimate α in embedding space"
    )
    bandwidth: float | None = setting(
        None,
        OrNone(POSITIVE),
        "width of the density estimate; None: that of the similarity's kernel",
    )
    n_support: int | None = setting(
        None,
        OrNone(Whole()),
        "number of points that carry the density estimate; None: the batch size",
    )

    @classmethod
    def read(cls, saved: Mapping[str, Any], where: str = "") -> Settings:
        """From what JSON holds, each of its kind."""
        return cls(**{name: checked(name, value, where) for name, value in tuples(saved).items()})

    @property
    def past_inputs(self) -> tuple[int, ...]:
        """Steps back of the inputs that the encoder sees, as a run has them."""
        return self.control_lags or ()

    @property
    def past(self) -> int:
        """Rows before a step that its window reaches back to."""
        return max(*self.time_lags, *self.past_inputs, 0)

    @property
    def several_from(self) -> int:
        """The first step whose contrast has the full horizon."""
        return round(self.one_step * self.max_iter) if self.horizon > 1 else 0

    @property
    def refit_at(self) -> int:
        """The step before which the dynamics is fitted anew; −1 if it never is."""
        return -1 if self.refit_after is None else round(self.refit_after * self.max_iter)

    @property
    def emphasis_at(self) -> int:
        """The first step that may weigh alignment more: not before the full horizon."""
        return max(self.several_from, round(self.emphasis_from * self.max_iter))


KINDS: dict[str, Kind] = {f.name: f.metadata["kind"] for f in fields(Settings)}
HELP: dict[str, str] = {f.name: f.metadata["help"] for f in fields(Settings)}


def checked(name: str, value: Any, where: str = "") -> Any:
    """The value of a setting, as plain Python; an error that names it if it cannot be."""
    if name not in KINDS:
        raise InputError(f"{where or 'settings: '}no setting is called {name!r}; wanted one of "
                         f"{', '.join(KINDS)}")  # fmt: skip
    if not KINDS[name].accepts(value):
        raise InputError(f"{where}{name}: got {value!r:.80}; wanted {KINDS[name].wanted}")
    return KINDS[name].plain(value)


def tuples(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Named values from JSON, which has lists for tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()}


class Protocol(NamedTuple):
    """A way to train: its settings, and whether the parts and the data may change them."""

    settings: Settings
    adapts: bool


def _paper(batch: int, negatives: int, steps: int, rate: float, dynamics_rate: float) -> Protocol:
    return Protocol(
        Settings(
            batch_size=batch,
            n_negatives=negatives,
            max_iter=steps,
            learning_rate=rate,
            dynamics_learning_rate=dynamics_rate,
            optimizer="adam",
            schedule="constant",
            standardize=False,
            validation=0.0,
            switching_logits="reciprocal",
        ),
        adapts=False,
    )


# "default" is ours; the others train as the paper did (Section "Experiments", "Model estimation").
PROTOCOLS: dict[str, Protocol] = {
    "default": Protocol(Settings(), adapts=True),
    "paper-lds": _paper(2048, 20_000, 30_000, 3e-4, 3e-4),
    "paper-slds": _paper(2048, 2**16, 50_000, 1e-3, 1e-2),
    "paper-lorenz": _paper(1024, 20_000, 30_000, 1e-4, 1e-4),
}


def default_steps(d: int, pairs: int) -> int:
    """Steps of the default protocol: 1,000 per latent dimension (of up to 8) for a million pairs,
    fewer for fewer pairs, by the cube root of the proportion; at least 300.

    Chosen on simulations without observation noise, where fewer lose R²: 488 steps instead of
    1,291 on 10,000 samples of the SLDS take it from 0.956 to 0.929 on fresh trials. A short noisy
    recording wants fewer: 150 instead of 600 for 9,000 frames of 800 cells (docs/log.md).
    """
    share: float = min(1.0, pairs / 1_000_000) ** (1 / 3)
    return max(300, round(1000 * min(d, 8) * share))
