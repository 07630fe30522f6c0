"""The examples do what they say: custom parts are used, and the other scripts show their point."""

import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics import r2_score

from dynacl import DCL, evaluate, simulate

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where inspect looks for a class's source
    spec.loader.exec_module(module)
    return module


parts = example("custom_parts")


# The mixing is linear, so the judge would hand out the linear start, whatever the similarity.
TRAINED = {"validation": 0.0}


@pytest.fixture(scope="module")
def series():
    return parts.data()


@pytest.fixture(scope="module")
def built_in(series):
    return parts.fit(series, settings=TRAINED)


@pytest.mark.parametrize("part", [parts.Rotation, parts.Laplace, parts.Corrected])
def test_a_custom_part_is_under_ten_lines(part):
    assert sum(bool(line.strip()) for line in inspect.getsource(part).splitlines()) < 10


def test_custom_dynamics_find_the_angle_of_the_system(series):
    model = parts.fit(series, dynamics=parts.Rotation(2))
    assert evaluate(model, series)["r2"] > 0.95
    with torch.no_grad():
        matrix = model.dynamics_(torch.eye(2))
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(2))  # a rotation, as Linear is not
    angle = np.rad2deg(np.arccos(matrix[0, 0].item()))
    assert angle == pytest.approx(5, abs=0.5)  # theory: A comes back up to an orthogonal map
    np.testing.assert_allclose(
        np.linalg.norm(model.forecast(series, 500), axis=2),
        np.linalg.norm([x[-1] for x in model.transform(series)], axis=1)[:, None].repeat(500, 1),
        rtol=1e-3,
    )


def test_custom_similarity_is_what_is_trained_and_scored_with(series, built_in):
    calls = []

    class Counted(parts.Laplace):
        def forward(self, q, k):
            calls.append((q.shape, k.shape))
            return super().forward(q, k)

    model = parts.fit(series, similarity=Counted(), settings=TRAINED)
    n, d = model.settings_.batch_size, 2
    assert calls.count(((n, d), (n, d))) == model.n_iter_  # positives, once per step
    assert any(len(q) == 3 for q, _ in calls)  # and against negatives: (rows, 1, d) with (M, d)
    calls.clear()
    ours = model.score(series)
    assert calls
    model.run_.geometry = built_in.run_.geometry
    assert ours != model.score(series)  # deterministic: equal if the similarity were ignored
    assert evaluate(model, series)["r2"] > 0.95
    # −‖·‖₁ is another objective than −‖·‖²: the embedding must come out otherwise.
    scale = [np.concatenate(m.transform(series)).std() for m in (model, built_in)]
    assert abs(np.log(scale[0] / scale[1])) > 0.1


def test_custom_encoder_is_trained_and_is_what_transform_runs(series):
    torch.manual_seed(0)
    given = parts.Corrected(10, 2)
    before = given.guess.weight.detach().clone()
    model = parts.fit(series, encoder=given)
    assert evaluate(model, series)["r2"] > 0.95
    assert torch.equal(given.guess.weight, before)  # fit leaves what it was given as it was
    assert not torch.equal(model.encoder_.guess.weight, before)
    with torch.no_grad():
        expected = model.encoder_(torch.from_numpy(series.observations)).numpy()
    np.testing.assert_allclose(np.concatenate(model.transform(series)), expected, atol=1e-5)


def test_all_custom_parts_together_are_saved_and_loaded(series, tmp_path):
    torch.manual_seed(0)
    made = {
        "dynamics": parts.Rotation(2),
        "similarity": parts.Laplace(),
        "encoder": parts.Corrected(10, 2),
    }
    model = parts.fit(series, **made)
    assert evaluate(model, series)["r2"] > 0.95
    model.save(tmp_path)
    again = DCL.load(tmp_path, **made)
    assert again.score(series) == model.score(series)


# -- scripts, judged by who knows the truth ----------------------------------------------------


def drawn(monkeypatch, simulator):
    """A list that gets every series which a simulator makes from now on."""
    made, real = [], getattr(simulate, simulator)
    monkeypatch.setattr(simulate, simulator, lambda **k: made.append(real(**k)) or made[-1])
    return made


def windows(trials, lags):
    past = max(lags)
    return [np.hstack([y[past - lag : len(y) - lag] for lag in lags]) for y in trials]


def test_driven_system_is_forecast_as_well_as_by_its_true_equations(monkeypatch):
    script = example("driven_system")
    made = drawn(monkeypatch, "controlled")
    found = script.main()
    (series,) = made
    A, B = series.truth.system["matrix"], series.truth.system["control"]
    trials = list(zip(*map(series.split, (series.truth.latents, series.control)), strict=True))
    true = np.concatenate([x[-script.AHEAD :] for x, _ in trials])
    for name, driven in (("with the input to come", 1), ("as if there were none", 0)):
        states = []
        for x, u in trials:
            state = x[-script.AHEAD - 1]
            for now in u[-script.AHEAD - 1 : -1]:
                state = A @ state + driven * B @ now
                states.append(state)
        assert found[name] == pytest.approx(r2_score(true, states), abs=0.05)
    assert found["as if there were none"] < found["with the input to come"] - 0.1


def test_partial_observation_gives_all_that_a_window_shows(monkeypatch):
    """All is linear here: least squares on the true latents is the most that can be read off."""
    script = example("partial_observation")
    made = drawn(monkeypatch, "lds")
    found = script.main()
    (series,) = made
    best = {}
    for lags in found:
        y = np.concatenate(windows(series.split(series.observations), lags))
        x = np.concatenate([trial[max(lags) :] for trial in series.split(series.truth.latents)])
        best[lags] = LinearRegression().fit(y, x).score(y, x)
        assert found[lags] == pytest.approx(best[lags], abs=0.02)
    assert best[(0,)] < 0.6 < 0.99 < best[(0, 4, 8)]  # two channels of four, and their past


def test_recording_gives_its_hidden_state_as_well_as_regression_on_the_truth():
    script = example("recording")
    found = script.main()
    series, x = script.record(np.random.default_rng(0))
    y = windows(series.split(series.observations), range(0, 10, 2))
    x = [trial[8:] for trial in np.split(x, series.n_trials)]
    ridge = RidgeCV(np.logspace(0, 4, 9)).fit(np.concatenate(y[:-1]), np.concatenate(x[:-1]))
    assert found["R², held-out trial"] > ridge.score(y[-1], x[-1]) - 0.05
    assert 3 <= found["components kept"] < 10  # of 200 cells, which share three dimensions


def test_systems_of_ones_own_have_every_metric_and_a_table(tmp_path, monkeypatch):
    for name in ("SYSTEMS", "PRESETS", "FUNCTIONS"):
        known = getattr(simulate, name)
        for key in set(known) | {"pendulum", "van-der-pol", "van_der_pol"}:
            monkeypatch.setitem(known, key, known.get(key))  # as it was, after the test
    own = example("own_system")
    monkeypatch.setattr(own, "SIZE", own.SIZE | {"trials": 6, "steps": 40})
    found = own.table(str(tmp_path), max_iter=3)
    assert len(found.cells) == 4
    for row in found.cells.values():
        assert all(cell is not None and np.isfinite(cell["mean"]) for cell in row.values())
    assert not found.notes
