"""A run: all the state that training needs to go on. The training itself is elsewhere."""

from __future__ import annotations

import itertools
import math
import secrets
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dynacl.data import InputError, Units
from dynacl.dynamics.base import Dynamics
from dynacl.encoders import Encoder
from dynacl.intervals import Errors
from dynacl.linear_models import ARX
from dynacl.objective.emphasis import Emphasis
from dynacl.objective.geometry.base import Geometry
from dynacl.objective.geometry.flat import Flat
from dynacl.objective.infonce import Loss
from dynacl.optimizers import SOAP
from dynacl.readout import Readout
from dynacl.settings import Settings

# Inputs of a layer from where its rate falls. Each weight moves by about the rate, so the output of
# a layer moves by the rate times its number of inputs. Measured on one recording of 800 cells, five
# lags: with the full rate its encoder ends constant (docs/log.md). No layer of the simulated
# systems is as wide.
WIDE = 200
FLOOR = 0.02  # share of the loss of guessing, below which the loss says nothing more
Record = dict[str, float]
Weights = dict[str, dict[str, Tensor]]  # by part


class Snapshot(NamedTuple):
    """Weights at a step, and how well they predict held-out data; lower is better."""

    figure: float
    step: int
    weights: Weights


class Start(NamedTuple):
    """What it takes to predict by the linear start: its weights, and its own readout."""

    encoder: dict[str, Tensor]  # of the linear part
    dynamics: dict[str, Tensor]
    readout: Readout


