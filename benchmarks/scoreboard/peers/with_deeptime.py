"""deeptime: VAMP and TICA, and its hidden Markov model of discrete symbols."""

import exchange
import numpy as np
from deeptime.clustering import KMeans
from deeptime.decomposition import TICA, VAMP
from deeptime.markov.hmm import MaximumLikelihoodHMM, init


def decomposed(estimator):
    def embed(task, clock):
        y, d = task["y"].astype(float), int(task["d"])
        parts = exchange.trials(y, task["lengths"])
        model = clock.timed(
            lambda: estimator(lagtime=1, dim=d).fit_from_timeseries(parts).fetch_model()
        )
        x, test = (np.asarray(model.transform(z)) for z in (y, task["test_y"].astype(float)))
        return {"latents": test, "ahead": exchange.linear_ahead(x, task["lengths"], test, 10)}

    return embed


def hmm(task, clock):
    """k-means in 100 symbols, then an HMM of K states."""
    y, K, seed = task["y"].astype(float), int(task["K"]), int(task["seed"])

    def fit():
        clusters = KMeans(100, fixed_seed=seed, max_iter=50).fit(y).fetch_model()
        symbols = [clusters.transform(p) for p in exchange.trials(y, task["lengths"])]
        start = init.discrete.metastable_from_data(symbols, K, 1)
        return clusters, MaximumLikelihoodHMM(start, lagtime=1, maxit=200).fit_fetch(symbols)

    clusters, model = clock.timed(fit)
    test = exchange.trials(task["test_y"].astype(float), task["test_lengths"])
    paths = model.compute_viterbi_paths([clusters.transform(p) for p in test])
    return {"modes": np.concatenate(paths).astype(int)}


exchange.main({"vamp": decomposed(VAMP), "tica": decomposed(TICA), "hmm": hmm})
