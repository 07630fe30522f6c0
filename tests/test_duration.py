"""A long training is announced; timing it changes nothing."""

import numpy as np
import pytest

from dynacl import DCL, duration, simulate


@pytest.fixture(scope="module")
def data():
    return simulate.slds(rng=np.random.default_rng(0), d=2, trials=6, steps=40, modes=2)


def fitted(data, dynamics, verbose):
    small = {"batch_size": 32, "n_negatives": 64, "max_iter": 6}
    return DCL(2, dynamics, 2, random_state=0, verbose=verbose, **small).fit(data)


@pytest.mark.parametrize("dynamics", ["switching", "gated", "mlp"])
def test_a_fit_that_is_timed_is_the_fit_that_is_not(data, dynamics):
    timed, plain = (fitted(data, dynamics, verbose) for verbose in (True, False))
    losses = [[record["loss"] for record in model.history_] for model in (timed, plain)]
    assert losses[0] == losses[1]
    np.testing.assert_array_equal(timed.transform(data)[0], plain.transform(data)[0])


def test_minutes_are_those_of_the_steps_that_are_left(data, monkeypatch, capsys):
    monkeypatch.setattr(duration, "seconds_per_step", lambda *_: 0.5)
    run = fitted(data, "linear", verbose=False).run_
    duration.announce(run, data, run.step + 1200)
    assert "about 10 minutes: 1,200 steps of 0.5 s" in capsys.readouterr().err
    duration.announce(run, data, run.step + 200)  # 100 s
    duration.announce(run, data, run.step)
    assert capsys.readouterr().err == ""


def test_a_large_model_is_named_before_a_step_is_timed(data, monkeypatch, capsys):
    run, said = fitted(data, "linear", verbose=False).run_, []
    monkeypatch.setattr(duration, "LARGE", 100)
    monkeypatch.setattr(
        duration, "seconds_per_step", lambda *_: said.append(capsys.readouterr().err) or 0.0
    )
    duration.announce(run, data, run.step + 10)
    assert "weights to train: this may take hours" in said[0]
    duration.announce(run, data, run.step)
    assert capsys.readouterr().err == ""
