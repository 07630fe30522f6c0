"""Figures show the numbers that are there, and nobody pays for them who draws none."""

import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import r2_score

from dynacl import simulate
from dynacl.experiments import ablations, allen, drawing, fitting, lorenz, slds
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.fitting import Outcome
from dynacl.experiments.plan import plan
from dynacl.experiments.render import View
from dynacl.experiments.store import Store
from small_fits import record


def test_catalogue_needs_neither_torch_nor_matplotlib():
    """Without the package's __init__, which may import what it likes."""
    code = (
        "import sys, types; package = types.ModuleType('dynacl');"
        f"package.__path__ = [{str(fitting.ROOT)!r}]; sys.modules['dynacl'] = package;"
        "import dynacl.experiments.catalogue, dynacl.cli.reproduce;"
        "print({'torch', 'matplotlib', 'scipy', 'sklearn'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


@pytest.fixture
def view(tmp_path):
    """Made-up results of three seeds: R² rises with the angle, and the last row was not run."""
    experiment = EXPERIMENTS["vmf"]
    fits = plan(experiment, scale="paper", datasets=[0], only=["angle=*,noise=0.1/linear"])
    store = Store(tmp_path)
    for fit in fits:
        if fit.row.place["x"] < 20:
            r2 = fit.row.place["x"] / 100 + fit.seed / 1000
            store.put(fit.name, Outcome(record(fit, {"r2": r2})))
    return View(experiment, fits, store)


def test_curve_is_mean_and_standard_deviation_of_what_was_run(view):
    (axis,) = drawing.curves(view, ("r2",), "angle").axes
    (curve,) = axis.containers
    x, y = curve.lines[0].get_data()
    angles = sorted({f.row.place["x"] for f in view.fits} - {20.0})
    np.testing.assert_array_equal(x, angles)
    np.testing.assert_allclose(y, [100 * np.mean([a / 100 + s / 1000 for s in (0, 1, 2)])
                                   for a in angles])  # fmt: skip
    for (_, low), (_, high) in curve.lines[2][0].get_segments():
        assert high - low == pytest.approx(2 * np.std([0, 0.1, 0.2], ddof=1))
    assert axis.get_legend_handles_labels()[1] == ["LDS"]
    assert axis.get_title() == "σ = 0.1"


def test_figure_of_nothing_is_empty_and_no_error(view, tmp_path):
    nothing = View(view.experiment, view.fits, Store(tmp_path / "none"))
    (axis,) = drawing.curves(nothing, ("r2",), "angle").axes
    assert not axis.containers


@pytest.mark.parametrize("name", [n for n, e in EXPERIMENTS.items() if e.figures])
def test_every_experiment_draws_what_is_there_although_nothing_is(name, tmp_path):
    (tmp_path / "x-VISp-800-x.npy").write_bytes(b"")
    experiment = EXPERIMENTS[name]
    fits = plan(experiment, scale="quick", data_dir=tmp_path)
    drawn = experiment.figures(View(experiment, fits, Store(tmp_path)))
    assert all(figure.axes for figure in drawn.values())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_modes_are_drawn_under_the_labels_that_fit_best(pairs):
    told, inferred = np.array(pairs).T
    agree = (slds.matched(told, inferred) == told).sum()
    labels = [np.array(p) for p in permutations(range(4))]
    assert agree == max((p[inferred] == told).sum() for p in labels)


def test_modes_are_numbered_by_first_visit():
    assert lorenz.in_order(np.array([7, 7, 2, 9, 2, 7])).tolist() == [0, 0, 1, 2, 1, 0]


def test_smoothed_is_the_mean_of_the_neighbours():
    x = np.random.default_rng(0).standard_normal((20, 2))
    wanted = [x[max(0, t - 2) : t + 3].mean(0) for t in range(20)]
    np.testing.assert_allclose(allen.smoothed(x, 5), wanted)
    np.testing.assert_allclose(allen.smoothed(np.ones((20, 1))), 1)  # wider than the trial


def test_closest_trial_is_that_of_the_highest_r2():
    series = simulate.slds(rng=np.random.default_rng(0), trials=6, steps=30, mixing="none")
    fresh, train = series.select(range(2)), series.select(range(2, 6))
    figure = ablations.closest(train, fresh)
    x, y = (s.split(s.truth.latents) for s in (fresh, train))
    scores = [[r2_score(a, b) for b in y] for a in x]
    titles = [axis.get_title() for axis in figure.subfigs[0].axes if axis.get_title()]
    assert titles == [f"R² {max(row):.2f}" for row in scores]
    for i, axis in enumerate(figure.subfigs[0].axes[:2]):  # the first dimension of both trials
        true, near = axis.lines
        np.testing.assert_allclose(true.get_ydata(), x[i][:, 0])
        np.testing.assert_allclose(near.get_ydata(), y[int(np.argmax(scores[i]))][:, 0])
