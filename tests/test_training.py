"""The loop: what it samples, that it resumes exactly, and that it never sees the truth."""

import json
import math
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from dynacl import DCL, TimeSeries, evaluate, info_nce, metrics, simulate
from dynacl.banks import split_modes
from dynacl.data import InputError
from dynacl.dynamics import SwitchingLinear, advance_in_training
from dynacl.encoders import MLP
from dynacl.objective import Emphasis, Loss, log_density
from dynacl.optimizers import SOAP
from dynacl.persistence import load_checkpoint, save_checkpoint
from dynacl.sampling import rows
from dynacl.settings import PROTOCOLS
from dynacl.training import (
    Run,
    TrainingError,
    training_step,
)
from dynacl.whitening import whitening


@pytest.fixture(scope="module")
def data():
    return simulate.slds(
        rng=np.random.default_rng(1), d=3, modes=2, trials=20, steps=50, observed=8, layers=2
    )


def small(**changed):
    settings = {"n_components": 3, "dynamics": "switching", "n_modes": 2, "max_iter": 20,
                "batch_size": 64, "random_state": 0}  # fmt: skip
    return DCL(**(settings | changed))


def weights(model):
    parts = [model.encoder_, model.dynamics_]
    return [p.detach().clone() for part in parts for p in part.state_dict().values()]


def assert_same(a, b):
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


