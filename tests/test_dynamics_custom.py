"""Modules of one's own as dynamics: with modes or without, they go all the way."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, InputError, TimeSeries, evaluate, metrics, simulate
from dynacl.data import Truth
from quick_models import tiny


class Turns(nn.Module):
    """Two linear maps, one for each mode: all that a module with hidden modes must have."""

    n_modes = 2

    def __init__(self, d=2, n_controls=0):
        super().__init__()
        near = 0.1 * torch.randn(2, d, d, generator=torch.Generator().manual_seed(0))
        self.maps = nn.Parameter(torch.eye(d) + near)
        self.drive = nn.Parameter(torch.zeros(d, n_controls)) if n_controls else None

    def bank(self, x, u=None):
        moved = torch.einsum("kij,nj->nki", self.maps, x)
        return moved if self.drive is None else moved + (u @ self.drive.T)[:, None]


@pytest.fixture(scope="module")
def turning():
    """Two rotations that last fifty steps or so, seen through a linear mixing."""
    return simulate.slds(
        rng=np.random.default_rng(3), d=2, modes=2, angle=60, noise=0.02, trials=40, steps=100,
        switch_probability=0.02, mixing="linear", observed=5,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(turning):
    return DCL(2, Turns(), max_iter=300, batch_size=256, random_state=0).fit(turning)


@pytest.mark.parametrize("decode", ["step", "sequence"])
def test_modes_are_found_and_agree_with_the_truth(turning, model, decode):
    found = np.concatenate(model.modes(turning, decode=decode))
    true = turning.truth.modes[turning.steps()]
    assert metrics.mode_accuracy(true, found) > 0.97
    figures = evaluate(model, turning)
    name = {"step": "mode_accuracy", "sequence": "mode_accuracy_sequence"}[decode]
    assert figures[name] == metrics.mode_accuracy(true, found)


def test_latents_and_dynamics_are_found(turning, model):
    found = evaluate(model, turning)
    assert found["r2"] > 0.99
    assert found["dyn_r2_1"] > 0.99
    assert found["dyn_r2_10"] > 0.95 > found["dyn_r2_10_control"]
    # The same maps in other coordinates: traces and determinants stay.
    maps = model.dynamics_.maps.detach().numpy()
    for size in (np.trace, np.linalg.det):
        pairs = [sorted(size(m) for m in bank) for bank in (maps, turning.truth.system["matrices"])]
        np.testing.assert_allclose(*pairs, atol=0.03)


def test_predict_holds_the_mode_of_the_step_before(turning, model):
    y = turning.observations[:100]
    x, modes = model.transform(y), model.modes(y, decode="step")
    W = model.dynamics_.maps.detach().numpy()
    expected = [W.mean(0) @ x[0]] + [W[modes[t - 1]] @ x[t] for t in range(1, 100)]
    np.testing.assert_allclose(model.predict(y), expected, rtol=1e-4, atol=1e-5)


def test_forecast_holds_the_last_mode_or_moves_by_the_chain(turning, model):
    x, modes = model.transform(turning)[0][-1], model.modes(turning)[0][-1]
    W = model.dynamics_.maps.detach().numpy().astype(float)
    held, mean, p = x.astype(float), x.astype(float), np.eye(2)[modes]
    hold, markov = (model.forecast(turning, 3, modes=m)[0] for m in ("hold", "markov"))
    np.testing.assert_array_equal(model.forecast(turning, 3)[0], hold)
    for j in range(3):
        p = p @ model.transitions_
        held, mean = W[modes] @ held, np.einsum("k,kij,j->i", p, W, mean)
        np.testing.assert_allclose(hold[j], held, rtol=1e-4)
        np.testing.assert_allclose(markov[j], mean, rtol=1e-4)
    with pytest.raises(InputError, match="modes: 'gated' does not fit Turns"):
        model.forecast(turning, 3, modes="gated")
    # The chain: a mode is left for the other with probability 0.02.
    np.testing.assert_allclose(model.transitions_, [[0.98, 0.02], [0.02, 0.98]], atol=0.01)


def test_it_is_saved_and_loaded_whole(turning, model, tmp_path):
    model.save(tmp_path)
    with pytest.raises(InputError, match="dynamics: this model was fitted with a custom one"):
        DCL.load(tmp_path)
    loaded = DCL.load(tmp_path, dynamics=Turns())
    assert type(loaded.dynamics_) is Turns
    for use in (
        lambda m: m.transform(turning),
        lambda m: m.modes(turning),
        lambda m: m.predict(turning),
        lambda m: m.forecast(turning, 3, modes="markov"),
    ):
        np.testing.assert_array_equal(np.stack(use(model)), np.stack(use(loaded)))
    assert loaded.score(turning) == model.score(turning)
    assert evaluate(loaded, turning) == evaluate(model, turning)


def test_modes_of_a_driven_system_are_found_with_its_control(turning):
    rng = np.random.default_rng(0)
    A, B = turning.truth.system["matrices"], np.array([[0.3], [0.15]])
    u, modes = rng.uniform(-1, 1, (40, 100, 1)), rng.integers(2, size=(40, 1)).repeat(100, 1)
    x = np.zeros((40, 100, 2))
    x[:, 0] = rng.standard_normal((40, 2))
    for t in range(99):
        moved = np.einsum("nij,nj->ni", A[modes[:, t]], x[:, t]) + u[:, t] @ B.T
        x[:, t + 1] = moved + 0.02 * rng.standard_normal((40, 2))
    latents, control = x.reshape(-1, 2).astype(np.float32), u.reshape(-1, 1).astype(np.float32)
    y = latents @ rng.standard_normal((2, 5)).astype(np.float32)
    modes[:, -1] = -1
    series = TimeSeries(y, np.arange(0, 4001, 100), control, Truth(latents, modes.ravel()))
    model = DCL(
        2, Turns(n_controls=1), max_iter=400, batch_size=256, random_state=0,
        dynamics_learning_rate=0.05, settings={"linear_start": True},
    ).fit(series)  # fmt: skip
    found = evaluate(model, series)
    assert found["r2"] > 0.99
    assert found["mode_accuracy_sequence"] > 0.97
    back, _ = metrics.affine(np.concatenate(model.transform(series)), latents)
    np.testing.assert_allclose(back @ model.dynamics_.drive.detach().numpy(), B, atol=0.02)
    ahead = [model.forecast(series, 3, u=np.full((3, 1), push)) for push in (0, 1)]
    moved = (np.stack(ahead[1]) - np.stack(ahead[0]))[:, 0].mean(0) @ back.T
    np.testing.assert_allclose(moved, B[:, 0], atol=0.02)


class Says(Turns):
    """Says of itself what it is told to."""

    def __init__(self, **said):
        super().__init__(d=3)
        for name, value in said.items():
            setattr(self, name, value)

    def forward(self, x, x_next=None, u=None):
        return x


def test_wishes_of_a_module_are_settings_with_a_reason(rotating):
    wishes = {"horizon": 3, "refit_after": 0.5, "switching_logits": "relative"}
    model = tiny(3, Says(wishes=wishes)).fit(rotating)
    assert {name: getattr(model.settings_, name) for name in wishes} == wishes
    assert set(wishes) <= set(model.reasons_)
    chosen = tiny(3, Says(wishes=wishes), settings={"horizon": 2}).fit(rotating)
    assert chosen.settings_.horizon == 2  # the user has the last word


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"n_modes": -1}, "dynamics: its n_modes is -1; wanted a whole number of at least 0"),
        ({"n_modes": 2.0}, "dynamics: its n_modes is 2.0; wanted a whole number"),
        ({"context": "far"}, "dynamics: its context is 'far'; wanted a whole number"),
        ({"bank": None}, r"dynamics: Says has 2 modes and no bank; wanted a method bank\(x, u\)"),
        ({"wishes": ["horizon"]}, "dynamics: its wishes are .*; wanted a dict of settings"),
        ({"wishes": {"horizon": 0}}, "dynamics: its wishes: horizon: got 0; wanted a whole"),
        ({"wishes": {"horizn": 2}}, "dynamics: its wishes: no setting is called 'horizn'"),
        ({"bank": lambda x, u=None: x}, "dynamics: its bank: gave shape"),
        ({"n_modes": 3}, "dynamics: its bank: gave shape"),  # it has two: told before the training
    ],
    ids=lambda given: str(given) if isinstance(given, str) else ", ".join(given),
)  # fmt: skip
def test_what_a_module_says_of_itself_is_checked_before_training(rotating, said, message):
    with pytest.raises(InputError, match=message):
        tiny(3, Says(**said)).fit(rotating)
