"""Data and models that several files of tests use, each made once."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import settings

from command_line import dynacl, quick_fit
from dynacl import DCL, dynamics, simulate, writing
from dynacl.dynamics import least_squares
from dynacl.parameters import PARAMETERS

# A busy machine fails no test: the judge is never a time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture
def short_descents(monkeypatch):
    """Networks are hardly fitted to latents, for whatever does not depend on how well they are."""
    monkeypatch.setattr(least_squares, "STEPS", 20)


@pytest.fixture(scope="session")
def recovered(tmp_path_factory):
    """slds.npz, a tiny switching system of 40 trials × 250 steps, and run, a good model of it."""
    p = tmp_path_factory.mktemp("recovered")
    dynacl("simulate", "slds", "--d", 2, "--modes", 2, "--angle", 40, "--noise", 0.01,
           "--trials", 40, "--steps", 250, "--switch-probability", 0.01, "--layers", 2,
           "--observed", 8, "--seed", 3, "--out", p / "slds.npz")  # fmt: skip
    dynacl("fit", p / "slds.npz", "--dynamics", "switching", "--modes", 2, "--components", 2,
           "--max-iter", 600, "--batch-size", 512, "--out", p / "run")  # fmt: skip
    return p


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A switching system of 6 trials × 40 steps, new trials of it, a driven one, and models that
    have hardly been trained."""
    p = tmp_path_factory.mktemp("world")
    size = ("--trials", 6, "--steps", 40, "--observed", 5, "--layers", 1)
    dynacl("simulate", "slds", "--d", 2, "--modes", 2, "--switch-probability", 0.1, *size,
           "--out", p / "slds.npz")  # fmt: skip
    dynacl("simulate", "--again", p / "slds.npz", "--trials", 3, "--seed", 1,
           "--out", p / "new.npz")  # fmt: skip
    dynacl("simulate", "control-step", "--d", 2, *size, "--out", p / "driven.npz")
    dynacl("simulate", "lds", "--d", 2, *size, "--out", p / "lds.npz")
    np.savetxt(p / "u.csv", np.ones((4, 1)), delimiter=",")
    quick_fit(p, "switching", "--dynamics", "switching", "--modes", 2)
    quick_fit(p, "lagged", "--dynamics", "switching", "--modes", 2, "--time-lags", "0,1,2")
    quick_fit(p, "gated", "--dynamics", "gated", "--modes", 2)
    quick_fit(p, "asymmetric", "--asymmetric")
    quick_fit(p, "driven", data="driven.npz")
    return p


@pytest.fixture(scope="session")
def rotating():
    """A rotation of 4 trials × 30 steps, seen in six dimensions."""
    return simulate.lds(rng=np.random.default_rng(1), trials=4, steps=30, observed=6)


@pytest.fixture(scope="session")
def two_modes():
    """A switching system of 10 trials × 40 steps, seen in eight dimensions."""
    return simulate.slds(
        rng=np.random.default_rng(2), d=3, modes=2, trials=10, steps=40, observed=8, layers=2
    )


@pytest.fixture(scope="session")
def switching_model(two_modes):
    """Switching dynamics, thirty steps long fitted to `two_modes`."""
    return DCL(3, "switching", 2, max_iter=30, batch_size=64, random_state=0).fit(two_modes)


@pytest.fixture(scope="session")
def linear_model(two_modes):
    """Linear dynamics, thirty steps long fitted to `two_modes`."""
    return DCL(3, "linear", max_iter=30, batch_size=64, random_state=0).fit(two_modes)


@pytest.fixture(scope="session")
def trials():
    """A switching system: two modes, 20 trials × 50 steps, 3 latents behind 8 observed."""
    return simulate.slds(
        rng=np.random.default_rng(1), d=3, modes=2, trials=20, steps=50, observed=8, layers=2
    )


@pytest.fixture(scope="session")
def small():
    """A short fit of a switching model, with any parameter replaced."""
    usual = {"n_components": 3, "dynamics": "switching", "n_modes": 2, "max_iter": 20,
             "batch_size": 64, "random_state": 0}  # fmt: skip
    return lambda **changed: DCL(**(usual | changed))


@pytest.fixture(scope="session")
def weights():
    """Every number that a model has learned, copied."""
    return lambda model: [
        value.detach().clone()
        for part in (model.encoder_, model.dynamics_)
        for value in part.state_dict().values()
    ]


@pytest.fixture(scope="session")
def assert_equal():
    """Tensors that are the same bit for bit."""

    def check(left, right):
        for x, y in zip(left, right, strict=True):
            assert torch.equal(x, y)

    return check


@pytest.fixture(scope="session")
def as_it_is():
    """An encoder of d dimensions that starts at the identity."""

    def make(d):
        encoder = torch.nn.Linear(d, d, bias=False)
        torch.nn.init.eye_(encoder.weight)
        return encoder

    return make


@pytest.fixture(scope="session")
def build():
    """The dynamics that a name stands for, with the defaults of DCL; "truth" is a rotation."""

    def make(name, d=2, n_controls=0, seed=0, **chosen):
        options = {p.name: p.default for p in PARAMETERS.values() if p.group == "dynamics"}
        simulator = simulate.controlled if n_controls else simulate.lds
        data = simulator(rng=np.random.default_rng(0), d=d, trials=2, steps=3, mixing="none")
        system = partial(simulate.system, data.truth.system)
        generator = torch.Generator().manual_seed(seed)
        request = dynamics.Request(d, n_controls, options | chosen, system, generator)
        return dynamics.named(name).build(request)

    return make


@pytest.fixture(scope="session")
def turning():
    """n steps of two dimensions that turn by 0.3 per step, with noise."""

    def make(n=2000, noise=0.05):
        rng, (c, s) = np.random.default_rng(0), (np.cos(0.3), np.sin(0.3))
        x, turn = np.zeros((n, 2)), np.array([[c, -s], [s, c]])
        for t in range(1, n):
            x[t] = 0.99 * x[t - 1] @ turn + noise * rng.standard_normal(2)
        return x / x.std(0)

    return make


@pytest.fixture
def on_disk(monkeypatch):
    """Arrays of a row per step lie on a disk, and are worked on in small parts; which they are."""
    made, room = [], writing.room_on_disk

    def noted(folder, shape, kind):
        made.append(room(folder, shape, kind))
        assert isinstance(made[-1].base, np.memmap)
        return made[-1]

    for command in ("embed", "forecast"):
        monkeypatch.setattr(f"dynacl.cli.{command}.room_on_disk", noted)
    monkeypatch.setattr(writing, "SMALL", 0)
    monkeypatch.setattr("dynacl.inference.ROWS", 21)
    monkeypatch.setattr("dynacl.inference.NUMBERS", 40)
    monkeypatch.setattr("dynacl.cli.files.ROWS", 17)
    monkeypatch.setattr("dynacl.decoding.AT_ONCE", 50)
    for format in ("csv", "parquet"):
        monkeypatch.setattr(f"dynacl.data.formats.{format}.AT_ONCE", 60)
    return made
