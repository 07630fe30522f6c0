"""A system of your own: a function from state to state, and its parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from dynacl.data import Array, InputError, TimeSeries
from dynacl.simulate.base import System, UnknownSystemError, simulated
from dynacl.simulate.checks import finite, whole

PROBED = 3  # states at which a function is compared with the one that data were drawn with

# By name. Files hold the name alone, never code: what reads them must know the function.
FUNCTIONS: dict[str, Callable[..., Array]] = {}


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Own(System):
    """x' = f(x, **parameters) + B u + ε."""

    kind = "own"
    function: str  # its name in FUNCTIONS
    parameters: str  # as JSON
    centre: Array  # of the states at which trials begin, (d,)
    spread: Array  # their standard deviations, (d,)
    warmup: int  # steps from there to where a trial begins
    dt: float
    probe: Array  # f at a few states, (PROBED, d)

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise UnknownSystemError(
                f"series: its system is the function {self.function!r}, which is not known here; "
                f"wanted simulate.FUNCTIONS[{self.function!r}] = {self.function}"
            )
        if not np.allclose(self.move(_states(self.d)), self.probe, rtol=1e-6, equal_nan=True):
            raise InputError(
                f"series: the function {self.function!r} is not the one that these data were "
                "drawn with; wanted that one, or data drawn anew"
            )

    @property
    def time_step(self) -> float:
        return self.dt

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        x = self.centre + self.spread * rng.standard_normal((trials, self.d))
        with np.errstate(over="ignore", invalid="ignore"):  # found by `draw`
            for _ in range(self.warmup):
                x = self.move(x)
        return x

    def move(self, x: Array, modes: Any = None) -> Array:
        return called(FUNCTIONS[self.function], x, json.loads(self.parameters))


def own(
    function: Callable[..., Any],
    *,
    rng: np.random.Generator,
    d: int,
    parameters: Mapping[str, Any] | None = None,
    centre: Any = 0.0,
    spread: Any = 1.0,
    warmup: int = 0,
    dt: float = 1.0,
    noise: Any = 0.01,
    trials: int = 100,
    steps: int = 1000,
    **shared: Any,
) -> TimeSeries:
    """x' = f(x, **parameters) + ε for a function f of your own, of states (n, d).

    Trials begin `warmup` steps after states that are drawn with this centre and spread. dt: the
    time that a step stands for, in which flows are written. noise, trials, steps, start, mixing,
    layers, observed, rank, observation_noise: as for every system. Where a file of such data is
    read, `simulate.FUNCTIONS` must know the function by its name; here it does from now on.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import simulate
    >>> def logistic(x, r):
    ...     return r * x * (1 - x)
    >>> data = simulate.own(logistic, d=1, parameters={"r": 3.7}, centre=0.5, spread=0.1,
    ...                     noise=1e-4, trials=5, steps=50, rng=np.random.default_rng(0))
    >>> data.observations.shape
    (250, 50)
    """
    whole("d", d, 1)
    whole("warmup", warmup, 0)
    if finite("dt", dt) <= 0:
        raise InputError(f"dt: got {dt}; wanted a positive number")
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise InputError(f"function: got {function!r}, which has no name; wanted one made by def")
    try:
        said = json.dumps(dict(parameters or {}), default=lambda value: np.asarray(value).tolist())
    except (TypeError, ValueError) as error:
        raise InputError(f"parameters: {error}; wanted numbers and arrays by name") from error
    probe = called(function, _states(d), json.loads(said))
    FUNCTIONS[name] = function
    make = partial(
        Own,
        function=name,
        parameters=said,
        centre=_each("centre", centre, d),
        spread=_each("spread", spread, d),
        warmup=int(warmup),
        dt=float(dt),
        probe=probe,
    )
    return simulated(make, d, noise, rng, trials=trials, steps=steps, **shared)


def called(function: Callable[..., Any], x: Array, parameters: Mapping[str, Any]) -> Array:
    """Where one state (d,) or many (n, d) go; what does not fit is said in one sentence."""
    given = {k: np.asarray(v) if isinstance(v, list) else v for k, v in parameters.items()}
    table = np.atleast_2d(x)
    try:
        following = np.asarray(function(table, **given), dtype=float)
    except Exception as error:  # whatever a user's code raises
        raise InputError(f"function: cannot take states of shape {table.shape} and "
                         f"{', '.join(given) or 'no parameters'}: {error}") from error  # fmt: skip
    if following.shape != table.shape:
        raise InputError(f"function: gave shape {following.shape} for states of shape "
                         f"{table.shape}; wanted the same")  # fmt: skip
    return following.reshape(x.shape)


def _states(d: int) -> Array:
    return np.random.default_rng(0).standard_normal((PROBED, d))


def _each(name: str, value: Any, d: int) -> Array:
    numbers = finite(name, value)
    if numbers.ndim > 1 or numbers.size not in (1, d):
        raise InputError(f"{name}: got shape {numbers.shape}; wanted one number, or {d}")
    return np.broadcast_to(numbers, d).copy()
