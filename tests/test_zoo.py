"""The zoo: what is drawn, what its page counts, and what is run again."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.step import begun
from benchmarks.zoo import __main__ as zoo
from benchmarks.zoo import flows, judging, keeping, summary, tasks

from dynacl import DCL, InputError, metrics, simulate
from dynacl.simulate.flow import Flow

SEEDS = (0, 1000, 1001)


def row(index: int = 0, **values: Any) -> dict[str, Any]:
    """A fit at its ceiling that the judge saw rise from its start."""
    return {
        "index": index, "kind": "lds", "group": "goal", "words": f"number {index}", "recipe": "now",
        "r2": 0.99, "trained": 0.99, "ceiling": 0.99, "start": 0.7,
        "handed_out": "the last step",
        "floor_figure": -1.0, "figures": [[100, -2.0], [200, -3.0]],
    } | values  # fmt: skip


# -- drawing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_stay_within_the_bounds(seed: int) -> None:
    for task in (tasks.draw(seed, i) for i in range(tasks.N_TASKS)):
        assert 2 <= task.d <= 8
        assert 1 <= task.modes <= 20
        assert max(5, task.d) <= task.observed <= 300
        assert 0 <= task.layers <= 5
        assert 1e-4 <= task.noise <= 0.1
        assert task.kind == "flow" or 1 <= task.angle <= 25
        assert 19_000 <= task.samples <= 310_000  # a whole number of trials
        assert 20 <= task.steps <= 20_000
        assert task.trials >= 10
        assert task.snr is None or task.snr >= 10
        assert task.rank is None or (1 <= task.rank < task.d and len(task.lags) > 1)
        assert task.steps > 4 * max(task.lags)
        assert task.given_d >= 2
        assert task.given_modes >= 1


def test_every_group_and_kind_occurs() -> None:
    for seed in SEEDS:
        drawn = [tasks.draw(seed, i) for i in range(tasks.N_TASKS)]
        assert set(Counter(task.group for task in drawn)) == {"goal", *summary.APART}
        assert Counter(task.kind for task in drawn) == dict.fromkeys(tasks.KINDS, 15)
        goal = [task for task in drawn if task.group == "goal"]
        assert len(goal) >= 30
        assert {task.kind for task in goal} == set(tasks.KINDS)
        assert any(task.rank is not None for task in goal)
        assert any(task.given_d < task.d for task in drawn)
        assert any(task.given_d > task.d for task in drawn)


def test_a_task_is_the_same_each_time_and_differs_by_seed_and_index() -> None:
    assert tasks.draw(1000, 5) == tasks.draw(1000, 5)
    noises = {tasks.draw(seed, i).noise for seed in SEEDS for i in range(10)}
    assert len(noises) == 30
    with pytest.raises(InputError, match="tasks: got 60; wanted 0 to 59"):
        tasks.draw(0, 60)


@pytest.mark.parametrize("index", [0, 1, 2, 3, 5, 6, 17])
def test_data_are_those_of_the_task_and_fresh_trials_are_others(index: int) -> None:
    task = tasks.draw(1000, index, "quick")
    data, fresh = tasks.data(task, fresh_rows=500)
    again, _ = tasks.data(task, fresh_rows=500)
    np.testing.assert_array_equal(data.observations, again.observations)
    assert (data.n_trials, len(data), data.n_features) == (task.trials, task.samples, task.observed)
    assert data.truth is not None
    assert fresh.truth is not None
    assert data.truth.latents.shape[1] == task.d
    assert (data.control is not None) == (task.kind == "driven")
    assert (data.truth.modes is not None) == (task.kind == "slds")
    assert not np.allclose(data.truth.latents[1], fresh.truth.latents[1])
    first, second = (simulate.system(s.truth.system).to_arrays() for s in (data, fresh))
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])


def test_observation_noise_has_the_ratio_that_was_drawn() -> None:
    task = next(t for t in (tasks.draw(1000, i, "quick") for i in range(60))
                if t.snr is not None and t.kind == "lds")  # fmt: skip
    data, _ = tasks.data(task)
    assert data.truth is not None
    clean = simulate.base.mix(data.truth.latents, data.truth.system)
    noise = (data.observations - clean).var()
    assert clean.var(0).mean() / noise == pytest.approx(task.snr, rel=0.25)


@pytest.mark.parametrize("d", [3, 6])
def test_random_flows_keep_energy_stay_bounded_and_never_come_to_rest(d: int) -> None:
    rng = np.random.default_rng(d)
    field = flows.energy_preserving(d, rng)
    quadratic = field.powers.sum(1) == 2
    x = rng.standard_normal((50, d))
    squares = np.prod(x[:, None, :] ** field.powers[quadratic], axis=2)
    np.testing.assert_allclose((x * (squares @ field.coefficients[quadratic])).sum(1), 0, atol=1e-9)
    dt = 0.05 * field.turnover
    make = partial(Flow, powers=field.powers, coefficients=field.coefficients, dt=dt, warmup=400)
    pushed = make(noise=0.1 * np.eye(d)).draw(4, 4000, rng)
    assert np.abs(pushed.truth.latents).max() < 20
    left_alone = make(noise=np.zeros((d, d))).draw(2, 4000, rng)
    late = left_alone.truth.latents.reshape(2, 4000, d)[:, -1000:]
    assert 0.2 < np.sqrt(late.var(1).mean()) < 3  # in units of the attractor's own size


def test_lorenz_of_the_zoo_is_lorenz_in_other_units() -> None:
    field = flows.lorenz()
    unit = 1 / field.coefficients[(field.powers == [1, 1, 0]).all(1)][0, 2]
    true = simulate.system(simulate.lorenz(rng=np.random.default_rng(0), steps=2).truth.system)
    x = np.random.default_rng(1).standard_normal((5, 3))
    products = np.prod(x[:, None, :] ** field.powers, axis=2) @ field.coefficients
    expected = np.array(true.field(*(x / unit).T)).T * unit
    np.testing.assert_allclose(products, expected, rtol=1e-9)


# -- judging -----------------------------------------------------------------------------------


def test_ceiling_beats_the_linear_start_and_looks_at_the_truth() -> None:
    data = simulate.lds(rng=np.random.default_rng(0), trials=40, steps=100, observed=6, layers=2)
    fresh = simulate.again(data, rng=np.random.default_rng(1), trials=20)
    arguments = {"n_components": 3, "max_iter": 300, "random_state": 0}
    start = judging.linear(data, fresh, arguments)
    assert 1 - judging.ceiling(data, fresh, arguments) < 0.3 * (1 - start)


def test_supervision_leaves_the_dynamics_alone() -> None:
    data = simulate.lds(rng=np.random.default_rng(0), trials=10, steps=50)
    run = begun(DCL(3, max_iter=300, random_state=0), data)
    judging.supervise(run, data)
    assert run.step == 300
    torch.testing.assert_close(run.dynamics.linear_maps()[0], torch.eye(3))


def test_best_directions_are_those_that_explain_most() -> None:
    rng = np.random.default_rng(0)
    true = rng.standard_normal((2000, 3)) @ np.diag([100.0, 1.0, 1.0])
    mixed = rng.standard_normal((3, 3))
    copied = true[:, [0, 1, 1]] + 0.01 * rng.standard_normal((2000, 3))  # one direction twice
    one = judging.best_directions(copied, copied @ mixed, 1)
    assert metrics.r2(copied, one) == pytest.approx(2 / 3, abs=0.01)  # not the largest: the double
    full = judging.best_directions(true, true @ mixed, 3)
    assert metrics.r2(true, full) == pytest.approx(1)


# -- summary -----------------------------------------------------------------------------------


def test_shares_count_gaps_and_nothing_above_the_ceiling() -> None:
    rows = [row(i, r2=r2) for i, r2 in enumerate([0.995, 0.985, 0.97, 0.95, 0.5])]
    found = summary.shares(rows)
    assert found["median"] == pytest.approx(0.02)
    assert found["within 0.01"] == pytest.approx(0.4)
    assert found["within 0.05"] == pytest.approx(0.8)
    assert found["p90"] == pytest.approx(0.04 + 0.6 * 0.45)
    assert summary.gap(rows[0]) == 0
    assert summary.shares([]) == {}


def test_below_start_and_judged_wrongly() -> None:
    good, low = row(0), row(1, r2=0.6, start=0.7)
    fooled = row(2, figures=[[9, -0.5]])  # the start's figure is better, its R² is worse
    right = row(3, figures=[[9, -0.5]], trained=0.5)
    unjudged = row(4, figures=[], floor_figure=None)
    rows = [good, low, fooled, right, unjudged]
    assert summary.below_start(rows) == [low]
    assert summary.judged_wrongly(rows) == [fooled]


def test_page_keeps_groups_apart_and_says_why() -> None:
    rows = [row(i, r2=0.99 - 0.02 * i) for i in range(7)]
    rows.append(row(7, group="observation noise", r2=0.1, recipe="before"))
    rows[2]["start"] = 0.98
    now = dict.fromkeys(tasks.KINDS, "now")
    text = summary.page(rows, "the command", now, {"6": "The noise hides it."})
    assert "    the command\n" in text
    assert "| **goal group** | 7 | 0.0600 |" in text
    assert "| observation noise | 1 | 0.8900 |" in text
    assert "- Task 6, 0.120 below: number 6. The noise hides it.\n- Task 5" in text
    assert text.count("- Task ") == 5
    assert "| 7† |" in text
    assert "Below their own linear start: tasks 2 (0.0300), 7 (0.6000)." in text
    assert "80% within 0.01 (missed) and 95% within 0.05 (missed)" in text
    assert "8 of 60 tasks" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100


# -- keeping -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(keeping, "RUNS", tmp_path)
    monkeypatch.setattr(keeping, "KEPT", tmp_path)
    monkeypatch.setattr(keeping, "WHY", tmp_path / "why.json")
    monkeypatch.setattr(zoo, "PAGE", tmp_path / "zoo.md")
    return tmp_path


def test_only_tasks_without_a_row_of_this_recipe_are_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    def judged(task: tasks.Task) -> dict[str, Any]:
        ran.append(task.index)
        drawn = ("index", "kind", "group", "words", "recipe")
        found = {key: value for key, value in row().items() if key not in drawn}
        return found | {"seconds": 1.0, "ceiling_seconds": 1.0}

    monkeypatch.setattr(zoo, "judge", judged)
    keeping.add(row(1, kind="slds", recipe=keeping.recipe("switching")), 0, "full")
    keeping.add(row(2, recipe="before"), 0, "full")
    with keeping.path(0, "full").open("a") as file:
        file.write('{"index": 3, "cut')  # the machine stopped here
    zoo.main(["--tasks", "1-3"])
    assert ran == [2, 3]
    zoo.main(["--tasks", "1-3"])
    assert ran == [2, 3]
    assert [r["index"] for r in keeping.newest(keeping.read(0, "full"))] == [1, 2, 3]
    assert "python -m benchmarks.zoo\n" in (folder / "zoo.md").read_text()


def test_recipe_is_of_code_and_not_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    same = keeping._without_words
    assert same('"""A."""\nx = 1') == same('"""B."""\nx = 1  # one')
    assert same('f(1, "some help")') == same('f(1, "other help")')
    assert same('f("a")') != same('f("b")')
    assert same("f()") == same('f()\nif x > 1:\n    bar.say("now")')
    assert same('raise A("a")') == same('raise B(f"{x}", "b")')
    assert same("if x:\n    f()") != same("if y:\n    f()")
    assert same("bar.show(1)") != same("bar.show(2)")
    assert same("x = 1") != same("x = 2")
    assert len(keeping.recipe()) == 8
    number = Path(keeping.dynacl.__file__).with_name("_version.py").read_text()
    assert number.replace(keeping.dynacl.__version__, "0.1.0") == keeping.VERSION  # and no more


@pytest.mark.parametrize("index", [0, 1, 2])
def test_linear_and_switching_fits_pass_through_no_code_of_other_dynamics(index: int) -> None:
    source = Path(keeping.dynacl.__file__).parent
    for name in (path.relative_to(source.parent) for path in source.rglob("*.py")):
        if any(str(name).startswith(f"dynacl/{part}") for part in keeping.BENT):
            import_module(".".join(name.with_suffix("").parts))  # not while we look
    task = tasks.draw(1000, index, "quick")
    assert task.arguments()["dynamics"] in keeping.LINEAR
    data, _ = tasks.data(task, fresh_rows=500)
    seen: set[str] = set()
    sys.setprofile(lambda frame, event, arg: seen.add(frame.f_code.co_filename))
    try:
        DCL(**task.arguments(), max_iter=20).fit(data)
    finally:
        sys.setprofile(None)
    passed = {
        Path(f).relative_to(source).with_suffix("") for f in seen if f.startswith(str(source))
    }
    assert Path("dynamics/base") in passed
    assert [p for p in passed for part in keeping.BENT if p.is_relative_to(part)] == []


def test_code_of_other_dynamics_marks_only_rows_of_flows_as_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "dynacl"
    shutil.copytree(Path(keeping.dynacl.__file__).parent, package)
    monkeypatch.setattr(keeping.dynacl, "__file__", str(package / "__init__.py"))
    first = zoo.present()
    for part in keeping.BENT:
        assert (package / f"{part}.py").exists()
        with (package / f"{part}.py").open("a") as end:
            end.write("\nchanged = 1\n")
    second = zoo.present()
    assert {kind for kind in tasks.KINDS if first[kind] != second[kind]} == {"flow"}
    with (package / "training.py").open("a") as end:
        end.write("\nchanged = 1\n")
    assert {kind for kind, was in second.items() if was != zoo.present()[kind]} == set(tasks.KINDS)


def test_chosen_tasks() -> None:
    assert zoo.chosen("0-2,7") == [0, 1, 2, 7]
    for text in ("60", "a", "3-1", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="wanted"):
            zoo.chosen(text)


def test_a_quick_task_runs_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    zoo.main(["--seed", "1000", "--tasks", "12", "--scale", "quick"])
    (found,) = keeping.read(1000, "quick")
    assert json.loads(json.dumps(found)) == found
    assert found["ceiling"] <= 1
    assert found["start"] <= found["trained"] + 1
    assert (folder / "quick-1000.md").exists()
    assert not (folder / "zoo.md").exists()


def test_reported_rows_are_of_tasks_that_are_drawn() -> None:
    """Rows that are kept with the code are measured ones, whole."""
    for found in keeping.read(keeping.REPORTED, "full"):
        task = tasks.draw(keeping.REPORTED, found["index"], "full")
        assert (found["words"], found["group"]) == (task.words(), task.group)
    kept = keeping.path(keeping.REPORTED, "full")
    lines = kept.read_text().splitlines() if kept.exists() else []
    assert len(keeping.read(keeping.REPORTED, "full")) == len(lines)
