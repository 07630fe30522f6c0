"""A system is one object: it draws, knows its true map, gives an oracle and survives a file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
import torch
from torch import nn

import dynacl
from dynacl import InputError, TimeSeries, simulate
from dynacl.simulate.base import simulated

Array = np.ndarray


def bent(x: Array, pull: float) -> Array:
    return x[:, ::-1] * [0.9, -0.9] - pull * np.tanh(x)


# Every kind, free and driven. The sphere has no noise of zero: it gets next to none.
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "identity": ("identity", {}),
    "lds": ("lds", {}),
    "step control": ("control-step", {}),
    "lds control": ("control-lds", {}),
    "sphere": ("sphere", {"noise": 1e-7}),
    "slds": ("slds", {"switch_probability": 0.02}),
    "lorenz": ("lorenz", {}),
    "flow": ("rossler", {}),
    "own": (partial(simulate.own, bent), {"d": 2, "parameters": {"pull": 0.05}}),
}
SIZES = {"one trial": (1, 400), "many trials": (20, 30)}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn(way: str, size: str = "many trials", **settings: Any) -> TimeSeries:
    name, special = WAYS[way]
    trials, steps = SIZES[size]
    small = {"trials": trials, "steps": steps, "observed": 8, "layers": 2}
    make = partial(simulate.preset, name) if isinstance(name, str) else name
    series: TimeSeries = make(rng=rng(), **small | special | settings)
    return series


def behind(series: TimeSeries) -> simulate.System:
    assert series.truth is not None
    return simulate.system(series.truth.system)


def one_step(series: TimeSeries) -> tuple[Array, Array, Array | None, Array | None]:
    """States with a successor in their trial, the successors, control and modes."""
    assert series.truth is not None
    x, t = series.truth.latents.astype(float), series.steps()
    u = None if series.control is None else series.control[t].astype(float)
    modes = None if series.truth.modes is None else series.truth.modes[t]
    return x[t], x[t + 1], u, modes


def without(series: TimeSeries, *keys: str, **values: Any) -> TimeSeries:
    """The same data whose system lacks these keys, or has other values."""
    assert series.truth is not None
    kept = {k: v for k, v in series.truth.system.items() if k not in keys}
    return replace(series, truth=replace(series.truth, system=kept | values))


# -- what a system knows about itself ----------------------------------------------------------


def test_every_system_is_tried_here_under_its_own_kind_and_is_final() -> None:
    assert {behind(drawn(way)).kind for way in WAYS} == set(simulate.SYSTEMS)
    for kind, system in simulate.SYSTEMS.items():
        assert system.kind == kind
        assert getattr(system, "__final__", False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_step_is_the_map_that_latents_follow_without_noise(way: str, size: str) -> None:
    series = drawn(way, size, **({} if way == "sphere" else {"noise": 0.0}))
    x, following, u, modes = one_step(series)
    error = np.abs(behind(series).step(x, u, modes) - following).max()
    assert error < 1e-6 * np.abs(x).max()  # latents are kept as float32


@pytest.mark.parametrize("way", WAYS)
def test_step_of_many_states_is_that_of_each(way: str) -> None:
    series = drawn(way)
    system, (x, _, u, modes) = behind(series), one_step(series)
    each = [
        system.step(x[i], None if u is None else u[i], None if modes is None else modes[i])
        for i in range(50)
    ]
    np.testing.assert_allclose(system.step(x, u, modes)[:50], each, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("way", WAYS)
def test_oracle_is_the_true_step(way: str) -> None:
    series = drawn(way)
    system, (x, _, u, modes) = behind(series), one_step(series)
    true = system.step(x, u, modes)
    args = (None if v is None else torch.from_numpy(v).float() for v in (x, true, u))
    with torch.no_grad():
        found = system.oracle().eval()(*args).numpy()
    np.testing.assert_allclose(found, true, rtol=1e-5, atol=1e-6)


def test_oracle_does_not_share_memory_with_the_system() -> None:
    series = drawn("lds")
    A = series.truth.system["matrix"].astype(np.float32)  # the type of the oracle's weights
    system = behind(without(series, matrix=A.copy()))
    next(system.oracle().parameters()).data.zero_()
    np.testing.assert_array_equal(system.to_arrays()["matrix"], A)


def test_a_flow_is_one_map_without_modes_and_control() -> None:
    flows = {way for way in WAYS if behind(drawn(way)).has_flow}
    assert flows == {"identity", "lds", "sphere", "lorenz", "flow", "own"}
    assert behind(simulate.preset("control-none", rng=rng(), trials=1, steps=2)).has_flow


def test_step_asks_for_the_control_and_the_modes_that_it_needs() -> None:
    with pytest.raises(InputError, match="u: this lds is driven"):
        behind(drawn("step control")).step(np.zeros((2, 5)))
    switching = behind(drawn("slds"))
    for modes in (None, np.array([0, -1])):  # −1 is the end of a trial, not a mode
        with pytest.raises(InputError, match="modes: slds has modes"):
            switching.step(np.zeros((2, 6)), modes=modes)


# -- starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_all_trials_begin_at_a_start_that_is_given(way: str) -> None:
    system = behind(drawn(way))
    start = np.eye(system.d)[1]
    series = system.draw(3, 4, rng(), start)
    assert series.truth is not None
    np.testing.assert_array_equal(series.truth.latents[series.bounds[:-1]], [start] * 3)


def test_start_must_be_a_state() -> None:
    with pytest.raises(InputError, match=r"start: got shape \(2,\); wanted \(3,\)"):
        drawn("lds", start=(1, 2))
    with pytest.raises(InputError, match="start: lies off the unit sphere"):
        drawn("sphere", start=(1, 2, 3))


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_system_is_whole_after_a_file(way: str, tmp_path: Path) -> None:
    series = drawn(way, observation_noise=0.1)
    series.write(tmp_path / "series.npz")
    back = behind(TimeSeries.read(tmp_path / "series.npz"))
    assert type(back) is simulate.SYSTEMS[back.kind]
    a, b = (system.draw(2, 9, rng(5)) for system in (behind(series), back))
    np.testing.assert_array_equal(a.observations, b.observations)
    for key, value in back.to_arrays().items():
        np.testing.assert_array_equal(value, series.truth.system[key])


@pytest.mark.parametrize("way", WAYS)
def test_system_that_lacks_an_array_is_refused_by_name(way: str) -> None:
    series = drawn(way, mixing="none")
    optional = {"kind", "observation_noise", "concentration"}  # the latter are 0 in older files
    for key in behind(series).to_arrays().keys() - optional:
        with pytest.raises(InputError, match=f"series: its system lacks '{key}'"):
            simulate.again(without(series, key), rng=rng())


def test_older_file_without_the_noise_of_observations_or_starts_has_none() -> None:
    series = without(drawn("sphere", mixing="none"), "observation_noise", "concentration")
    fresh = simulate.again(series, rng=rng())
    np.testing.assert_array_equal(fresh.observations, fresh.truth.latents)


def test_unknown_or_missing_system_is_refused() -> None:
    series = drawn("lds")
    with pytest.raises(InputError, match="series: its system is 'rossler'; wanted one of identity"):
        simulate.again(without(series, kind=np.asarray("rossler")), rng=rng())
    with pytest.raises(InputError, match="series: carries no system to draw from"):
        simulate.again(without(series, "kind"), rng=rng())
    with pytest.raises(InputError, match="series: carries no system to draw from"):
        simulate.system({})


# -- one of your own ---------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Decay(simulate.System):
    """x' = rate · x + ε."""

    kind = "decay"
    rate: float

    def starts(self, trials: int, rng: np.random.Generator) -> Array:
        return rng.uniform(1, 2, (trials, self.d))

    def move(self, x: Array, modes: Any = None) -> Array:
        return self.rate * x

    def oracle(self) -> nn.Module:
        module = nn.Linear(self.d, self.d, bias=False)
        module.weight.data = self.rate * torch.eye(self.d)
        return module.requires_grad_(False)


