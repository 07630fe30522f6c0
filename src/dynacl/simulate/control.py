"""Control input: u, drawn anew for each trial, and the matrix B through which it enters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from dynacl.data import Array, InputError
from dynacl.simulate.paths import planes, roll, rotation, unit_starts


@dataclass(frozen=True, eq=False)
class Control(ABC):
    """B u is added where the noise is."""

    kind: ClassVar[str]  # the name in files
    keys: ClassVar[tuple[str, ...]] = ("control",)  # of its fields, in files
    matrix: Array  # B, (d, d_u)

    @classmethod
    @abstractmethod
    def random(cls, d: int, angle: float, rng: np.random.Generator) -> Self:
        """With the paper's B. An input that rotates does so by up to `angle` degrees per plane."""

    @abstractmethod
    def draw(self, trials: int, steps: int, noise: Array, rng: np.random.Generator) -> Array:
        """u of all trials, (steps, trials, d_u). noise: the root of the driven system's noise."""

    def to_arrays(self) -> dict[str, Array]:
        fields = dict(zip(self.keys, vars(self).values(), strict=True))
        return {"control_kind": np.asarray(self.kind), **fields}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        return cls(*(arrays[key] for key in cls.keys))


@final
class Steps(Control):
    """−a before T1, 0 for a fifth of the trial, +b from T2 on; a and b uniform in [0.5, 1].

    The fifth (200 of the paper's 1,000 steps) lies around the middle, give or take a tenth.
    """

    kind = "step"

    @classmethod
    def random(cls, d: int, angle: float, rng: np.random.Generator) -> Self:
        return cls(_effect(d, 1, rng))

    def draw(self, trials: int, steps: int, noise: Array, rng: np.random.Generator) -> Array:
        gap, jitter = max(1, steps // 5), max(1, steps // 10)
        first = (steps - gap) // 2 + rng.integers(-jitter, jitter + 1, trials)
        low, high = rng.uniform(0.5, 1, (2, trials))
        t = np.arange(steps)[:, None]
        signal = -low * (t < first) + high * (t >= first + gap)
        return np.repeat(signal[:, :, None], self.matrix.shape[1], axis=2)


@final
@dataclass(frozen=True, eq=False)
class Rotating(Control):
    """u' = A u + ε, a system of the same kind as the one that it drives."""

    kind = "lds"
    keys = ("control", "control_matrix")
    motion: Array  # A, (d, d)

    @classmethod
    def random(cls, d: int, angle: float, rng: np.random.Generator) -> Self:
        return cls(_effect(d, d, rng), rotation(d, rng.uniform(0, angle, planes(d))))

    def draw(self, trials: int, steps: int, noise: Array, rng: np.random.Generator) -> Array:
        d = len(self.motion)
        u = unit_starts(trials, d, rng)
        shocks = rng.standard_normal((steps, trials, d)) @ noise.T
        return roll(u, shocks, lambda u, t: u @ self.motion.T + shocks[t])


# By name. "none" is the same system without control, to compare with.
CONTROLS: dict[str, type[Control] | None] = {"none": None, "step": Steps, "lds": Rotating}


def control_named(name: str) -> type[Control] | None:
    if name not in CONTROLS:
        raise InputError(f"control: got {name!r}; wanted one of {', '.join(CONTROLS)}")
    return CONTROLS[name]


def _effect(d: int, d_u: int, rng: np.random.Generator) -> Array:
    """B ~ N(0.01, variance 0.01), as in the paper."""
    return rng.normal(0.01, 0.1, (d, d_u))
