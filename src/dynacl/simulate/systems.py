"""The paper's systems: identity, LDS (free, driven, on the sphere), SLDS and Lorenz.

A system is a flat dict of arrays. A simulator makes one and draws trials from it; `again` draws
new trials of the same system and mixing (test data). The defaults are the paper's settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import vonmises_fisher

from dynacl.data import Array, InputError, TimeSeries, Truth
from dynacl.simulate.mixing import draw_mixing, mix

# Starting points of the paper's five Lorenz data sets.
LORENZ_STARTS = ((0, 1, 0), (1, 0, 0), (2, 2, 2), (0, 0, 1), (3, 3, 3))
CONTROLS = ("none", "step", "lds")
LORENZ = {"sigma": 10.0, "beta": 8 / 3, "rho": 28.0}


def identity(
    *, rng: np.random.Generator, d: int = 3, noise: Any = 0.01, **shared: Any
) -> TimeSeries:
    """x' = x + ε: a random walk."""
    _whole("d", d, 1)
    return _simulate({"kind": "identity", "matrix": np.eye(d)}, noise, rng, **shared)


def lds(
    *, rng: np.random.Generator, d: int = 3, angle: float = 5.0, noise: Any = 0.01, **shared: Any
) -> TimeSeries:
    """x' = A x + ε, A the product over all planes of rotations by ± angle (degrees)."""
    A = rotation(d, _finite("angle", angle) * rng.choice([-1.0, 1.0], _planes(d)))
    return _simulate({"kind": "lds", "matrix": A}, noise, rng, **shared)


def controlled(
    *,
    rng: np.random.Generator,
    d: int = 5,
    angle: float = 10.0,
    control: str = "step",
    noise: Any = 1e-3,
    **shared: Any,
) -> TimeSeries:
    """x' = A x + B u + ε with angles uniform in [0, angle] degrees and B ~ N(0.01, variance 0.01).

    control: "step" (one dimension), "lds" (d dimensions, a system of the same kind) or "none".
    """
    if control not in CONTROLS:
        raise InputError(f"control: got {control!r}; wanted one of {', '.join(CONTROLS)}")
    _finite("angle", angle)
    system: dict[str, Any] = {
        "kind": "lds",
        "matrix": rotation(d, rng.uniform(0, angle, _planes(d))),
    }
    if control != "none":
        d_u = 1 if control == "step" else d
        system |= {"control_kind": control, "control": rng.normal(0.01, 0.1, (d, d_u))}
    if control == "lds":
        system["control_matrix"] = rotation(d, rng.uniform(0, angle, _planes(d)))
    return _simulate(system, noise, rng, **shared)


def sphere(
    *,
    rng: np.random.Generator,
    d: int = 3,
    angle: float = 5.0,
    noise: float = 0.01,
    concentration: float = 0.0,
    **shared: Any,
) -> TimeSeries:
    """x' ~ vMF(A x, κ) on the unit sphere, κ = 1 / noise²; A as for `lds`.

    Trials start uniformly on the sphere, or at vMF(e₁, concentration): with trials of two steps and
    no rotation, that is the marginal of the paper's Figure on density correction.
    """
    if not _finite("concentration", concentration) >= 0:
        raise InputError(f"concentration: got {concentration!r}; wanted at least 0")
    _whole("d", d, 2)
    if not (np.ndim(noise) == 0 and _finite("noise", noise) > 0):
        raise InputError(f"noise: got {noise!r}; wanted one positive number on the sphere")
    A = rotation(d, _finite("angle", angle) * rng.choice([-1.0, 1.0], _planes(d)))
    system = {"kind": "sphere", "matrix": A, "concentration": float(concentration)}
    return _simulate(system, noise, rng, **shared)