def test_new_system_is_one_class_and_one_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def decay(*, rng: np.random.Generator, d: int = 2, rate: float = 0.9, **shared: Any) -> Any:
        return simulated(lambda **rest: Decay(rate=rate, **rest), d, 0.01, rng, **shared)

    monkeypatch.setitem(simulate.SYSTEMS, "decay", Decay)
    monkeypatch.setitem(simulate.PRESETS, "decay", (decay, {}))
    series = simulate.preset("decay", rng=rng(), rate=0.8, trials=40, steps=20, observed=6)
    assert series.observations.shape == (800, 6)
    series.write(tmp_path / "decay.npz")
    fresh = simulate.again(TimeSeries.read(tmp_path / "decay.npz"), rng=rng(1), trials=30)
    for data in (series, fresh):
        system, (x, following, _, _) = behind(data), one_step(data)
        assert isinstance(system, Decay)
        assert (system.d, system.rate, system.has_flow) == (2, 0.8, True)
        assert (following - system.step(x)).std() == pytest.approx(0.01, rel=0.1)
        with torch.no_grad():
            found = system.oracle()(torch.from_numpy(x).float())
        np.testing.assert_allclose(found, 0.8 * x, rtol=1e-5)


def test_simulators_are_imported_without_scipy_and_torch() -> None:
    # A bare package in place of dynacl, whose own __init__ imports more than the simulators.
    code = (
        "import sys, types; package = types.ModuleType('dynacl'); "
        f"package.__path__ = [{str(Path(dynacl.__file__).parent)!r}]; "
        "sys.modules['dynacl'] = package; import dynacl.simulate; "
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'scipy', 'torch'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
