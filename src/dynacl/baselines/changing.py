"""The "changing" data of Yao et al. (2022): short sequences whose dynamics depend on a domain.

    z_t = ℓ(ε_t + Σ_l ℓ(z_{t−l} B_l)),   y = ℓ(ℓ(z) Q_1) Q_2,   ℓ a leaky ReLU of slope 0.2

Domains differ in a few entries of the matrix of the longest lag.
"""

from __future__ import annotations

import numpy as np

from dynacl.data import Array, InputError, TimeSeries, Truth

SLOPE = 0.2
CHANGED = 2  # entries of the last lag's matrix that a domain draws anew
# Accept matrices whose condition number is within the best share of the draws. That there is a
# bound is known; this one is ours.
CONDITION_SHARE = 0.15


def changing(
    *,
    rng: np.random.Generator,
    d: int = 8,
    lags: int = 2,
    domains: int = 5,
    sequences: int = 40_000,
    steps: int = 3,
    noise: float = 0.1,
) -> TimeSeries:
    """`sequences` trials for each domain, in order of domains, with their truth.

    truth.modes holds the domain of each row's transition (−1 at a trial's end), ready to be passed
    on as `domains`. truth.system: "lags" (domains, lags, d, d) and "mixing.layers" (2, d, d).
    """
    for name, value, least in (
        ("d", d, 2), ("lags", lags, 1), ("domains", domains, 1), ("sequences", sequences, 1),
        ("steps", steps, lags + 1 if isinstance(lags, int) else 2),
    ):  # fmt: skip
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name}: got {value!r}; wanted a whole number of at least {least}")
    if not (np.ndim(noise) == 0 and np.isfinite(noise) and noise > 0):
        raise InputError(f"noise: got {noise!r}; wanted one positive number")
    B = _lag_matrices(d, lags, domains, rng)
    Q = np.stack([np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2)])

    z = np.empty((domains, sequences, steps, d))
    z[:, :, :lags] = rng.standard_normal((domains, sequences, lags, d))
    for t in range(lags, steps):
        total = noise * rng.standard_normal((domains, sequences, d))
        for lag in range(1, lags + 1):
            total += leaky(z[:, :, t - lag] @ B[:, lag - 1])
        z[:, :, t] = leaky(total)
    latents = z.reshape(-1, d)
    y = leaky(leaky(latents) @ Q[0]) @ Q[1]

    labels = np.repeat(np.arange(domains), sequences * steps)
    labels[steps - 1 :: steps] = -1
    system = {
        "kind": np.asarray("changing"),
        "lags": B,
        "mixing.layers": Q,
        "noise": np.asarray(float(noise)),
    }
    return TimeSeries(
        y.astype(np.float32),
        np.arange(0, len(y) + 1, steps, dtype=np.int64),
        truth=Truth(latents.astype(np.float32), labels, system),
    )


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, SLOPE * x)


def _lag_matrices(d: int, lags: int, domains: int, rng: np.random.Generator) -> Array:
    """(domains, lags, d, d), entries uniform in (−1, 1), unit columns, well conditioned."""
    limit = np.quantile(np.linalg.cond(_unit_columns(rng, 10_000, d)), CONDITION_SHARE)
    found: list[Array] = []
    while len(found) < lags:
        draws = _unit_columns(rng, 100, d)
        found.extend(draws[np.linalg.cond(draws) <= limit])
    B = np.tile(np.stack(found[:lags]), (domains, 1, 1, 1))
    for k in range(domains):
        entries = rng.choice(d * d, CHANGED, replace=False)
        B[k, -1].flat[entries] = rng.uniform(-1, 1, CHANGED)
    return B


def _unit_columns(rng: np.random.Generator, n: int, d: int) -> Array:
    draws = rng.uniform(-1, 1, (n, d, d))
    scaled: Array = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    return scaled
