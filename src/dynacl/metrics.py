"""How well latents, dynamics and modes are recovered: pure functions of arrays.

Latents are known up to an affine map only, so nothing here compares raw latents or raw matrices:
x̂ ≈ L x + b one way, x ≈ L' x̂ + b' the other, both by least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import r2_score

from dynacl.data import Array, InputError

Ahead = Callable[[Array, Array], Array]  # (states, their rows) -> states some steps on


def affine(source: Array, target: Array) -> tuple[Array, Array]:
    """L, b of the best target ≈ L source + b, in float64."""
    source, target = _pair(source, target)
    if len(source) <= source.shape[1]:
        raise InputError(
            f"latents: got {len(source)} samples of {source.shape[1]} dimensions; an affine map "
            f"needs at least {source.shape[1] + 1}"
        )
    mean_s, mean_t = source.mean(0), target.mean(0)
    L = np.linalg.lstsq(source - mean_s, target - mean_t, rcond=None)[0].T
    return L, mean_t - L @ mean_s


def r2(latents: Array, recovered: Array) -> float:
    """R² of the true latents against the best affine map of the recovered ones."""
    L, b = affine(recovered, latents)
    return _r2_score(np.asarray(latents, dtype=float), np.asarray(recovered, float) @ L.T + b)


def lds_error(matrix: Array, estimate: Array, latents: Array, recovered: Array) -> float:
    """‖A − L⁻¹ Â L‖_F with x̂ ≈ L x + b."""
    L, _ = affine(latents, recovered)
    matrix, estimate = np.asarray(matrix, dtype=float), np.asarray(estimate, dtype=float)
    if not matrix.shape == estimate.shape == L.shape:
        raise InputError(
            f"matrix, estimate: got shapes {matrix.shape} and {estimate.shape} for latents of "
            f"{L.shape[1]} and {L.shape[0]} dimensions; wanted the same d everywhere"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(estimate).all()):
        raise InputError("matrix, estimate: hold NaN or infinity; wanted finite numbers")
    if np.linalg.matrix_rank(L) < len(L):
        raise InputError("recovered: spans fewer dimensions than the latents; L has no inverse")
    return float(np.linalg.norm(matrix - np.linalg.solve(L, estimate @ L)))


def control_error(control: Array, estimate: Array, latents: Array, recovered: Array) -> float:
    """‖B − L' B̂‖_F / ‖B‖_F with x ≈ L' x̂ + b'."""
    back, _ = affine(recovered, latents)
    return float(np.linalg.norm(control - back @ estimate) / np.linalg.norm(control))


def r2_of(latents: Array, predicted: Array) -> float:
    """R² of a prediction as it is, without fitting anything to it."""
    return _r2_score(*_pair(latents, predicted))


def dyn_r2(
    latents: Array, recovered: Array, true_ahead: Ahead, model_ahead: Ahead, starts: Array
) -> tuple[float, float]:
    """dynR² and its identity control, in which the model is replaced by the identity.

    r2_score( f̂ⁿ(x̂), L fⁿ(L' x̂ + b') + b ). Each side is a function of the states at the rows
    `starts` of the recovered series and of these rows, which gives the states n steps on.
    """
    if len(starts) == 0:
        raise InputError("starts: empty; wanted trials of more steps")
    L, b = affine(latents, recovered)
    back, c = affine(recovered, latents)
    x = np.asarray(recovered, dtype=float)[starts]
    target = true_ahead(x @ back.T + c, starts) @ L.T + b
    return _r2_score(model_ahead(x, starts), target), _r2_score(x, target)


