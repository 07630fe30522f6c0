"""nfoursid: N4SID and its Kalman filter, then free simulation.

Order and block rows are those that simulate the last quarter of the training data best, of as many
as the seconds allow; then all training data are used. What is then unstable is left out.
"""

import time

import exchange
import numpy as np
import pandas as pd
from nfoursid.kalman import Kalman
from nfoursid.nfoursid import NFourSID

TRIED = [(rows, order) for order in (4, 2, 3, 6, 8) for rows in (10, 20, 5, 30) if order < rows]


def fit(y, u, rows, order):
    table = pd.DataFrame({"y": y[:, 0], "u": u[:, 0]})
    found = NFourSID(table, ["y"], ["u"], num_block_rows=rows)
    found.subspace_identification()
    return found.system_identification(rank=order)


def simulate(found, y, u, warmup):
    """The output after the warm-up, from the input alone."""
    system, covariance = found
    kalman = Kalman(system, covariance)
    for seen, moved in zip(y[:warmup], u[:warmup], strict=True):
        kalman.step(seen[:, None], moved[:, None])
    x, output = kalman.x_predicteds[-1], []
    with np.errstate(over="ignore", invalid="ignore"):
        for moved in u[warmup:]:
            output.append((system.c @ x + system.d @ moved[:, None])[:, 0])
            x = system.a @ x + system.b @ moved[:, None]
    return np.array(output)


def radius(system):
    return np.abs(np.linalg.eigvals(system.a)).max()


def n4sid(task, clock):
    y, u, test, driven = (task[n].astype(float) for n in ("y", "u", "test_y", "test_u"))
    mean_y, mean_u, warmup = y.mean(0), u.mean(0), int(task["warmup"])
    y, u, cut = y - mean_y, u - mean_u, len(y) * 3 // 4

    def chosen():
        errors, started = {}, time.process_time()
        for choice in TRIED:
            output = simulate(fit(y[:cut], u[:cut], *choice), y[cut:], u[cut:], warmup)
            error = np.square(output - y[cut + warmup :]).mean()
            errors[choice] = error if np.isfinite(error) else np.inf
            if time.process_time() - started > float(task["seconds"]):
                break
        systems = (fit(y, u, *choice) for choice in sorted(errors, key=errors.get))
        return next(found for found in systems if radius(found[0]) < 1)

    found = clock.timed(chosen)
    return {"predicted": simulate(found, test - mean_y, driven - mean_u, warmup) + mean_y}


exchange.main({"n4sid": n4sid})
