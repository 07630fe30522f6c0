"""Flows of three dimensions from `dysts` (Gilpin 2021), seen through the paper's mixing.

    pip install --no-deps dysts==0.96

Names from A to M are for tuning, and so are SprottB, Rossler and Thomas, which were studied while
the method was made; the others are reported.
"""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dynacl.data import Array, TimeSeries, Truth
from dynacl.simulate.flow import runge_kutta
from dynacl.simulate.mixing import draw_mixing, mix

STUDIED = {"SprottB", "Rossler", "Thomas"}
MOST_SPROTT = 6  # of one family among the reported names
FINEST = 300  # Runge-Kutta steps per period
SETTLING = 30  # periods before a trial begins
FAR = 30.0  # standard deviations: further out, a flow has left its attractor
EXACT = 1e-8  # share of a field's variance that a polynomial of its degree may miss
TRIALS, STEPS, FRESH = 100, 2000, 20


@dataclass(frozen=True)
class Regime:
    """How densely a flow is sampled, and how much noise moves it, in shares of its spread."""

    name: str
    per_period: int
    noise: float


REGIMES = {r.name: r for r in (Regime("quiet", 75, 2e-4), Regime("noisy", 20, 0.03))}


@dataclass(frozen=True)
class Attractor:
    """A flow by its name; states are at zero mean and unit variance."""

    name: str

    @cached_property
    def given(self) -> Any:
        return getattr(_flows(), self.name)()

    def field(self, x: Array) -> Array:
        """dx/dt in the units of the collection, (n, 3)."""
        compiled = self.given._rhs  # by numba, where that is installed, and for single numbers
        sides = getattr(compiled, "py_func", compiled)(*x.T, 0.0, **self.given.params)
        found: Array = np.stack(np.broadcast_arrays(*sides), axis=-1).astype(float)
        return found

    def move(self, z: Array, regime: Regime) -> Array:
        """Standardised states one sample later, without noise."""
        dt = self.given.period / regime.per_period
        parts = max(1, round(FINEST / regime.per_period))
        x = z * self.spread + self.mean
        for _ in range(parts):
            x = runge_kutta(self.field, x, dt / parts)
        moved: Array = (x - self.mean) / self.spread
        return moved

    @cached_property
    def mean(self) -> Array:
        return np.array(self.given.mean, dtype=float)

    @cached_property
    def spread(self) -> Array:
        return np.array(self.given.std, dtype=float)

    @property
    def lyapunov(self) -> float:
        """The largest exponent, per period."""
        return float(self.given.maximum_lyapunov_estimated * self.given.period)

    def degree(self) -> int | None:
        """Of the polynomial that the field is, up to 3; None: it is none."""
        z = np.random.default_rng(0).uniform(-2, 2, (500, 3))
        sides = self.field(z * self.spread + self.mean)
        for degree in (1, 2, 3):
            powers = [p for p in np.ndindex(4, 4, 4) if sum(p) <= degree]
            terms = np.stack([np.prod(z**p, axis=1) for p in powers], axis=1)
            missed = sides - terms @ np.linalg.lstsq(terms, sides, rcond=None)[0]
            if (missed.var(0) <= EXACT * sides.var(0) + 1e-20).all():
                return degree
        return None

    def draw(self, regime: Regime, seed: int = 0) -> tuple[TimeSeries, TimeSeries] | None:
        """What a model is fitted to, and fresh trials; None: the flow leaves its attractor."""
        rng = np.random.default_rng(seed)
        z = (np.array(self.given.ic) - self.mean) / self.spread
        z = z + 1e-3 * rng.standard_normal((TRIALS + FRESH, 3))
        states = np.empty((TRIALS + FRESH, STEPS, 3))
        with np.errstate(all="ignore"):
            for step in range(-SETTLING * regime.per_period, STEPS):
                if step >= 0:
                    states[:, step] = z
                z = self.move(z, regime) + regime.noise * rng.standard_normal(z.shape)
                if not (np.abs(z) < FAR).all():
                    return None
        system = draw_mixing(3, "mlp", 4, 50, rng)
        return _series(states[:TRIALS], system), _series(states[TRIALS:], system)


def _series(states: Array, system: dict[str, Array]) -> TimeSeries:
    flat = states.reshape(-1, 3)
    bounds = np.arange(len(states) + 1) * states.shape[1]
    return TimeSeries(mix(flat, system), bounds, truth=Truth(flat.astype(np.float32)))


def names(first: str = "A", last: str = "Z") -> list[str]:
    """Autonomous flows of three dimensions whose names begin with these letters or between."""
    found = []
    for name, flow in vars(_flows()).items():
        if isinstance(flow, type) and first <= name[0] <= last and not name.startswith("DynSys"):
            given = flow()
            plain = not (given.nonautonomous or given.unbounded_indices or given.delay)
            if plain and given.dimension == 3 and "_rhs" in vars(flow) and _is_a_field(name):
                found.append(name)
    return sorted(found)


def _is_a_field(name: str) -> bool:
    """Whether its sides are one number per state: some of the collection are written otherwise."""
    with np.errstate(all="ignore"):
        try:
            return Attractor(name).field(np.ones((2, 3))).shape == (2, 3)
        except (ValueError, TypeError, ZeroDivisionError):
            return False


def reported() -> list[str]:
    """N to Z, but for what was studied and all but the first of Sprott's."""
    unseen = [name for name in names("N", "Z") if name not in STUDIED]
    sprott = [name for name in unseen if name.startswith("Sprott")]
    return [name for name in unseen if name not in sprott[MOST_SPROTT:]]


def _flows() -> Any:
    """`dysts.flows`. It loads a forecasting library for a writer that is of no use here; where that
    is not installed, empty modules stand in for it."""
    try:
        import gluonts  # noqa: F401
    except ImportError:
        for name in (
            "gluonts",
            "gluonts.dataset",
            "gluonts.dataset.arrow",
            "gluonts.dataset.common",
        ):
            sys.modules.setdefault(name, types.ModuleType(name))
        for name in ("ArrowWriter", "FileDataset", "ListDataset"):
            for module in ("arrow", "common"):
                setattr(sys.modules[f"gluonts.dataset.{module}"], name, None)
    from dysts import flows

    return flows