def mode_accuracy(modes: Array, inferred: Array) -> float:
    """Share of steps in the right mode, under the best matching of labels (Hungarian)."""
    modes, inferred = np.asarray(modes), np.asarray(inferred)
    if modes.shape != inferred.shape or modes.ndim != 1 or len(modes) == 0:
        raise InputError(
            f"modes: got shapes {modes.shape} and {inferred.shape}; wanted two equal, non-empty "
            "vectors"
        )
    if modes.dtype.kind not in "biu" or inferred.dtype.kind not in "biu":
        raise InputError(f"modes: got {modes.dtype} and {inferred.dtype}; wanted whole numbers")
    true_labels, i = np.unique(modes, return_inverse=True)
    labels, j = np.unique(inferred, return_inverse=True)
    counts = np.zeros((len(true_labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (i, j), 1)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(modes))


def matched_modes(modes: Array, inferred: Array) -> Array:
    """`inferred` with its labels renamed to fit `modes` best; −1 is not known, and stays."""
    modes, inferred = np.asarray(modes), np.asarray(inferred)
    K = int(max(modes.max(), inferred.max())) + 1
    counts = np.zeros((K, K), dtype=np.int64)
    both = (modes >= 0) & (inferred >= 0)
    np.add.at(counts, (inferred[both], modes[both]), 1)
    names: Array = np.append(linear_sum_assignment(counts, maximize=True)[1], -1)
    return names[inferred]


def mcc(latents: Array, recovered: Array) -> float:
    """Mean absolute Pearson correlation of components, under the best matching of components."""
    latents, recovered = _pair(latents, recovered)
    for name, x in (("latents", latents), ("recovered", recovered)):
        if np.any(np.ptp(x, axis=0) == 0):
            raise InputError(f"{name}: a component is constant; its correlation is not defined")
    d = latents.shape[1]
    correlation = np.abs(np.corrcoef(latents.T, recovered.T)[:d, d:])
    return float(correlation[linear_sum_assignment(correlation, maximize=True)].mean())


def consistency(embeddings: Sequence[Array], scored_on: Sequence[Array] | None = None) -> Array:
    """R² of the affine map from each embedding to each other one, (n, n) with a diagonal of 1.

    The maps are fitted on `embeddings` and scored on `scored_on` (other rows of the same runs),
    if that is given.
    """
    if len(embeddings) < 2:
        raise InputError(f"embeddings: got {len(embeddings)}; wanted at least 2")
    held = embeddings if scored_on is None else scored_on
    if [np.shape(x)[1:] for x in held] != [np.shape(x)[1:] for x in embeddings]:
        raise InputError("scored_on: differs in number or dimensions from embeddings")
    found = np.eye(len(embeddings))
    for i, source in enumerate(embeddings):
        for j, target in enumerate(embeddings):
            if i != j:
                L, b = affine(source, target)
                found[i, j] = _r2_score(*_pair(held[j], np.asarray(held[i], float) @ L.T + b))
    return found


def _pair(a: Array, b: Array) -> tuple[Array, Array]:
    try:
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"latents: {error}; wanted two (time, d) arrays of numbers") from error
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b):
        raise InputError(
            f"latents: got shapes {a.shape} and {b.shape}; wanted two (time, d) arrays of equal "
            "length"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("latents: hold NaN or infinity; wanted finite numbers")
    return a, b


def _r2_score(true: Array, predicted: Array) -> float:
    """scikit-learn's, averaged uniformly over dimensions; a constant truth has no R²."""
    with np.errstate(over="ignore", invalid="ignore"):  # a roll-out that diverged: −∞
        if not np.isfinite(predicted).all() or not np.isfinite(true).all():
            return float("-inf")
        if np.any(np.ptp(true, axis=0) == 0):
            raise InputError("latents: a dimension is constant; R² is not defined")
        score = float(r2_score(true, predicted))
    return score if np.isfinite(score) else float("-inf")


def sparse_fit(features: Array, target: Array, tolerance: float) -> Array:
    """Coefficients c, as few as can be, with features @ c near the target (n,).

    Terms go one by one, the one that is missed least first, and the others are fitted anew, as long
    as the error stays below a share `tolerance` of the target's mean square. Where data lie near a
    surface, terms can stand for each other, and least squares over all shares the target out.
    """

    def error(columns: list[int]) -> float:
        return float(np.square(features[:, columns] @ fit(columns) - target).sum())

    def fit(columns: list[int]) -> Array:
        c: Array = np.linalg.lstsq(features[:, columns], target, rcond=None)[0]
        return c

    kept = list(range(features.shape[1]))
    most = tolerance * float(np.square(target).sum())
    while kept:
        missed, term = min((error([k for k in kept if k != term]), term) for term in kept)
        if missed > most:
            break
        kept.remove(term)
    found = np.zeros(features.shape[1])
    found[kept] = fit(kept) if kept else 0.0
    return found
