"""Linear models without training: against brute force, closed forms and each other."""

import numpy as np
import pytest

from dynacl import InputError, TimeSeries, metrics
from dynacl.baselines import ARX, LinearStateSpace
from dynacl.linear_models import _principal_axes


def driven(n=4_000, trials=1, outputs=1, noise=0.0, seed=0):
    """A stable linear system of two states with one input, seen through so many outputs."""
    rng = np.random.default_rng(seed)
    A, B = np.array([[0.9, 0.3], [-0.3, 0.8]]), np.array([[0.2], [1.0]])
    C = np.array([[1.0, 0.0], [0.3, 1.0]])[:outputs]
    ys, us, xs = [], [], []
    for _ in range(trials):
        u, x = rng.standard_normal((n, 1)), np.zeros((n, 2))
        for t in range(n - 1):
            x[t + 1] = A @ x[t] + B @ u[t] + noise * rng.standard_normal(2)
        ys, us, xs = [*ys, x @ C.T + 5], [*us, u], [*xs, x]
    return TimeSeries.of(ys, us), np.concatenate(xs)


def test_a_driven_system_of_two_states_is_followed_exactly_by_two_lags():
    series, _ = driven(noise=0.0)
    model = ARX((0, 1)).fit(series)
    starts = np.array([10, 500, 3_000])
    path = model.ahead(series, starts, 100)
    true = series.observations[starts[:, None] + np.arange(1, 101)]
    assert path.shape == (3, 100, 1)
    np.testing.assert_allclose(path, true, atol=1e-3)


@pytest.mark.parametrize("lags", [(0, 1, 2), (0, 3), (2, 0)])
def test_arx_is_least_squares_of_pairs_inside_trials(lags):
    series, _ = driven(200, trials=3, outputs=2, noise=0.3)
    rows, targets = [], []
    for a, b in series.spans():
        for t in range(a + max(lags), b - 1):
            y = [series.observations[t - i].astype(float) for i in lags]
            u = [series.control[t - i] for i in lags]
            rows.append(np.concatenate([*y, *u, [1.0]]))
            targets.append(series.observations[t + 1].astype(float))
    weights, *_ = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)
    model = ARX(lags).fit(series)
    starts = np.array([200 + max(lags), 399 - 5])  # the first and a late row of the second trial
    path = model.ahead(series, starts, 5)
    for i, t in enumerate(starts):
        seen = {j: series.observations[j].astype(float) for j in range(t - max(lags), t + 1)}
        for j in range(t, t + 5):
            u = [series.control[j - k] for k in lags]
            seen[j + 1] = np.concatenate([*(seen[j - k] for k in lags), *u, [1.0]]) @ weights
            np.testing.assert_allclose(path[i, j - t], seen[j + 1], atol=1e-5)


def fed_through(D, n=3_000, noise=0.05, seed=0):
    """The same system, whose input acts on the output at once, too: y_t = C x_t + D u_t."""
    series, _ = driven(n, noise=noise, seed=seed)
    return TimeSeries.of(series.observations + D * series.control, series.control)


def test_feedthrough_is_followed_exactly_by_models_that_see_it():
    """Theory: two states and feedthrough are an ARX of two lags and u_{t+1}."""
    series, starts = fed_through(2.0, noise=0.0), np.array([10, 500, 2_000])
    true = series.observations[starts[:, None] + np.arange(1, 101)]
    seeing, blind = (ARX((0, 1), feedthrough=f).fit(series) for f in (True, False))
    np.testing.assert_allclose(seeing.ahead(series, starts, 100), true, atol=1e-3)
    assert np.abs(blind.ahead(series, starts, 100) - true).max() > 1
    kept = ARX.of_arrays((0, 1), 1, seeing.arrays())
    np.testing.assert_array_equal(
        kept.rolled_out(series, starts, 9), seeing.rolled_out(series, starts, 9)
    )
    with pytest.raises(InputError, match="starts: row 2900 has not 1 rows before it and 100 after"):
        seeing.ahead(series, np.array([2_900]), 100)


def test_with_feedthrough_a_state_as_wide_as_the_window_is_arx():
    series, starts = fed_through(2.0), np.arange(10, 2_000, 100)
    models = ARX((0, 1, 2), feedthrough=True), LinearStateSpace(5, (0, 1, 2), feedthrough=True)
    arx, state = (model.fit(series).ahead(series, starts, 50) for model in models)
    np.testing.assert_allclose(state, arx, atol=1e-3)


