"""What a dynamics model says about itself. It never knows the loss.

A model must implement
    step(x, u, weights)     one step ahead, with the modes weighed by `weights`

It may say, by class attributes and methods (here with their defaults)
    context                 how many embeddings before the present it looks at (0)
    n_modes                 how many modes it has (0: none)
    reads_modes             whether the state itself tells the mode (False: a pair of states does)
    identifies              whether its form alone identifies the state (False)
    stable                  whether its roll-outs are to stay bounded (False); "auto": if they
                            predict held-out data as well
    options                 which parameters of DCL it takes (none)
    proposed                whether dynamics="auto" tries it (False)
    wishes()                what it changes in the training settings, and why (nothing)
    bank(x, u)              every mode's prediction, if it has modes
    ends(x, controls)       where every mode leads in several steps
    leap(x, steps)          where it leads in several steps without control, if that has a short way
    if_seen_whole()         further wishes where observations have as many dimensions as the state
    if_read_off_windows(u)  further wishes where windows of few outputs show its state; u: driven?
    if_noise_shows()        still further ones where the noise in them can be measured by itself
    mode_weights(x)         how it weighs its modes by itself, if it reads them off the state
    refit(x, x_next, u)     how it is fitted to given latents (gradient descent)
    penalties               penalties on curvature to try in such a fit; held-out data choose (0)
    bound(x, x_next, u)     how its roll-outs are bounded, for use at these states (an error)
    one_regime()            a model with a single mode, by which hidden modes are judged (None)
    linear_maps()           its linear maps, one per mode, if it has any (None)
    library()               the functions of the state whose sum it is, if it has equations (None)
    observe(x)              what it takes from the encoder's states before a training step (nothing)
    unit_scale(x)           how predictions get unit length, if only directions count (nothing)

It inherits
    forward(x, x_next, u)   the prediction of x_next; a hidden mode is inferred from x_next
    errors, modes           the squared error of each mode, and the mode of a pair
    begin, anneal           what training tells it: its settings, and how far it has come
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from dynacl.dynamics.choice import Choice
from dynacl.dynamics.least_squares import descend
from dynacl.dynamics.monomials import Monomials
from dynacl.dynamics.whitened import Whitened
from dynacl.settings import Settings, Wish

# What every model wants whose form identifies the state. A free f would follow latents that are
# easy to predict, and a folded start.
IDENTIFYING = (
    Wish("emphasis", 10.0, "Its form identifies the state, so a small prediction error is a sign "
         "of the right state and may be weighed more where the contrast is easy."),
    Wish("linear_start", True, "From a random start the encoder may fold what drifts far, or miss "
         "what is faint; from a linear map a model of this form finds the rest."),
)  # fmt: skip
SHARP = Wish("input_gain", 3.0, "Sharp features at the start speed up what follows; a form as "
             "rigid as this one does not follow the folds that they may bring.")  # fmt: skip
LIKELY = (
    Wish("objective", "likelihood", "Observations have as many dimensions as the state, so their "
         "likelihood is known; it goes on teaching where a contrast is too easy."),
    Wish("emphasis", 0.0, "A likelihood weighs alignment by itself."),
    Wish("linear_start", True, "A likelihood follows any fold; a linear map has none."),
    Wish("refit_after", 0.0, "Dynamics that are not known yet would redraw the state space."),
    Wish("learning_rate", 0.01, "Faster steps leave the linear start for another redrawing."),
    Wish("input_gain", 8.0, "Both parts must be as precise as the noise, so units bend sharply; "
         "folds cost volume, so none come of it."),
    Wish("duration", 2.0, "It goes on gaining, where a contrast has long been at its floor."),
    Wish("dynamics_optimizer", "soap", "Both parts must be as precise as the noise."),
)  # fmt: skip
AHEAD = (
    Wish("objective", "prediction", "The state is read off windows, which share frames and inputs "
         "that a contrast would store; what is observed later is in none of them."),
    Wish("horizon", 30, "An error of the state adds up along the way, and shows in what is "
         "observed far ahead."),
    Wish("one_step", 0.0, "It begins at the best linear model, which can be rolled out."),
    Wish("mixed", False, "Each roll-out is looked at on its way."),
    Wish("refit_after", None, "It begins with dynamics that are fitted to the linear start."),
    Wish("emphasis", 0.0, "There is no contrast that could be too easy."),
    Wish("input_gain", 1.0, "What is measured bends gently."),
    Wish("duration", 1.0, "Held-out predictions say when it is enough."),
    Wish("batch_size", 256, "A roll-out takes as many steps as its horizon."),
    Wish("optimizer", "adam", "The linear start is precise to a few per mille, and small steps "
         "keep it so."),
    Wish("learning_rate", 1e-3, "For the same reason."),
    Wish("dynamics_learning_rate", 1e-3, "For the same reason."),
)  # fmt: skip
GENTLY = Wish("dynamics_learning_rate", 1e-4, "A power throws roll-outs far before its weight has "
              "moved by much.")  # fmt: skip
SEVERAL = (
    Wish("horizon", 4, "An error of the encoder nearly cancels over one short step, and adds up "
         "over several, which this model can take."),
    Wish("one_step", 0.2, "Several steps of dynamics that are not known yet may go round in "
         "circles, so the first fifth has one step."),
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a model is built for: sizes, options of DCL, and where the true system comes from."""

    d: int
    n_controls: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    system: Callable[[], Any] | None = None
    generator: torch.Generator | None = None


