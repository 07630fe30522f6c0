"""pysindy: sparse equations of degree 2, of the true latents (an upper bound) or of components."""

import exchange
import numpy as np
import pysindy


def equations(task, clock, x, test, threshold):
    dt = float(task["dt"])
    scale = x.std(0)  # terms are dropped by size, so states have the same one
    model = pysindy.SINDy(
        optimizer=pysindy.STLSQ(threshold=threshold),
        feature_library=pysindy.PolynomialLibrary(degree=2),
    )
    parts = exchange.trials(x / scale, task["lengths"])
    clock.timed(lambda: model.fit(parts, t=dt))

    def field(state):
        """Of states that have not run off; the others stay far away."""
        return np.asarray(model.predict(np.clip(state, -1e3, 1e3)))

    state = test / scale
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(10):
            a = field(state)
            b = field(state + dt / 2 * a)
            c = field(state + dt / 2 * b)
            state = state + dt / 6 * (a + 2 * b + 2 * c + field(state + dt * c))
    return {"latents": test, "ahead": state * scale}


def given(task, clock):
    return equations(task, clock, task["x"], task["test_x"], 0.05)


def pca(task, clock):
    x, test = exchange.principal(task["y"], task["test_y"], int(task["d"]))
    return equations(task, clock, x, test, 0.05)


exchange.main({"given": given, "pca": pca})
