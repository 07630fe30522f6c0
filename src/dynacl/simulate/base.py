"""System: a hidden system with a known answer, and what all of them share.

A new one is a file with a final subclass, and its name in `SYSTEMS` (systems.py). The subclass has
a `kind`, its settings as fields, and two methods:

    starts(trials, rng)   where trials begin
    move(x, modes)        f, the map of the state

It may say
    oracle()              f as a module, in place of a learned one (`move`, by arrays)

It inherits the drawing of trials, the control input, the mixing, the true step and the arrays of a
file. Only a system with modes, or with noise that is not added, has a `run` of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dynacl.data import Array, InputError, TimeSeries, Truth
from dynacl.simulate.checks import finite, whole
from dynacl.simulate.control import Control, control_named
from dynacl.simulate.mixing import draw_mixing, mix
from dynacl.simulate.paths import roll

if TYPE_CHECKING:
    from dynacl.dynamics import Oracle


class UnknownSystemError(InputError):
    """A system whose code is elsewhere: files hold its name alone."""


@dataclass(frozen=True, eq=False, kw_only=True)
class System(ABC):
    """x' = f(x) + B u + ε, y = g(x) + ν."""

    kind: ClassVar[str]  # the name in files
    switches: ClassVar[bool] = False  # whether f depends on a mode
    noise: Array  # R with ε = R·N(0, I), (d, d)
    observation_noise: float = 0.0  # standard deviation of ν
    mixing: Mapping[str, Array] = field(default_factory=dict)  # g; see mixing.py
    control: Control | None = None  # B, and how u is drawn

    @abstractmethod
    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        """Where trials begin, (trials, d)."""

    @abstractmethod
    def move(self, x: Array, modes: Any = None) -> Array:
        """f(x) for one state (d,) or many (n, d), without control and noise."""

    def oracle(self) -> Oracle:
        """The true system as dynamics that a model can use. Modes are inferred, never told."""
        from dynacl.dynamics.oracle import ArrayMap, Oracle

        if self.switches:
            raise InputError(f"{self.kind}: has modes; wanted an `oracle` of its own, with a bank")
        return Oracle(ArrayMap(self.move, None if self.control is None else self.control.matrix))

    def run(self, x: Array, noise: Array, rng: np.random.Generator) -> tuple[Array, Array | None]:
        """Latents from x on, (steps, *x.shape), and the mode of each step if there are modes.

        noise: R·N(0, I) + B u for each step; it may be written over.
        """
        return roll(x, noise, lambda x, t: self.move(x) + noise[t]), None

    @property
    def d(self) -> int:
        """Number of latents."""
        return len(self.noise)

    @property
    def n_controls(self) -> int:
        """Number of control inputs."""
        return 0 if self.control is None else int(self.control.matrix.shape[1])

    @property
    def time_step(self) -> float:
        """Time that a step stands for."""
        return 1.0

    @property
    def has_flow(self) -> bool:
        """Whether it is one map of the state, without modes and control."""
        return self.control is None and not self.switches

    def step(self, x: Array, u: Array | None = None, modes: Any = None) -> Array:
        """The true next state f(x) + B u, without noise, of one state (d,) or many (n, d)."""
        if self.switches and (modes is None or np.min(modes) < 0):
            raise InputError(f"modes: {self.kind} has modes; wanted that of each state, from 0 on")
        if self.control is None:
            return self.move(x, modes)
        if u is None:
            raise InputError(f"u: this {self.kind} is driven; wanted its control input")
        following: Array = self.move(x, modes) + u @ self.control.matrix.T
        return following

    def draw(
        self, trials: int, steps: int, rng: np.random.Generator, start: Any = None
    ) -> TimeSeries:
        """trials × steps; the loop runs over steps, all trials at once.

        start: one state (d,) at which all trials begin, instead of `starts`.
        """
        whole("trials", trials, 1)
        whole("steps", steps, 2)
        noise = rng.standard_normal((steps, trials, self.d)) @ self.noise.T
        u = None
        if self.control is not None:
            u = self.control.draw(trials, steps, self.noise, rng)
            noise += u @ self.control.matrix.T
        x = self.starts(trials, rng) if start is None else self._all_at(start, trials)
        if trials == 1:  # products with a vector are quicker than with a table of one row
            x, noise = x[0], noise[:, 0]
        with np.errstate(over="ignore", invalid="ignore"):  # found below
            latents, modes = self.run(x, noise, rng)
        latents = _by_trial(latents, trials)
        if not np.abs(latents).max() < np.finfo(np.float32).max:
            raise InputError(
                f"{self.kind}: the system ran off to infinity; wanted less noise or a smaller dt"
            )
        y = mix(latents, self.mixing)
        if self.observation_noise:
            y += self.observation_noise * rng.standard_normal(y.shape, dtype=np.float32)
        if modes is not None:
            modes[-1] = -1  # the last step of a trial leads nowhere
            modes = _by_trial(modes[..., None], trials).ravel()
        truth = Truth(latents.astype(np.float32), modes, self.to_arrays())
        bounds = np.arange(0, trials * steps + 1, steps, dtype=np.int64)
        driven = None if u is None else _by_trial(u, trials).astype(np.float32)
        return TimeSeries(y, bounds, driven, truth)

    def to_arrays(self) -> dict[str, Array]:
        """Everything needed to draw again, as the flat dict that a file holds."""
        plain = {name: getattr(self, name) for name in self._plain()}
        control = {} if self.control is None else self.control.to_arrays()
        everything = {"kind": self.kind, **plain, **control, **self.mixing}
        return {key: np.asarray(value) for key, value in everything.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The system that such a dict describes."""
        arrays = {key: np.asarray(value) for key, value in arrays.items()}
        try:
            settings: dict[str, Any] = {
                name: arrays[name] if arrays[name].ndim else arrays[name].item()
                for name, is_optional in cls._plain().items()
                if name in arrays or not is_optional
            }
            if {"control", "control_kind"} & arrays.keys():
                source = control_named(str(arrays["control_kind"]))
                settings["control"] = None if source is None else source.from_arrays(arrays)
        except KeyError as error:
            raise InputError(f"series: its system lacks {error}") from error
        mixing = {key: value for key, value in arrays.items() if key.startswith("mixing.")}
        return cls(**settings, mixing=mixing)

    @classmethod
    def _plain(cls) -> dict[str, bool]:
        """Fields that are an array or a number, and whether a file may lack them."""
        return {
            f.name: f.default is not MISSING
            for f in fields(cls)
            if f.name not in ("mixing", "control")
        }

    def _all_at(self, start: Any, trials: int) -> Array:
        x = finite("start", start)
        if x.shape != (self.d,):
            raise InputError(f"start: got shape {x.shape}; wanted ({self.d},)")
        return np.tile(x, (trials, 1))


def simulated(
    make: Callable[..., System],
    d: int,
    noise: Any,
    rng: np.random.Generator,
    *,
    trials: int = 1000,
    steps: int = 1000,
    start: Any = None,
    mixing: str = "mlp",
    layers: int = 4,
    observed: int = 50,
    rank: int | None = None,
    observation_noise: float = 0.0,
) -> TimeSeries:
    """Make a system of d latents with this noise and mixing, and draw from it."""
    if finite("observation_noise", observation_noise) < 0:
        raise InputError(f"observation_noise: got {observation_noise}; wanted at least 0")
    system = make(
        noise=_noise_root(noise, d),
        observation_noise=float(observation_noise),
        mixing=draw_mixing(d, mixing, layers, observed, rng, rank),
    )
    return system.draw(trials, steps, rng, start)


def _noise_root(noise: Any, d: int) -> Array:
    """R with ε = R·N(0, I): from one standard deviation, d of them, or R itself."""
    root = finite("noise", noise)
    if root.ndim < 2:
        if root.ndim == 1 and len(root) != d:
            raise InputError(f"noise: got {len(root)} standard deviations for {d} latents")
        if (root < 0).any():
            raise InputError(f"noise: got {noise}; wanted standard deviations of at least 0")
        return np.diag(np.broadcast_to(root, d))
    if root.shape != (d, d):
        raise InputError(f"noise: got shape {root.shape}; wanted a number, ({d},) or ({d}, {d})")
    return root


def _by_trial(values: Array, trials: int) -> Array:
    """(steps, trials, k), or (steps, k) of one trial, to rows of trial after trial."""
    k = values.shape[-1]
    return values.reshape(-1, trials, k).transpose(1, 0, 2).reshape(-1, k)