class Library(NamedTuple):
    """The functions of the state that a model is a sum of, and the model without its bounds."""

    names: list[str]
    features: Callable[[Tensor], Tensor]
    model: Dynamics


class Dynamics(nn.Module, ABC):
    """f: where a latent state goes in one step. x is (n, d), or (n, context + 1, d); u (n, d_u)."""

    context: int = 0
    n_modes: int = 0
    reads_modes: bool = False
    identifies: bool = False
    stable: bool | str = False
    penalties: tuple[float, ...] = (0.0,)
    options: ClassVar[tuple[str, ...]] = ()
    proposed: ClassVar[bool] = False
    needs_system: ClassVar[bool] = False
    control: nn.Parameter | None  # B, where there is one

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("control", None)
        self.choice = Choice()

    @classmethod
    def build(cls, request: Request) -> Self:
        """The model that a name stands for."""
        chosen = {name: request.options[name] for name in cls.options}
        chosen |= {"n_controls": request.n_controls, "generator": request.generator}
        make: Callable[..., Self] = cls
        return make(request.d, **chosen)

    @classmethod
    def least_weights(cls, request: Request) -> int:
        """How many numbers a saved one has, at least: a file with fewer is of something else."""
        return 0

    # -- what a model must say, or may -----------------------------------------------------------

    @abstractmethod
    def step(self, x: Tensor, u: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """One step ahead, (n, d). weights: (n, K), of the modes, where there are any."""

    def wishes(self) -> Sequence[Wish]:
        return ()

    def bank(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        """Every mode's prediction, (n, K, d)."""
        raise TypeError(f"{self.given_name} has no modes")

    def ends(self, x: Tensor, controls: Sequence[Tensor | None]) -> Tensor:
        """Where each mode leads if it lasts for as many steps as there are controls, (n, K, d)."""
        states = self.bank(x, controls[0])
        for u in controls[1:]:
            following = [self.bank(states[:, k], u)[:, k] for k in range(self.n_modes)]
            states = torch.stack(following, dim=1)
        return states

    def leap(self, x: Tensor, steps: int) -> Tensor | None:
        """The state after so many steps, (n, d); None: step by step is the only way."""
        return None

    def if_seen_whole(self) -> Sequence[Wish]:
        return ()

    def if_read_off_windows(self, driven: bool) -> Sequence[Wish]:
        return ()

    def if_noise_shows(self) -> Sequence[Wish]:
        return ()

    def mode_weights(self, x: Tensor) -> Tensor:
        """How the model weighs its modes at these states, (n, K)."""
        raise TypeError(f"{self.given_name} does not read modes off the state")

    def refit(self, x: Tensor, x_next: Tensor, u: Tensor | None = None, **how: Any) -> None:
        """Fit to latents that are there already.

        how: a `generator`; `restarts`, and `rounds` of each, for what alternates; a `penalty`, one
        of `penalties`.
        """
        self.observe(x)
        descend(self, x, x_next, u, how.get("generator"))

    def bound(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> float:
        """Change it as little as keeps its roll-outs bounded; its norm before, 1 if it was so."""
        raise TypeError(f"{self.given_name} has no maps that could be bounded")

    def one_regime(self) -> Dynamics | None:
        """A new model of one mode for all. Modes that noise hides predict worse than it does."""
        return None

    def linear_maps(self) -> Tensor | None:
        """(K, d, d), one map for each mode; (1, d, d) without modes."""
        return None

    def library(self) -> Library | None:
        return None

    def field_terms(self) -> Monomials | None:
        """What its field is a sum of, in continuous time; None: it has none."""
        return None

    def observe(self, x: Tensor) -> None:
        """States of the encoder, before a training step."""

    def unit_scale(self, x: Tensor) -> None:
        """Give predictions from these states unit length on average."""

    # -- what it inherits ------------------------------------------------------------------------

    @property
    def given(self) -> nn.Module:
        """The model as its user knows it."""
        return self

    @property
    def given_name(self) -> str:
        return type(self.given).__name__

    @property
    def input_map(self) -> Tensor | None:
        """B, where a control input moves the state."""
        return self.control

    @property
    def takes_control(self) -> bool:
        """Whether a prediction depends on the control input."""
        return self.input_map is not None

    @property
    def infers_modes(self) -> bool:
        """Whether it has modes that only a pair of states tells."""
        return self.n_modes > 0 and not self.reads_modes

    def forward(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        """The prediction of x_next. Only a model with hidden modes looks at it: softly in training,
        by the hard argmin of the error at inference."""
        if not self.infers_modes:
            return self.step(x, u)
        if x_next is None:
            raise ValueError(
                "the mode of a step is inferred from x_next, which is missing; "
                "use step(x, u, weights) to go on in modes that are known"
            )
        return self.choose(self.bank(x, u), x_next)

    def choose(self, bank: Tensor, x_next: Tensor) -> Tensor:
        """The prediction of the mode that fits x_next, among those of all modes (n, K, d)."""
        errors = (bank - x_next[:, None]).square().sum(-1)
        if self.training and self.learns:
            weights = self.choice.weights(errors, bank.shape[-1])
            return (weights[:, :, None] * bank).sum(1)
        return bank[torch.arange(len(bank), device=bank.device), errors.argmin(-1)]

    @property
    def learns(self) -> bool:
        """Whether training changes it. What does not learn needs no soft choice."""
        return any(p.requires_grad for p in self.parameters())

    @torch.no_grad()
    def errors(self, x: Tensor, x_next: Tensor, u: Tensor | None = None) -> Tensor:
        """Squared prediction error of every mode, (n, K)."""
        return (self.bank(x, u) - x_next[:, None]).square().sum(-1)

    @torch.no_grad()
    def modes(self, x: Tensor, x_next: Tensor | None = None, u: Tensor | None = None) -> Tensor:
        """The mode of each step, (n,): read off the state, or the argmin of the error."""
        if self.reads_modes:
            return self.mode_weights(x).argmax(-1)
        if x_next is None:
            raise ValueError("the mode of a step is inferred from x_next, which is missing")
        return self.errors(x, x_next, u).argmin(-1)

    def all_wishes(self) -> tuple[Wish, ...]:
        """What follows from its form, and what it asks for itself."""
        return (*(IDENTIFYING if self.identifies else ()), *self.wishes())

    def begin(self, settings: Settings, generator: torch.Generator) -> None:
        """What a run tells its dynamics before the first step."""
        self.choice.logits = settings.switching_logits
        self.choice.generator = generator

    def anneal(self, progress: float) -> None:
        """Set what depends on the share (0 to 1) of the training that is done."""
        self.choice.anneal(progress)
        for part in self.modules():
            if isinstance(part, Whitened):
                part.pace = 0.5 * (1 + math.cos(math.pi * progress))


def driven(x: Tensor, control: Tensor | None, u: Tensor | None) -> Tensor:
    """x + B u, where there is a B."""
    if control is None:
        return x
    if u is None:
        raise ValueError("this model was built with a control input; u is missing")
    return x + u @ control.T


def control_matrix(d: int, n_controls: int) -> nn.Parameter | None:
    """B, which starts at zero; None without control."""
    return nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None