class Recorder(torch.nn.Module):
    """An encoder that remembers which rows it was given; row t of the data holds t."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.seen = []

    def forward(self, y):
        self.seen.append(y[:, 0].long())
        return self.weight * y


def sampled(n_negatives, steps=40):
    lengths = [3, 7, 2, 11]
    trials = np.split(np.arange(23, dtype=np.float32)[:, None], np.cumsum(lengths)[:-1])
    model = DCL(1, "linear", encoder=Recorder(), batch_size=16, n_negatives=n_negatives,
                max_iter=steps, random_state=0).fit(trials)  # fmt: skip
    return model.encoder_.seen, np.cumsum([0, *lengths])


def test_references_are_uniform_over_valid_steps_and_never_cross_a_trial():
    seen, bounds = sampled(5, steps=400)
    now = torch.cat([rows[:16] for rows in seen])
    following = torch.cat([rows[16:32] for rows in seen])
    assert torch.equal(following, now + 1)
    ends = set(bounds[1:] - 1)
    assert not ends & set(now.tolist())
    counts = torch.bincount(now, minlength=23)
    expected = len(now) / 19
    for t, count in enumerate(counts.tolist()):
        if t not in ends:
            assert abs(count - expected) < 6 * math.sqrt(expected)


def test_fresh_negatives_are_uniform_over_all_steps():
    seen, _ = sampled(32, steps=300)
    drawn = torch.cat([rows[32:] for rows in seen])
    expected = len(drawn) / 23
    counts = torch.bincount(drawn, minlength=23)
    assert (counts - expected).abs().max() < 6 * math.sqrt(expected)


def test_every_observation_is_encoded_once_a_step():
    seen, _ = sampled(32, steps=3)
    assert [len(rows) for rows in seen] == [16 + 16 + 32] * 3


def test_in_batch_negatives_leave_out_the_rows_own_pair(data, monkeypatch):
    captured = {}

    def capture(predicted, following, negatives, *, skip, **rest):
        captured.update(following=following, negatives=negatives, skip=skip)
        return info_nce(predicted, following, negatives, skip=skip, **rest)

    monkeypatch.setattr("dynacl.training.info_nce", capture)
    small(n_negatives="batch", max_iter=1).fit(data)
    left_out = captured["negatives"][captured["skip"]]
    assert captured["skip"].shape == (64, 2)
    assert torch.equal(left_out[:, 1], captured["following"])
    assert torch.equal(captured["skip"][:, 0], torch.arange(64))


@pytest.mark.parametrize("n_negatives", [32, "batch"])
@pytest.mark.parametrize(("n_support", "least", "most"), [(None, 8, 16), (3, 1, 3), (500, 40, 40)])
def test_density_has_its_support_and_leaves_out_the_point_itself(
    n_negatives, n_support, least, most, monkeypatch
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
    DCL(1, encoder=Recorder(), batch_size=16, n_negatives=n_negatives, max_iter=1, random_state=0,
        density_correction="euclidean", n_support=n_support).fit(t)  # fmt: skip
    x, support = captured["x"][:, 0].tolist(), captured["support"][:, 0].tolist()
    assert least <= len(support) <= most  # a step that is drawn twice counts once
    assert len(support) == len(set(support))
    own = [support.index(v) if v in support else -1 for v in x]
    assert captured["skip"].tolist() == [[i] for i in own]
    assert all(alpha.requires_grad for alpha in captured["potential"])  # as docs/method.md says


@pytest.mark.parametrize(
    ("name", "batch", "negatives", "steps", "rate", "dynamics_rate"),
    [
        ("paper-lds", 2048, 20_000, 30_000, 3e-4, 3e-4),
        ("paper-slds", 2048, 65_536, 50_000, 1e-3, 1e-2),
        ("paper-lorenz", 1024, 20_000, 30_000, 1e-4, 1e-4),
    ],
)
def test_paper_protocols_train_as_the_paper_did(
    name, batch, negatives, steps, rate, dynamics_rate, data
):
    s = PROTOCOLS[name]
    assert (s.batch_size, s.n_negatives, s.max_iter) == (batch, negatives, steps)
    assert (s.learning_rate, s.dynamics_learning_rate) == (rate, dynamics_rate)
    assert (s.optimizer, s.schedule, s.standardize) == ("adam", "constant", False)
    model = small(protocol=name, batch_size=8, n_negatives=8, max_iter=2).fit(data)
    (adam,) = model.run_.optimizers
    assert type(adam) is torch.optim.Adam
    assert [g["lr"] for g in adam.param_groups] == [rate, dynamics_rate]
    assert model.encoder_.whitening is None


def test_same_seed_gives_the_same_weights_and_another_seed_does_not(data):
    assert_same(weights(small().fit(data)), weights(small().fit(data)))
    other = weights(small(random_state=1).fit(data))
    assert not torch.equal(weights(small().fit(data))[-1], other[-1])


def test_global_random_state_is_neither_used_nor_changed(data):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = weights(small().fit(data))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert_same(first, weights(small().fit(data)))


@pytest.mark.parametrize("protocol", ["default", "paper-slds"])
@pytest.mark.parametrize("stop", [7, 10])
def test_resumed_run_equals_the_uninterrupted_one_bit_for_bit(data, tmp_path, protocol, stop):
    settings = {"protocol": protocol, "n_negatives": 128}
    whole = small(**settings).fit(data)

    def interrupt(run, *args):
        if run.step == stop - 1:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of a step, as a user would
        return training_step(run, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynacl.training.training_step", interrupt)
        with pytest.warns(UserWarning, match="interrupted at step"):
            part = small(**settings).fit(data)
    assert part.n_iter_ == stop
    save_checkpoint(part.run_, tmp_path / "checkpoint")
    part.save(tmp_path)
    loaded = DCL.load(tmp_path)
    load_checkpoint(loaded.run_, tmp_path / "checkpoint")
    loaded.resume(data)
    assert_same(weights(whole), weights(loaded))
    if protocol == "default":
        assert whole.run_.emphasis.level == loaded.run_.emphasis.level
    strip = lambda history: [{k: v for k, v in r.items() if k != "seconds"} for r in history]
    assert strip(whole.history_) == strip(loaded.history_)


def test_emphasis_weighs_alignment_by_how_low_the_loss_has_been():
    alignment = torch.tensor(0.5, requires_grad=True)
    emphasis = Emphasis(10.0)

    def gradient(total):
        for _ in range(300):  # until the running mean is there
            loss = Loss(total + alignment - alignment.detach(), alignment, total - alignment)
            weighed = emphasis(loss)
        (found,) = torch.autograd.grad(weighed, alignment)
        return found.item()

    assert gradient(torch.tensor(0.7)) == 1
    assert gradient(torch.tensor(0.45)) == pytest.approx(1 + 5, rel=0.01)
    assert gradient(torch.tensor(0.1)) == pytest.approx(1 + 10)
    assert gradient(torch.tensor(2.0)) == 1  # and back


def test_emphasis_finds_what_an_easy_contrast_leaves_and_lets_noise_alone(monkeypatch):
    """Planes that turn, with noise far below the distance between samples, and with much."""

    def fitted(noise, emphasis):
        settings = replace(PROTOCOLS["default"], emphasis=emphasis)
        monkeypatch.setitem(PROTOCOLS, "default", settings)
        data = simulate.lds(rng=np.random.default_rng(0), d=4, angle=10, noise=noise, trials=100,
                            steps=200, observed=12, layers=3)  # fmt: skip
        return evaluate(
            DCL(4, "linear", max_iter=600, batch_size=512, random_state=0).fit(data), data
        )

    plain, firm = fitted(1e-4, 0.0), fitted(1e-4, 10.0)
    assert firm["lds_error"] < 0.1 * plain["lds_error"]
    assert 1 - firm["r2"] < 0.5 * (1 - plain["r2"])
    plain, firm = fitted(0.2, 0.0), fitted(0.2, 10.0)
    assert firm["r2"] == plain["r2"]


def test_emphasis_is_for_dynamics_that_identify_and_comes_late_for_driven_ones(data):
    driven = simulate.controlled(rng=np.random.default_rng(0), trials=5, steps=300, observed=8)
    assert small().fit(data).settings_.emphasis_at == 4  # with the full horizon, after one step
    assert small(protocol="paper-slds").fit(data).run_.emphasis is None
    assert small(similarity="dot").fit(data).run_.emphasis is None
    assert small(density_correction="euclidean").fit(data).run_.emphasis is None
    assert small(dynamics="mlp").fit(data).run_.emphasis is None
    late = small(n_components=5, dynamics="linear").fit(driven)
    assert late.settings_.emphasis_at == 14
    assert late.run_.emphasis.level < 10


def test_ctrl_c_keeps_what_was_trained(data):
    def stop(run, record):
        raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted at step 1 of 20"):
        model = small().fit(data, callback=stop)
    assert model.n_iter_ == 1
    assert np.isfinite(np.concatenate(model.transform(data))).all()


def test_callback_sees_the_history_and_may_stop(data):
    records = []

    def watch(run, record):
        records.append(record)
        return run.step >= 5

    model = small().fit(data, callback=watch)
    assert model.n_iter_ == 5
    assert records == model.history_
    cap = math.log2(2 * 64 - 2 + 1)
    for record in records:
        assert record["bits"] == pytest.approx(cap - record["loss"] / math.log(2))
        assert record["loss"] == pytest.approx(record["alignment"] + record["uniformity"], rel=1e-4)
    json.dumps(records)


def test_truth_never_reaches_training(data):
    """Shuffled latents and modes, or none at all: the weights are the same."""
    rng = np.random.default_rng(0)
    from dataclasses import replace

    wrong = replace(
        data.truth,
        latents=rng.permutation(data.truth.latents),
        modes=rng.permutation(data.truth.modes),
    )
    first = weights(small().fit(data))
    assert_same(first, weights(small().fit(replace(data, truth=wrong))))
    assert_same(first, weights(small().fit(replace(data, truth=None))))


def test_diverged_loss_stops_with_advice(data):
    with pytest.raises(TrainingError, match="lower learning_rate"):
        small(protocol="paper-slds", learning_rate=1e30, batch_size=8, n_negatives=8).fit(data)


def test_separate_rates_move_encoder_and_dynamics_separately(data):
    slow = small(protocol="paper-slds", n_negatives=64, learning_rate=1e-30, max_iter=3).fit(data)
    still = DCL(3, "switching", 2, random_state=0, max_iter=1, protocol="paper-slds",
                n_negatives=64, batch_size=64, learning_rate=1e-30).fit(data)  # fmt: skip
    assert_same(list(slow.encoder_.parameters()), list(still.encoder_.parameters()))
    assert not torch.equal(slow.dynamics_.matrices, still.dynamics_.matrices)


def test_temperature_schedule_is_followed():
    model = SwitchingLinear(2, 2, temperature=(4.0, 1.0))
    model.anneal(0.0)
    assert model.temperature == pytest.approx(4)
    model.anneal(0.5)
    assert model.temperature == pytest.approx(2)
    model.anneal(1.0)
    assert model.temperature == pytest.approx(1)


def test_progress_tells_loss_bits_and_time_left(data, capsys):
    small(verbose=True).fit(data)
    shown = capsys.readouterr().err
    assert "step 20/20" in shown
    assert "of 6.99 bits" in shown
    assert "s left" in shown


def test_a_fit_at_its_cap_says_so(data, capsys):
    """Far-apart steps of a walk in one dimension: two pairs are told apart with certainty."""
    walk = np.arange(200, dtype=np.float32)[:, None] * 10
    settings = {"n_components": 1, "dynamics": "identity", "encoder": torch.nn.Linear(1, 1),
                "standardize": False, "batch_size": 2, "max_iter": 300, "random_state": 0,
                "verbose": True}  # fmt: skip
    DCL(**settings).fit(walk)
    assert "at its cap of log2(2 + 1) = 1.58 bits" in capsys.readouterr().err
    small(verbose=True).fit(data)
    assert "cap of" not in capsys.readouterr().err


def test_run_hands_its_generator_to_the_dynamics():
    generator = torch.Generator()
    dynamics = SwitchingLinear(2, 2)
    Run(torch.nn.Linear(2, 2), dynamics, PROTOCOLS["default"], generator)
    assert dynamics.generator is generator


def test_standardised_input_has_mean_0_and_unit_covariance(data):
    model = small(standardize=True, max_iter=1).fit(data)
    y = torch.from_numpy(data.observations)
    z = model.encoder_.whitening(y)
    assert z.shape[1] == 3  # 8 observed dimensions hold 3 latent ones, the rest is nothing
    torch.testing.assert_close(z.mean(0), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(torch.cov(z.T), torch.eye(3), atol=1e-2, rtol=0)


def turning(n=2000, noise=0.05):
    """Two dimensions that turn by 0.3 a step."""
    rng = np.random.default_rng(0)
    x, turn = np.zeros((n, 2)), np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    for t in range(1, n):
        x[t] = 0.99 * x[t - 1] @ turn + noise * rng.standard_normal(2)
    return x / x.std(0)


def test_whitening_leaves_out_noise_and_only_noise():
    t = np.arange(1999)
    x, rng = turning(), np.random.default_rng(1)
    noise = rng.standard_normal((2000, 30))

    def both(y):
        y = y.astype(np.float32)
        return whitening(y).frame, whitening(y, pairs=(t, t + 1)).frame

    plain, found = both(np.c_[x, 2 * noise])  # noise as large as the signal, and larger
    assert (plain.shape[1], found.shape[1]) == (32, 2)
    seen = torch.from_numpy(np.c_[x, 2 * noise]).float() @ found
    assert metrics.r2(x, seen.numpy()) > 0.95
    torch.testing.assert_close(seen.std(0), torch.ones(2), atol=0.05, rtol=0)
    assert torch.equal(*both(np.c_[x, 0.01 * x[:, :1] ** 2]))  # all of it follows
    assert torch.equal(*both(noise))  # none of it does: there is nothing to tell apart
    mixed = np.c_[x, 0.5 * noise[:, :2]].astype(np.float32)
    assert whitening(mixed, pairs=(t, t + 1), n_signals=1).n_outputs == 2
    assert whitening(mixed, pairs=(t, t + 1), n_signals=2).n_outputs == 4  # no room for noise


def test_a_component_counts_by_how_well_it_follows_with_lags_too():
    rng, n = np.random.default_rng(2), 20_000
    t, follow = np.arange(n - 1), np.array([0.99, 0.9, 0.7, 0.5, *[0.0] * 6])
    y = np.zeros((n, 10))
    for i in range(1, n):
        y[i] = follow * y[i - 1] + np.sqrt(1 - follow**2) * rng.standard_normal(10)
    y *= 2.0 ** -np.arange(10)  # so that principal components are the channels
    y = y[:, ::-1].astype(np.float32).copy()
    found = whitening(y, pairs=(t, t + 1))
    weight = found(torch.from_numpy(y)).std(0).numpy()[::-1]
    np.testing.assert_allclose(weight, (follow**2 / follow[0] ** 2)[:4], atol=0.03)
    assert found.order.tolist() == [0, 1, 2, 3]
    windows = np.arange(2, n)[:, None] - np.arange(3)
    lagged = whitening(y, windows, (t, t + 1))
    assert lagged.window is None  # whitening them again would undo the weights
    assert lagged.n_outputs == 12
    assert lagged.order.tolist() == [0, 1, 2, 3]  # of the first frame
    assert whitening(y, windows).window is not None
    fewer = np.delete(y, [6, 7], axis=1)  # two that follow, and six of noise
    assert whitening(fewer, pairs=(t, t + 1)).n_outputs == 2
    assert whitening(fewer, pairs=(t, t + 1), n_signals=3).n_outputs == 3  # as many as latents
    assert whitening(y[:60], pairs=(t[:59], t[:59] + 1)).n_outputs <= 14


def test_whitening_takes_any_shape_in_front():
    y = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    scaling = whitening(y)
    rows = torch.from_numpy(y[:6])
    expected = scaling(rows)
    torch.testing.assert_close(scaling(rows[0]), expected[0])
    torch.testing.assert_close(scaling(rows.view(2, 3, 4)), expected.view(2, 3, 4))
    assert scaling(rows[:0]).shape == (0, 4)


def test_noise_of_many_channels_does_not_reach_the_encoder(monkeypatch):
    system = {"d": 2, "angle": 10, "noise": 0.05, "observed": 40, "layers": 2,
              "observation_noise": 0.1, "trials": 30, "steps": 100}  # fmt: skip
    data = simulate.lds(rng=np.random.default_rng(3), **system)
    fresh = simulate.again(data, rng=np.random.default_rng(9))

    def fitted():
        model = DCL(2, max_iter=300, batch_size=256, random_state=0).fit(data)
        x = model.transform(fresh.observations)
        return model.encoder_.whitening.n_outputs, metrics.r2(fresh.truth.latents, x)

    width, r2 = fitted()
    monkeypatch.setattr("dynacl.recipe.whitening", lambda y, windows, *_: whitening(y, windows))
    plain_width, plain_r2 = fitted()
    assert (width, plain_width) == (2, 40)
    assert r2 > plain_r2 + 0.02
    driven = TimeSeries.of(data.observations, np.ones((len(data), 1)), trial_length=100)
    monkeypatch.undo()
    model = DCL(2, max_iter=1, random_state=0).fit(driven)
    assert model.encoder_.whitening.n_outputs == 40  # what an input does is no noise


def test_frames_alone_are_whitened_where_windows_are_few():
    data = simulate.lds(rng=np.random.default_rng(1), d=3, trials=3, steps=60, observed=8, layers=2)
    lagged = small(dynamics="linear", time_lags=(0, 1, 2, 3, 4, 5, 6), max_iter=1).fit(data)
    assert lagged.encoder_.whitening.window is None
    assert lagged.encoder_.whitening.n_outputs == 7 * 3
    y = torch.from_numpy(data.observations[[6, 5, 4, 3, 2, 1, 0]])
    frames = (y - y.new_tensor(data.observations.mean(0))) @ lagged.encoder_.whitening.frame
    torch.testing.assert_close(
        lagged.encoder_.whitening(y.reshape(1, -1))[0], frames.flatten(), atol=1e-3, rtol=1e-3
    )


def test_wide_layers_learn_slowly_and_have_one_basis(monkeypatch):
    monkeypatch.setattr("dynacl.optimizers.WIDEST", 400)
    y = turning(3000) @ np.random.default_rng(1).standard_normal((2, 500))
    y += np.random.default_rng(2).standard_normal(y.shape)
    y = y.astype(np.float32)
    model = DCL(2, max_iter=150, batch_size=256, standardize=False, random_state=0).fit(y)
    soap = model.run_.optimizers[0]
    assert isinstance(soap, SOAP)
    peaks = {p.shape: g["peak"] for g in soap.param_groups for p in g["params"]}
    assert peaks[60, 500] == pytest.approx(0.03 * 200 / 500)
    assert peaks[60, 60] == peaks[20,] == 0.03
    first = model.encoder_.layers[0].weight
    assert "left_basis" in soap.state[first]
    assert "right_basis" not in soap.state[first]
    assert model.history_[-1]["bits"] > 3  # 1.9 where it learns as fast as narrow ones


def test_linear_start_is_near_the_largest_principal_components():
    y = np.random.default_rng(0).standard_normal((2000, 5)).astype(np.float32)
    y *= np.float32([3, 1, 0.5, 0.01, 2])
    generator = torch.Generator().manual_seed(0)
    encoder = MLP(5, 3, whitening=whitening(y), linear_start=True, generator=generator)
    x = encoder(torch.from_numpy(y)).detach().numpy()
    assert metrics.r2(x, y[:, [0, 4, 1]]) > 0.95  # the three largest, and nothing else
    assert metrics.r2(x, y[:, [2, 3]]) < 0.05
    few = MLP(2, 3, linear_start=True, generator=generator)  # fewer inputs than latents
    assert few(torch.from_numpy(y[:, :2])).shape == (2000, 3)


def test_horizon_rolls_the_dynamics_on_in_one_mode(data, monkeypatch):
    captured = {}

    def capture(dynamics, x, x_next, controls, steps):
        assert steps is None
        captured.update(x=x, x_next=x_next, n=len(controls))
        return advance_in_training(dynamics, x, x_next, controls)

    monkeypatch.setattr("dynacl.training.advance_in_training", capture)
    seen = []
    model = small(max_iter=10).fit(data, callback=lambda run, _: seen.append(captured["n"]))
    assert seen == [1, 1, 4, 4, 4, 4, 4, 4, 4, 4]
    assert model.settings_.horizon == 4
    x, x_next = captured["x"].detach(), captured["x_next"].detach()
    W = torch.linalg.matrix_power(model.dynamics_.matrices.detach(), 4)
    ends = torch.stack([x @ w.T for w in W], dim=1)
    nearest = (ends - x_next[:, None]).square().sum(-1).argmin(-1)
    rolled = model.dynamics_.eval().rollout(x, x_next, [None] * 4)
    torch.testing.assert_close(rolled, ends[torch.arange(len(x)), nearest])


def as_it_is(d):
    """An encoder that starts at the identity."""
    encoder = torch.nn.Linear(d, d, bias=False)
    torch.nn.init.eye_(encoder.weight)
    return encoder


def test_linear_dynamics_learn_the_map_over_the_time_offset():
    data = simulate.lds(
        rng=np.random.default_rng(0), d=2, angle=15, trials=20, steps=50, mixing="none"
    )
    model = DCL(2, encoder=as_it_is(2), max_iter=150, batch_size=256, random_state=0,
                dynamics_learning_rate=0.05, time_offset=2).fit(data)  # fmt: skip
    turns = np.angle(np.linalg.eigvals(model.dynamics_.matrix.detach().numpy()), deg=True)
    np.testing.assert_allclose(sorted(turns), [-30, 30], atol=2)


@pytest.mark.parametrize("dynamics", ["linear", "recurrent"])
def test_positives_control_and_context_are_a_time_offset_apart(dynamics, monkeypatch):
    captured = {}

    def capture(dynamics, x, x_next, controls, steps):
        captured.update(x=x.view(16, -1), x_next=x_next, controls=controls)
        return advance_in_training(dynamics, x, x_next, controls, steps)

    monkeypatch.setattr("dynacl.training.advance_in_training", capture)
    t = np.arange(60, dtype=np.float32)[:, None]  # row t of the data and the control holds t
    model = DCL(1, dynamics, encoder=Recorder(), batch_size=16, max_iter=10, learning_rate=1e-9,
                time_offset=3, random_state=0).fit([t[:30], t[30:]], u=t)  # fmt: skip
    now, context, horizon = captured["x"][:, -1:], model.run_.context, model.settings_.horizon
    assert (context, horizon) == ((0, 4) if dynamics == "linear" else (8, 1))
    torch.testing.assert_close(captured["x"], now + 3 * torch.arange(-context, 1))
    torch.testing.assert_close(captured["x_next"], now + 3 * horizon)
    drive = torch.cat(captured["controls"], dim=1)
    torch.testing.assert_close(drive, now + 3 * torch.arange(horizon))


def test_transitions_are_counted_over_the_time_offset():
    data = simulate.slds(
        rng=np.random.default_rng(1), d=2, modes=2, angle=60, switch_probability=0.05, trials=4,
        steps=50, mixing="none",
    )  # fmt: skip
    bank = SwitchingLinear(2, 2)  # the true one, over two steps
    with torch.no_grad():
        true = torch.from_numpy(data.truth.system["matrices"]).float()
        bank.matrices.copy_(true @ true)
    model = small(n_components=2, encoder=as_it_is(2), dynamics=bank, max_iter=2, time_offset=2,
                  learning_rate=1e-9, dynamics_learning_rate=1e-9).fit(data)  # fmt: skip
    counts = np.eye(2)
    for modes in model.modes(data):
        np.add.at(counts, (modes[:-2], modes[2:]), 1)
    assert counts.min() > 5
    expected = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(model.transitions_, expected, rtol=1e-6)


def test_baseline_and_paper_protocols_contrast_one_step(data):
    assert small(dynamics="identity", max_iter=1).fit(data).settings_.horizon == 1
    paper = small(protocol="paper-slds", n_negatives=8, max_iter=1).fit(data)
    assert paper.settings_.horizon == 1


def test_horizon_fits_into_the_shortest_trial():
    y = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    model = DCL(2, max_iter=2, random_state=0).fit([y[:3], y[3:]])
    assert model.settings_.horizon == 2


@pytest.mark.parametrize("shape", [(7, 5), (5, 7)])
def test_soap_minimises_an_ill_conditioned_quadratic_faster_than_adam(shape):
    """‖M W N − target‖² with condition number 100 on both sides: what the eigenbases are for."""
    g = torch.Generator().manual_seed(0)
    M, N = (
        torch.linalg.qr(torch.randn(n, n, generator=g))[0]
        @ torch.diag(torch.logspace(0, -2, n))
        @ torch.linalg.qr(torch.randn(n, n, generator=g))[0]
        for n in shape
    )
    target = M @ torch.randn(shape, generator=g) @ N
    losses = {}
    for kind in (SOAP, torch.optim.Adam):
        W = torch.zeros(shape, requires_grad=True)
        best = []
        for lr in (0.003, 0.01, 0.03, 0.1):
            W.data.zero_()
            optimizer = kind([W], lr=lr)
            for i in range(300):
                optimizer.param_groups[0]["lr"] = lr * (1 - i / 300)
                optimizer.zero_grad()
                loss = (M @ W @ N - target).square().sum()
                loss.backward()
                optimizer.step()
            best.append(loss.item())
        losses[kind] = min(best)
    assert losses[SOAP] < 0.5 * losses[torch.optim.Adam]


def test_constant_feature_does_not_break_standardisation():
    y = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    y[:, 1] = 4.0
    model = DCL(2, max_iter=2, random_state=0).fit(TimeSeries.of(y))
    assert np.isfinite(model.transform(y)).all()


def test_modes_are_split_apart_when_the_contrast_goes_several_steps_ahead():
    """Latents that are known, a bank whose modes have merged: the split finds both again."""
    data = simulate.slds(
        rng=np.random.default_rng(5), d=2, modes=2, angle=60, noise=1e-3, trials=20, steps=50,
        mixing="none", switch_probability=0.02,
    )  # fmt: skip
    encoder = torch.nn.Identity()
    encoder.weight = torch.nn.Parameter(torch.zeros(1))
    dynamics = SwitchingLinear(2, 2)
    run = Run(encoder, dynamics, PROTOCOLS["default"], torch.Generator().manual_seed(0))
    split_modes(run, rows(data, run.settings), torch.device("cpu"), run.generator)
    found, true = dynamics.matrices.detach().numpy(), data.truth.system["matrices"]
    errors = [max(np.abs(found[[i, 1 - i]] - true).max(axis=(1, 2))) for i in (0, 1)]
    assert min(errors) < 0.01


def test_a_free_f_and_the_sphere_have_no_linear_start(data):
    assert small(dynamics="identity", max_iter=1).fit(data).encoder_.linear is not None
    assert small(similarity="dot", max_iter=1).fit(data).encoder_.inner.linear is None
    assert small(protocol="paper-slds", max_iter=1).fit(data).encoder_.linear is None


class Free(torch.nn.Module):
    def forward(self, x, x_next=None, u=None):
        return x


@pytest.mark.parametrize(
    ("free", "linear", "gain"),
    [
        ({"dynamics": "mlp"}, False, 1),
        ({"dynamics": "gated"}, False, 1),
        ({"dynamics": "recurrent"}, False, 1),
        ({"dynamics": Free()}, False, 1),
        ({"dynamics": "identity", "asymmetric": True}, False, 3),
        ({"n_modes": 31}, True, 1),
    ],
    ids=lambda v: str(next(iter(v.values()))) if isinstance(v, dict) else None,
)
def test_what_may_follow_any_redrawing_gets_no_weight_on_alignment(free, linear, gain, data):
    model = small(max_iter=1, **free).fit(data)
    assert model.run_.emphasis is None
    assert model.settings_.linear_start is linear
    assert model.settings_.input_gain == gain


def test_many_modes_start_at_a_bank_fitted_to_the_linear_start(data, monkeypatch):
    when = []
    for room in ("training", "banks"):
        where = f"dynacl.{room}.split_modes"
        monkeypatch.setattr(where, lambda run, *_: when.append(run.step))
    many = small(dynamics="switching", n_modes=31, max_iter=10).fit(data)
    assert when == [0, 10]  # and anew when training stands still
    assert (many.settings_.horizon, many.settings_.learning_rate) == (1, 1e-3)
    chosen = small(dynamics="switching", n_modes=31, max_iter=1, learning_rate=0.01).fit(data)
    assert chosen.settings_.learning_rate == 0.01
    plain = small(dynamics="switching", n_modes=31, max_iter=1, standardize=False).fit(data)
    assert plain.settings_.learning_rate == 0.03  # no linear start, no slow one
    when.clear()
    few = small(dynamics="switching", n_modes=30, max_iter=10).fit(data)
    assert when == [2]
    assert few.settings_.learning_rate == 0.03


def test_many_modes_are_fitted_to_the_latents_wherever_training_stops_and_it_goes_on(tmp_path):
    """Gradient steps leave modes that fit few pairs and throw others far away."""
    data = simulate.lorenz(rng=np.random.default_rng(0), steps=3000, observed=8)
    settings = {"n_modes": 31, "max_iter": 60, "dynamics_learning_rate": 0.1}

    def error(bank, x):
        now, following = torch.from_numpy(x[:-1]), torch.from_numpy(x[1:])
        with torch.no_grad():
            return float((bank.eval()(now, following) - following).square().mean())

    whole = small(**settings).fit(data)
    broken = small(**settings).fit(data, callback=lambda run, _: run.step == 40)
    assert broken.n_iter_ == 40
    for model in (whole, broken):
        x = np.concatenate(model.transform(data))
        trained = SwitchingLinear(3, 31)
        trained.load_state_dict(model.run_.as_trained)
        assert error(model.dynamics_, x) < 0.5 * error(trained, x)
    broken.save(tmp_path)
    save_checkpoint(broken.run_, tmp_path / "checkpoint")
    loaded = DCL.load(tmp_path)
    assert_same(weights(broken), weights(loaded))
    load_checkpoint(loaded.run_, tmp_path / "checkpoint")
    for model in (broken, loaded):
        assert_same(weights(whole), weights(model.resume(data)))
    paper = small(protocol="paper-lorenz", n_negatives=8, **settings).fit(data)
    assert paper.run_.as_trained is None


def test_a_bank_that_predicts_new_pairs_worse_does_not_replace_the_trained_one(monkeypatch):
    def spoil(run, *_):
        run.dynamics.matrices.mul_(2)

    for room in ("training", "banks"):
        monkeypatch.setattr(f"dynacl.{room}.split_modes", torch.no_grad()(spoil))
    data = simulate.lorenz(rng=np.random.default_rng(0), steps=1000, observed=8)
    model = small(n_modes=31, max_iter=3).fit(data)
    # Spoiled once, at the start of the training, and not at its end.
    assert (model.dynamics_.matrices.diagonal(dim1=1, dim2=2) - 2).abs().max() < 0.2
    for name, value in model.dynamics_.state_dict().items():
        assert torch.equal(value, model.run_.as_trained[name])


def test_loaded_model_resumes_with_its_checkpoint_only(data, tmp_path):
    broken = small().fit(data, callback=lambda run, _: run.step == 10)
    broken.save(tmp_path)
    loaded = DCL.load(tmp_path)
    with pytest.raises(InputError, match="load_checkpoint"):
        loaded.resume(data)
    assert loaded.partial_fit(data).n_iter_ == 30
    done = small(max_iter=2).fit(data)
    done.save(tmp_path)
    assert DCL.load(tmp_path).resume(data).n_iter_ == 2  # nothing is left to do
