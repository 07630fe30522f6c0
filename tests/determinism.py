"""A short fit of every dynamics model, in this process; all that it learned goes into a file.

python determinism.py OUT.npz
"""

import sys

import numpy as np

from dynacl import DCL, dynamics, simulate
from dynacl.experiments.fitting import threads

STEPS = 3


def learned():
    """With one thread and with two: a model's weights, and the latents of its data."""
    return {f"{n}.{key}": x for n in (1, 2) for key, x in learned_with(n).items()}


def learned_with(n_threads):
    data = simulate.slds(
        rng=np.random.default_rng(0), d=2, modes=2, trials=6, steps=40, observed=6, layers=1
    )
    found = {}
    with threads(n_threads):
        for name in dynamics.BY_NAME:
            settings = {"max_iter": STEPS, "batch_size": 64, "n_negatives": 512, "random_state": 0}
            model = DCL(2, name, 2, device="cpu", **settings).fit(data)
            parts = (model.encoder_, model.dynamics_)
            weights = [v.numpy().ravel() for p in parts for v in p.state_dict().values()]
            found[f"{name}.weights"] = np.concatenate(weights).astype(np.float64)
            found[f"{name}.latents"] = np.concatenate(model.transform(data))
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **learned())
