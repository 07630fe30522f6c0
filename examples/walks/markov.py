"""A hidden Markov model whose states are regressions, by expectation-maximisation.

y_t = W_k [1, y_{t−1}, …] + Gaussian noise, in state k. With the constant alone it is the Gaussian
HMM; with the frame before it is the autoregressive HMM. Trials are independent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

Array = NDArray[np.float64]
STICKY = 10.0  # prior counts of staying in a state
RIDGE = 1e-2  # on the regression and, in units of the data's variance, on the noise


def rows(trials: list[Array], order: int) -> tuple[Array, Array, list[int]]:
    """Regressors, targets and the number of rows of each trial; its first `order` are left out."""
    x = [
        np.hstack([np.ones((len(y) - order, 1)), *(y[order - i : len(y) - i] for i in lags)])
        for lags in [range(1, order + 1)]
        for y in trials
    ]
    return np.concatenate(x), np.concatenate([y[order:] for y in trials]), [len(part) for part in x]


def log_densities(x: Array, y: Array, weights: Array, noise: Array) -> Array:
    """Of each row in each state, (n, K)."""
    found = []
    for W, S in zip(weights, noise, strict=True):
        L = np.linalg.cholesky(S)
        e = np.linalg.solve(L, (y - x @ W).T)
        found.append(-0.5 * (e**2).sum(0) - np.log(np.diag(L)).sum())
    return np.stack(found, 1) - 0.5 * y.shape[1] * np.log(2 * np.pi)


def smooth(log_p: Array, start: Array, chain: Array) -> tuple[Array, Array, float]:
    """Of one trial: posteriors (n, K), expected transitions (K, K), and the log-likelihood."""
    n, K = log_p.shape
    top = log_p.max(1, keepdims=True)
    p = np.exp(log_p - top)
    ahead, back, scale = np.empty((n, K)), np.ones((n, K)), np.empty(n)
    for t in range(n):  # rescaled at every step, so that nothing underflows
        now = p[t] * (start if t == 0 else ahead[t - 1] @ chain)
        scale[t] = now.sum()
        ahead[t] = now / scale[t]
    for t in range(n - 2, -1, -1):
        back[t] = chain @ (p[t + 1] * back[t + 1]) / scale[t + 1]
    following = (p * back / scale[:, None])[1:]
    pairs = chain * (ahead[:-1].T @ following)
    return ahead * back, pairs, float(np.log(scale).sum() + top.sum())


def fit(
    trials: list[Array], K: int, order: int = 0, *, seed: int = 0, sweeps: int = 50
) -> tuple[list[Array], list[float]]:
    """The likeliest state of each row, by trial, and the log-likelihood after each sweep.

    It starts from k-means of the regressors and targets.
    """
    x, y, lengths = rows(trials, order)
    cuts = np.cumsum(lengths)[:-1]
    first = KMeans(K, n_init=10, random_state=seed).fit_predict(np.hstack([x[:, 1:], y]))
    p, counts, start = np.eye(K)[first], np.ones((K, K)), np.ones(K)
    history: list[float] = []
    for _ in range(sweeps):
        chain = counts + STICKY * np.eye(K)
        chain /= chain.sum(1, keepdims=True)
        weights, noise = maximised(x, y, p)
        log_p = np.split(log_densities(x, y, weights, noise), cuts)
        found = [smooth(part, start / start.sum(), chain) for part in log_p]
        p = np.concatenate([f[0] for f in found])
        counts = np.sum([f[1] for f in found], axis=0) + 1e-3
        start = np.sum([f[0][0] for f in found], axis=0) + 1e-3
        history.append(sum(f[2] for f in found))
        if len(history) > 1 and history[-1] - history[-2] < 1e-4 * len(y):
            break
    return np.split(p.argmax(1), cuts), history


def maximised(x: Array, y: Array, p: Array) -> tuple[Array, Array]:
    """Regression (K, m, D) and noise (K, D, D) of each state, by weighted least squares."""
    weights, noise = [], []
    for w in p.T:
        G = (x * w[:, None]).T
        W = np.linalg.solve(G @ x + RIDGE * np.eye(x.shape[1]), G @ y)
        e = y - x @ W
        prior = RIDGE * np.diag(y.var(0))
        weights.append(W)
        noise.append((e * w[:, None]).T @ e / (w.sum() + 1e-9) + prior)
    return np.stack(weights), np.stack(noise)