def test_the_future_is_not_looked_at():
    series, _ = driven(500, outputs=2, noise=0.3)
    y = np.array(series.observations)
    y[101:] = 1e3
    other = TimeSeries.of(y, series.control)
    for model in (ARX().fit(series), LinearStateSpace(2).fit(series)):
        one, two = (model.ahead(s, np.array([100]), 20) for s in (series, other))
        assert (one == two).all()


def test_a_state_as_wide_as_the_window_is_the_same_model_as_arx():
    series, _ = driven(noise=0.3)
    arx, state = ARX((0, 1, 2)).fit(series), LinearStateSpace(5, (0, 1, 2)).fit(series)
    starts = np.arange(10, 3_000, 100)
    one, two = (model.ahead(series, starts, 50) for model in (arx, state))
    np.testing.assert_allclose(one, two, atol=0.02)  # y_t is read off as a part of the state
    assert arx.past == state.past == 2


def test_the_state_behind_one_output_takes_past_inputs():
    series, x = driven(noise=0.05)
    missed = []
    for control_lags in (None, ()):
        model = LinearStateSpace(2, (0, 1), control_lags).fit(series)
        missed.append(1 - metrics.r2(x[model.past :], model.transform(series)))
    assert missed[0] < 0.1 * missed[1]


def test_without_control_it_is_a_vector_autoregression():
    series, _ = driven(trials=2, outputs=2, noise=0.5)
    free = TimeSeries(series.observations, series.bounds)
    for model in (ARX((0,)), LinearStateSpace(2, (0, 1))):
        path = model.fit(free).ahead(free, np.array([5, len(free) - 1]), 200)
        assert path.shape == (2, 200, 2)
        np.testing.assert_allclose(path[:, -1], 5, atol=0.5)  # back to the mean


@pytest.mark.parametrize("model", [ARX((0, 1)), LinearStateSpace(3, (0, 1))])
def test_more_channels_than_rows_work(model):
    rng = np.random.default_rng(0)
    x = np.stack([np.sin(0.2 * np.arange(120)), np.cos(0.2 * np.arange(120))], axis=1)
    y = x @ rng.standard_normal((2, 300)) + 0.3 * rng.standard_normal((120, 300))
    model.fit(y[:100])
    found = model.ahead(y, np.arange(100, 115), 3)
    error, spread = (np.square(y[102 + np.arange(15)] - z).mean() for z in (found[:, 1], y.mean(0)))
    assert error < 0.4 * spread


def test_scales_of_channels_do_not_matter():
    series, _ = driven(outputs=2, noise=0.3)
    scale = np.array([1e-3, 1e5])
    other = TimeSeries.of(series.observations * scale, series.control * 1e4)
    starts = np.arange(10, 100)
    for make in (ARX, lambda: LinearStateSpace(2)):
        one, two = (make().fit(s).ahead(s, starts, 10) for s in (series, other))
        np.testing.assert_allclose(one, two / scale, atol=5e-3)


def test_what_cannot_be_asked_is_named():
    series, _ = driven(100)
    with pytest.raises(InputError, match="lags: got"):
        ARX((0, 0))
    with pytest.raises(InputError, match="control_lags: got"):
        LinearStateSpace(2, (0, 1), (0, 1))
    with pytest.raises(InputError, match="n_components: got 0"):
        LinearStateSpace(0)
    for model in (ARX().fit(series), LinearStateSpace(2).fit(series)):
        with pytest.raises(InputError, match="starts: row 2 has not 3 rows before"):
            model.ahead(series, np.array([2]), 1)
        with pytest.raises(InputError, match="starts: row 95 has not 3 rows before it and 9 after"):
            model.ahead(series, np.array([95]), 10)
        with pytest.raises(InputError, match="u: has 0 columns"):
            model.ahead(series.observations, np.array([5]), 1)
        with pytest.raises(InputError, match="steps: got 0"):
            model.ahead(series, np.array([5]), 0)


def test_principal_axes_of_more_columns_than_rows_are_those_of_the_decomposition():
    y = np.random.default_rng(0).standard_normal((30, 50))
    _, _, right = np.linalg.svd(y - y.mean(0), full_matrices=False)
    axes = _principal_axes(y, y.mean(0), 5)
    np.testing.assert_allclose(axes @ axes.T, right[:5].T @ right[:5], atol=1e-10)
