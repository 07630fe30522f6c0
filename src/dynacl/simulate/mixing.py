"""Injective mixing g: latents (T, d) to observations (T, D), as a flat dict of arrays.

L square layers with a bounded condition number, leaky ReLU between them and none after the last,
then a linear map to D dimensions (paper, "Data generation"). With a rank r < d, latents are first
projected to r dimensions, and g is no longer injective (paper, "Non-Injective Mixing Functions").
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynacl.data import Array, Floats, InputError
from dynacl.simulate.checks import whole

KINDS = NETWORK, LINEAR, NONE = "mlp", "linear", "none"
SLOPE = 0.2  # of the leaky ReLU; injective as long as it is not 0


def draw_mixing(
    d: int,
    kind: str,
    layers: int,
    observed: int,
    rng: np.random.Generator,
    rank: int | None = None,
) -> dict[str, Array]:
    if kind not in KINDS:
        raise InputError(f"mixing: got {kind!r}; wanted one of {', '.join(KINDS)}")
    whole("layers", layers, 1)
    whole("observed", observed, 1)
    if rank is not None and not (isinstance(rank, int) and 1 <= rank <= d):
        raise InputError(f"rank: got {rank!r}; wanted a whole number from 1 to {d}")
    if kind == NONE:
        if rank is not None:
            raise InputError(f'rank: got {rank}, but mixing="none" mixes nothing')
        return {}
    if observed < d:
        raise InputError(
            f"observed: got {observed} dimensions for {d} latents; an injective mixing needs "
            "at least as many"
        )
    r = d if rank is None else rank
    mixing = {"mixing.output": _unit_columns(rng.uniform(-1, 1, (observed, r)))}
    if kind == NETWORK:
        mixing["mixing.layers"] = _well_conditioned(r, layers, rng)
    if rank is not None:
        mixing["mixing.input"] = _unit_columns(rng.uniform(-1, 1, (d, r))).T
    return mixing


def mix(latents: Array, system: Mapping[str, Array]) -> Floats:
    """g(x), in float32; chunked over rows, so that only the result is large."""
    if "mixing.output" not in system:
        return np.ascontiguousarray(latents, dtype=np.float32)
    output = system["mixing.output"].T
    layers = system.get("mixing.layers", ())
    y = np.empty((len(latents), output.shape[1]), dtype=np.float32)
    rows = 1 << 16
    for start in range(0, len(latents), rows):
        x = np.asarray(latents[start : start + rows], dtype=np.float64)
        if "mixing.input" in system:
            x = x @ system["mixing.input"].T
        for i, weight in enumerate(layers):
            x = x @ weight.T
            if i < len(layers) - 1:
                x = np.where(x > 0, x, SLOPE * x)
        y[start : start + rows] = x @ output
    return y


def _well_conditioned(d: int, layers: int, rng: np.random.Generator) -> Array:
    """Square matrices whose condition number is within the best 0.1 % of 10,000 draws."""
    draws = _unit_columns(rng.uniform(-1, 1, (10_000, d, d)))
    limit = np.quantile(np.linalg.cond(draws), 0.001)
    found: list[Array] = []
    while len(found) < layers:
        draws = _unit_columns(rng.uniform(-1, 1, (2_000, d, d)))
        found.extend(draws[np.linalg.cond(draws) <= limit])
    return np.stack(found[:layers])


def _unit_columns(matrices: Array) -> Array:
    scaled: Array = matrices / np.linalg.norm(matrices, axis=-2, keepdims=True)
    return scaled
