"""Modes of a whole sequence: what all of its steps together say about each of them.

One step says little about its mode where the encoder is a little off, but neighbouring steps mostly
share theirs. So the modes are treated as a hidden Markov chain: a step's evidence is a Gaussian
around each mode's prediction, and a matrix says how modes follow each other. The matrix and the
width of the Gaussian are estimated by expectation-maximisation from the data that are decoded,
never from labels. The mode of a step is the likeliest one given the whole sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from dynacl.data import Array

ROUNDS = 20  # of expectation-maximisation, at most
SETTLED = 1e-3  # the largest change of a transition probability that ends it
WINDOW = 1024  # a longer stretch is decoded in windows side by side …
OVERLAP = 128  # … with so many steps more at both ends, beyond which nothing is remembered
AT_ONCE = 1 << 22  # numbers in work at a time: bounds the memory, and more are no faster
FLOOR = 1e-100  # of evidence: small, and its products with probabilities are still normal numbers
TINY = np.finfo(float).tiny


def decode(
    errors: Array,
    bounds: Array,
    degrees: int,
    posterior: Array | None = None,
    stickiness: float = 1.0,
    make: Callable[[tuple[int, ...], Any], Array] = np.empty,
) -> Array:
    """The mode of each row, (n,), from squared prediction errors (n, K) of d = `degrees` numbers.

    bounds: the first row of each stretch of consecutive steps, and n. posterior: if given, how
    likely each mode is at each row is written there, (n, K). stickiness: the estimated odds of
    leaving a mode are divided by it. make: gives room for the modes.
    """
    n, K = errors.shape
    counts, spread = _nearest(errors, bounds)
    chain, variance = (counts + np.eye(K)) / 2, spread / (n * degrees)
    modes = make((n,), np.int64)
    for _ in range(ROUNDS):
        _, counts, spread = smooth(errors, variance, chain, bounds, posterior, modes)
        variance = spread / (n * degrees)
        before, chain = chain, _normalised(counts)
        if np.abs(chain - before).max() < SETTLED:
            break
    if stickiness != 1:
        smooth(errors, variance, sticky(chain, stickiness), bounds, posterior, modes)
    return modes


def sticky(chain: Array, factor: float) -> Array:
    """The chain (K, K) with the odds of leaving each mode divided by `factor`."""
    weights = chain * np.where(np.eye(len(chain), dtype=bool), factor, 1.0)
    found: Array = weights / weights.sum(1, keepdims=True)
    return found


def smooth(
    errors: Array,
    variance: float,
    chain: Array,
    bounds: Array,
    posterior: Array | None = None,
    modes: Array | None = None,
) -> tuple[Array, Array, float]:
    """The forward-backward algorithm: Σ over all paths of the modes through each stretch.

    Gives the likeliest mode of each step, the expected number of moves from mode to mode (K, K),
    and the expected squared error, summed. Many windows take their steps together; exact where a
    stretch fits into one.
    """
    modes = np.empty(len(errors), dtype=np.int64) if modes is None else modes
    counts, spread = np.zeros_like(chain), 0.0
    windows = _windows(bounds)
    length = int((windows[:, 3] - windows[:, 0]).max())
    together = max(1, AT_ONCE // (length * len(chain)))
    for i in range(0, len(windows), together):
        some = windows[i : i + together]
        more, wide = _smooth_windows(errors, variance, chain, some, modes, posterior)
        counts += more
        spread += wide
    return modes, counts, spread


def _smooth_windows(
    errors: Array,
    variance: float,
    chain: Array,
    windows: Array,
    modes: Array,
    posterior: Array | None,
) -> tuple[Array, float]:
    """Write the modes of the rows that these windows decide; counts and spread of these rows."""
    first, start, end, last = windows.T[:, :, None]
    t = first + np.arange((last - first).max())
    inside, mine = t < last, (t >= start) & (t < end)
    e = errors[np.minimum(t, last - 1)].swapaxes(0, 1).astype(float)  # (steps, windows, K)
    with np.errstate(over="ignore"):
        evidence = np.exp((e.min(-1, keepdims=True) - e) / (2 * max(variance, TINY)))
    evidence = np.where(inside.T[:, :, None], evidence, 1.0) + FLOOR
    forward = np.empty_like(evidence)
    now = np.ones_like(evidence[0])
    for j in range(len(evidence)):  # p(mode now, all before)
        now = (now @ chain if j else now) * evidence[j]
        now /= now.sum(-1, keepdims=True)
        forward[j] = now
    counts, spread = np.zeros_like(chain), 0.0
    after = np.ones_like(evidence[0])  # p(all after | mode now)
    for j in range(len(evidence) - 1, -1, -1):
        here = forward[j] * after
        here /= here.sum(-1, keepdims=True)
        own = mine[:, j]
        modes[t[own, j]] = here[own].argmax(-1)
        if posterior is not None:
            posterior[t[own, j]] = here[own]
        spread += float((here[own] * e[j][own]).sum())
        if j:
            reached = evidence[j] * after
            ways = (forward[j - 1] @ chain * reached).sum(-1, keepdims=True)
            own = own & (t[:, j] > first[:, 0])
            counts += chain * (forward[j - 1][own].T @ (reached / ways)[own])
            after = reached @ chain.T
            after /= after.sum(-1, keepdims=True)
    return counts, spread


def lasting(posterior: Array, least: int) -> Array:
    """The likeliest modes of one stretch, (n,), among those in which each lasts `least` steps.

    The product of their posteriors (n, K) is the largest, over all such sequences. A stretch that
    is shorter than that has one mode.
    """
    n, K = posterior.shape
    evidence = np.log(posterior.astype(float) + FLOOR)
    if n < 2 * least:
        return np.full(n, evidence.sum(0).argmax())
    modes: Array = posterior.argmax(1)
    if least == 1:
        return modes
    total = np.concatenate([np.zeros((1, K)), evidence.cumsum(0)])
    best = np.full((n, K), -np.inf)  # of the first t + 1 steps, if the last mode may end there
    begins = np.zeros((n, K), dtype=bool)  # whether that mode has lasted just `least` steps
    for t in range(least - 1, n):
        before = 0.0 if t == least - 1 else best[t - least].max()
        new = before + total[t + 1] - total[t + 1 - least]
        old = best[t - 1] + evidence[t]
        begins[t] = new > old
        best[t] = np.where(begins[t], new, old)
    t = n - 1
    k = int(best[t].argmax())
    while t >= 0:
        if begins[t, k]:
            modes[t + 1 - least : t + 1] = k
            t -= least
            k = int(best[t].argmax()) if t >= 0 else k
        else:
            modes[t] = k
            t -= 1
    return modes


def _nearest(errors: Array, bounds: Array) -> tuple[Array, float]:
    """If each step has the mode of its smallest error: how often mode j follows mode i in a
    stretch, as a share, and the errors, summed."""
    n, K = errors.shape
    counts, total = np.zeros((K, K)), 0.0
    size = max(1, AT_ONCE // K)
    for i in range(0, n, size):
        some = errors[i : i + size + 1]  # and the first of the next ones, which follows the last
        modes = some.argmin(1)
        follows = np.ones(len(some) - 1, dtype=bool)
        first, end = np.searchsorted(bounds, [i + 1, i + len(some)])
        follows[bounds[first:end] - 1 - i] = False
        np.add.at(counts, (modes[:-1][follows], modes[1:][follows]), 1)
        total += float(some[:size].min(1).sum(dtype=float))
    return _normalised(counts), total


def _normalised(counts: Array) -> Array:
    """Probabilities, as if staying had been seen once more and each move a tenth of a time."""
    counts = counts + np.eye(len(counts)) + 0.1
    chain: Array = counts / counts.sum(1, keepdims=True)
    return chain


def _windows(bounds: Array) -> Array:
    """Of each window: where it begins, the rows [from, to) that it decides, and where it ends."""
    starts = np.concatenate([np.arange(a, b, WINDOW) for a, b in pairwise(bounds)])
    stretch = np.searchsorted(bounds, starts, side="right") - 1
    first, last = bounds[stretch], bounds[stretch + 1]
    ends = np.minimum(starts + WINDOW, last)
    return np.stack(
        [np.maximum(starts - OVERLAP, first), starts, ends, np.minimum(ends + OVERLAP, last)],
        axis=1,
    )
