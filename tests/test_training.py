"""The loop: reproducible, interruptible, never told the truth."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dynacl import DCL, info_nce, simulate, training
from dynacl.dynamics import reach
from dynacl.objective import log_density
from dynacl.training import TrainingError

pytestmark = pytest.mark.loss


def test_in_batch_negatives_leave_out_the_rows_own_pair(trials, monkeypatch, small):
    captured = {}

    def capture(predicted, following, negatives, *, skip, **rest):
        captured.update(following=following, negatives=negatives, skip=skip)
        return info_nce(predicted, following, negatives, skip=skip, **rest)

    monkeypatch.setattr("dynacl.training.info_nce", capture)
    small(n_negatives="batch", max_iter=1).fit(trials)
    left_out = captured["negatives"][captured["skip"]]
    assert captured["skip"].shape == (64, 2)
    assert torch.equal(left_out[:, 1], captured["following"])
    assert torch.equal(captured["skip"][:, 0], torch.arange(64))


@pytest.mark.parametrize("n_negatives", [32, "batch"])
@pytest.mark.parametrize(("n_support", "least", "most"), [(None, 8, 16), (3, 1, 3), (500, 40, 40)])
def test_density_has_its_support_and_leaves_out_the_point_itself(
    n_negatives, n_support, least, most, monkeypatch, as_it_is
):
    captured = {}

    def capture(x, support, *, skip, **rest):
        captured.update(x=x, support=support, skip=skip)
        return log_density(x, support, skip=skip, **rest)

    def compare(*points, potential, **rest):
        captured["potential"] = potential
        return info_nce(*points, potential=potential, **rest)

    monkeypatch.setattr("dynacl.training.log_density", capture)
    monkeypatch.setattr("dynacl.training.info_nce", compare)
    t = np.arange(40, dtype=np.float32)[:, None]
    DCL(1, encoder=as_it_is(1), batch_size=16, n_negatives=n_negatives, max_iter=1, random_state=0,
        density_correction="euclidean", n_support=n_support).fit(t)  # fmt: skip
    x, support = captured["x"][:, 0].tolist(), captured["support"][:, 0].tolist()
    assert least <= len(support) <= most  # a step that is drawn twice counts once
    assert len(support) == len(set(support))
    own = [support.index(v) if v in support else -1 for v in x]
    assert captured["skip"].tolist() == [[i] for i in own]
    assert all(alpha.requires_grad for alpha in captured["potential"])  # as docs/method.md says


def test_same_seed_gives_the_same_weights_and_another_seed_does_not(
    trials, small, weights, assert_equal
):
    assert_equal(weights(small().fit(trials)), weights(small().fit(trials)))
    trained = {"settings": {"validation": 0.0}}  # a linear start depends on no seed
    one, other = (small(random_state=k, **trained).fit(trials) for k in (0, 1))
    assert not torch.equal(weights(one)[-1], weights(other)[-1])


def test_global_random_state_is_neither_used_nor_changed(trials, small, weights, assert_equal):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = weights(small().fit(trials))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert_equal(first, weights(small().fit(trials)))


def test_ctrl_c_keeps_what_was_trained(trials, small):
    def stop(run, record):
        raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted at step 1 of 20"):
        model = small().fit(trials, callback=stop)
    assert model.n_iter_ == 1
    assert np.isfinite(np.concatenate(model.transform(trials))).all()


def test_callback_sees_the_history_and_may_stop(trials, small):
    records = []

    def watch(run, record):
        records.append(record)
        return run.step >= 5

    model = small().fit(trials, callback=watch)
    assert model.n_iter_ == 5
    assert records == model.history_
    for record in records:
        assert record["loss"] == pytest.approx(record["alignment"] + record["uniformity"], rel=1e-4)
    json.dumps(records)


def test_truth_never_reaches_training(trials, small, weights, assert_equal):
    """Shuffled latents and modes, or none at all: the weights are the same."""
    rng = np.random.default_rng(0)
    wrong = replace(
        trials.truth,
        latents=rng.permutation(trials.truth.latents),
        modes=rng.permutation(trials.truth.modes),
    )
    first = weights(small().fit(trials))
    assert_equal(first, weights(small().fit(replace(trials, truth=wrong))))
    assert_equal(first, weights(small().fit(replace(trials, truth=None))))


def test_diverged_loss_stops_with_advice(trials, small):
    with pytest.raises(TrainingError, match="lower learning_rate"):
        small(protocol="paper-slds", learning_rate=1e30, batch_size=8, n_negatives=8).fit(trials)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("at", [1, 11, 13, 20])
def test_a_loss_that_is_not_finite_takes_the_run_back_to_its_last_good_weights(
    trials, small, weights, assert_equal, monkeypatch, bad, at
):
    """Judged by a fit that is stopped, whole, at the last record with a finite loss after it."""
    every, settings = 5, {"max_iter": 1000, "validation": 0}
    step = training.training_step

    def fails(run, data):
        loss = step(run, data)
        if run.step + 1 < at:
            return loss
        with torch.no_grad():
            next(run.encoder.parameters()).fill_(bad)
        return loss._replace(total=torch.tensor(bad))

    last = max(0, at - 2) // every * every
    stopped = small(**settings)
    stopped.fit(trials, callback=lambda run, _: run.step == max(last, every))
    lost = small(**settings)
    monkeypatch.setattr(training, "training_step", fails)
    with pytest.raises(TrainingError, match=rf"is {bad} at step {at};.*of step {last} are kept"):
        lost.fit(trials)
    assert lost.n_iter_ == last
    if last:
        assert_equal(weights(stopped), weights(lost))
        assert [r["step"] for r in lost.history_] == list(range(every, last + 1, every))
    assert np.isfinite(np.concatenate(lost.transform(trials))).all()


def test_weights_that_are_not_finite_stop_the_training_where_the_loss_still_is(
    trials, small, monkeypatch
):
    step = training.training_step

    def fails(run, data):
        loss = step(run, data)
        if run.step == 13:
            with torch.no_grad():
                next(run.encoder.parameters()).fill_(math.nan)
        return loss._replace(total=torch.tensor(1.0))

    monkeypatch.setattr(training, "training_step", fails)
    with pytest.raises(TrainingError, match="weights are not finite after step 15"):
        small(max_iter=1000, validation=0).fit(trials)


def test_progress_tells_the_loss_that_of_guessing_and_time_left(trials, capsys, small):
    small(verbose=True).fit(trials)
    shown = capsys.readouterr().err
    assert "step 20/20" in shown
    assert f"(chance: {math.log(2 * 64 - 2 + 1):.2f})" in shown
    assert "s left" in shown


def test_a_loss_at_its_floor_says_so_and_warns_where_negatives_are_few(trials, capsys, small):
    """Far-apart steps of a walk in one dimension: two pairs are told apart with certainty."""
    walk = np.arange(200, dtype=np.float32)[:, None] * 10
    settings = {"n_components": 1, "dynamics": "identity", "encoder": torch.nn.Linear(1, 1),
                "standardize": False, "batch_size": 2, "max_iter": 300, "random_state": 0,
                "verbose": True}  # fmt: skip
    with pytest.warns(UserWarning, match="at its floor with 2 negatives, too few to teach more"):
        DCL(**settings).fit(walk)
    assert "the loss is at its floor with 2 negatives" in capsys.readouterr().err
    small(verbose=True).fit(trials)
    assert "floor" not in capsys.readouterr().err


def test_horizon_rolls_the_dynamics_on_in_one_mode(trials, monkeypatch, small):
    captured = {}

    def capture(f, x, x_next, controls, steps):
        assert steps is None
        captured.update(x=x, x_next=x_next, n=len(controls))
        return reach(f, x, x_next, controls)

    monkeypatch.setattr("dynacl.training.reach", capture)
    seen = []
    model = small(max_iter=10).fit(trials, callback=lambda run, _: seen.append(captured["n"]))
    assert seen == [1, 1, 4, 4, 4, 4, 4, 4, 4, 4]
    assert model.settings_.horizon == 4
    x, x_next = captured["x"].detach(), captured["x_next"].detach()
    W = torch.linalg.matrix_power(model.dynamics_.matrices.detach(), 4)
    ends = torch.stack([x @ w.T for w in W], dim=1)
    nearest = (ends - x_next[:, None]).square().sum(-1).argmin(-1)
    rolled = reach(model.dynamics_.eval(), x, x_next, [None] * 4)
    torch.testing.assert_close(rolled, ends[torch.arange(len(x)), nearest])


def test_linear_dynamics_learn_the_map_over_the_time_offset(as_it_is):
    data = simulate.lds(
        rng=np.random.default_rng(0), d=2, angle=15, trials=20, steps=50, mixing="none"
    )
    model = DCL(2, encoder=as_it_is(2), max_iter=150, batch_size=256, random_state=0,
                dynamics_learning_rate=0.05, time_offset=2).fit(data)  # fmt: skip
    turns = np.angle(np.linalg.eigvals(model.dynamics_.matrix.detach().numpy()), deg=True)
    np.testing.assert_allclose(sorted(turns), [-30, 30], atol=2)


def test_it_is_said_from_where_the_loss_is_of_several_steps(trials, capsys, small):
    small(verbose=True, settings={"horizon": 4, "one_step": 0.5, "mixed": False}).fit(trials)
    assert "from step 10 on, the loss is of predictions 4 steps ahead" in capsys.readouterr().err
    small(verbose=True, settings={"horizon": 1}).fit(trials)
    assert "steps ahead, not of one" not in capsys.readouterr().err
