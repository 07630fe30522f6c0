"""Systems of a user's own: drawn, evaluated and in a table, without editing the package."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch

from command_line import dynacl
from dynacl import DCL, InputError, TimeSeries, evaluate, simulate
from dynacl.dynamics.oracle import ArrayMap
from dynacl.evaluation import FIGURES
from dynacl.experiments.benchmark import Row, benchmark
from dynacl.simulate.base import System, simulated

TURN = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
SMALL = {"trials": 20, "steps": 40, "observed": 4, "mixing": "linear"}


def spiral(x, decay, matrix):
    return decay * x @ matrix.T


def drawn(**changed):
    given = {"d": 2, "parameters": {"decay": 0.99, "matrix": TURN}, "noise": 0.05} | SMALL
    return simulate.own(spiral, rng=np.random.default_rng(0), **given | changed)


def test_a_function_moves_the_state_as_it_says():
    data = drawn(noise=0.0)
    for x in data.split(data.truth.latents):
        np.testing.assert_allclose(x[1:], 0.99 * x[:-1] @ TURN.T, atol=1e-5)


def test_trials_begin_where_they_are_told():
    data = drawn(centre=(5, 0), spread=0.1, noise=0.0, trials=400)
    first = data.truth.latents[data.bounds[:-1]]
    np.testing.assert_allclose(first.mean(0), [5, 0], atol=0.03)
    np.testing.assert_allclose(first.std(0), 0.1, atol=0.02)
    later = drawn(centre=(5, 0), spread=0.1, noise=0.0, trials=400, warmup=3)
    turned = 0.99**3 * first @ np.linalg.matrix_power(TURN, 3).T
    np.testing.assert_allclose(later.truth.latents[later.bounds[:-1]], turned, atol=1e-5)


def test_it_equals_the_same_system_of_the_library():
    """The oracle by arrays is the linear one, value and slope."""
    data = drawn()
    mine = simulate.system(data.truth.system).oracle().double()
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    expected = x.detach() @ torch.tensor(0.99 * TURN.T)
    torch.testing.assert_close(mine.true.step(x).detach(), expected)
    assert torch.autograd.gradcheck(mine.true.step, (x,), atol=1e-6)


def test_slopes_by_differences_are_those_of_autograd():
    def bent(x):
        return x + 0.1 * np.sin(3 * x[:, ::-1])

    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    mine = ArrayMap(bent).step(x)
    theirs = x + 0.1 * torch.sin(3 * x.flip(1))
    weights = torch.randn(7, 3, dtype=torch.float64)
    (by_differences,) = torch.autograd.grad((mine * weights).sum(), x)
    (exact,) = torch.autograd.grad((theirs * weights).sum(), x)
    torch.testing.assert_close(by_differences, exact, atol=1e-7, rtol=1e-6)


def test_a_file_of_such_data_is_evaluated_like_the_data(tmp_path):
    data = drawn()
    data.write(tmp_path / "own.npz")
    read = TimeSeries.read(tmp_path / "own.npz")
    model = DCL(2, max_iter=30, batch_size=64, random_state=0).fit(data)
    assert evaluate(model, read) == evaluate(model, data)
    again = simulate.again(read, rng=np.random.default_rng(1), trials=2)
    assert again.n_trials == 2


def test_a_function_that_is_not_known_or_another_is_refused(monkeypatch):
    system = drawn().truth.system
    monkeypatch.setitem(simulate.FUNCTIONS, "spiral", lambda x, decay, matrix: 0.5 * x)
    with pytest.raises(InputError, match="'spiral' is not the one that these data were drawn with"):
        simulate.system(system)
    monkeypatch.delitem(simulate.FUNCTIONS, "spiral")
    with pytest.raises(InputError, match=r"wanted simulate.FUNCTIONS\['spiral'\] = spiral"):
        simulate.system(system)


@pytest.mark.parametrize("command", [("fit", "--max-iter", 3), ("evaluate", "--nulls", "none")])
def test_a_file_whose_system_is_not_known_is_used_and_says_so(tmp_path, monkeypatch, command):
    """Its latents are there; only what takes a step of the true system is not."""
    drawn().write(tmp_path / "own.npz")
    model = DCL(2, max_iter=3, batch_size=64, random_state=0).fit(tmp_path / "own.npz")
    known = evaluate(model, tmp_path / "own.npz")
    model.save(tmp_path / "run")
    monkeypatch.delitem(simulate.FUNCTIONS, "spiral")
    found = evaluate(model, tmp_path / "own.npz")
    assert {name: found[name] for name in ("r2", "mcc")} == {
        name: known[name] for name in ("r2", "mcc")
    }
    assert found["dyn_r2_1"] is None
    assert "its system is the function 'spiral'" in found["reasons"]["dyn_r2_1"]
    name, *options = command
    new = ("--components", 2, "--batch-size", 64, "--out", tmp_path / "new")
    place = (
        (tmp_path / "own.npz", *new) if name == "fit" else (tmp_path / "run", tmp_path / "own.npz")
    )
    assert f"{found['r2']:.3f}" in dynacl(name, *place, *options, "--quiet")
    with pytest.raises(InputError, match="which is not known here"):
        DCL(2, "truth", max_iter=3).fit(tmp_path / "own.npz")


def squared(x):
    return x[:, :1] ** 2


@pytest.mark.parametrize(
    ("f", "given", "message"),
    [
        (lambda x: x, {"parameters": {}}, "got <function .*, which has no name"),
        (squared, {"parameters": {}}, r"gave shape \(3, 1\) for states of shape \(3, 2\)"),
        (spiral, {"parameters": {"decay": 1}}, "cannot take states .* and decay: .*'matrix'"),
        (spiral, {"spread": (1, 2, 3)}, r"spread: got shape \(3,\); wanted one number, or 2"),
        (spiral, {"dt": 0}, "dt: got 0; wanted a positive number"),
        (spiral, {"parameters": {"decay": object()}}, "parameters: .*; wanted numbers and arrays"),
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_is_refused(f, given, message):
    usual = {"d": 2, "parameters": {"decay": 0.99, "matrix": TURN}}
    with pytest.raises(InputError, match=message):
        simulate.own(f, rng=np.random.default_rng(0), **usual | given)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pull(System):
    """A class that says where trials begin and how the state moves, and no more."""

    kind = "pull"
    strength: float

    def starts(self, trials, rng):
        return rng.standard_normal((trials, self.d))

    def move(self, x, modes=None):
        return x - self.strength * np.tanh(x)


def pull(*, rng, strength=0.2, **shared):
    return simulated(partial(Pull, strength=strength), 2, 0.1, rng, **shared)


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setitem(simulate.SYSTEMS, Pull.kind, Pull)
    monkeypatch.setitem(simulate.PRESETS, "pull", (pull, {}))


def test_a_class_of_ones_own_has_every_dynamics_metric(known, short_descents):
    data = simulate.preset("pull", rng=np.random.default_rng(0), **SMALL)
    model = DCL(2, "mlp", max_iter=20, batch_size=64, random_state=0).fit(data)
    found = evaluate(model, data)
    for name in ("r2", "mcc", "dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control"):
        assert np.isfinite(found[name])
    oracle = DCL(2, "truth", max_iter=20, batch_size=64, random_state=0).fit(data)
    assert np.isfinite(evaluate(oracle, data)["dyn_r2_10"])


def test_a_class_that_is_not_known_is_named():
    data = pull(rng=np.random.default_rng(0), **SMALL)
    with pytest.raises(InputError, match="its system is 'pull'; wanted one of"):
        simulate.system(data.truth.system)


@pytest.mark.parametrize(
    ("make", "model"),
    [
        (simulate.lds, {}),
        (simulate.lds, {"n_components": 2}),
        (simulate.lds, {"dynamics": "mlp", "time_offset": 2}),
        (simulate.slds, {"dynamics": "switching", "n_modes": 2}),
        (simulate.slds, {}),
        (simulate.controlled, {}),
        (simulate.lds, {"asymmetric": True}),
    ],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_every_figure_that_is_missing_has_its_reason(make, model, short_descents):
    data = make(rng=np.random.default_rng(0), d=3, trials=6, steps=30, observed=5, layers=1)
    fitted = DCL(**{"n_components": 3} | model, max_iter=2, batch_size=16, random_state=0).fit(data)
    found = evaluate(fitted, data)
    assert set(found["reasons"]) == {name for name in FIGURES if found[name] is None}
    bare = TimeSeries.of({"observations": data.observations, "bounds": data.bounds,
                          "latents": data.truth.latents, "control": data.control})  # fmt: skip
    found = evaluate(fitted, bare)
    assert set(found["reasons"]) == {name for name in FIGURES if found[name] is None}
    assert found["reasons"]["dyn_r2_1"] == "the data carry no system"


def test_systems_of_ones_own_stand_in_a_table(known, tmp_path, short_descents):
    rows = [
        Row(f"pull/{kind}", {"system": "pull"} | SMALL, {"n_components": 2, "dynamics": kind},
            ("r2", "dyn_r2_1", "lds_error"), our_training={"max_iter": 3, "batch_size": 32})
        for kind in ("linear", "mlp")
    ]  # fmt: skip
    found = benchmark(rows, out=tmp_path, seeds=(0, 1))
    assert found.cells["pull/mlp"]["r2"]["n"] == 2
    assert found.cells["pull/linear"]["lds_error"] is None
    assert any("the true system is not one linear map" in note for note in found.notes)
    assert (tmp_path / "table.md").read_text() == f"{found}\n"
    before = sorted((tmp_path / "runs").iterdir())
    assert benchmark(rows, out=tmp_path, seeds=(0, 1)) == found
    assert sorted((tmp_path / "runs").iterdir()) == before
    simulate.PRESETS["pull"] = (pull, {"strength": 0.5})  # another system is not taken for this one
    benchmark(rows[:1], out=tmp_path)
    assert len(list((tmp_path / "runs").glob("*.json"))) == 5


def test_rows_that_cannot_be_are_refused(tmp_path):
    good = Row("a", {"system": "lds"}, {"dynamics": "linear"}, ("r2",))
    with pytest.raises(InputError, match="rows: a has the system 'nonsense'; wanted one of"):
        benchmark([Row("a", {"system": "nonsense"}, {}, ("r2",))], out=tmp_path)
    with pytest.raises(InputError, match="rows: a has the cells r3; wanted some of r2"):
        benchmark([Row("a", {"system": "lds"}, {}, ("r3",))], out=tmp_path)
    with pytest.raises(InputError, match="imports: No module named 'nowhere'"):
        benchmark([good], out=tmp_path, imports=("nowhere",))
    with pytest.raises(InputError, match="protocol: got 'theirs'"):
        benchmark([good], out=tmp_path, protocol="theirs")
