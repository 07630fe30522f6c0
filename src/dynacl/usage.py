"""Which hidden modes a model uses: pure functions of decoded modes and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.stats import norm

from dynacl.data import Array

# Of an even share of the steps, 1/K. Where K is too large, modes that stand for no regime catch
# stray steps: about a hundredth of an even share on simulated systems, where true modes have half
# of one or more (docs/many_modes.md). A regime as rare as this would be called unused, too.
UNUSED = 0.1
# Times what a cut without any meaning gains: 2/π = 0.64 of the largest variance of a Gaussian cloud
# that is cut into halves. Regimes that differ in one direction only gain nearly all of it, others
# more.
SPLIT = 1.25
LISTED = 8  # modes that a sentence names, at most


def shares(modes: Array, n_modes: int) -> Array:
    """The share of steps in each mode, (K,); a mode below 0 is not known and does not count."""
    counts = np.bincount(modes[modes >= 0], minlength=n_modes)
    found: Array = (counts / max(1, counts.sum())).astype(np.float32)
    return found


def unused(usage: Array) -> list[int]:
    """Modes with less than a tenth of an even share of the steps."""
    found: list[int] = np.flatnonzero(usage < UNUSED / len(usage)).tolist()
    return found


def alike(bank: Array, modes: Array, following: Array) -> list[tuple[int, int]]:
    """Pairs of modes that are used and may be one regime, split in two.

    One map in place of both, their mean, would miss little more: at most `SPLIT` times what is
    gained by cutting a Gaussian cloud, of what one map misses, into parts of these sizes. bank:
    predictions of every mode, (n, K, d); modes: of each row; following: what is predicted, (n, d).
    """
    K, found = bank.shape[1], []
    spare = unused(shares(modes, K))
    rows = [np.flatnonzero(modes == k) for k in range(K)]
    for i, j in combinations([k for k in range(K) if k not in spare], 2):
        mine = np.concatenate([rows[i], rows[j]])
        both, target = bank[mine][:, [i, j]].astype(float), following[mine]
        share = len(rows[j]) / len(mine)
        left = target - ((1 - share) * both[:, 0] + share * both[:, 1])
        own = target - both[np.arange(len(mine)), (modes[mine] == j).astype(int)]
        covariance = left.T @ left / len(mine)
        gain = np.trace(covariance) - np.square(own).sum(1).mean()
        if gain <= SPLIT * cut(share) * np.linalg.eigvalsh(covariance)[-1]:
            found.append((i, j))
    return found


def cut(share: float) -> float:
    """What cutting off this share of a Gaussian gains of its variance: φ(z)² / s(1 − s), Φ(z) = s.

    The variance between the means of the two parts.
    """
    return float(norm.pdf(norm.ppf(share)) ** 2 / (share * (1 - share)))


def sentences(usage: Array, pairs: Sequence[Sequence[int]]) -> list[str]:
    """What a user should know of the modes; nothing if all are used and differ."""
    K, found = len(usage), []
    if spare := unused(usage):
        some = "mode" if len(spare) == 1 else "modes"
        are = "is" if len(spare) == 1 else "are each"
        found.append(f"{some} {listed(spare)} of {K} {are} used by less than {UNUSED / K:.2%} of "
                     "the steps, a tenth of an even share: n_modes may be too large")  # fmt: skip
    for i, j in pairs[:LISTED]:
        found.append(f"modes {i} and {j} predict alike: they may be one regime, split in two")
    return found


def listed(numbers: Sequence[int]) -> str:
    """1, 2 and 3; of very many the first, and how many more."""
    if len(numbers) > LISTED:
        return f"{', '.join(map(str, numbers[:LISTED]))} and {len(numbers) - LISTED} more"
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
