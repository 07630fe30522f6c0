"""sysidentpy: a polynomial NARX of degree 2 with four lags, terms chosen by FROLS."""

import exchange
from sysidentpy.basis_function import Polynomial
from sysidentpy.model_structure_selection import FROLS
from sysidentpy.parameter_estimation import LeastSquares

LAGS = 4


def narx(task, clock):
    y, u, test, driven = (task[n].astype(float) for n in ("y", "u", "test_y", "test_u"))
    warmup = int(task["warmup"])
    some = slice(-20_000, None)  # memory of its regressors grows with samples times terms
    model = FROLS(
        ylag=LAGS, xlag=LAGS, order_selection=True, n_info_values=20,
        basis_function=Polynomial(degree=2), estimator=LeastSquares(),
    )  # fmt: skip
    clock.timed(lambda: model.fit(X=u[some], y=y[some]))
    first = warmup - model.max_lag
    found = model.predict(X=driven[first:], y=test[first:warmup])
    return {"predicted": found[model.max_lag :]}


exchange.main({"narx": narx})