def slds(
    *,
    rng: np.random.Generator,
    d: int = 6,
    modes: int = 5,
    angle: float = 10.0,
    switch_probability: float = 1e-4,
    noise: Any = 1e-4,
    **shared: Any,
) -> TimeSeries:
    """x' = A_k x + ε; the angles of A_k are uniform in [0, angle] degrees, one for each plane.

    The mode k is a Markov chain that leaves for each other mode with switch_probability a step.
    """
    _whole("modes", modes, 1)
    if not 0 <= switch_probability * max(modes - 1, 1) <= 1:
        raise InputError(
            f"switch_probability: got {switch_probability} for each of {modes - 1} other modes; "
            "their sum must lie in [0, 1]"
        )
    _finite("angle", angle)
    A = np.stack([rotation(d, rng.uniform(0, angle, _planes(d))) for _ in range(modes)])
    system = {"kind": "slds", "matrices": A, "switch_probability": switch_probability}
    return _simulate(system, noise, rng, **shared)


def lorenz(
    *,
    rng: np.random.Generator,
    dt: float = 0.01,
    noise: Any = 1e-3,
    start: Any = LORENZ_STARTS[0],
    trials: int = 1,
    steps: int = 1_000_000,
    **shared: Any,
) -> TimeSeries:
    """x' = x + dt [σ(x2 − x1), x1(ρ − x3) − x2, x1 x2 − β x3] + ε.

    The paper prints the field with a misplaced bracket.
    """
    start = _finite("start", start)
    if start.shape != (3,):
        raise InputError(f"start: got shape {start.shape}; wanted three numbers")
    if _finite("dt", dt) <= 0:
        raise InputError(f"dt: got {dt}; wanted a positive number")
    system = {"kind": "lorenz", "dt": dt, **LORENZ}
    return _simulate(system, noise, rng, trials=trials, steps=steps, start=start, **shared)


# name: (simulator, settings that differ from its defaults)
PRESETS: dict[str, tuple[Callable[..., TimeSeries], dict[str, Any]]] = {
    "identity": (identity, {}),
    "lds": (lds, {}),
    "lds-low-dt": (lds, {"angle": 2.0}),
    "slds": (slds, {}),
    "lorenz": (lorenz, {}),
    "lorenz-small-dt": (lorenz, {"dt": 0.0005, "noise": 0.1}),
    "control-none": (controlled, {"control": "none"}),
    "control-step": (controlled, {}),
    "control-lds": (controlled, {"control": "lds"}),
    "sphere": (sphere, {}),
}


def preset(name: str, *, rng: np.random.Generator, **overrides: Any) -> TimeSeries:
    """One of the paper's data sets by name, with any setting replaced."""
    if name not in PRESETS:
        raise InputError(f"system: got {name!r}; wanted one of {', '.join(PRESETS)}")
    simulator, settings = PRESETS[name]
    return simulator(rng=rng, **{**settings, **overrides})


