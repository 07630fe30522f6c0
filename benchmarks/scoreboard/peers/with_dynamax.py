"""dynamax: Gaussian and autoregressive HMMs by expectation-maximisation; compilation apart."""

import exchange
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from dynamax.hidden_markov_model import GaussianHMM, LinearAutoregressiveHMM
from jax import config, vmap

config.update("jax_enable_x64", True)  # covariances of twelve channels need the digits


def reduced(task):
    """At most twelve principal components, standardised: full covariances of more are singular."""
    d = min(12, task["y"].shape[1])
    x, test = exchange.principal(task["y"].astype(float), task["test_y"].astype(float), d)
    keep = x.std(0) > 1e-6 * x.std(0).max()
    scale = x[:, keep].std(0)
    return x[:, keep] / scale, test[:, keep] / scale


def batched(values, lengths):
    """(trials, steps, channels) where trials are equally long, else one long trial."""
    n = len(lengths) if len(set(lengths.tolist())) == 1 else 1
    return jnp.asarray(values.reshape(n, -1, values.shape[1]), dtype=jnp.float64)


def fitted(task, clock, model, inputs_of):
    x, test = reduced(task)
    y, unseen = batched(x, task["lengths"]), batched(test, task["test_lengths"])
    inputs = None if inputs_of is None else vmap(inputs_of)(y)
    start, props = model.initialize(
        jr.PRNGKey(int(task["seed"])), method="kmeans", emissions=y.reshape(-1, y.shape[-1])
    )

    def fit(rounds):
        found, scores = model.fit_em(
            start, props, y, inputs=inputs, num_iters=rounds, verbose=False
        )
        if not np.isfinite(np.asarray(scores)).all():
            raise ValueError("expectation-maximisation ended in a likelihood that is not finite")
        return found

    clock.timed(lambda: fit(1), apart=True)  # compiles
    rounds = clock.steps_within(float(task["seconds"]), fit, 2, 200)
    params = clock.timed(lambda: fit(rounds))
    paths = [
        model.most_likely_states(params, part, None if inputs_of is None else inputs_of(part))
        for part in unseen
    ]
    return {"modes": np.concatenate([np.asarray(p) for p in paths]).astype(int)}


def hmm(task, clock):
    model = GaussianHMM(int(task["K"]), reduced(task)[0].shape[1])
    return fitted(task, clock, model, None)


def arhmm(task, clock):
    model = LinearAutoregressiveHMM(int(task["K"]), reduced(task)[0].shape[1], num_lags=1)
    return fitted(task, clock, model, model.compute_inputs)


exchange.main({"hmm": hmm, "arhmm": arhmm})
