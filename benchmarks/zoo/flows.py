"""Flows of the zoo: random quadratics that keep energy, and Lorenz's.

    dx/dt = c + (S − D) x + Q(x, x),   S antisymmetric, D > 0 diagonal, x·Q(x, x) = 0

Q moves energy about and adds none, so D bounds every path, from anywhere and with noise. A flow is
taken if two paths that begin close together part: it does not end at a fixed point or on a cycle,
where most of a state is never seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynacl.data import Array
from dynacl.simulate.flow import Equation, runge_kutta, terms

LORENZ: tuple[Equation, ...] = (
    {(0,): -10.0, (1,): 10.0},
    {(0,): 28.0, (1,): -1.0, (0, 2): -1.0},
    {(0, 1): 1.0, (2,): -8 / 3},
)
DRAWN = 32  # quadratics that are looked at together
DT = 0.01  # of that look
SETTLE, LOOK = 1500, 2500  # its steps: to reach the attractor, and on it
CLOSE = 1e-6  # distance of two paths, as a share of the attractor's size
PARTING = 0.1  # growth of that distance per turnover, exp(PARTING), that is taken for chaos


class Field(NamedTuple):
    """A field whose attractor has unit size, and the time in which it moves by its own size."""

    powers: Array  # (terms, d)
    coefficients: Array  # (terms, d)
    turnover: float


def lorenz() -> Field:
    powers, coefficients = terms(LORENZ)
    constant, linear, quadratic = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3, 3))
    for power, column in zip(powers, coefficients, strict=True):
        j = np.repeat(np.arange(3), power)
        if len(j) == 1:
            linear[:, j[0]] += column
        else:
            quadratic[:, j[0], j[1]] += column
    found = look(constant[None], linear[None], quadratic[None], np.random.default_rng(0))
    return _field(constant, linear, quadratic, found.size[0], found.turnover[0])


def energy_preserving(d: int, rng: np.random.Generator) -> Field:
    """The first of the draws that is chaotic."""
    while True:
        T = rng.standard_normal((DRAWN, d, d, d)) / np.sqrt(d)
        quadratic = (T - T.transpose(0, 2, 1, 3)) / 2
        S = rng.standard_normal((DRAWN, d, d))
        damping = rng.uniform(0.3, 1.5, (DRAWN, d))
        linear = (S - S.transpose(0, 2, 1)) / 2 - np.eye(d) * damping[:, :, None]
        constant = rng.uniform(10, 30, (DRAWN, 1)) * rng.standard_normal((DRAWN, d))
        found = look(constant, linear, quadratic, rng)
        chaotic = np.flatnonzero(found.parting * found.turnover > PARTING)
        if len(chaotic):
            i = int(chaotic[0])
            return _field(constant[i], linear[i], quadratic[i], found.size[i], found.turnover[i])


class Look(NamedTuple):
    size: Array  # root mean square distance from the mean, (n,)
    turnover: Array  # size over root mean square speed
    parting: Array  # growth of the distance of two paths, per time


def look(constant: Array, linear: Array, quadratic: Array, rng: np.random.Generator) -> Look:
    """What paths of n fields do, all fields at once: (n, d), (n, d, d), (n, d, d, d)."""
    n, d = constant.shape

    def field(x: Array) -> Array:
        flat = np.einsum("nijk,npk->npij", quadratic, x)
        bent: Array = (flat @ x[..., None])[..., 0]
        return constant[:, None] + x @ linear.transpose(0, 2, 1) + bent

    x = rng.standard_normal((n, 1, d))
    for _ in range(SETTLE):
        x = runge_kutta(field, x, DT)
    gap = rng.standard_normal((n, 1, d))
    gap *= CLOSE / np.linalg.norm(gap, axis=-1, keepdims=True)
    grown, path, speed = np.zeros(n), np.empty((LOOK, n, d)), np.zeros(n)
    for t in range(LOOK):
        both = runge_kutta(field, np.concatenate([x, x + gap], axis=1), DT)
        speed += np.square((both[:, 0] - x[:, 0]) / DT).sum(-1) / LOOK
        x, gap = both[:, :1], both[:, 1:] - both[:, :1]
        length = np.maximum(np.linalg.norm(gap, axis=-1, keepdims=True), 1e-300)
        gap *= CLOSE / length
        if t >= LOOK // 5:  # by then the gap has turned to where it grows fastest
            grown += np.log(length[:, 0, 0] / CLOSE)
        path[t] = x[:, 0]
    size = np.sqrt(path.var(0).sum(-1))
    turnover = size / np.sqrt(np.maximum(speed, 1e-300))
    return Look(size, turnover, grown / (DT * (LOOK - LOOK // 5)))


def _field(constant: Array, linear: Array, quadratic: Array, size: float, turnover: float) -> Field:
    """As powers and coefficients, in units in which each component varies by about 1."""
    d = len(constant)
    unit = size / np.sqrt(d)
    equations: list[dict[tuple[int, ...], Any]] = []
    for i in range(d):
        equation: dict[tuple[int, ...], Any] = {(): constant[i] / unit}
        equation |= {(j,): linear[i, j] for j in range(d)}
        for j in range(d):
            for k in range(j, d):
                both = quadratic[i, j, k] + (quadratic[i, k, j] if k > j else 0.0)
                equation[j, k] = unit * both
        equations.append(equation)
    powers, coefficients = terms(equations)
    used = coefficients.any(1)
    return Field(powers[used], coefficients[used], float(turnover))
