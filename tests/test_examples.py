"""The examples do what they say: custom parts are used, and the other scripts show their point."""

import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dynacl import DCL, evaluate

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where inspect looks for a class's source
    spec.loader.exec_module(module)
    return module


parts = example("custom_parts")


@pytest.fixture(scope="module")
def series():
    return parts.data()


@pytest.fixture(scope="module")
def built_in(series):
    return parts.fit(series)


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

    model = parts.fit(series, similarity=Counted())
    n, d = model.settings_.batch_size, 2
    assert calls.count(((n, d), (n, d))) == model.n_iter_  # positives, once a step
    assert any(len(q) == 3 for q, _ in calls)  # and against negatives: (rows, 1, d) with (M, d)
    calls.clear()
    ours = model.score(series)
    assert calls
    model.run_.similarity = built_in.run_.similarity
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


def test_driven_system_is_forecast_better_with_its_input_than_without():
    found = example("driven_system").main()
    assert found["with the input to come"] > 0.95
    assert found["as if there were none"] < found["with the input to come"] - 0.1


def test_partial_observation_needs_the_past():
    found = example("partial_observation").main()
    assert found[(0, 4, 8)] > 0.95
    assert found[(0,)] < 0.7


def test_recording_gives_its_hidden_state_on_a_trial_that_was_held_out():
    found = example("recording").main()
    assert found["components kept"] < 10  # of 200 cells: the others are noise
    assert found["R², held-out trial"] > 0.8