def again(
    series: TimeSeries,
    *,
    rng: np.random.Generator,
    trials: int | None = None,
    steps: int | None = None,
) -> TimeSeries:
    """New trials of the system and mixing behind `series`: new starts, modes and noise.

    By default as many trials as 10 % of the old ones, at least one, each as long as the first.
    """
    if series.truth is None or "kind" not in series.truth.system:
        raise InputError("series: carries no system to draw from; wanted one made by a simulator")
    trials = max(1, series.n_trials // 10) if trials is None else trials
    steps = int(series.lengths[0]) if steps is None else steps
    try:
        return draw(series.truth.system, trials, steps, rng)
    except KeyError as error:
        raise InputError(f"series: its system lacks {error}") from error


def draw(
    system: Mapping[str, Array],
    trials: int,
    steps: int,
    rng: np.random.Generator,
    start: Array | None = None,
) -> TimeSeries:
    """trials × steps from a system; the loop runs over steps, all trials at once."""
    _whole("trials", trials, 1)
    _whole("steps", steps, 2)
    kind = str(system["kind"])
    d = len(system["noise"])
    noise = rng.standard_normal((steps, trials, d)) @ system["noise"].T
    control = _draw_control(system, trials, steps, rng) if "control" in system else None
    if control is not None:
        noise += control @ system["control"].T  # B u enters where the noise does
    modes = None
    if kind == "lorenz":
        x0 = rng.standard_normal((trials, d)) if start is None else np.tile(start, (trials, 1))
        with np.errstate(over="ignore", invalid="ignore"):  # found below
            latents = _roll_lorenz(system, x0, noise)
    else:
        x0 = rng.standard_normal((trials, d))
        x0 /= np.linalg.norm(x0, axis=1, keepdims=True)
        if kind == "sphere":
            kappa = float(system.get("concentration", np.float64(0)))
            if kappa > 0:
                x0 = vonmises_fisher(np.eye(d)[0], kappa).rvs(trials, random_state=rng)
            latents = _roll_sphere(system, x0, steps, rng)
        elif kind == "slds":
            modes = _mode_sequences(system, trials, steps, rng)
            latents = _roll_switching(system["matrices"], modes, x0, noise)
            modes[:, -1] = -1
        else:
            latents = _roll_switching(
                system["matrix"][None], np.zeros((trials, steps), dtype=np.int64), x0, noise
            )
    latents = latents.transpose(1, 0, 2).reshape(trials * steps, d)
    if not np.abs(latents).max() < np.finfo(np.float32).max:
        raise InputError(
            f"{kind}: the system ran off to infinity; wanted less noise or a smaller dt"
        )
    y = mix(latents, system)
    nu = float(system.get("observation_noise", np.float64(0)))
    if nu:
        y += nu * rng.standard_normal(y.shape, dtype=np.float32)
    truth = Truth(latents.astype(np.float32), None if modes is None else modes.ravel(), system)
    bounds = np.arange(0, trials * steps + 1, steps, dtype=np.int64)
    if control is not None:
        control = control.transpose(1, 0, 2).reshape(trials * steps, -1).astype(np.float32)
    return TimeSeries(y, bounds, control, truth)


def rotation(d: int, angles: Array) -> Array:
    """Product over all planes of rotations by these angles, in degrees."""
    A = np.eye(d)
    for (i, j), angle in zip(combinations(range(d), 2), np.deg2rad(angles), strict=True):
        G = np.eye(d)
        G[[i, i, j, j], [i, j, i, j]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
        A = G @ A
    return A


def _simulate(
    system: dict[str, Any],
    noise: Any,
    rng: np.random.Generator,
    *,
    trials: int = 1000,
    steps: int = 1000,
    start: Array | None = None,
    mixing: str = "mlp",
    layers: int = 4,
    observed: int = 50,
    rank: int | None = None,
    observation_noise: float = 0.0,
) -> TimeSeries:
    """Complete a system with its noise and mixing, and draw from it."""
    if _finite("observation_noise", observation_noise) < 0:
        raise InputError(f"observation_noise: got {observation_noise}; wanted at least 0")
    d = next((system[k].shape[-1] for k in ("matrix", "matrices") if k in system), 3)
    system = system | {"noise": _noise_root(noise, d), "observation_noise": observation_noise}
    system |= draw_mixing(d, mixing, layers, observed, rng, rank)
    return draw({k: np.asarray(v) for k, v in system.items()}, trials, steps, rng, start)


def _noise_root(noise: Any, d: int) -> Array:
    """R with ε = R·N(0, I): from one standard deviation, d of them, or R itself."""
    root = _finite("noise", noise)
    if root.ndim < 2:
        if root.ndim == 1 and len(root) != d:
            raise InputError(f"noise: got {len(root)} standard deviations for {d} latents")
        if (root < 0).any():
            raise InputError(f"noise: got {noise}; wanted standard deviations of at least 0")
        return np.diag(np.broadcast_to(root, d))
    if root.shape != (d, d):
        raise InputError(f"noise: got shape {root.shape}; wanted a number, ({d},) or ({d}, {d})")
    return root


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}: got {value!r}; wanted a whole number of at least {least}")


def _finite(name: str, value: Any) -> Array:
    try:
        number = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: got {value!r}; wanted numbers") from error
    if not np.isfinite(number).all():
        raise InputError(f"{name}: got {value!r}; wanted finite numbers")
    return number


def _planes(d: int) -> int:
    """Planes that two of d axes span."""
    _whole("d", d, 1)
    return d * (d - 1) // 2


def _mode_sequences(
    system: Mapping[str, Array], trials: int, steps: int, rng: np.random.Generator
) -> Array:
    K = len(system["matrices"])
    modes = np.zeros((trials, steps), dtype=np.int64)
    if K > 1:
        leaves = rng.random((trials, steps)) < (K - 1) * float(system["switch_probability"])
        modes = leaves * rng.integers(1, K, (trials, steps))
        modes[:, 0] = rng.integers(0, K, trials)
    return np.cumsum(modes, axis=1) % K


def _draw_control(
    system: Mapping[str, Array], trials: int, steps: int, rng: np.random.Generator
) -> Array:
    """u of all trials, (steps, trials, d_u), new for each trial.

    "step": −a before T1, 0 for a fifth of the trial (200 of the paper's 1,000 steps) around its
    middle give or take a tenth, +b from T2 on; a and b uniform in [0.5, 1].
    """
    d_u = system["control"].shape[1]
    if str(system["control_kind"]) == "lds":
        u = rng.standard_normal((trials, d_u))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        noise = rng.standard_normal((steps, trials, d_u)) @ system["noise"].T
        return _roll_switching(
            system["control_matrix"][None], np.zeros((trials, steps), dtype=np.int64), u, noise
        )
    gap, jitter = max(1, steps // 5), max(1, steps // 10)
    first = (steps - gap) // 2 + rng.integers(-jitter, jitter + 1, trials)
    low, high = rng.uniform(0.5, 1, (2, trials))
    t = np.arange(steps)[:, None]
    signal = -low * (t < first) + high * (t >= first + gap)
    return np.repeat(signal[:, :, None], d_u, axis=2)


def _roll_sphere(
    system: Mapping[str, Array], x: Array, steps: int, rng: np.random.Generator
) -> Array:
    """x' ~ vMF(A x, κ): one draw around e1 for each, reflected so that e1 goes to A x."""
    trials, d = x.shape
    kappa = 1 / float(system["noise"][0, 0]) ** 2
    pole = np.eye(d)[0]
    flat = vonmises_fisher(pole, kappa).rvs(steps * trials, random_state=rng)
    draws: Array = np.reshape(flat, (steps, trials, d))
    for t in range(steps):
        v = pole - x @ system["matrix"].T
        length = (v * v).sum(1, keepdims=True)
        reflect = 2 * v * (v * draws[t]).sum(1, keepdims=True) / np.where(length > 0, length, 1)
        following = draws[t] - reflect
        draws[t], x = x, following / np.linalg.norm(following, axis=1, keepdims=True)
    return draws


def _roll_switching(A: Array, modes: Array, x: Array, noise: Array) -> Array:
    """x' = A[mode] x + ε for all trials at once. noise (steps, trials, d) is overwritten."""
    if len(x) == 1:  # one long trial: small matrix-vector products beat batched ones
        row = x[0]
        for t, k in enumerate(modes[0].tolist()):
            following = A[k] @ row + noise[t, 0]
            noise[t, 0], row = row, following
        return noise
    columns = A.reshape(-1, A.shape[-1]).T  # one product gives every mode's prediction
    rows = np.arange(len(x))
    for t in range(len(noise)):
        following = (x @ columns).reshape(len(x), len(A), -1)[rows, modes[:, t]] + noise[t]
        noise[t], x = x, following
    return noise


def _roll_lorenz(system: Mapping[str, Array], x: Array, noise: Array) -> Array:
    """Euler steps; plain floats for one trial (1M steps in a second or two), else all at once."""
    dt, s, b, r = (float(system[k]) for k in ("dt", "sigma", "beta", "rho"))
    single = len(x) == 1
    x1, x2, x3 = x[0].tolist() if single else x.T
    out = noise
    for t, (e1, e2, e3) in enumerate(noise[:, 0].tolist() if single else noise.transpose(0, 2, 1)):
        now = x1, x2, x3
        x1 = now[0] + dt * (s * (now[1] - now[0])) + e1
        x2 = now[1] + dt * (now[0] * (r - now[2]) - now[1]) + e2
        x3 = now[2] + dt * (now[0] * now[1] - b * now[2]) + e3
        out[t] = now if single else np.stack(now, axis=1)
    return out
