"""CEBRA: contrastive embeddings by time. Trials are one array, as its estimator takes it."""

import cebra
import exchange
import numpy as np
import torch


def embed(task, clock, **options):
    torch.manual_seed(int(task["seed"]))
    np.random.seed(int(task["seed"]))  # noqa: NPY002 (what CEBRA draws from)
    y, test = (task[n].astype(np.float32) for n in ("y", "test_y"))

    def fit(steps):
        model = cebra.CEBRA(
            conditional="time", time_offsets=1, output_dimension=int(task["d"]), batch_size=512,
            max_iterations=steps, device="cpu", verbose=False, **options,
        )  # fmt: skip
        return model.fit(y)

    steps = clock.steps_within(float(task["seconds"]), fit, 20, 10**6)
    return {"latents": clock.timed(lambda: fit(steps)).transform(test)}


def time(task, clock):
    """Single frames on the plane: what comes nearest to DCL without dynamics."""
    return embed(task, clock, model_architecture="offset1-model", distance="euclidean")


def offset10(task, clock):
    """Ten frames on the sphere, as its demos have it."""
    return embed(task, clock, model_architecture="offset10-model", distance="cosine")


exchange.main({"time": time, "offset10": offset10})
