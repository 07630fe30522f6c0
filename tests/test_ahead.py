"""Training by what is observed ahead: driven systems whose state is read off windows."""

import warnings

import numpy as np
import pytest
import torch

from dynacl import DCL, InputError, TimeSeries
from dynacl.judging import begin_at_floor
from dynacl.objective.ahead import NEAR, ahead
from dynacl.prediction import HeldOut, held_out

LAGS = (0, 1, 2, 3)


def spring(seed: int, steps: int = 4000, trials: int = 1) -> TimeSeries:
    """A mass on a spring that hardens, pushed by slow noise; its place is seen, not its speed."""
    rng = np.random.default_rng(seed)
    y, u = np.zeros((trials, steps, 1)), np.zeros((trials, steps, 1))
    place, speed, push = np.zeros((3, trials, 1))
    for t in range(steps):
        y[:, t], u[:, t] = place, push
        for _ in range(10):
            force = push - 0.3 * speed - place - 3 * place**3
            place, speed = place + 0.05 * speed, speed + 0.05 * force
        push = 0.8 * push + 0.35 * rng.standard_normal((trials, 1))
    y += 1e-4 * rng.standard_normal(y.shape)
    return TimeSeries.of(list(y), list(u))


def test_what_is_missed_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    now, path = rng.standard_normal((50, 2)), rng.standard_normal((50, 4, 2))
    y, after, u = (rng.standard_normal(s) for s in ((50, 3), (50, 4, 3), (50, 4, 1)))
    one = np.ones((50, 1))
    C = np.linalg.lstsq(np.hstack([now, one]), y, rcond=None)[0]
    known = np.concatenate([path, np.ones((50, 4, 1))], axis=2)
    missed = after - known @ C

    def logs(missed: np.ndarray) -> float:
        found = 0.5 * np.log(np.square(missed).mean(0))
        return NEAR * found[0].mean() + (1 - NEAR) * found.mean()

    tensors = [torch.from_numpy(v) for v in (now, y, path, after, u)]
    assert float(ahead(*tensors[:4]).total) == pytest.approx(logs(missed), abs=1e-5)
    # What is new in the input, beyond what latents tell of it.
    flat = known.reshape(200, 3)
    new = u - known @ np.linalg.lstsq(flat, u.reshape(200, 1), rcond=None)[0]
    D = np.linalg.lstsq(new[:, 0], missed[:, 0], rcond=None)[0]
    assert float(ahead(*tensors).total) == pytest.approx(logs(missed - new @ D), abs=1e-5)


@pytest.fixture(scope="module")
def trained() -> DCL:
    arguments = {"n_components": 4, "dynamics": "mlp", "time_lags": LAGS, "random_state": 0}
    return DCL(**arguments, max_iter=500).fit(spring(0))


def test_a_bent_spring_is_simulated_with_half_the_error_of_its_linear_start(trained: DCL) -> None:
    """Also than by ARX, on data that training never saw."""
    assert trained.settings_.objective == "prediction"
    assert "linear start is handed out" not in trained.verdict_
    fresh = spring(1, 2000)
    found = held_out(trained.run_, fresh, (1, 10, 50))
    for other in ("linear start", "ARX"):
        assert (found.missed["model"] <= found.missed[other]).all()
        assert (found.missed["model"][1:] < 0.5 * found.missed[other][1:]).all()


def test_it_goes_on_bit_for_bit_after_a_stop(trained: DCL) -> None:
    def stop(run, record) -> bool:
        return record["step"] >= 100

    data = spring(0)
    arguments = {"n_components": 4, "dynamics": "mlp", "time_lags": LAGS, "random_state": 0}
    stopped = DCL(**arguments, max_iter=500).fit(data, callback=stop)
    assert stopped.run_.step < 500
    stopped.resume(data)
    np.testing.assert_array_equal(stopped.transform(data), trained.transform(data))


