"""What training sees: uniform over what can be seen, inside trials, each row encoded once."""

import math

import numpy as np
import pytest
import torch

from dynacl import DCL, TimeSeries
from dynacl.dynamics import Linear, Recurrent, reach
from dynacl.encoders import Asymmetric, CustomEncoder
from dynacl.run import Run
from dynacl.sampling import encode, encoded_pairs, rows
from dynacl.settings import Settings


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
    return model.encoder_.seen[:steps], np.cumsum([0, *lengths])


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


def test_every_observation_is_encoded_once_per_step():
    seen, _ = sampled(32, steps=3)
    assert [len(rows) for rows in seen] == [16 + 16 + 32] * 3


@pytest.mark.parametrize("dynamics", ["linear", "recurrent"])
def test_positives_control_and_context_are_a_time_offset_apart(dynamics, monkeypatch):
    captured = {}

    def capture(f, x, x_next, controls, steps):
        captured.update(x=x.view(16, -1), x_next=x_next, controls=controls)
        return reach(f, x, x_next, controls, steps)

    monkeypatch.setattr("dynacl.training.reach", capture)
    t = np.arange(60, dtype=np.float32)[:, None]  # row t of the data and the control holds t
    model = DCL(1, dynamics, encoder=Recorder(), batch_size=16, max_iter=10, learning_rate=1e-9,
                time_offset=3, random_state=0).fit([t[:30], t[30:]], u=t)  # fmt: skip
    now, context, horizon = (
        captured["x"][:, -1:],
        model.run_.dynamics.context,
        model.settings_.horizon,
    )
    assert (context, horizon) == ((0, 4) if dynamics == "linear" else (8, 1))
    torch.testing.assert_close(captured["x"], now + 3 * torch.arange(-context, 1))
    torch.testing.assert_close(captured["x_next"], now + 3 * horizon)
    drive = torch.cat(captured["controls"], dim=1)
    torch.testing.assert_close(drive, now + 3 * torch.arange(horizon))


def begun(dynamics, encoder=None, **changed):
    """A run whose encoder changes nothing."""
    encoder = encoder or CustomEncoder(torch.nn.Identity())
    encoder.register_parameter("weight", torch.nn.Parameter(torch.zeros(1)))
    return Run(encoder, dynamics, Settings(**changed), torch.Generator().manual_seed(0))


def counted(lengths, u=False):
    """Trials whose row t holds t, and a control whose row t holds −t."""
    t = np.arange(sum(lengths), dtype=np.float32)[:, None]
    cuts = np.cumsum(lengths)[:-1]
    return TimeSeries.of(np.split(t, cuts), np.split(-t, cuts) if u else None)


def test_references_have_their_past_and_their_future_in_their_trial():
    series = counted([20, 30])
    plain = rows(series, begun(Linear(1)))
    assert plain.steps.tolist() == [*range(19), *range(20, 49)]
    assert plain.seen is None  # negatives come from everywhere
    far = rows(series, begun(Linear(1), horizon=4, time_offset=2))
    assert far.steps.tolist() == [*range(12), *range(20, 42)]
    lagged = rows(series, begun(Linear(1), time_lags=(0, 3)))
    assert lagged.steps.tolist() == [*range(3, 19), *range(23, 49)]
    assert lagged.seen.tolist() == [*range(3, 20), *range(23, 50)]
    back = rows(series, begun(Recurrent(1, context=4), time_offset=2, time_lags=(0, 1)))
    assert back.steps.tolist() == [*range(9, 18), *range(29, 48)]
    assert back.seen.tolist() == [*range(1, 20), *range(21, 50)]


def test_windows_hold_the_present_and_its_lags_and_the_control_is_that_of_each_step():
    data = rows(counted([20, 30], u=True), begun(Linear(1), time_lags=(0, 2, 5)))
    t = torch.tensor([7, 30])
    assert data.window(t).tolist() == [[7, 5, 2], [30, 28, 25]]
    drive = data.drive(t, steps=3, offset=2, like=data.y)
    assert torch.cat(drive, dim=1).tolist() == [[-7, -9, -11], [-30, -32, -34]]
    free = rows(counted([20]), begun(Linear(1)))
    assert free.drive(t, 3, 1, free.y) == [None, None, None]


def test_rows_share_the_memory_of_the_series():
    series = counted([20])
    assert rows(series, begun(Linear(1))).y.data_ptr() == series.observations.ctypes.data


def test_references_come_with_their_context_and_others_without():
    run = begun(Recurrent(1, context=2), time_offset=3)
    data = rows(counted([40]), run)
    now, others = encode(run, data, torch.tensor([9, 20]), torch.tensor([1, 2, 3]))
    assert now[..., 0].tolist() == [[3, 6, 9], [14, 17, 20]]
    assert others[:, 0].tolist() == [1, 2, 3]


def test_pairs_of_latents_are_a_time_offset_apart_and_each_side_has_its_encoder():
    class Negated(torch.nn.Module):
        def forward(self, y):
            return -y

    run = begun(Linear(1), Asymmetric(Negated(), torch.nn.Identity()), time_offset=2)
    data = rows(counted([40], u=True), run)
    t = torch.arange(5)
    now, following, drive = encoded_pairs(run, data, t)
    assert now[:, 0].tolist() == [0, -1, -2, -3, -4]
    assert following[:, 0].tolist() == [2, 3, 4, 5, 6]
    assert drive[:, 0].tolist() == [0, -1, -2, -3, -4]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_frames_are_made_ready_once_for_all_windows_that_share_them(asymmetric):
    y = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    model = DCL(2, time_lags=(0, 1, 3), asymmetric=asymmetric, max_iter=1, random_state=0).fit(y)
    data = rows(TimeSeries.of(y), model.run_)
    t = torch.arange(3, 60)
    with torch.inference_mode():
        x, other = model.run_.encoder.pair(data.window, t, t)
        windows = torch.from_numpy(TimeSeries.of(y).windows(t.numpy(), (0, 1, 3)))
        torch.testing.assert_close(other, model.run_.encoder(windows))
        torch.testing.assert_close(x, model.run_.encoder.references(windows))


def test_frames_of_a_long_series_are_made_ready_as_windows_are_cut(monkeypatch):
    y = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    model = DCL(2, time_lags=(0, 1), max_iter=1, random_state=0).fit(y)
    t, found = torch.arange(1, 60), []
    for most in (10**6, 10):
        monkeypatch.setattr("dynacl.sampling.MOST", most)
        data = rows(TimeSeries.of(y), model.run_)
        found.append(data.window(t))
        shares = data.y.data_ptr() == TimeSeries.of(y).observations.ctypes.data
        assert shares == (most == 10)
    torch.testing.assert_close(*found)
