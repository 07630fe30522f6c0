"""dynacl itself, run as the peers are: default settings, fewer steps where seconds end before."""

import exchange
import numpy as np
import torch
from benchmarks.measured import LAGS, by_model

from dynacl import DCL, TimeSeries
from dynacl.baselines import ARX
from dynacl.settings import default_steps

MOST = 2  # times the default number of steps, which no dynamics asks for more than


def series(task, prefix):
    y, lengths = task[f"{prefix}y"], task[f"{prefix}lengths"]
    u = task.get(f"{prefix}u")
    return TimeSeries.of(
        exchange.trials(y, lengths), None if u is None else exchange.trials(u, lengths)
    )


def fit(task, clock, **options):
    torch.set_num_threads(1)
    data, d = series(task, ""), options.pop("d", int(task["d"]))

    def run(steps):
        return DCL(d, max_iter=steps, random_state=int(task["seed"]), **options).fit(data)

    default = MOST * default_steps(d, len(data))
    steps = clock.steps_within(float(task["seconds"]), run, 100, default)
    return clock.timed(lambda: run(None if steps == default else steps))


def flow(name):
    """Dynamics without modes: latents of fresh trials, and ten steps of f from each."""

    def embed(task, clock):
        model = fit(task, clock, dynamics=name)
        x = np.concatenate(model.transform(series(task, "test_")))
        ahead = torch.from_numpy(x)
        with torch.inference_mode():
            for _ in range(10):
                ahead = model.dynamics_(ahead)
        return {"latents": x, "ahead": ahead.numpy()}

    return embed


def switching(task, clock):
    model = fit(task, clock, dynamics="switching", n_modes=int(task["K"]))
    test = series(task, "test_")
    named = [np.append(modes, -1) for modes in model.modes(test)]  # the last step leads nowhere
    return {"latents": np.concatenate(model.transform(test)), "modes": np.concatenate(named)}


def simulated(task, ahead):
    test, warmup = series(task, "test_"), int(task["warmup"])
    return {"predicted": ahead(test, np.array([warmup - 1]), len(test) - warmup)[0]}


def arx(task, clock):
    return simulated(task, clock.timed(lambda: ARX(LAGS).fit(series(task, ""))).ahead)


def machine(**options):
    def simulate(task, clock):
        model = fit(task, clock, d=7, time_lags=LAGS, **options)
        return simulated(task, by_model(model, series(task, "")))

    return simulate


exchange.main(
    {
        "linear": flow("linear"), "flow": flow("flow"), "switching": switching, "arx": arx,
        "machine": machine(dynamics="linear"),
        "cubic": machine(dynamics="polynomial", degree=3),
    }
)  # fmt: skip