@dataclass
class Run:
    """Models, optimisers, randomness and history."""

    encoder: Encoder
    dynamics: Dynamics
    settings: Settings
    generator: torch.Generator
    geometry: Geometry = field(default_factory=Flat)
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    step: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    pending: list[Loss] = field(default_factory=list)  # losses since the last record
    interrupted: bool = False
    whole: bool = True  # False: read from a file of weights, without optimisers and randomness
    emphasis: Emphasis | None = None
    as_trained: dict[str, Tensor] | None = None  # the dynamics' state, where inference has another
    reasons: dict[str, str] = field(default_factory=dict)  # why settings are what they are
    correlations: Any = None  # of a window with the window after it, falling; None: not known
    floor: Snapshot | None = None  # the linear start, completed by dynamics fitted to it
    best: Snapshot | None = None  # by the judge, so far
    judged: list[tuple[int, float]] = field(default_factory=list)  # step and figure of each look
    verdict: str = ""  # what the judge says: what is handed out, and what it misses
    readout: Readout | None = None  # latents to observations, fitted when training stands still
    horizons: tuple[int, ...] = (1,)  # steps ahead by which the run is judged
    start: Start | None = None  # what it is compared with: where it started …
    arx: ARX | None = None  # … and an autoregression of the same lags
    errors: Errors | None = None  # of its forecasts of held-out data; None: not known
    units: Units | None = None  # of the observations it was begun with; others are brought to them
    control_units: Units | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))  # binds the files that it is in

    def __post_init__(self) -> None:
        if self.settings.emphasis:
            self.emphasis = self.emphasis or Emphasis(self.settings.emphasis).to(self.device)
        self.optimizers = self.optimizers or make_optimizers(self)
        self.dynamics.begin(self.settings, self.generator)

    @property
    def device(self) -> torch.device:
        return next((p.device for p in self.encoder.parameters()), torch.device("cpu"))

    @property
    def horizon(self) -> int:
        """Steps from a reference to its positive, now; the most of them where they are mixed."""
        return self.settings.horizon if self.step >= self.settings.several_from else 1

    @property
    def n_negatives(self) -> int:
        s = self.settings
        if s.n_negatives is not None:
            return s.n_negatives
        return (2 if self.encoder.symmetric else 1) * (s.batch_size - 1)

    @property
    def cap(self) -> float:
        """The most bits that M negatives can show: log2(M + 1)."""
        return math.log2(self.n_negatives + 1)

    @property
    def chance(self) -> float | None:
        """The loss of guessing, in nats; None: there is nothing to guess among."""
        return self.cap * math.log(2) if self.settings.objective == "contrast" else None

    @property
    def at_floor(self) -> bool:
        """Whether the loss is so low that it cannot tell better models apart."""
        if self.chance is None or not self.history:
            return False
        return self.history[-1]["loss"] < FLOOR * self.chance

    @property
    def bandwidth(self) -> float:
        """Of the density estimate: as wide as the noise, φ's own kernel, unless told otherwise."""
        if self.settings.bandwidth is not None:
            return self.settings.bandwidth
        return float(self.geometry.temperature.detach())

    def set_rates(self) -> None:
        """Learning rates, and what the dynamics anneals, for this step."""
        progress = min(1.0, self.step / max(1, self.settings.max_iter))
        self.dynamics.anneal(progress)
        if self.settings.schedule == "constant":
            return
        warm = min(1.0, (self.step + 1) / max(1, self.settings.max_iter // 50))
        factor = warm * 0.5 * (1 + math.cos(math.pi * progress))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor

    @property
    def parts(self) -> dict[str, nn.Module]:
        return {"encoder": self.encoder, "dynamics": self.dynamics, "geometry": self.geometry}

    def weights(self) -> Weights:
        """A copy of all weights, from which `restore` puts them back."""
        return {
            name: {k: v.detach().clone() for k, v in part.state_dict().items()}
            for name, part in self.parts.items()
        }

    def restore(self, weights: Weights) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(weights[name])

    def rest(self) -> None:
        """The modules as inference wants them."""
        self.encoder.eval()
        self.dynamics.eval()

    def wake(self) -> None:
        """The modules as training wants them."""
        self.encoder.train()
        self.dynamics.train()

    def go_on(self) -> None:
        """The modules as training left them: in its mode, latents and dynamics as they were."""
        self.encoder.redraw(None)
        if self.as_trained is not None:
            self.dynamics.load_state_dict(self.as_trained)
            self.as_trained = None
        self.wake()

    def lengthen(self, max_iter: int) -> None:
        """Move the end, and with it what the schedule does on the way.

        A run that has ended may have handed out its linear start: it goes on from the weights of
        its training that predicted held-out data best.
        """
        if max_iter < self.settings.max_iter:
            raise InputError(f"max_iter: got {max_iter}; wanted at least the "
                             f"{self.settings.max_iter} of the run")  # fmt: skip
        if self.step >= self.settings.max_iter and self.best is not None:
            self.go_on()
            self.restore(self.best.weights)
        self.settings = replace(self.settings, max_iter=max_iter)

    def begin_anew(self) -> None:
        """Before it goes on with other data: another run, of which nothing was judged yet."""
        self.id = secrets.token_hex(8)
        self.floor, self.best, self.judged, self.verdict = None, None, [], ""
        self.start, self.arx = None, None

    def keep_dynamics(self) -> None:
        """Before inference changes the dynamics: training goes on with what it left."""
        state = self.dynamics.state_dict()
        self.as_trained = self.as_trained or {k: v.clone() for k, v in state.items()}


def make_optimizers(run: Run) -> list[torch.optim.Optimizer]:
    """SOAP or Adam, with one rate for the encoder and one for the dynamics."""
    s = run.settings
    parts = (
        (s.optimizer, s.learning_rate, run.encoder.parameters()),
        (s.dynamics_optimizer, s.dynamics_learning_rate,
         itertools.chain(run.dynamics.parameters(), run.geometry.parameters())),
    )  # fmt: skip
    soap: list[dict[str, Any]] = []
    adam: list[dict[str, Any]] = []
    for kind, rate, weights in parts:
        learned = [p for p in weights if p.requires_grad]
        if kind == "soap":
            eased = itertools.groupby(learned, _ease)
            soap += [{"params": list(p), "lr": rate * ease} for ease, p in eased]
        elif learned:
            adam.append({"params": learned, "lr": rate})
    optimizers: list[torch.optim.Optimizer] = [SOAP(soap)] if soap else []
    if adam:
        optimizers.append(torch.optim.Adam(adam, fused=s.optimizer == "soap"))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def _ease(p: nn.Parameter) -> float:
    """Factor on the rate of a wide layer."""
    return min(1.0, WIDE / p.shape[1]) if p.ndim == 2 else 1.0