def test_training_begins_at_the_best_linear_model_without_a_judge_too() -> None:
    data, still = spring(0, 1500), {"learning_rate": 1e-9, "dynamics_learning_rate": 1e-9}
    model = DCL(4, "linear", time_lags=LAGS, validation=0.0, max_iter=1, random_state=0, **still)
    missed = held_out(model.fit(data).run_, spring(1, 1500), (1, 10, 20)).missed
    np.testing.assert_allclose(missed["model"], missed["linear start"], rtol=0.01)
    assert (missed["model"] < 0.3 * missed["identity control"]).all()


def test_a_floor_without_a_judge_is_where_the_run_is() -> None:
    data = spring(0, 1500)
    model = DCL(3, "polynomial", time_lags=LAGS, validation=0.0, max_iter=1, random_state=0)
    model.fit(data)
    run = model.run_
    begin_at_floor(run, data)
    assert run.floor is not None
    for name, weight in run.dynamics.state_dict().items():
        assert torch.equal(weight, run.floor.weights["dynamics"][name])


def test_roll_outs_that_run_off_end_neither_training_nor_what_is_handed_out() -> None:
    rng = np.random.default_rng(0)
    data = TimeSeries.of(rng.standard_cauchy((600, 1)), rng.standard_normal((600, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DCL(
            3, "polynomial", degree=3, time_lags=LAGS, max_iter=60, random_state=0,
            dynamics_learning_rate=0.3,
        ).fit(data)  # fmt: skip
    assert np.isfinite(model.transform(data)).all()
    assert model.n_iter_ == 60


def test_a_short_recording_holds_out_enough_to_judge_roll_outs() -> None:
    data = spring(0, 1000)
    model = DCL(3, "linear", time_lags=LAGS, max_iter=2, random_state=0).fit(data)
    assert model.settings_.validation == 0.25
    assert "judged" in model.reasons_["validation"]
    assert model.held_out_ is not None
    asked = DCL(3, "linear", time_lags=LAGS, max_iter=2, random_state=0, validation=0.15).fit(data)
    assert asked.settings_.validation == 0.15


@pytest.mark.parametrize("dynamics", ["linear", "polynomial", "flow", "mlp"])
def test_windows_of_few_outputs_are_trained_by_what_is_ahead(dynamics: str) -> None:
    """Few: with as many as there are latents, frames show the state."""
    data, chosen = spring(0, 1000), {"max_iter": 2, "random_state": 0}
    y, u, windows = data.observations, data.control, {"time_lags": LAGS}
    both = np.hstack([y, y**2])
    fits = {
        "driven": DCL(2, dynamics, **windows, **chosen).fit(y, u=u),
        "by itself": DCL(2, dynamics, **windows, **chosen).fit(y),
        "many": DCL(2, dynamics, **windows, **chosen).fit(both, u=u),
        "frames": DCL(2, dynamics, **chosen).fit(both, u=u),
        "asked": DCL(2, dynamics, **windows, settings={"objective": "prediction"}, **chosen).fit(y),
    }
    found = {name for name, fit in fits.items() if fit.settings_.objective == "prediction"}
    assert found == {"driven", "asked"} | ({"by itself"} if dynamics == "mlp" else set())


def test_hidden_modes_cannot_be_rolled_out_by_it() -> None:
    with pytest.raises(InputError, match="without hidden modes"):
        DCL(2, "switching", 2, settings={"objective": "prediction"}).fit(spring(0, 500))


def test_a_better_first_step_makes_up_for_no_roll_out_that_is_worse_than_the_mean() -> None:
    def weighed(*missed: float) -> float:
        held = HeldOut((1, 10, 100), {"model": np.array(missed)})
        return held.figure() + held.beyond()

    assert HeldOut((1, 10), {"model": np.array([0.1, 0.9])}).beyond() == 0.0
    runs_off, start = (0.03, 2.8, 1.0), (0.15, 0.93, 0.95)
    assert weighed(*start) < weighed(*runs_off)
    assert weighed(0.03, 0.93, 0.95) < weighed(*start)
